/** The outbox: frames that wait for the radio, and the beacons of time sync. The one user of radio_send().
 *
 * A frame starts no earlier than its `not_before` and no later than its `deadline` (local times). The ready
 * frame with the earliest deadline goes first, a due beacon before all. A frame that cannot go in time is
 * dropped and reported.
 *
 * With a schedule (net/schedule.h) a mote's frames wait for their level's phase, and for our turn in it; a
 * stamped message that did not go out in its window is dropped at its end.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bundle.h"
#include "causeway/flag.h"
#include "hal/radio.h"
#include "schedule.h"

#ifndef OUTBOX_ROOM
#define OUTBOX_ROOM (CAUSEWAY_SCHEDULED ? OUTBOX_SCHEDULED_ROOM : 6)
#endif
/* At a mote the messages of a period wait for its window, at a gateway only commands. */
#ifndef OUTBOX_SCHEDULED_ROOM
#define OUTBOX_SCHEDULED_ROOM (BUNDLES ? 14 : 16)
#endif

typedef enum {
    OUTBOX_OWN,     /* an own data message: stamped when it is handed to the radio */
    OUTBOX_STAMPED, /* a data message with its stamp: another mote's, or ours that goes out again */
    OUTBOX_PLAIN,   /* anything else */
    OUTBOX_KEPT,    /* an own data message that went out, until we know whether it arrived: net/repair.h */
} outbox_kind_t;

typedef enum {
    OUTBOX_SENT,
    OUTBOX_LATE,   /* its deadline came before a clear channel */
    OUTBOX_FAILED, /* the radio misbehaved */
} outbox_result_t;

/* A bit of a frame's tries: it went out before as another message. */
#ifdef CAUSEWAY_REPAIR_BITS
#define OUTBOX_AGAIN 0x80U
#else
#define OUTBOX_AGAIN 0U
#endif

#define OUTBOX_ROUND_MOST 63U /* more than the rounds of any window */

typedef struct {
    radio_message_t message;
    uint32_t not_before;
    uint32_t deadline;
    uint8_t kind;
    uint8_t tries; /* the user's: how often it went out before */
    /* with a schedule only: */
    uint8_t first_round : 6; /* of the window: the frame does not go out before */
    uint8_t behind : 1;      /* a peer at our distance sent it first: we send it if we hear it again */
    uint8_t urgent : 1;      /* an own message, until stamped: for the next window of either kind */
    cw_flag_t used;
} outbox_frame_t;

/** A free place, or NULL when all are taken. Fill in all members but `used`, then call outbox_put(); until
 * then the place counts as free. */
outbox_frame_t *outbox_place(void);
void outbox_put(outbox_frame_t *frame);

/** The same, with the head of a message of ours to all. Only the data are left to fill in. */
outbox_frame_t *outbox_new(outbox_kind_t kind, uint8_t type, uint8_t length, uint32_t not_before,
                           uint32_t deadline);

/** The frame that waits at a place from 0 to OUTBOX_ROOM - 1, or from OUTBOX_ROOM to OUTBOX_LAST a frame at
 * the radio; NULL when that place is empty. */
#define OUTBOX_LAST (OUTBOX_ROOM + (BUNDLES ? 1 : 0))
outbox_frame_t *outbox_frame(uint8_t place);

/** Forget all frames of a kind. */
void outbox_forget(outbox_kind_t kind);

/** Hand the next frame over, if the radio is free and one is ready. Call it whenever something has happened.
 */
void outbox_service(uint32_t now);

/** The local time by which outbox_service() must be called again, if nothing happens before. */
uint32_t outbox_next(uint32_t now);

/** Whether memory has kept possible times: no frame, here or in the radio, waits longer than any
 * frame may. */
bool outbox_sound(uint32_t now);

/* What the user of this module defines. */

/** A frame is about to be handed to the radio: the last moment to change it and its deadline. Return false to
 * drop it without a report. */
bool outbox_before_send(outbox_frame_t *frame, uint32_t now);

/** A frame was sent or dropped; `frame` is as it was handed over. */
void outbox_on_done(const outbox_frame_t *frame, outbox_result_t result);
