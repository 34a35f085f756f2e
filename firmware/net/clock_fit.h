/** The line that time sync fits to the last few pairs (local, network) from beacons: offset, skew, and how
 * far off they may be by now.
 *
 * Not for interrupts. The line steers the clock of network_time.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Forget all pairs; the next one begins a line that runs as fast as the last one. */
void clock_fit_clear(void);

/** The next line's speed is not known. */
void clock_fit_forget_skew(void);

/** Take a pair. `hops` is its distance from the deployment's root, as far as known. */
void clock_fit_take(uint32_t local, uint32_t network, uint8_t hops);

/** Fit the line to the pairs and steer the clock to it. `error` is that of the newest pair, in cycles. False
 * when the clock is so far off that time must start afresh: it is not steered then. */
bool clock_fit_steer(uint8_t error, uint32_t now);

/** The line is the newest pair only, which is this far off, and its speed is not known. */
void clock_fit_begin(uint8_t error);

/** The newest pair becomes one of now, the only one: our own clock, off by `error`. */
void clock_fit_move_up(uint16_t error, uint32_t now);

/** The error at the newest pair, and by now, in cycles; 65535: that or more. */
uint16_t clock_fit_base_error(void);
uint16_t clock_fit_error(uint32_t now);

/** Cycles since the newest pair. */
uint32_t clock_fit_age(uint32_t now);

/** Whether the network's speed is known. */
bool clock_fit_knows_skew(void);

/** Most of the pairs came over no more hops than this. */
uint8_t clock_fit_hops(void);

/** Whether the pairs are possible: in the past, and near one another. */
bool clock_fit_sound(uint32_t now);
