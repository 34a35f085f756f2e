/** Small random numbers, for pauses. Not for secrets. A 16-bit xorshift: the state is the last number. */
#ifndef CW_RANDOM_H
#define CW_RANDOM_H

#include "types.h"

CW_C_BEGIN

/** The next number, 1..65535. */
uint16_t cw_random_next(uint16_t *state);

/** A number in 0..limit - 1; 0 when the limit is 0. */
uint16_t cw_random_below(uint16_t *state, uint16_t limit);

CW_C_END

#endif
