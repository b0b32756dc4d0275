/* Search in one layer's mapped sections, for one address and for columns. Needs no GIL, but where it says so.
 *
 * Nothing that a file or a column says is believed before it is used as an index. */

#include <Python.h>

#include <stdint.h>
#include <string.h>

#include "_address.h"

#define EMPTY 0xFFFFFFFFu   /* nothing covers it: the file's own mark */
#define BAD 0xFFFFFFFEu     /* no address */
#define ABSENT 0xFFFFFFFDu  /* a null in the column */
#define DAMAGED 0xFFFFFFFCu /* never leaves this file: a table or slot leads nowhere */
#define OVERLAY 0x80000000u /* set in the slots of the custom layer */

#define TABLE_LENGTH 65537
/* How many addresses are searched for together. Their cache misses overlap: with fewer they would not, and with more
 * than this what was fetched first is gone before it is used. */
#define GROUP 32

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

/* A family's keys, and every 16th of them, and every 256th: small enough to stay in the processor's caches. */
#define SAMPLE_SHIFT 4
#define LEVELS 3
/* Building them reads a file's keys from end to end, some milliseconds for millions: not for a few lookups. */
#define SAMPLE_AFTER 4096
typedef struct {
    const uint32_t *at[LEVELS];
    int levels;
} Keys4;
typedef struct {
    const uint64_t *at[LEVELS];
    int levels;
} Keys6;

/* One layer's sections: of as many segments as `count4` and `count6` say, whose slots are below `locations`. */
typedef struct {
    const uint32_t *slot4, *table4, *slot6, *table6;
    const uint64_t *lo6;
    Keys4 keys4;
    Keys6 keys6;
    uint32_t count4, count6, locations;
    /* Rows until the samples are built, and batches that search without the GIL: they must not see that happen. */
    Py_ssize_t until_sampled, batches;
} Index;

/* Where to search: the answer is one of `count` positions from `low` on, `count` 0 where the table is damaged. */
static inline void bounds(const uint32_t *table, uint32_t prefix, uint32_t segments, uint32_t *low, uint32_t *count)
{
    uint32_t begin = table[prefix], end = table[prefix + 1];
    int sound = begin <= end && end <= segments;
    *low = sound && begin ? begin - 1 : 0; /* the segment before the first of its own may reach in */
    *count = sound ? end - *low : 0;
}

static inline uint32_t checked(uint32_t slot, uint32_t locations)
{
    return slot < locations || slot == EMPTY ? slot : DAMAGED;
}

/* The last position not after an address, given the last whose upper half is not. Few segments share an upper half. */
static uint32_t among_equals(const Index *index, uint64_t hi, uint64_t lo, uint32_t position)
{
    if (index->keys6.at[0][position] != hi || index->lo6[position] <= lo)
        return position;
    uint32_t below = 0, above = position;
    while (below < above) {
        uint32_t middle = below + (above - below) / 2;
        if (index->keys6.at[0][middle] < hi || (index->keys6.at[0][middle] == hi && index->lo6[middle] <= lo))
            below = middle + 1;
        else
            above = middle;
    }
    return below ? below - 1 : 0;
}

/* Where a level of samples is searched for the positions `low` up to `low + count` of the sections. */
#define NARROW(shift, low, count, at, among) \
    do { \
        at = (low) >> (shift); \
        among = (((low) + (count) - 1) >> (shift)) - at + 1; \
    } while (0)
/* What is left of those positions once the sample `at` was found; some before the first of them do no harm. */
#define WIDEN(shift, low, count, at) \
    do { \
        uint64_t end = ((uint64_t)(at) + 1) << (shift), past = (uint64_t)(low) + (count); \
        (low) = (at) << (shift); \
        (count) = (uint32_t)(end < past ? end : past) - (low); \
    } while (0)

/* The search in one family's keys, of one address and of a group. Every step halves what is left without a branch, for
 * the processor would guess wrong half of the time. A group goes on together: while one address waits for memory, the
 * requests of the others are out. */
