/** Small random numbers, for jitter. Not for secrets. */
#pragma once

#include <stdint.h>

/** Start the sequence of numbers; motes should have different seeds. */
void jitter_start(uint16_t seed);

/** The next number, 1..65535. */
uint16_t jitter_next(void);

/** A number in 0..limit - 1; 0 when the limit is 0. */
uint16_t jitter_below(uint16_t limit);
