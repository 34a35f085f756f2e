/** The earlier of two local times, which can be compared (hal/clock.h). */
#ifndef NET_EARLIER_H
#define NET_EARLIER_H

#include <stdint.h>

uint32_t earlier(uint32_t a, uint32_t b);

#endif
