/** The network's time as a line over local time, and the shown clock.
 *
 * The *estimate* is the best knowledge: network = start + elapsed * (1 + skew). A better estimate may be less
 * than the one before. The *shown* clock stamps events: it is the estimate plus the rest of a correction,
 * which is made slowly. It never runs backwards, except when network_time_set() sets a new time.
 *
 * Functions that read may be called from interrupts; functions that change must not.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"

/** Skew is counted in 2^-24: 1 is 0.06 ppm. Two crystals 100 ppm off in opposite directions stay within this.
 */
#define NETWORK_TIME_SKEW_MAX 3400

/** A line is good for this many cycles (4 minutes) around its start: call network_time_tidy() more often. */
#define NETWORK_TIME_REACH (INT32_C(1) << 23)

/** How far apart two times are, by their difference. */
uint32_t network_time_size(int32_t difference);

/** Jump: at local time `local` it is `network`, with no skew and nothing to correct. */
void network_time_set(uint32_t local, uint32_t network);

/** Take a better estimate at local time `now`: `network` cycles and `part` / 65536, with `skew` from there
 * on. The shown clock goes on from its present value, a 64th faster or slower until it meets the estimate. If
 * it is more than `step` cycles behind, it jumps forward at once; if it is more than that ahead, it runs at
 * half speed. */
void network_time_steer(uint32_t now, uint32_t network, uint16_t part, int16_t skew, uint16_t step);

/* With a key only: */

/** Rounds are counted modulo one more than this. */
#if CAUSEWAY_MIC_BYTES
#define NETWORK_TIME_ROUND_MOST ((1U << CAUSEWAY_ROUND_BITS) - 1)
#else
#define NETWORK_TIME_ROUND_MOST 0U
#endif

/** How often the network's 32 bits of time had wrapped in its epoch when it read `network`, which is less
 * than half a round (18 hours) from now. */
uint8_t network_time_round(uint32_t network);

/** Set the round of the time that network_time_set() has just set; that sets round 0. */
void network_time_set_round(uint8_t round);

/** Move the line's start up to `now`, so that its numbers stay small. Changes no reading. */
void network_time_tidy(uint32_t now);

/** The shown network time at `local`. */
uint32_t network_time_shown(uint32_t local);

/** The best estimate of the network time at `local`. */
uint32_t network_time_estimate(uint32_t local);

/** The estimate less the shown time at `local`: the rest of the correction. */
int32_t network_time_left(uint32_t local);

/** The local time at which the shown clock reads `network`, to a cycle. */
uint32_t network_time_local(uint32_t network);

/** Whether memory has kept the line, and it is possible at local time `now`. Not while another function
 * changes it. */
bool network_time_sound(uint32_t now);
