/** Lines of words: what a scenario is made of. A command says by a letter each what follows its name. */
#pragma once

#include "world.h"

enum { WORDS_MOST = 8 };

/** One word as its letter says:
 *    n  a node's number          -> number
 *    u  a whole number, 0x... too -> number
 *    t  seconds                  -> time
 *    f  a number                 -> real
 *    w  a word                   -> text
 *    x  bytes in hexadecimal     -> bytes, count
 *    r  the rest of the line     -> text
 *  Text and bytes live as long as the program. */
typedef struct {
    uint64_t number;
    ns_t time;
    double real;
    const char *text;
    const uint8_t *bytes;
    int count;
} word_t;

/** Read the words of `line` as `letters` say. Gives NULL, or what is wrong, in words. `nodes` is how many
 * there are. */
const char *words_read(char *line, const char *letters, int nodes, word_t *words);
