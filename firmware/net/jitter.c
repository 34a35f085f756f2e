#include "jitter.h"

#include "causeway/random.h"

static uint16_t state;

void jitter_start(uint16_t seed)
{
    state = seed;
    for (uint8_t i = 0; i < 8; i++) /* ids are small numbers: move their few bits about first */
        jitter_next();
}

uint16_t jitter_next(void)
{
    return cw_random_next(&state);
}

uint16_t jitter_below(uint16_t limit)
{
    return cw_random_below(&state, limit);
}