#define DEFINE_SEARCH(family, type) \
    static inline uint32_t last_not_after##family(const type *keys, type value, uint32_t low, uint32_t count) \
    { \
        while (count > 1) { \
            uint32_t half = count / 2; \
            low += keys[low + half] <= value ? half : 0; \
            count -= half; \
        } \
        return low; \
    } \
    static inline uint32_t search##family(const Keys##family *keys, type value, uint32_t low, uint32_t count) \
    { \
        for (int level = keys->levels; level > 0; level--) { \
            uint32_t at, among; \
            int shift = level * SAMPLE_SHIFT; \
            NARROW(shift, low, count, at, among); \
            at = last_not_after##family(keys->at[level], value, at, among); \
            WIDEN(shift, low, count, at); \
        } \
        return last_not_after##family(keys->at[0], value, low, count); \
    } \
    static void search_group##family(const Keys##family *keys, const uint64_t *values, uint32_t *low, uint32_t *count, \
                                     int n) \
    { \
        for (int level = keys->levels; level >= 0; level--) { \
            const type *sampled = keys->at[level]; \
            uint32_t at[GROUP], among[GROUP], most = 0; \
            int shift = level * SAMPLE_SHIFT; \
            for (int i = 0; i < n; i++) { \
                NARROW(shift, low[i], count[i], at[i], among[i]); \
                most = among[i] > most ? among[i] : most; \
                PREFETCH(&sampled[at[i] + among[i] / 2]); \
            } \
            for (; most > 1; most -= most / 2) \
                for (int i = 0; i < n; i++) { \
                    uint32_t half = among[i] / 2; \
                    at[i] += sampled[at[i] + half] <= (type)values[i] ? half : 0; \
                    among[i] -= half; \
                    PREFETCH(&sampled[at[i] + among[i] / 2]); \
                } \
            for (int i = 0; i < n; i++) \
                WIDEN(shift, low[i], count[i], at[i]); \
        } \
    } \
    static void sample##family(Keys##family *keys, uint32_t count) \
    { \
        for (int level = 1; level < LEVELS && count >> (level * SAMPLE_SHIFT) > 1; level++) { \
            uint32_t samples = ((count - 1) >> (level * SAMPLE_SHIFT)) + 1; \
            type *sampled = PyMem_Malloc(samples * sizeof(type)); \
            if (!sampled) \
                return; \
            for (uint32_t i = 0; i < samples; i++) \
                sampled[i] = keys->at[level - 1][(size_t)i << SAMPLE_SHIFT]; \
            keys->at[level] = sampled; \
            keys->levels = level; \
        } \
    }

DEFINE_SEARCH(4, uint32_t)
DEFINE_SEARCH(6, uint64_t)

static uint32_t find4(const Index *index, uint32_t value)
{
    uint32_t low, count;
    bounds(index->table4, value >> 16, index->count4, &low, &count);
    if (!count)
        return DAMAGED;
    return checked(index->slot4[search4(&index->keys4, value, low, count)], index->locations);
}

static uint32_t find6(const Index *index, uint64_t hi, uint64_t lo)
{
    uint32_t low, count;
    bounds(index->table6, (uint32_t)(hi >> 48), index->count6, &low, &count);
    if (!count)
        return DAMAGED;
    uint32_t position = search6(&index->keys6, hi, low, count);
    return checked(index->slot6[among_equals(index, hi, lo, position)], index->locations);
}

/* Count lookups, and build the samples once there were enough; needs the GIL. Without memory for them it goes on. */
static inline void expect(Index *index, Py_ssize_t rows)
{
    if (index->until_sampled > rows) {
        index->until_sampled -= rows;
    } else if (index->until_sampled > 0 && rows > 0 && !index->batches) {
        index->until_sampled = 0;
        sample4(&index->keys4, index->count4);
        sample6(&index->keys6, index->count6);
    }
}

