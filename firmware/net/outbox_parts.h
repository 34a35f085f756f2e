/** What the files of the outbox share: outbox.c keeps the frames and serves the radio, outbox_beacons.c sends
 * time sync's beacons, outbox_scheduled.c decides which frame may go out when, in deployments with a
 * schedule.
 */
#pragma once

#include "outbox.h"

extern outbox_frame_t outbox_frames[OUTBOX_ROOM];
extern outbox_frame_t outbox_going;  /* the frame at the radio; not `used`: a beacon or its proof */
extern outbox_frame_t outbox_second; /* if `used`, in one frame with it: a bundle */
extern cw_flag_t outbox_busy;        /* the radio has one */

#define OUTBOX_END (outbox_frames + OUTBOX_ROOM)

/** Fill in the head of a message of ours to all. */
void outbox_address(radio_message_t *message, uint8_t type, uint8_t length);

/** The frame with the earliest deadline that may go out now; NULL if none may. */
outbox_frame_t *outbox_most_urgent(uint32_t now);

/** Make the last changes to a frame; false: it does not go out. */
bool outbox_prepare(outbox_frame_t *frame, uint32_t now);

/* ---- outbox_beacons.c ---- */

/** Hand the due beacon to the radio. Return whether the radio took it. */
bool outbox_send_beacon(uint32_t now);

/** A beacon or its proof ended so. Return whether the radio has the next one. */
bool outbox_beacon_ended(radio_result_t result);

/* ---- outbox_scheduled.c: `if (CAUSEWAY_SCHEDULED)` goes before a call ---- */

/** Step the schedule, and drop frames whose window is over. */
void outbox_follow_schedule(uint32_t now);

/** Our phase may have begun: note its round; with a key, stamp and seal own messages for it. */
void outbox_begin_phase(uint32_t now);

/** Count an own message of this window. */
void outbox_count_own(void);

/** Whether a frame may go out in our phase, as far as the schedule decides. */
bool outbox_may_go(const outbox_frame_t *frame, uint32_t now);

/** Whether its turn is near enough to hand it to the radio. */
bool outbox_is_turn(const outbox_frame_t *frame, uint32_t now);

/** Take a second message for the frame that goes out now, where two fit into one. */
void outbox_take_second(uint32_t now);

/** Hand the frame to the radio, to start at its turn. Return whether the radio took it. */
bool outbox_transmit_at_turn(void);

/** The local time at which a frame may go out next. */
uint32_t outbox_next_turn(const outbox_frame_t *frame, uint32_t now);
