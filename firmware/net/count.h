/** Counts one more. A call takes half as much flash as the addition, and there are forty of them. */
#ifndef NET_COUNT_H
#define NET_COUNT_H

#include <stdint.h>

void count(uint16_t *counter);

#endif
