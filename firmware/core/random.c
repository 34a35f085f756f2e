#include "causeway/random.h"

uint16_t cw_random_next(uint16_t *state)
{
    uint16_t number = *state;
    if (number == 0) /* the one state that the row would never leave */
        number = 1;
    number = (uint16_t)(number ^ number << 7);
    number = (uint16_t)(number ^ number >> 9);
    number = (uint16_t)(number ^ number << 8);
    *state = number;
    return number;
}

uint16_t cw_random_below(uint16_t *state, uint16_t limit)
{
    return (uint16_t)(((uint32_t)cw_random_next(state) * limit) >> 16);
}
