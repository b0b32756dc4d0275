/* Strict address text: what geolookup.model.addresses.parse accepts, and nothing else. */

#include <stdint.h>

static int parse4(const unsigned char *p, const unsigned char *end, uint32_t *value)
{
    uint32_t all = 0;
    for (int part = 0; part < 4; part++) {
        if (part && (p == end || *p++ != '.'))
            return 0;
        unsigned number, digit;
        if (p == end || (number = (unsigned)*p - '0') > 9)
            return 0;
        p++;
        if (p < end && (digit = (unsigned)*p - '0') <= 9) {
            if (number == 0)
                return 0; /* a leading zero: some programs read it as octal */
            number = number * 10 + digit;
            p++;
            if (p < end && (digit = (unsigned)*p - '0') <= 9) {
                number = number * 10 + digit;
                p++;
                if (number > 255)
                    return 0;
            }
        }
        all = all << 8 | number;
    }
    *value = all;
    return p == end;
}

/* The value of a hexadecimal digit and one more; 0 for anything else. */
static const unsigned char HEXADECIMAL[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
    ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
};

/* RFC 4291 section 2.2. */
static int parse6(const unsigned char *p, const unsigned char *end, uint64_t *hi, uint64_t *lo)
{
    uint16_t groups[8], placed[8] = {0};
    int count = 0, gap = -1;
    if (end - p < 2)
        return 0;
    if (*p == ':') {
        if (p[1] != ':')
            return 0;
        gap = 0;
        p += 2;
    }
    while (p < end) {
        if (count == 8)
            return 0;
        const unsigned char *start = p;
        unsigned value = 0, digit;
        while (p < end && (digit = HEXADECIMAL[*p])) {
            if (++p - start > 4)
                return 0;
            value = value << 4 | (digit - 1);
        }
        if (p < end && *p == '.') {
            uint32_t quad;
            if (count > 6 || !parse4(start, end, &quad))
                return 0;
            groups[count++] = (uint16_t)(quad >> 16);
            groups[count++] = (uint16_t)quad;
            break;
        }
        if (p == start)
            return 0;
        groups[count++] = (uint16_t)value;
        if (p == end)
            break;
        if (*p++ != ':' || p == end)
            return 0;
        if (*p == ':') {
            if (gap >= 0)
                return 0;
            gap = count;
            p++;
        }
    }
    if (gap < 0 ? count != 8 : count == 8)
        return 0;
    for (int i = 0; i < count; i++)
        placed[gap < 0 || i < gap ? i : 8 - count + i] = groups[i];
    *hi = (uint64_t)placed[0] << 48 | (uint64_t)placed[1] << 32 | (uint64_t)placed[2] << 16 | placed[3];
    *lo = (uint64_t)placed[4] << 48 | (uint64_t)placed[5] << 32 | (uint64_t)placed[6] << 16 | placed[7];
    return 1;
}

/* What parse says of text that is not a dotted quad. */
static int parse_other(const char *text, Py_ssize_t length, uint64_t *hi, uint64_t *lo)
{
    const unsigned char *p = (const unsigned char *)text;
    if (!parse6(p, p + length, hi, lo))
        return 0;
    if (*hi == 0 && *lo >> 32 == 0xFFFF) { /* RFC 4291 section 2.5.5.2: mapped, so it is the IPv4 address */
        *lo &= 0xFFFFFFFFu;
        return 4;
    }
    return 6;
}

/* The family of an address, whose value is in lo (4) or hi and lo (6); 0 if the text is not an address. */
static int parse(const char *text, Py_ssize_t length, uint64_t *hi, uint64_t *lo)
{
    const unsigned char *p = (const unsigned char *)text;
    uint32_t quad;
    if (!parse4(p, p + length, &quad))
        return parse_other(text, length, hi, lo);
    *lo = quad;
    return 4;
}

/* ---- To text ---- */

/* The longest text of an address. */
#define ADDRESS_TEXT 45

static int write_decimal(char *out, unsigned value)
{
    int digits = value > 99 ? 3 : value > 9 ? 2 : 1;
    for (int i = digits; i-- > 0; value /= 10)
        out[i] = (char)('0' + value % 10);
    return digits;
}

static int write_quad(char *out, uint32_t value)
{
    char *p = out;
    for (int shift = 24; shift >= 0; shift -= 8) {
        p += write_decimal(p, value >> shift & 255);
        *p++ = '.';
    }
    return (int)(p - out) - 1;
}

/* Write an address as `addresses.to_text` does (RFC 5952) and return the length: at most ADDRESS_TEXT characters and one
 * more, which are not text. */
static int write_address(char *out, int family, uint64_t hi, uint64_t lo)
{
    if (family == 4)
        return write_quad(out, (uint32_t)lo);
    unsigned groups[8];
    int gap = -1, longest = 1, run = 0;
    char *p = out;
    for (int i = 0; i < 8; i++) {
        groups[i] = (unsigned)((i < 4 ? hi : lo) >> (48 - 16 * (i & 3)) & 0xFFFF);
        run = groups[i] ? 0 : run + 1;
        if (run > longest) {
            longest = run;
            gap = i - run + 1;
        }
    }
    for (int i = 0; i < 8; i++) {
        if (i == gap) {
            *p++ = ':';
            if (i == 0)
                *p++ = ':';
            i += longest - 1;
            continue;
        }
        if (i == 6 && gap == 0 && longest == 5 && groups[5] == 0xFFFF)
            return (int)(p - out) + write_quad(p, (uint32_t)lo);
        int shift = 12;
        while (shift && !(groups[i] >> shift))
            shift -= 4;
        for (; shift >= 0; shift -= 4)
            *p++ = "0123456789abcdef"[groups[i] >> shift & 15];
        *p++ = ':';
    }
    return (int)(p - out) - (gap + longest != 8);
}
