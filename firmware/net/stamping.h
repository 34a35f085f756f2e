/** The events of a mote: its sends and what it receives, their ticks and stamps.
 *
 * A message is stamped when it is handed to the radio. Where CAUSEWAY_ONE_SEND_A_TICK is set, a second one in
 * a tick is handed over in the next tick. A message that cannot make delta is dropped and counted, never sent
 * late.
 *
 * The first copy of a peer's message, relayed or not, is one receive event, at the tick in which its frame
 * came in. The stamp of a sender that is out of sync is not merged.
 */
#pragma once

#include "causeway/knows.h"
#include "hal/radio.h"
#include "outbox.h"
#include "recorder.h"

/** Start, with the flight recorder. stamping_on_epoch() is to follow. */
void stamping_start(void);

/** A new epoch: stamps and receipts begin anew. */
void stamping_on_epoch(uint8_t epoch);

/** The sequence of our last message. */
uint8_t stamping_sequence(void);

/** Put an own message off if its tick has one already: then it is back in the outbox. */
bool stamping_puts_off(const outbox_frame_t *frame, uint32_t now);

/** Stamp an own message; false, and it is counted, if it cannot make delta. */
bool stamping_own(outbox_frame_t *frame, uint32_t now);

/** Receive a peer's message: merge its stamp, or count that it was not. */
void stamping_merge(const radio_heard_t *heard, uint32_t now);

/** Whether the sender of this message, which messaging_on_data() has just delivered, knew our last message of
 * this epoch; CW_KNOWS_NOT if we have sent none. */
cw_knows_t stamping_knows(const radio_message_t *message, uint32_t tick);

/** To be called now and then, even without events: clears what stamps keep of old messages. */
void stamping_tidy(uint32_t now);

/** How many stamps the bound had to cut since start. */
uint16_t stamping_bounds(void);

/** Note in the flight recorder what happened to a data message, at the tick of the last event. */
void stamping_note(recorder_kind_t kind, const uint8_t *payload);
