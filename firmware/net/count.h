/** Counts one more. With the addition itself in each of its 36 places a mote image has 400 bytes more. */
#ifndef NET_COUNT_H
#define NET_COUNT_H

#include <stdint.h>

void count(uint16_t *counter);

#endif
