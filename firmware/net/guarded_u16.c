#include "guarded_u16.h"

#include "hal/board.h"

/* Inlined in its 14 callers it would take a hundred bytes more. */
__attribute__((noinline)) void guarded_u16_set(guarded_u16_t *kept, uint16_t value)
{
    kept->value = value;
    kept->complement = (uint16_t)~value;
}

uint16_t guarded_u16_get(const guarded_u16_t *kept)
{
    if ((kept->value ^ kept->complement) != UINT16_MAX)
        board_reset();
    return kept->value;
}
