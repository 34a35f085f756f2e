/** Time sync: keeps the clocks of a network within epsilon ticks of one another (G1), on crystals up to 100
 * ppm off.
 *
 * The root (CAUSEWAY_ROOT) sends beacons; the radio writes the network's time into each as its start-of-frame
 * delimiter goes out, and the receiver's radio notes its own local time at the same moment. Each mote passes
 * each beacon number on once, with its own estimate. From the last few pairs (local, network) a mote fits a
 * line: offset and skew. A pair farther off the line than its error allows is refused; several such pairs in
 * a row mean that the line is wrong, and a new one is begun.
 *
 * A node without the time asks for it by a beacon that says "not in sync, no hops known", which nodes with
 * the time answer. So a mote is in sync soon after its start, and a root that restarts goes on with the
 * network's time. If no node answers, the root opens a new epoch. A node that hears a newer epoch leaves the
 * older one: its time jumps, and timesync_on_epoch() is called.
 *
 * The root may die. A mote in sync that has heard no beacon for 3.5 to 4.5 periods, depending on its id, goes
 * on as its successor: with the time and epoch that it has, and newer beacon numbers; a beacon names its
 * driver, the root or a successor. Motes follow the newest number, whichever the driver. Of several drivers
 * the root wins, then the lowest id: it outbids the others' numbers, and they step down. Only the root opens
 * an epoch.
 *
 * While no beacon comes, the clock goes on with the known skew, and its assumed error grows. Beyond half of
 * epsilon the mote is out of sync, and its messages say so. The same holds for a successor that no mote
 * follows.
 *
 * Only timesync_network(), timesync_stamp() and timesync_local() may be called from an interrupt.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"
#include "hal/clock.h"
#include "schedule.h"

/** Cycles between the root's beacons; the first few come at TIMESYNC_QUICK. */
#ifndef TIMESYNC_PERIOD
#define TIMESYNC_PERIOD                                                                 \
    (CAUSEWAY_SCHEDULED ? (UINT32_C(1) << CAUSEWAY_PERIOD_LOG2) * CAUSEWAY_BEACON_EVERY \
                        : CAUSEWAY_BEACON_SECONDS * CLOCK_SECOND)
#endif
#ifndef TIMESYNC_QUICK
#define TIMESYNC_QUICK (2 * CLOCK_SECOND)
#endif

/** How far off a single pair may be, in cycles: the radio's timing noise, and rounding. */
#ifndef TIMESYNC_NOISE
#define TIMESYNC_NOISE CAUSEWAY_TIMING_NOISE
#endif

/** The most hops from the root at which a mote follows its time. */
#define TIMESYNC_MAX_HOPS (2 * CAUSEWAY_HOPS + 1)

/** Largest error, in cycles, of a clock in sync. Two clocks, each this far off, are epsilon ticks apart. */
#if (CAUSEWAY_EPSILON << CAUSEWAY_TICK_LOG2) / 2 < 30000
#define TIMESYNC_LIMIT ((CAUSEWAY_EPSILON << CAUSEWAY_TICK_LOG2) / 2)
#else
#define TIMESYNC_LIMIT 30000 /* nearly a second: no deployment needs worse */
#endif

#define TIMESYNC_NO_HOPS 0xFF

/** Counters since start; they wrap. */
typedef struct {
    uint16_t accepted; /* beacons that the line was fitted to */
    uint16_t repeated; /* beacons of a number already taken */
    uint16_t outliers; /* beacons refused: too far off the line */
    uint16_t restarts; /* new lines begun after outliers */
    /* beacons refused: neither the root's nor a mote's, too many hops, the sender not in sync, or no time of
     * reception */
    uint16_t foreign;
    uint16_t old;       /* beacons refused: of an older epoch */
    uint16_t conflicts; /* root only: signs of another root with our id; 65535: or more */
} timesync_counters_t;

/** Start, after identity_start(). A root that must open a new epoch counts on from `epoch`, the last one it
 * knew. With a key it takes up no time before `round` of it. */
void timesync_start(uint8_t epoch, uint8_t round, uint32_t now);

/** The network's time at a local time not more than a few minutes from now; it never runs backwards within an
 * epoch. */
uint32_t timesync_network(uint32_t local);

/** The local time at which the network's clock reads `network`, to a cycle; for times near now. */
uint32_t timesync_local(uint32_t network);

/** The best estimate of the network's time at a local time: what beacons carry. Unlike the clock it may be
 * corrected backwards. */
uint32_t timesync_stamp(uint32_t local);

/** Whether the clock is good enough to stamp with. */
bool timesync_in_sync(uint32_t now);

/** Estimate of the clock's error in cycles, 65535: that or more. */
uint16_t timesync_error(uint32_t now);

/** The usual hops from the root: most of its last few beacons came over no more. A beacon that came farther
 * by luck does not count: a node at this distance is heard reliably. While a successor drives, the hops known
 * before. 0 at the root, TIMESYNC_NO_HOPS when not known. */
uint8_t timesync_hops(void);

/** The hops that the last beacon taken came over. */
uint8_t timesync_last_hops(void);

/** The epoch of the network's time; meaningless before a time is known. */
uint8_t timesync_epoch(void);

/* With a key only: */

/** The round of the network's time at which it read `network`, less than 18 hours from now. */
uint8_t timesync_round(uint32_t network);

/** Of a time in this epoch, with these flags of a beacon: above 0 if it is later than ours by half a round or
 * more, or of a later epoch; below 0 if earlier; 0 if it is near ours. */
int8_t timesync_later(uint8_t epoch, uint8_t flags, uint32_t time);

/** True once a network time is known, in sync or not. */
bool timesync_known(void);

/** This node is the root, and its time is set. */
bool timesync_is_root(void);

/** Whose beacons this node takes: the root's, or a successor's. Its own id: it drives the network's time. */
uint16_t timesync_driver(void);

/** This node is the root, and has heard another root since it started. */
bool timesync_two_roots(void);

/** A beacon came in (its CAUSEWAY_BEACON_BYTES payload), its start-of-frame delimiter at local time `heard`,
 * which may be off by `unsure` cycles (radio_heard_t's error). They are added to the sender's error; with
 * RADIO_UNTIMED the beacon gives no time. */
void timesync_on_beacon(const uint8_t *payload, uint32_t heard, uint8_t unsure, uint32_t now);

/** To be called at timesync_next(). True: a beacon is due; the caller sends it soon. */
bool timesync_due(uint32_t now);

/** The local time at which timesync_due() must be called. */
uint32_t timesync_next(void);

/** Write the due beacon just before it is handed to the radio, which fills in the time; it is then no longer
 * due. */
void timesync_fill(uint8_t *payload, uint32_t now);

/* With a schedule only: */

/** The local time at which the last beacon taken was heard; meaningless before a time is known. */
uint32_t timesync_taken(uint32_t now);

/** Whether a beacon or an answer is to go out by this local time. A question does not count. */
bool timesync_speaks(uint32_t by);

/** A starting root has heard a node: nodes that are awake now may know the time, and are asked. */
void timesync_ask_now(uint32_t now);

const timesync_counters_t *timesync_counters(void);

/** Whether the state is possible: it fits this node's role, its next times are near enough, and its line's
 * pairs are in the past. Beacons correct what this cannot find. */
bool timesync_sound(uint32_t now);

/* What the user of this module defines. */

/** A new epoch has begun: all older stamps are void. */
void timesync_on_epoch(uint8_t epoch);

/** With a key: this node is the root, and its time may be in another round, which is to be stored. */
void timesync_on_round(uint8_t round);