/* The slot of an address in both layers, the overlay first. */
static inline uint32_t find(const Index *base, const Index *overlay, int family, uint64_t hi, uint64_t lo)
{
    if (overlay->locations) {
        uint32_t slot = family == 4 ? find4(overlay, (uint32_t)lo) : find6(overlay, hi, lo);
        if (slot != EMPTY)
            return slot == DAMAGED ? slot : slot | OVERLAY;
    }
    return family == 4 ? find4(base, (uint32_t)lo) : find6(base, hi, lo);
}

/* ---- Many at once ---- */

typedef struct {
    uint64_t hi[GROUP], lo[GROUP];
    uint32_t low[GROUP], count[GROUP], slot[GROUP];
    Py_ssize_t row[GROUP];
    int length;
} Group;

/* find4 or find6 for a whole group. */
static void find_group(const Index *index, int family, Group *group)
{
    const uint32_t *table = family == 4 ? index->table4 : index->table6;
    const uint32_t *slots = family == 4 ? index->slot4 : index->slot6;
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
    if (family == 4)
        search_group4(&index->keys4, values, group->low, group->count, n);
    else
        search_group6(&index->keys6, values, group->low, group->count, n);
    for (int i = 0; i < n; i++) {
        if (family == 6)
            PREFETCH(&index->lo6[group->low[i]]);
        PREFETCH(&slots[group->low[i]]);
    }
    for (int i = 0; i < n; i++) {
        uint32_t position = group->low[i];
        if (family == 6)
            position = among_equals(index, group->hi[i], group->lo[i], position);
        group->slot[i] = sound[i] ? checked(slots[position], index->locations) : DAMAGED;
    }
}

/* Write the slots of a group to their rows. False where a file is damaged. */
static int settle(const Index *base, const Index *overlay, int family, Group *group, char *out)
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
        if (group->slot[i] == DAMAGED)
            return 0;
        memcpy(out + 4 * group->row[i], &group->slot[i], 4);
    }
    group->length = 0;
    return 1;
}

/* A column in Arrow's memory layout (https://arrow.apache.org/docs/format/Columnar.html), whose buffers need not be
 * aligned here: hence the copies of single items. */
typedef struct {
    enum { STRINGS32, STRINGS64, VIEWS, U32, U64 } kind;
    const char *items; /* offsets, views or numbers */
    const char *data;
    Py_ssize_t data_bytes;
    const Py_buffer *buffers; /* of views */
    Py_ssize_t buffer_count;
    const unsigned char *validity;
    Py_ssize_t offset, length;
} Column;

enum { VALUE_NONE = 0, VALUE_OUTSIDE = -1 }; /* beside the families 4 and 6 */

static int read_text(const Column *column, Py_ssize_t row, const char **text, Py_ssize_t *length)
{
    if (column->kind == VIEWS) {
        int32_t size, number, begin;
        const char *view = column->items + 16 * row;
        memcpy(&size, view, 4);
        *length = size;
        if (size <= 12) {
            *text = view + 4;
            return size >= 0;
        }
        memcpy(&number, view + 8, 4);
        memcpy(&begin, view + 12, 4);
        if (number < 0 || number >= column->buffer_count || begin < 0 || size > column->buffers[number].len - begin)
            return 0;
        *text = (const char *)column->buffers[number].buf + begin;
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
    return 1;
}

static inline int read_value(const Column *column, Py_ssize_t row, uint64_t *hi, uint64_t *lo)
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
    const char *text;
    Py_ssize_t length;
    return read_text(column, row, &text, &length) ? parse(text, length, hi, lo) : VALUE_OUTSIDE;
}

enum { DONE, FILE_DAMAGED, COLUMN_DAMAGED };

static int locate(const Index *base, const Index *overlay, const Column *column, char *out, Py_ssize_t *bad)
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
        int family = read_value(column, row, &hi, &lo);
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

