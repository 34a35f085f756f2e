/** Events for interrupt handlers that must be short: a call makes a handler save every register that the
 * callee might use. */
#ifndef MICA_EVENTS_PENDING_H
#define MICA_EVENTS_PENDING_H

#include <stdint.h>

/** Events that wait. To be changed with interrupts off. */
extern volatile uint8_t events_pending;

#endif
