/** The network's time as a line over local time, and the clock that is shown.
 *
 * The *estimate* is the best knowledge: network = start + elapsed * (1 + skew). A better estimate may be less
 * than the one before. The *shown* clock stamps events: it is the estimate plus the rest of a correction,
 * which is made slowly. It never runs backwards, except when netclock_set() sets a new time.
 *
 * The functions that read may be called from interrupts; those that change must not be.
 */
#ifndef NET_NETCLOCK_H
#define NET_NETCLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"

/** Skew is counted in 2^-24: 1 is 0.06 ppm. Two crystals 100 ppm off in opposite directions stay within this.
 */
#define NETCLOCK_SKEW_MAX 3400

/** A line is good for this many cycles (4 minutes) around its start: call netclock_tidy() more often. */
#define NETCLOCK_REACH (INT32_C(1) << 23)

/** How far apart two times are, by their difference. */
uint32_t netclock_size(int32_t difference);

/** Jump: at local time `local` it is `network`, with no skew and nothing to correct. */
void netclock_set(uint32_t local, uint32_t network);

/** Take a better estimate at local time `now`: `network` cycles and `part` / 65536, with `skew` from there
 * on. The shown clock goes on from its present value, a 64th faster or slower until it meets the estimate. If
 * it is more than `step` cycles behind, it jumps forward at once; if it is more than that ahead, it runs at
 * half speed. */
void netclock_steer(uint32_t now, uint32_t network, uint16_t part, int16_t skew, uint16_t step);

#if CAUSEWAY_MIC_BYTES

/** Rounds are counted modulo one more than this. */
#define NETCLOCK_ROUND_MOST ((1U << CAUSEWAY_ROUND_BITS) - 1)

/** How often the network's 32 bits of time had come round in its epoch when it read `network`, which is less
 * than half a round (18 hours) from now. */
uint8_t netclock_round(uint32_t network);

/** The round of the time that netclock_set() has just set; it sets the first one. */
void netclock_set_round(uint8_t round);

#endif

/** Move the line's start up to `now`, so that its numbers stay small. Changes no reading. */
void netclock_tidy(uint32_t now);

/** The shown network time at `local`. */
uint32_t netclock_shown(uint32_t local);

/** The best estimate of the network time at `local`. */
uint32_t netclock_estimate(uint32_t local);

/** The estimate less the shown time at `local`: what is left to correct. */
int32_t netclock_left(uint32_t local);

/** The local time at which the shown clock reads `network`, to a cycle. */
uint32_t netclock_local(uint32_t network);

/** Whether memory has kept the line, and it is possible at local time `now`. Not while another function
 * changes it. */
bool netclock_sound(uint32_t now);

#endif
