#ifndef TESTS_UNHEX_H
#define TESTS_UNHEX_H

#include <stdint.h>
#include <stdio.h>

/* Reads pairs of hexadecimal digits into bytes, and returns how many it read. */
static inline int unhex(const char *text, uint8_t *bytes, int most)
{
    int count = 0;
    unsigned byte;
    for (; count < most && sscanf(text, "%2x", &byte) == 1; text += 2)
        bytes[count++] = (uint8_t)byte;
    return count;
}

#endif
