/** A value stored beside its complement, because nothing would ever correct it if memory changed it.
 *
 * Reading a value that memory has changed restarts the node: a wrong one is never used. Not for interrupts.
 */
#ifndef NET_KEPT_H
#define NET_KEPT_H

#include <stdint.h>

typedef struct {
    uint16_t value;
    uint16_t complement;
} kept_t;

void kept_set(kept_t *kept, uint16_t value);
uint16_t kept_get(const kept_t *kept);

#endif
