#include "truth.h"

#include <inttypes.h>

static void put_escaped(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
}

static void put_text(FILE *file, const char *text)
{
    fputc('"', file);
    put_escaped(file, text);
    fputc('"', file);
}

static void name_member(truth_t *truth, const char *name)
{
    fputs(truth->first ? "" : ",", truth->file);
    put_text(truth->file, name);
    fputc(':', truth->file);
    truth->first = false;
}

void truth_begin(truth_t *truth, ns_t t, const char *is, int node)
{
    fprintf(truth->file, "{\"t\":%" PRIu64 ",\"is\":\"%s\"", t, is);
    truth->first = false;
    if (node != TRUTH_NOBODY)
        truth_number(truth, "node", (uint64_t)node);
}

void truth_number(truth_t *truth, const char *name, uint64_t number)
{
    name_member(truth, name);
    fprintf(truth->file, "%" PRIu64, number);
}

void truth_real(truth_t *truth, const char *name, double number)
{
    name_member(truth, name);
    fprintf(truth->file, "%.3f", number);
}

void truth_bool(truth_t *truth, const char *name, bool value)
{
    name_member(truth, name);
    fputs(value ? "true" : "false", truth->file);
}

void truth_null(truth_t *truth, const char *name)
{
    name_member(truth, name);
    fputs("null", truth->file);
}

void truth_text(truth_t *truth, const char *name, const char *text)
{
    name_member(truth, name);
    put_text(truth->file, text);
}

void truth_hex(truth_t *truth, const char *name, const uint8_t *bytes, int count)
{
    static const char digits[] = "0123456789abcdef";
    name_member(truth, name);
    fputc('"', truth->file);
    for (int i = 0; i < count; i++) {
        fputc(digits[bytes[i] >> 4], truth->file);
        fputc(digits[bytes[i] & 15], truth->file);
    }
    fputc('"', truth->file);
}

void truth_object(truth_t *truth, const char *name)
{
    name_member(truth, name);
    fputc('{', truth->file);
    truth->first = true;
}

void truth_object_end(truth_t *truth)
{
    fputc('}', truth->file);
    truth->first = false;
}

void truth_end(truth_t *truth)
{
    fputs("}\n", truth->file);
}

void truth_flush(truth_t *truth)
{
    fflush(truth->file);
}
