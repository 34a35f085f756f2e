#include "count.h"

__attribute__((noinline)) void count(uint16_t *counter)
{
    ++*counter;
}
