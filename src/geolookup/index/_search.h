/* Search in one layer's mapped sections, for one address and for a group. Needs no GIL, unless it says so.
 *
 * Nothing that a file or a column says is believed before it is used as an index. */

#pragma once

#include <Python.h>

#include <stdint.h>
#include <string.h>

#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>
#if defined(MADV_NORMAL)
#define HAS_MADVISE 1
#endif
#endif

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "_address.h"

#define EMPTY 0xFFFFFFFFu   /* nothing covers it: the file's own mark */
#define BAD 0xFFFFFFFEu     /* no address */
#define ABSENT 0xFFFFFFFDu  /* a null in the column */
#define DAMAGED 0xFFFFFFFCu /* never leaves this file: a table or slot leads nowhere */
#define OVERLAY 0x80000000u /* set in the slots of the custom layer */

#define TABLE_LENGTH 65537
/* How many addresses are searched for together. Their cache misses overlap, and the processor guesses wrong when a loop
 * over them ends: with 32, that took half of the time. With many more, what was fetched first is gone before it is used. */
#define GROUP 128

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

/* The keys of IPv6, and every 16th of them, every 256th and every 4096th: small enough to stay in the processor's caches.
 * A group goes without the last: its addresses do not wait for each other, and each level is one more pass over them. */
#define SAMPLE_SHIFT 4
#define LEVELS 4
#define GROUP_LEVELS 2
/* Building them reads a file's keys from end to end, some milliseconds for millions: not for a few lookups. Before that,
 * few lookups touch single pages here and there, and a kernel that reads ahead would read megabytes with each. */
#define SAMPLE_AFTER 4096
#define AHEAD_AFTER 128
typedef struct {
    const uint64_t *at[LEVELS];
    int levels;
} Keys;

/* The keys of IPv4, which are the lower 16 bits of the segments' first addresses: the table knows the upper. They are
 * searched a cache line at a time: `lines` has the first key of each, or is NULL until it was built. The first line is
 * the one in which they begin, `skipped` keys before the first. */
#define LINE_SHIFT 5
#define LINE (1 << LINE_SHIFT)
typedef struct {
    const uint16_t *at;
    uint16_t *lines;
    uint32_t skipped;
} Keys4;

/* Slots in 16 bits, with 8 more above them if a layer has so many locations; all bits set mean that there is none.
 * With `of_record` they are the numbers of `records`, each of which it gives the slot. */
typedef struct {
    const uint16_t *low;
    const uint8_t *high;       /* or NULL */
    const uint32_t *of_record; /* or NULL */
    uint32_t records;
} Slots;

/* One layer's sections: of as many segments as `count4` and `count6` say, whose slots are below `locations`. */
typedef struct {
    const uint32_t *table4, *table6;
    Keys4 keys4;
    Keys keys6;
    const uint64_t *lo6; /* or NULL, where all are 0 */
    Slots slots4, slots6;
    uint32_t count4, count6, locations;
    /* Where all of the sections lie. */
    uintptr_t begin, end;
    /* Rows until the kernel may read ahead, and then until the samples are built; batches that search without the GIL,
     * which must not see that happen. */
    Py_ssize_t until_next, batches;
    int is_ahead;
} Index;

/* Where to search: the answer is one of `count` positions from `low` on, `count` 0 if the table is damaged. */
static inline void bounds(const uint32_t *table, uint32_t prefix, uint32_t segments, uint32_t *low, uint32_t *count)
{
    uint32_t begin = table[prefix], end = table[prefix + 1];
    int sound = begin <= end && end <= segments;
    *low = sound && begin ? begin - 1 : 0; /* the segment before the first of its own may reach in */
    *count = sound ? end - *low : 0;
}

