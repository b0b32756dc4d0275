/* Plays read_quad of _quads.h against parse4 of _address.h, on the processor that this is compiled for. Each text stands
 * at the end of a page, behind which nothing can be read, and amid others. Prints how many texts and addresses there were. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef ptrdiff_t Py_ssize_t;
#include "_address.h"
#include "_quads.h"

static unsigned char *end_of_page;
static long texts, addresses;

static void differ(const char *where, const unsigned char *text, size_t length)
{
    printf("%s: %.*s: %zu bytes\n", where, (int)length, text, length);
    exit(1);
}

static void check(const unsigned char *text, size_t length)
{
    uint32_t expected = 0, found = 0;
    int is_quad = parse4(text, text + length, &expected);
    unsigned char *last = end_of_page - length, amid[64];
    memcpy(last, text, length);
    if (read_quad(last, length, length, &found) != is_quad || (is_quad && found != expected))
        differ("at the end", text, length);
    memset(amid, '1', sizeof amid);
    memcpy(amid + 2, text, length);
    memcpy(amid + 2 + length, ".0123", 5);
    if (read_quad(amid + 2, length, sizeof amid - 2, &found) != is_quad || (is_quad && found != expected))
        differ("amid others", text, length);
    texts++;
    addresses += is_quad;
}

static void check_mutations(const char *whole)
{
    size_t length = strlen(whole);
    unsigned char text[32];
    for (size_t place = 0; place <= length; place++)
        for (int byte = 0; byte < 256; byte++)
            for (size_t more = 0; more < 2; more++) {
                size_t rest = place + more < length ? length - place - more : 0;
                memcpy(text, whole, place);
                text[place] = (unsigned char)byte;
                memcpy(text + place + 1, whole + length - rest, rest);
                check(text, place + 1 + rest);
            }
}

int main(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (two == MAP_FAILED || mprotect(two + page, page, PROT_NONE) || !has_wide())
        return 2;
    end_of_page = two + page;

    static const char *PARTS[3] = {"7", "42", "199"};
    char text[64];
    for (int width = 1; width <= 3; width++)
        for (int number = 0; number < (width == 1 ? 10 : width == 2 ? 100 : 1000); number++)
            for (int others = 0; others < 27; others++)
                for (int place = 0; place < 4; place++) {
                    int left = others, at = 0;
                    for (int part = 0; part < 4; part++) {
                        at += snprintf(text + at, sizeof text - (size_t)at, part ? "." : "");
                        if (part == place) {
                            at += snprintf(text + at, sizeof text - (size_t)at, "%0*d", width, number);
                        } else {
                            at += snprintf(text + at, sizeof text - (size_t)at, "%s", PARTS[left % 3]);
                            left /= 3;
                        }
                    }
                    check((const unsigned char *)text, (size_t)at);
                }
    for (int ways = 0; ways < 81; ways += 5) {
        snprintf(text, sizeof text, "%s.%s.%s.%s", PARTS[ways / 27], PARTS[ways / 9 % 3], PARTS[ways / 3 % 3], PARTS[ways % 3]);
        check_mutations(text);
    }
    for (int length = 0; length < 18; length++)
        for (uint32_t dots = 0; dots < 1u << length; dots++) {
            if (length > 14 && __builtin_popcount(dots) > 4)
                continue;
            for (int place = 0; place < length; place++)
                text[place] = dots >> place & 1 ? '.' : '1';
            check((const unsigned char *)text, (size_t)length);
        }
    printf("%ld texts, %ld addresses\n", texts, addresses);
    return 0;
}
