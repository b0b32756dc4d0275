/* From the slots of a column to the values that stand in them, for all wanted fields at once. Needs no GIL. */

#include "_search.h"

/* One field: its values by slot, an array for each layer, and where the value of each row goes. */
typedef struct {
    const void *base, *overlay;
    void *out;
    Py_ssize_t item_bytes; /* 1, 2, 4 or 8 */
} Field;

typedef struct {
    Py_ssize_t empty, bad, absent;
} Counts;

/* Rows that go through all fields before the next ones do, so that their slots stay at hand; a multiple of 8. */
#define STRETCH 1024

enum { ALL_BASE, MIXED, NOWHERE };

/* Set a bit for each row that has a location, and count the others. The places of `limits` say how many locations the
 * base and the overlay have. NOWHERE if a slot is of none, ALL_BASE if every row has one in the base. */
static int survey(const uint32_t *slots, int n, const uint32_t *limits, unsigned char *bits, Counts *counts)
{
    uint32_t most = 0;
    for (int i = 0; i < n; i++)
        most = slots[i] > most ? slots[i] : most;
    if (most < limits[0]) {
        memset(bits, 0xFF, n / 8);
        if (n % 8)
            bits[n / 8] = (unsigned char)((1 << n % 8) - 1);
        return ALL_BASE;
    }
    memset(bits, 0, (n + 7) / 8);
    for (int i = 0; i < n; i++) {
        uint32_t slot = slots[i];
        if (slot >= ABSENT) {
            counts->empty += slot == EMPTY;
            counts->bad += slot == BAD;
            counts->absent += slot == ABSENT;
        } else if ((slot & ~OVERLAY) < limits[slot >> 31]) {
            bits[i >> 3] |= (unsigned char)(1 << (i & 7));
        } else {
            return NOWHERE;
        }
    }
    return MIXED;
}

/* Write the values of some rows; 0 for one without a location. */
#define DEFINE_FILL(type) \
    static void fill_##type(const uint32_t *slots, int n, int found, const type *base, const type *overlay, type *out) \
    { \
        if (found == ALL_BASE) { \
            for (int i = 0; i < n; i++) \
                out[i] = base[slots[i]]; \
            return; \
        } \
        for (int i = 0; i < n; i++) { \
            uint32_t slot = slots[i]; \
            out[i] = slot >= ABSENT ? 0 : slot & OVERLAY ? overlay[slot & ~OVERLAY] : base[slot]; \
        } \
    }

DEFINE_FILL(uint8_t)
DEFINE_FILL(uint16_t)
DEFINE_FILL(uint32_t)
DEFINE_FILL(uint64_t)

/* Write the values of all fields, and a bit a row to `validity`. False if a slot is of no location. */
static int answer(const uint32_t *slots, Py_ssize_t rows, const uint32_t *limits, const Field *fields, Py_ssize_t count,
                  unsigned char *validity, Counts *counts)
{
    /* Each slot is read once: another thread may write into the array between the check of a slot and its use, and a
     * field's values may go where the slots stand. */
    uint32_t own[STRETCH];
    for (Py_ssize_t begin = 0; begin < rows; begin += STRETCH) {
        int n = rows - begin < STRETCH ? (int)(rows - begin) : STRETCH;
        memcpy(own, slots + begin, 4 * (size_t)n);
        int found = survey(own, n, limits, validity + begin / 8, counts);
        if (found == NOWHERE)
            return 0;
        for (Py_ssize_t i = 0; i < count; i++) {
            const Field *field = &fields[i];
            char *out = (char *)field->out + begin * field->item_bytes;
            if (field->item_bytes == 1)
                fill_uint8_t(own, n, found, field->base, field->overlay, (uint8_t *)out);
            else if (field->item_bytes == 2)
                fill_uint16_t(own, n, found, field->base, field->overlay, (uint16_t *)out);
            else if (field->item_bytes == 4)
                fill_uint32_t(own, n, found, field->base, field->overlay, (uint32_t *)out);
            else
                fill_uint64_t(own, n, found, field->base, field->overlay, (uint64_t *)out);
        }
    }
    return 1;
}
