/** Events for interrupt handlers that must be short: a call makes a handler save every register that the
 * callee might use. */
#pragma once

#include <stdint.h>

/** Events that wait. To be changed with interrupts off. */
extern volatile uint8_t events_pending;
