#include "words.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *complain(const char *what, const char *word)
{
    static char text[200];
    snprintf(text, sizeof text, "%s: %s", what, word);
    return text;
}

static bool read_whole(const char *text, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 0);
    return *end == '\0' && end != text && *text != '-' && errno == 0;
}

static bool read_real(const char *text, double *real)
{
    char *end;
    *real = strtod(text, &end);
    return *end == '\0' && end != text && isfinite(*real);
}

static bool read_hex(const char *text, word_t *word)
{
    size_t digits = strlen(text);
    uint8_t *bytes = malloc(digits / 2 + 1);
    for (size_t i = 0; i < digits / 2; i++) {
        unsigned byte;
        if (strspn(text + 2 * i, "0123456789abcdefABCDEF") < 2 || sscanf(text + 2 * i, "%2x", &byte) != 1) {
            free(bytes);
            return false;
        }
        bytes[i] = (uint8_t)byte;
    }
    word->bytes = bytes;
    word->count = (int)(digits / 2);
    return digits % 2 == 0;
}

static const char *read_word(char *text, char letter, int nodes, word_t *word)
{
    switch (letter) {
    case 'n':
        return read_whole(text, &word->number) && word->number < (uint64_t)nodes
                   ? NULL
                   : complain("there is no such node", text);
    case 'u':
        return read_whole(text, &word->number) ? NULL : complain("not a whole number", text);
    case 't':
        if (!read_real(text, &word->real) || word->real < 0 || word->real > 1e9)
            return complain("not a time in seconds", text);
        word->time = (ns_t)(word->real * 1e9 + 0.5);
        return NULL;
    case 'f':
        return read_real(text, &word->real) ? NULL : complain("not a number", text);
    case 'x':
        return read_hex(text, word) ? NULL : complain("not bytes in hexadecimal", text);
    default:
        word->text = strdup(text);
        return NULL;
    }
}

const char *words_read(char *line, const char *letters, int nodes, word_t *words)
{
    memset(words, 0, WORDS_MOST * sizeof *words);
    for (; *letters != '\0'; letters++, words++) {
        char *text = strtok_r(line, *letters == 'r' ? "\n" : " \t\n", &line);
        if (text == NULL)
            return "too few words";
        const char *wrong = read_word(text, *letters, nodes, words);
        if (wrong != NULL)
            return wrong;
    }
    char *more = strtok_r(line, " \t\n", &line);
    return more == NULL ? NULL : complain("a word too many", more);
}
