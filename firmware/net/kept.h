/** A value that nothing but its owner changes, and that nothing else would ever put right: it lies beside its
 * complement.
 *
 * To read one that memory has not kept restarts the node, so a wrong one is never used. Not for interrupts.
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
