/** The truth log: one JSON object a line (docs/reference/testbed.md). */
#pragma once

#include <stdio.h>

#include "world.h"

typedef struct {
    FILE *file;
    bool first; /* member of its object */
} truth_t;

enum { TRUTH_NOBODY = -1 };

/** A line: truth_begin(), members, truth_end(). `node` is left out when it is TRUTH_NOBODY. */
void truth_begin(truth_t *truth, ns_t t, const char *is, int node);
void truth_number(truth_t *truth, const char *name, uint64_t number);
void truth_real(truth_t *truth, const char *name, double number);
void truth_bool(truth_t *truth, const char *name, bool value);
void truth_null(truth_t *truth, const char *name);
void truth_text(truth_t *truth, const char *name, const char *text);
void truth_hex(truth_t *truth, const char *name, const uint8_t *bytes, int count);
void truth_object(truth_t *truth, const char *name); /* what follows are its members ... */
void truth_object_end(truth_t *truth);               /* ... up to here */
void truth_end(truth_t *truth);

/** What was written so far can be read by others. */
void truth_flush(truth_t *truth);
