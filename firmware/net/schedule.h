/** When a mote listens, and when it may send: windows, phases and turns (docs/reference/power.md, How the
 * schedule works).
 *
 * A window opens whenever the network's time is a multiple of 2^CAUSEWAY_PERIOD_LOG2. It begins with a beacon
 * slot for each hop. Then come rounds of phases, one for each level (hops from the gateway), the farthest
 * first: only motes of that level send in it, each at its own turn. The first round is for new messages, the
 * others for those that were not acknowledged. A mote wakes for the phases in which it may hear a frame for
 * it, and sleeps when a phase is quiet. No frame goes out after the last phase.
 *
 * With SCHEDULE_URGENT urgent windows open between the others, whenever the network's time is a multiple of
 * 2^CAUSEWAY_URGENT_LOG2. They have no beacons, and only urgent messages go out in them, by the same phases
 * and rounds. A mote without one listens for a moment whether the level behind it has one, and sleeps.
 *
 * A mote without the time listens, for a bounded share of its life. A gateway is always awake.
 *
 * Only deployments with a schedule have this module: `if (CAUSEWAY_SCHEDULED)` goes before a call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"

/** Cycles that the loop may take from its alarm to our step. The clock wakes the processor before that. */
#ifndef SCHEDULE_START_TIME
#define SCHEDULE_START_TIME 20
#endif

#if !CAUSEWAY_SCHEDULED /* so that code compiles which the compiler then leaves out */
#define CAUSEWAY_PERIOD_LOG2 0
#define CAUSEWAY_ROUNDS 3
#define CAUSEWAY_OWN_MOST 1
#define CAUSEWAY_BEACON_SLOT 0
#define CAUSEWAY_BEACON_EVERY 1
#define CAUSEWAY_HEALTH_TAIL_AT 0
#define CAUSEWAY_AGE_AT 0
#define CAUSEWAY_AGE_SHIFT 0
#define CAUSEWAY_AGE_AGAIN 1
#define CAUSEWAY_AGE_AGAIN_SHIFT 0
#endif

#ifdef CAUSEWAY_URGENT_LOG2
#define SCHEDULE_URGENT 1
#else
#define SCHEDULE_URGENT 0
#define CAUSEWAY_URGENT_LOG2 0
#define CAUSEWAY_URGENT_ROUNDS 0
#define CAUSEWAY_URGENT_END 0
#define CAUSEWAY_URGENT_QUIET 0
#define CAUSEWAY_ALL_MOST CAUSEWAY_OWN_MOST
#endif

/** No phase of our level is now. */
#define SCHEDULE_NO_ROUND ((uint8_t)0xFF)

/** Start awake. Time sync has been started, and the radio is on. */
void schedule_start(uint32_t now);

/** Open or close the receiver, as the time demands. Call it in each step, after the radio's turn. */
void schedule_step(uint32_t now);

/** The local time by which schedule_step() and the outbox must be called, if nothing happens before. */
uint32_t schedule_next(uint32_t now);

/** Whether the receiver is on. */
bool schedule_awake(void);

/** The share of time with the receiver on in the last windows, as in a health message; 0: not known. */
uint8_t schedule_duty(void);

/** A frame came in that ended then: the phase goes on. */
void schedule_on_frame(uint32_t end);

/** The gateway has sent an answer: its neighbours were quiet, or their phase begins. */
void schedule_on_answer(uint32_t now);

/** Whether a gateway may answer now: its neighbours listen. */
bool schedule_answers(void);

/** A frame of ours went out: we may go on at once, as long as we do. */
void schedule_on_sent(uint32_t now);

/** The round of this moment, and whether it is our level's phase (else SCHEDULE_NO_ROUND in
 * schedule_our_round()). */
uint8_t schedule_round(void);
uint8_t schedule_our_round(void);

/** Whether the window is an urgent one. */
#define schedule_urgent() (SCHEDULE_URGENT && schedule_is_urgent())
bool schedule_is_urgent(void);

/** The number of the window that is open, or opens next, modulo 256; of an urgent one, that of the window
 * before it. */
uint8_t schedule_window(void);

/** Whether commands may be forwarded now: it is our hop's beacon slot, and our beacon is out. */
bool schedule_for_commands(uint32_t now);

/** Whether our turn is near enough to hand a frame to the radio, which looks at the channel at `when`.
 */
bool schedule_turn(uint32_t now, uint32_t *when);

/** The local time at which to ask that again, later than `time`. */
uint32_t schedule_turn_after(uint32_t time);

/** The local time of this window's end: no frame starts later than that less its time on the air. */
uint32_t schedule_end(uint32_t now);

/** The local time at which the next window with a beacon opens, later than `now`. */
uint32_t schedule_opening(uint32_t now);

/** Whether a mote this many hops away forwards the beacon that it has just taken; `when`: at this local
 * time. */
bool schedule_passes_on(uint8_t hops, uint32_t now, uint32_t *when);

/** The local time of our turn behind a beacon that has just begun. */
uint32_t schedule_behind_beacon(void);

/** Whether a window with a beacon has just opened, and we missed the beacons of `missed` windows: we may
 * succeed the root. */
bool schedule_may_succeed(uint32_t now, uint8_t missed);

/** Cycles by which a successor's beacons come later than the root's would: of several successors the lowest
 * id sends first, and the others hear it. */
uint16_t schedule_successor_turn(void);

/** Whether memory has kept a possible state. */
bool schedule_sound(uint32_t now);

/* What the user of this module defines. */

/** Whether a frame may go out in our phase of this round; or, with SCHEDULE_NO_ROUND, at all in this
 * window. */
bool schedule_on_due(uint8_t round);

/** Whether the radio has a frame of ours. */
bool schedule_on_sending(void);