/* The slot at a position, and the number of its record: without records of their own, places have those of their slots. */
static inline uint32_t slot_and_record_at(const Slots *slots, uint32_t position, uint32_t locations, uint32_t *record)
{
    uint32_t slot = slots->low[position], none = 0xFFFF;
    if (slots->high) {
        slot |= (uint32_t)slots->high[position] << 16;
        none = 0xFFFFFF;
    }
    *record = slot;
    if (slots->of_record && slot < slots->records)
        slot = slots->of_record[slot];
    else if (slot == none)
        return EMPTY;
    else if (slots->of_record)
        return DAMAGED;
    return slot < locations || slot == EMPTY ? slot : DAMAGED; /* EMPTY is of a weak record */
}

static inline uint32_t slot_at(const Slots *slots, uint32_t position, uint32_t locations)
{
    uint32_t record;
    return slot_and_record_at(slots, position, locations, &record);
}

/* Ask for the memory of slots that are soon wanted. */
static inline void ask_for(const Slots *slots, uint32_t position)
{
    PREFETCH(&slots->low[position]);
    if (slots->high)
        PREFETCH(&slots->high[position]);
}

/* The last position not after an address, given the last whose upper half is not. Few segments share an upper half. */
static uint32_t among_equals(const Index *index, uint64_t hi, uint64_t lo, uint32_t position)
{
    if (!index->lo6 || index->keys6.at[0][position] != hi || index->lo6[position] <= lo)
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

/* The last of `count` keys from `low` on that is not after a value, the first of them unseen: of one address and of a
 * group. Every step halves what is left without a branch, for the processor would guess wrong half of the time (a mask,
 * since compilers turn a choice into a branch when they like). A group
 * goes on together: while one address waits for memory, the requests of the others are out. */
#define DEFINE_SEARCH(family, type) \
    static inline uint32_t last_not_after##family(const type *keys, type value, uint32_t low, uint32_t count) \
    { \
        while (count > 1) { \
            uint32_t half = count / 2; \
            low += half & (0u - (keys[low + half] <= value)); \
            count -= half; \
        } \
        return low; \
    } \
    static inline void last_not_after_group##family(const type *keys, const uint64_t *values, uint32_t *low, uint32_t *count, \
                                             int n) \
    { \
        uint32_t most = 0; \
        for (int i = 0; i < n; i++) { \
            most = count[i] > most ? count[i] : most; \
            PREFETCH(&keys[low[i] + count[i] / 2]); \
        } \
        for (; most > 1; most -= most / 2) \
            for (int i = 0; i < n; i++) { \
                uint32_t half = count[i] / 2; \
                low[i] += half & (0u - (keys[low[i] + half] <= (type)values[i])); \
                count[i] -= half; \
                PREFETCH(&keys[low[i] + count[i] / 2]); \
            } \
    }

DEFINE_SEARCH(4, uint16_t)
DEFINE_SEARCH(6, uint64_t)

/* Where a level of samples is searched for the positions `low` up to `low + count` of the sections. */
static inline void narrow(int shift, uint32_t low, uint32_t count, uint32_t *at, uint32_t *among)
{
    *at = low >> shift;
    *among = ((low + count - 1) >> shift) - *at + 1;
}

/* What is left of those positions once the sample `at` was found; some before the first of them do no harm. */
static inline void widen(int shift, uint32_t at, uint32_t *low, uint32_t *count)
{
    uint64_t end = ((uint64_t)at + 1) << shift, past = (uint64_t)*low + *count;
    *low = at << shift;
    *count = (uint32_t)(end < past ? end : past) - *low;
}

static uint32_t search6(const Keys *keys, const Slots *slots, uint64_t value, uint32_t low, uint32_t count)
{
    for (int level = keys->levels; level > 0; level--) {
        uint32_t at, among;
        narrow(level * SAMPLE_SHIFT, low, count, &at, &among);
        widen(level * SAMPLE_SHIFT, last_not_after6(keys->at[level], value, at, among), &low, &count);
        const uint64_t *next = &keys->at[level - 1][low >> ((level - 1) * SAMPLE_SHIFT)];
        PREFETCH(next);
        PREFETCH(next + 8);
        if (level <= 2)
            ask_for(slots, low); /* the second time it is the right line, the first time perhaps only the page */
        if (level == 2)
            PREFETCH(&keys->at[0][low]);
    }
    return last_not_after6(keys->at[0], value, low, count);
}

