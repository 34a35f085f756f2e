/** The messaging of a mote: it sends, and hands each frame heard to the module that handles it.
 *
 *   stamping   own events: ticks, stamps, receipts
 *   deadlines  until when a message may go out; hops: how far the gateway is
 *   admission  which messages are new, and which are believed
 *   forwarding forwarding, and sending again
 *   suppression not sending messages that others have forwarded
 *   health     what a mote reports of itself
 *   commands   what the host orders
 *   traffic    the counters of all of them
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "hal/radio.h"
#include "outbox.h"

/** Start. Time sync must have been started. */
void messaging_start(void);

/** Send the application's CAUSEWAY_DATA_BYTES bytes towards the gateway; peers that hear them receive them,
 * too. The message is stamped when the radio is free, an urgent one in the next window of either kind. Return
 * false, and count it, when no place is free. */
bool messaging_send(const uint8_t *application, bool urgent);

/** To be called from radio_on_heard(), timesync_on_epoch(), outbox_before_send() and outbox_on_done(). */
void messaging_on_heard(const radio_heard_t *heard);
void messaging_on_epoch(uint8_t epoch);
bool messaging_before_send(outbox_frame_t *frame, uint32_t now);
void messaging_on_done(const outbox_frame_t *frame, outbox_result_t result);

/* What the user of this module defines; and commands_on_command(). */

/** A peer's message came in, for the first time, at this tick. It has been merged, if its sender is in sync,
 * and forwarded. */
void messaging_on_data(const radio_message_t *message, uint32_t tick);

/** An own message went out, with this sequence; or it was dropped. */
void messaging_on_sent(bool sent, uint8_t sequence);
