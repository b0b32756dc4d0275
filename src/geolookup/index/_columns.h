/* Whole columns to slots, a group of rows at a time. Needs no GIL. */

#include "_quads.h"
#include "_search.h"

/* Compiled twice: the caller says by a constant whether it is for processors that read quads at once. */
#define EACH_WAY static inline __attribute__((always_inline))

typedef struct {
    uint64_t hi[GROUP], lo[GROUP];
    uint32_t low[GROUP], count[GROUP], slot[GROUP];
    Py_ssize_t row[GROUP];
    int length;
} Group;

static inline void fetch_slot(const Slots *slots, uint32_t position)
{
    PREFETCH(&slots->low[position]);
    if (slots->high)
        PREFETCH(&slots->high[position]);
}

/* What last_not_after_group4 does, by lines: their first keys say in which line the key is, and only that one is fetched. */
EACH_WAY void search_group4(const Keys4 *keys, const Slots *slots, uint32_t segments, const uint64_t *values,
                            uint32_t *low, const uint32_t *count, int n)
{
    uint32_t line[GROUP], lines[GROUP];
    for (int i = 0; i < n; i++) {
        line[i] = (low[i] + keys->skipped) >> LINE_SHIFT;
        lines[i] = ((low[i] + count[i] - 1 + keys->skipped) >> LINE_SHIFT) - line[i]; /* after the first */
        PREFETCH(&keys->lines[line[i] + 1]);
        PREFETCH(&keys->lines[line[i] + LINE]);
    }
    for (int i = 0; i < n; i++) {
        uint16_t value = (uint16_t)values[i];
        uint32_t more = lines[i], at = line[i];
        while (more > LINE) {
            uint32_t half = more / 2;
            at += half & (0u - (keys->lines[at + half] <= value));
            more -= half;
        }
        at += count_not_after(keys->lines + at + 1, value, 0, more);
        line[i] = at;
        PREFETCH(&keys->at[((size_t)at << LINE_SHIFT) - (at ? keys->skipped : 0)]);
    }
    for (int i = 0; i < n; i++) {
        int64_t first = ((int64_t)line[i] << LINE_SHIFT) - keys->skipped;
        int64_t from = (int64_t)low[i] + 1, to = (int64_t)low[i] + count[i];
        from = from > first ? from : first;
        to = to < first + LINE ? to : first + LINE;
        /* A whole line of the section itself, at both its ends too. */
        int64_t begin = first < 0 ? 0 : first > (int64_t)segments - LINE ? (int64_t)segments - LINE : first;
        if (from < to)
            low[i] = (uint32_t)(from - 1) + count_not_after(keys->at + begin, (uint16_t)values[i], (uint32_t)(from - begin),
                                                            (uint32_t)(to - begin));
        fetch_slot(slots, low[i]); /* as early as can be: what is waited for longest */
    }
}

/* find4 or find6 for a whole group. */
EACH_WAY void find_group(const Index *index, int family, Group *group)
{
    const uint32_t *table = family == 4 ? index->table4 : index->table6;
    const Slots *slots = family == 4 ? &index->slots4 : &index->slots6;
    const uint64_t *values = family == 4 ? group->lo : group->hi;
    uint32_t segments = family == 4 ? index->count4 : index->count6, sound[GROUP];
    int n = group->length, shift = family == 4 ? 16 : 48;
    for (int i = 0; i < n; i++)
        PREFETCH(&table[values[i] >> shift]);
    for (int i = 0; i < n; i++) {
        bounds(table, (uint32_t)(values[i] >> shift), segments, &group->low[i], &group->count[i]);
        sound[i] = group->count[i];
        group->count[i] += !sound[i]; /* so that what is damaged goes along with the others, and is told in the end */
    }
    if (family == 4 && index->keys4.lines) {
        search_group4(&index->keys4, slots, segments, values, group->low, group->count, n);
    } else {
        if (family == 4)
            last_not_after_group4(index->keys4.at, values, group->low, group->count, n);
        else
            search_group6(&index->keys6, values, group->low, group->count, n);
        for (int i = 0; i < n; i++) {
            if (family == 6 && index->lo6)
                PREFETCH(&index->lo6[group->low[i]]);
            fetch_slot(slots, group->low[i]);
        }
    }
    for (int i = 0; i < n; i++) {
        uint32_t position = group->low[i];
        if (family == 6)
            position = among_equals(index, group->hi[i], group->lo[i], position);
        group->slot[i] = sound[i] ? slot_at(slots, position, index->locations) : DAMAGED;
    }
}

/* Write the slots of a group to their rows. False if a file is damaged. */
EACH_WAY int settle(const Index *base, const Index *overlay, int family, Group *group, char *out)
{
    if (overlay->locations) {
        int left = 0;
        find_group(overlay, family, group);
        for (int i = 0; i < group->length; i++) {
            uint32_t slot = group->slot[i];
            if (slot == DAMAGED)
                return 0;
            if (slot == EMPTY) {
                group->hi[left] = group->hi[i];
                group->lo[left] = group->lo[i];
                group->row[left++] = group->row[i];
            } else {
                slot |= OVERLAY;
                memcpy(out + 4 * group->row[i], &slot, 4);
            }
        }
        group->length = left;
    }
    find_group(base, family, group);
    for (int i = 0; i < group->length; i++) {
        uint32_t record, slot = or_of_held(base, overlay, family, group->hi[i], group->slot[i], &record);
        if (slot == DAMAGED)
            return 0;
        memcpy(out + 4 * group->row[i], &slot, 4);
    }
    group->length = 0;
    return 1;
}

