/** Two operations of a line each, which the compiler must not copy into their callers. */
#pragma once

#include <stdint.h>

/** The earlier of two local times, which can be compared (hal/clock.h). */
uint32_t earlier(uint32_t a, uint32_t b);

/** Count one more. With the addition itself in each of its 36 places a mote image has 400 bytes more. */
void count(uint16_t *counter);
