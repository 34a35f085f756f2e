#include "random.h"

static uint16_t state = 1;

void random_start(uint16_t seed)
{
    state = seed != 0 ? seed : 1;
    for (uint8_t i = 0; i < 8; i++) { /* ids are small numbers: move their few bits about first */
        random_next();
    }
}

uint16_t random_next(void)
{
    if (state == 0) { /* the one state that the row would never leave */
        state = 1;
    }
    state = (uint16_t)(state ^ (state << 7));
    state = (uint16_t)(state ^ (state >> 9));
    state = (uint16_t)(state ^ (state << 8));
    return state;
}

uint16_t random_below(uint16_t limit)
{
    return (uint16_t)(((uint32_t)random_next() * limit) >> 16);
}