static void search_group6(const Keys *keys, const uint64_t *values, uint32_t *low, uint32_t *count, int n)
{
    for (int level = keys->levels < GROUP_LEVELS ? keys->levels : GROUP_LEVELS; level > 0; level--) {
        uint32_t at[GROUP], among[GROUP];
        for (int i = 0; i < n; i++)
            narrow(level * SAMPLE_SHIFT, low[i], count[i], &at[i], &among[i]);
        last_not_after_group6(keys->at[level], values, at, among, n);
        for (int i = 0; i < n; i++)
            widen(level * SAMPLE_SHIFT, at[i], &low[i], &count[i]);
    }
    last_not_after_group6(keys->at[0], values, low, count, n);
}

/* How many of the keys `from` up to `to` of a stretch of LINE keys are not after a value. */
static inline uint32_t count_not_after(const uint16_t *keys, uint16_t value, uint32_t from, uint32_t to)
{
#if defined(__SSE2__)
    const __m128i *four = (const __m128i *)keys, most = _mm_set1_epi16((short)value), none = _mm_setzero_si128();
    /* What saturates to 0 is not after the value. */
    __m128i a = _mm_cmpeq_epi16(_mm_subs_epu16(_mm_loadu_si128(four), most), none);
    __m128i b = _mm_cmpeq_epi16(_mm_subs_epu16(_mm_loadu_si128(four + 1), most), none);
    __m128i c = _mm_cmpeq_epi16(_mm_subs_epu16(_mm_loadu_si128(four + 2), most), none);
    __m128i d = _mm_cmpeq_epi16(_mm_subs_epu16(_mm_loadu_si128(four + 3), most), none);
    uint32_t bits = (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(a, b)) |
                    (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(c, d)) << 16;
    uint64_t wanted = ((uint64_t)1 << to) - ((uint64_t)1 << from);
    return (uint32_t)__builtin_popcount(bits & (uint32_t)wanted);
#else
    uint16_t found = 0, span = (uint16_t)(to - from);
    for (uint16_t i = 0; i < LINE; i++)
        found += (uint16_t)((keys[i] <= value) & ((uint16_t)(i - from) < span));
    return found;
#endif
}

static void sample4(Keys4 *keys, uint32_t count)
{
    uint32_t skipped = (uint32_t)((uintptr_t)keys->at % (LINE * sizeof(uint16_t)) / sizeof(uint16_t));
    uint32_t lines = (uint32_t)(((uint64_t)count + skipped - 1) >> LINE_SHIFT) + 1;
    if (count < LINE || count > INT32_MAX)
        return;
    /* As many more as a search of them may look at beyond the last. */
    uint16_t *first = PyMem_Calloc((size_t)lines + LINE, sizeof(uint16_t));
    if (!first)
        return;
    for (uint32_t i = 1; i < lines; i++)
        first[i] = keys->at[((size_t)i << LINE_SHIFT) - skipped];
    keys->skipped = skipped;
    keys->lines = first;
}

static void sample(Keys *keys, uint32_t count)
{
    for (int level = 1; level < LEVELS && count >> (level * SAMPLE_SHIFT) > 1; level++) {
        uint32_t samples = ((count - 1) >> (level * SAMPLE_SHIFT)) + 1;
        uint64_t *sampled = PyMem_Malloc(samples * sizeof(uint64_t));
        if (!sampled)
            return;
        for (uint32_t i = 0; i < samples; i++)
            sampled[i] = keys->at[level - 1][(size_t)i << SAMPLE_SHIFT];
        keys->at[level] = sampled;
        keys->levels = level;
    }
}

