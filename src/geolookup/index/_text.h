/* Whether bytes of a file are UTF-8, as strictly as Python decodes it. Needs no GIL. */

#pragma once

#include <stdint.h>
#include <string.h>

/* How many bytes after the first one of a character, and what the first of these lies between; -1 if none begins so. */
static inline int utf8_rest(unsigned char first, unsigned char *least, unsigned char *most)
{
    *least = 0x80;
    *most = 0xBF;
    if (first < 0xC2 || first > 0xF4) /* one in the middle, what one byte can say, what lies beyond Unicode */
        return -1;
    if (first < 0xE0)
        return 1;
    if (first == 0xE0 || first == 0xF0) /* what fewer bytes can say */
        *least = first == 0xE0 ? 0xA0 : 0x90;
    if (first == 0xED || first == 0xF4) /* surrogates; what lies beyond Unicode */
        *most = first == 0xED ? 0x9F : 0x8F;
    return first < 0xF0 ? 2 : 3;
}

static int is_utf8(const char *text, int64_t length)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    while (at < end) {
        uint64_t eight;
        if (end - at >= 8 && (memcpy(&eight, at, 8), !(eight & 0x8080808080808080u))) {
            at += 8;
            continue;
        }
        unsigned char least, most, first = *at++;
        if (first < 0x80)
            continue;
        int rest = utf8_rest(first, &least, &most);
        if (rest < 0 || end - at < rest || *at < least || *at > most)
            return 0;
        for (int i = 1; i < rest; i++)
            if ((at[i] & 0xC0) != 0x80)
                return 0;
        at += rest;
    }
    return 1;
}