/* A column in Arrow's memory layout (https://arrow.apache.org/docs/format/Columnar.html), whose buffers need not be
 * aligned here: hence the copies of single items. */
typedef struct {
    enum { STRINGS32, STRINGS64, VIEWS, U32, U64, HALVES } kind;
    const char *items; /* offsets, views, numbers, or both halves of addresses, whose families are the data */
    Py_ssize_t items_bytes;
    const char *data;
    Py_ssize_t data_bytes;
    const Py_buffer *buffers; /* of views */
    Py_ssize_t buffer_count;
    const unsigned char *validity;
    Py_ssize_t offset, length;
} Column;

enum { VALUE_NONE = 0, VALUE_OUTSIDE = -1 }; /* beside the families 4 and 6 */

/* A text, its length, and how many bytes from its begin on can be read. */
static inline int read_text(const Column *column, Py_ssize_t row, const char **text, Py_ssize_t *length, Py_ssize_t *room)
{
    if (column->kind == VIEWS) {
        int32_t size, number, begin;
        const char *view = column->items + 16 * row;
        memcpy(&size, view, 4);
        *length = size;
        if (size <= 12) {
            *text = view + 4;
            *room = column->items_bytes - 16 * row - 4;
            return size >= 0;
        }
        memcpy(&number, view + 8, 4);
        memcpy(&begin, view + 12, 4);
        if (number < 0 || number >= column->buffer_count || begin < 0 || size > column->buffers[number].len - begin)
            return 0;
        *text = (const char *)column->buffers[number].buf + begin;
        *room = column->buffers[number].len - begin;
        return 1;
    }
    int64_t begin, end;
    if (column->kind == STRINGS32) {
        int32_t ends[2];
        memcpy(ends, column->items + 4 * row, 8);
        begin = ends[0];
        end = ends[1];
    } else {
        memcpy(&begin, column->items + 8 * row, 8);
        memcpy(&end, column->items + 8 * row + 8, 8);
    }
    if (begin < 0 || end < begin || end > column->data_bytes)
        return 0;
    *text = column->data + begin;
    *length = (Py_ssize_t)(end - begin);
    *room = column->data_bytes - (Py_ssize_t)begin;
    return 1;
}

/* What parse of _address.h says of a text, of which `room` bytes can be read. */
EACH_WAY int parse_text(const char *text, Py_ssize_t length, Py_ssize_t room, uint64_t *hi, uint64_t *lo, int wide)
{
    uint32_t quad;
    if (!wide)
        return parse(text, length, hi, lo);
    if (!read_quad((const unsigned char *)text, (size_t)length, (size_t)room, &quad))
        return parse_other(text, length, hi, lo);
    *lo = quad;
    return 4;
}

EACH_WAY int read_value(const Column *column, Py_ssize_t row, uint64_t *hi, uint64_t *lo, int wide)
{
    if (column->kind == U32) {
        uint32_t value;
        memcpy(&value, column->items + 4 * row, 4);
        *lo = value;
        return 4;
    }
    if (column->kind == U64) {
        memcpy(lo, column->items + 8 * row, 8);
        return *lo >> 32 ? VALUE_NONE : 4;
    }
    if (column->kind == HALVES) {
        memcpy(hi, column->items + 16 * row, 8);
        memcpy(lo, column->items + 16 * row + 8, 8);
        int family = column->data[row];
        return family == 6 || (family == 4 && !*hi && !(*lo >> 32)) ? family : VALUE_NONE;
    }
    const char *text;
    Py_ssize_t length, room;
    return read_text(column, row, &text, &length, &room) ? parse_text(text, length, room, hi, lo, wide) : VALUE_OUTSIDE;
}

enum { DONE, FILE_DAMAGED, COLUMN_DAMAGED };

EACH_WAY int locate_rows(const Index *base, const Index *overlay, const Column *column, char *out, Py_ssize_t *bad, int wide)
{
    Group four, six;
    four.length = six.length = 0;
    for (Py_ssize_t i = 0; i < column->length; i++) {
        Py_ssize_t row = column->offset + i;
        uint64_t hi = 0, lo = 0;
        if (column->validity && !(column->validity[row >> 3] >> (row & 7) & 1)) {
            uint32_t mark = ABSENT;
            memcpy(out + 4 * i, &mark, 4);
            continue;
        }
        int family = read_value(column, row, &hi, &lo, wide);
        if (family == VALUE_OUTSIDE)
            return COLUMN_DAMAGED;
        if (family == VALUE_NONE) {
            uint32_t mark = BAD;
            memcpy(out + 4 * i, &mark, 4);
            ++*bad;
            continue;
        }
        Group *group = family == 4 ? &four : &six;
        group->hi[group->length] = hi;
        group->lo[group->length] = lo;
        group->row[group->length] = i;
        if (++group->length == GROUP && !settle(base, overlay, family, group, out))
            return FILE_DAMAGED;
    }
    return settle(base, overlay, 4, &four, out) && settle(base, overlay, 6, &six, out) ? DONE : FILE_DAMAGED;
}

static int locate_plain(const Index *base, const Index *overlay, const Column *column, char *out, Py_ssize_t *bad)
{
    return locate_rows(base, overlay, column, out, bad, 0);
}

FOR_WIDE static int locate_wide(const Index *base, const Index *overlay, const Column *column, char *out, Py_ssize_t *bad)
{
    return locate_rows(base, overlay, column, out, bad, WIDE);
}

FOR_WIDE static int parse_wide(const char *text, Py_ssize_t length, Py_ssize_t room, uint64_t *hi, uint64_t *lo)
{
    return parse_text(text, length, room, hi, lo, WIDE);
}
