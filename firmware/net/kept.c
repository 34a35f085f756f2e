#include "kept.h"

#include "hal/board.h"

/* In its 14 places it would take a hundred bytes more. */
__attribute__((noinline)) void kept_set(kept_t *kept, uint16_t value)
{
    kept->value = value;
    kept->complement = (uint16_t)~value;
}

uint16_t kept_get(const kept_t *kept)
{
    if ((kept->value ^ kept->complement) != UINT16_MAX) {
        board_reset();
    }
    return kept->value;
}
