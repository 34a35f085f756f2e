/** The network's time as a line over local time, and the clock that is shown.
 *
 * The *estimate* is the best knowledge: network = start + elapsed * (1 + skew). A better estimate may be less
 * than the one before. The *shown* clock is what events are stamped with: it is the estimate plus what is
 * left of a correction, which is worked off slowly. It never runs backwards, except when netclock_set()
 * starts time anew.
 *
 * The functions that read may be called from interrupts; those that change must not be.
 */
#ifndef NET_NETCLOCK_H
#define NET_NETCLOCK_H

#include <stdbool.h>
#include <stdint.h>

/** Skew is counted in 2^-24: 1 is 0.06 ppm. Two crystals 100 ppm off in opposite directions stay within this.
 */
#define NETCLOCK_SKEW_MAX 3400

/** A line is good for so many cycles (4 minutes) around its start: netclock_tidy() must come more often. */
#define NETCLOCK_REACH (INT32_C(1) << 23)

/** Jump: at `local` it is `network`, no skew known, nothing to correct. */
void netclock_set(uint32_t local, uint32_t network);

/** Take a better estimate at local time `now`: `network` cycles and `part` / 65536, gaining `skew` from there
 * on. The shown clock goes on from where it is, and is a 64th faster or slower until it meets the estimate;
 * if it is more than `step` cycles behind it jumps forward at once, if it is more than that ahead it runs at
 * half its speed. */
void netclock_steer(uint32_t now, uint32_t network, uint16_t part, int16_t skew, uint16_t step);

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

/** Memory has kept the line, and it is one that can be at local time `now`. Between calls of the functions
 * that change it. */
bool netclock_sound(uint32_t now);

#endif
