/* Dotted quads, 16 characters at once: what parse4 of _address.h accepts, and nothing else. For processors with AVX2 or
 * NEON; nothing here may run before `has_wide` said so. */

#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>

#define WIDE 1
/* What is compiled for such processors only, inside a build that runs on every other. */
#define FOR_WIDE __attribute__((target("avx2,bmi,bmi2,popcnt")))

static int has_wide(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt");
}
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#include <arm_neon.h>

#define WIDE 1
#define FOR_WIDE

static int has_wide(void)
{
    return 1; /* each of them has NEON */
}
#else
#define WIDE 0
#define FOR_WIDE

static int has_wide(void)
{
    return 0;
}
#endif

#if WIDE
/* A way to write a quad: how many digits each of its parts has. */
typedef struct {
    /* For each part, the last one first: nothing, and the places of its hundreds, tens and ones. */
    uint8_t places[16];
    uint8_t least[4]; /* of each part, the last one first: below it, there was a leading zero */
    uint32_t marks;   /* a bit for each dot, and for the end */
} Way;

/* The marks of all 81 ways have different values of this. */
#define WAY(marks) ((((marks) * 3359u) >> 7) & 0xFF)

#define NO_DIGIT 0x80 /* for which a shuffle gives 0 */
#define PART(begin, digits) \
    NO_DIGIT, (digits) == 3 ? (begin) : NO_DIGIT, (digits) >= 2 ? (begin) + (digits) - 2 : NO_DIGIT, (begin) + (digits) - 1
#define LEAST(digits) ((digits) == 3 ? 100 : (digits) == 2 ? 10 : 0)
#define MARKS(a, b, c, d) \
    (1u << (a) | 1u << ((a) + (b) + 1) | 1u << ((a) + (b) + (c) + 2) | 1u << ((a) + (b) + (c) + (d) + 3))
#define WAY4(a, b, c, d) \
    [WAY(MARKS(a, b, c, d))] = { \
        {PART((a) + (b) + (c) + 3, d), PART((a) + (b) + 2, c), PART((a) + 1, b), PART(0, a)}, \
        {LEAST(d), LEAST(c), LEAST(b), LEAST(a)}, \
        MARKS(a, b, c, d), \
    },
#define WAY3(a, b, c) WAY4(a, b, c, 1) WAY4(a, b, c, 2) WAY4(a, b, c, 3)
#define WAY2(a, b) WAY3(a, b, 1) WAY3(a, b, 2) WAY3(a, b, 3)
#define WAY1(a) WAY2(a, 1) WAY2(a, 2) WAY2(a, 3)

/* Where there is no way, the marks are none, which no text has. */
static const Way WAYS[256] = {WAY1(1) WAY1(2) WAY1(3)};

/* Whether 16 bytes begin with `length` characters that are a dotted quad, and its value. */
#if defined(__x86_64__)
FOR_WIDE static inline int read_sixteen(const unsigned char *p, size_t length, uint32_t *value)
{
    const __m128i text = _mm_loadu_si128((const __m128i *)p);
    uint32_t dots = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(text, _mm_set1_epi8('.')));
    uint32_t end = 1u << length, marks = (dots & (end - 1)) | end;
    const Way *way = &WAYS[WAY(marks)];
    /* What is no digit becomes larger than 9, by wrapping round to a large number if it stands before "0". */
    __m128i digits = _mm_shuffle_epi8(_mm_sub_epi8(text, _mm_set1_epi8('0')), _mm_loadu_si128((const __m128i *)way->places));
    __m128i pairs = _mm_maddubs_epi16(digits, _mm_set1_epi32(0x010A6400)); /* 0, 100, 10, 1 */
    __m128i parts = _mm_madd_epi16(pairs, _mm_set1_epi16(1));
    __m128i bytes = _mm_packus_epi16(_mm_packs_epi32(parts, parts), _mm_setzero_si128());
    uint32_t least;
    memcpy(&least, way->least, 4);
    __m128i wrong = _mm_or_si128(_mm_subs_epu8(digits, _mm_set1_epi8(9)), _mm_cmpgt_epi32(parts, _mm_set1_epi32(255)));
    wrong = _mm_or_si128(wrong, _mm_subs_epu8(_mm_cvtsi32_si128((int)least), bytes));
    *value = (uint32_t)_mm_cvtsi128_si32(bytes);
    return (way->marks == marks) & _mm_testz_si128(wrong, wrong);
}
#else
static inline int read_sixteen(const unsigned char *p, size_t length, uint32_t *value)
{
    static const uint8_t BITS[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    static const uint8_t WORTH[8] = {0, 100, 10, 1, 0, 100, 10, 1};
    const uint8x16_t text = vld1q_u8(p), at = vandq_u8(vceqq_u8(text, vdupq_n_u8('.')), vld1q_u8(BITS));
    uint32_t dots = vaddv_u8(vget_low_u8(at)) | (uint32_t)vaddv_u8(vget_high_u8(at)) << 8;
    uint32_t end = 1u << length, marks = (dots & (end - 1)) | end;
    const Way *way = &WAYS[WAY(marks)];
    /* As above: what is no digit becomes larger than 9. */
    uint8x16_t digits = vqtbl1q_u8(vsubq_u8(text, vdupq_n_u8('0')), vld1q_u8(way->places));
    const uint8x8_t worth = vld1_u8(WORTH);
    uint32x4_t parts = vpaddq_u32(vpaddlq_u16(vmull_u8(vget_low_u8(digits), worth)),
                                  vpaddlq_u16(vmull_u8(vget_high_u8(digits), worth)));
    uint32_t least;
    memcpy(&least, way->least, 4);
    uint32x4_t floors = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(least))));
    uint32x4_t wrong = vreinterpretq_u32_u8(vcgtq_u8(digits, vdupq_n_u8(9)));
    wrong = vorrq_u32(wrong, vorrq_u32(vcgtq_u32(parts, vdupq_n_u32(255)), vcltq_u32(parts, floors)));
    uint16x4_t halves = vmovn_u32(parts);
    *value = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(halves, halves))), 0);
    return (way->marks == marks) & (vmaxvq_u32(wrong) == 0);
}
#endif

/* Whether `length` characters are a dotted quad, and its value. So many bytes from `p` on as `room` says can be read. */
FOR_WIDE static inline int read_quad(const unsigned char *p, size_t length, size_t room, uint32_t *value)
{
    if (length - 7 > 15 - 7)
        return 0;
    unsigned char copy[16];
    if (room < 16) {
        memset(copy, 0, 16);
        memcpy(copy, p, length);
        p = copy;
    }
    return read_sixteen(p, length, value);
}
#else
static inline int read_quad(const unsigned char *p, size_t length, size_t room, uint32_t *value)
{
    (void)p, (void)length, (void)room, (void)value;
    return 0;
}
#endif