/* The position of the segment or gap of an address; DAMAGED if the table leads nowhere. */
static inline uint32_t position4(const Index *index, uint32_t value)
{
    uint32_t low, count;
    bounds(index->table4, value >> 16, index->count4, &low, &count);
    if (!count)
        return DAMAGED;
    ask_for(&index->slots4, low + count / 2);
    return last_not_after4(index->keys4.at, (uint16_t)value, low, count);
}

static inline uint32_t position6(const Index *index, uint64_t hi, uint64_t lo)
{
    uint32_t low, count;
    bounds(index->table6, (uint32_t)(hi >> 48), index->count6, &low, &count);
    if (!count)
        return DAMAGED;
    return among_equals(index, hi, lo, search6(&index->keys6, &index->slots6, hi, low, count));
}

static uint32_t find4(const Index *index, uint32_t value, uint32_t *record)
{
    uint32_t position = position4(index, value);
    return position == DAMAGED ? DAMAGED : slot_and_record_at(&index->slots4, position, index->locations, record);
}

static uint32_t find6(const Index *index, uint64_t hi, uint64_t lo, uint32_t *record)
{
    uint32_t position = position6(index, hi, lo);
    return position == DAMAGED ? DAMAGED : slot_and_record_at(&index->slots6, position, index->locations, record);
}

/* Undo the advice with which the file was mapped. */
static void read_ahead(const Index *index)
{
#if defined(HAS_MADVISE)
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = index->begin & ~(page - 1);
    if (index->begin < index->end)
        (void)madvise((void *)begin, index->end - begin, MADV_NORMAL);
#else
    (void)index;
#endif
}

/* What `expect` does at its two turns; needs the GIL. Without memory for the samples it goes on. */
static void prepare(Index *index, Py_ssize_t rows)
{
    if (!index->is_ahead) {
        index->is_ahead = 1;
        read_ahead(index);
        index->until_next += SAMPLE_AFTER - AHEAD_AFTER;
        if (index->until_next > rows) {
            index->until_next -= rows;
            return;
        }
    }
    if (!index->batches) {
        index->until_next = 0;
        sample4(&index->keys4, index->count4);
        sample(&index->keys6, index->count6);
    }
}

/* Count lookups, and prepare for many once there were enough. */
static inline void expect(Index *index, Py_ssize_t rows)
{
    if (index->until_next > rows)
        index->until_next -= rows;
    else if (index->until_next > 0 && rows > 0)
        prepare(index, rows);
}

/* The slot of an address in both layers by its own family's blocks, the overlay first, and the number of its record. */
static inline uint32_t find_own(const Index *base, const Index *overlay, int family, uint64_t hi, uint64_t lo,
                                uint32_t *record)
{
    if (overlay->locations) {
        uint32_t slot = family == 4 ? find4(overlay, (uint32_t)lo, record) : find6(overlay, hi, lo, record);
        if (slot != EMPTY)
            return slot == DAMAGED ? slot : slot | OVERLAY;
    }
    return family == 4 ? find4(base, (uint32_t)lo, record) : find6(base, hi, lo, record);
}

/* True if an address without blocks has the answer of the IPv4 address in it: one of 6to4 (RFC 3056). */
static inline int is_alias(int family, uint64_t hi)
{
    return family == 6 && hi >> 48 == 0x2002;
}

static inline uint64_t held_in(uint64_t hi)
{
    return hi >> 16 & 0xFFFFFFFFu;
}

/* The slot of an address whose own blocks led to `slot`, and the number of its record. */
static inline uint32_t or_of_held(const Index *base, const Index *overlay, int family, uint64_t hi, uint32_t slot,
                                  uint32_t *record)
{
    return slot == EMPTY && is_alias(family, hi) ? find_own(base, overlay, 4, 0, held_in(hi), record) : slot;
}

/* The slot of an address, and the number of its record. */
static inline uint32_t find(const Index *base, const Index *overlay, int family, uint64_t hi, uint64_t lo,
                            uint32_t *record)
{
    return or_of_held(base, overlay, family, hi, find_own(base, overlay, family, hi, lo, record), record);
}
