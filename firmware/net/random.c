#include "random.h"

#include "causeway/random.h"

static uint16_t state;

void random_start(uint16_t seed)
{
    state = seed;
    for (uint8_t i = 0; i < 8; i++) { /* ids are small numbers: move their few bits about first */
        random_next();
    }
}

uint16_t random_next(void)
{
    return cw_random_next(&state);
}

uint16_t random_below(uint16_t limit)
{
    return cw_random_below(&state, limit);
}
