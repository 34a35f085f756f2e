#include "small.h"

#include "hal/clock.h"

__attribute__((noinline)) uint32_t earlier(uint32_t a, uint32_t b)
{
    return clock_before(a, b) ? a : b;
}

__attribute__((noinline)) void count(uint16_t *counter)
{
    ++*counter;
}
