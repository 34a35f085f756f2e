/** Repair: a message that the gateway has not heard goes out again, as a new message, in the next window.
 *
 * The root's beacon ends with a list: CAUSEWAY_REPAIR_BITS bits for each mote, of which bit n is set if the
 * gateway has heard the message whose sequence is n modulo that, since the window of its beacon before. A
 * mote sends no more messages than that between two beacons. Motes forward the list unchanged; with a key the
 * beacon's proof covers it.
 *
 * An own message that will not go out any more stays in the outbox (OUTBOX_KEPT) until the next window with a
 * beacon. Then it is removed, or becomes an own message without a stamp again: once, and after new messages.
 * Its place may be taken when the outbox is full.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"
#include "outbox.h"

#ifdef CAUSEWAY_REPAIR_BITS
#define REPAIR 1
#else
#define REPAIR 0
#endif

/** A gateway has handed a data message up. */
void repair_on_arrival(const radio_message_t *message);

/** Put the list into a beacon that we send at local time `now`. The root's list starts empty after its beacon
 * in a window.
 */
void repair_fill(uint8_t *beacon, uint32_t now);

/** We follow a beacon of the root: messages of ours that its list lacks go out again. */
void repair_on_beacon(const uint8_t *beacon, uint32_t now);

/** A data message will not go out any more as it is. Keep a copy, if it is ours and may have to go out
 * again. */
void repair_keep(const outbox_frame_t *frame);

static inline bool repair_is_kept(const outbox_frame_t *frame)
{
    return REPAIR && frame->kind == OUTBOX_KEPT;
}

/** Whether its place may be taken: it went out once already. */
static inline bool repair_gives_way(const outbox_frame_t *frame)
{
    return repair_is_kept(frame) || (REPAIR && frame->kind == OUTBOX_OWN && (frame->tries & OUTBOX_AGAIN));
}
