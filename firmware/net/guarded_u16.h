/** A value stored beside its complement, for values that are never set again and so stay wrong if memory
 * changes them.
 *
 * Reading a value that memory has changed restarts the node: a wrong value is never used. Not for interrupts.
 */
#pragma once

#include <stdint.h>

typedef struct {
    uint16_t value;
    uint16_t complement;
} guarded_u16_t;

void guarded_u16_set(guarded_u16_t *kept, uint16_t value);
uint16_t guarded_u16_get(const guarded_u16_t *kept);
