/** Forwarding toward the gateway. Forwarding is not an event: only a message's hops change.
 *
 * A mote sends a message again, while there is time, until it hears it from nearer to the gateway, or the
 * gateway acknowledges it (net/suppression.h). A message that cannot make delta is dropped and counted, never
 * sent late. A message with too few hops left to get from here to the gateway is deferred to others, with a
 * schedule also one that finds no free place; if a copy comes that can be forwarded, it is forwarded.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "hal/radio.h"
#include "outbox.h"

/** Forward a data message of another mote, heard in `tick` for the first time, if possible. */
void forwarding_on_new(const radio_heard_t *heard, uint32_t tick, uint32_t now);

/** A copy of a message heard before: forward it if the first was deferred. */
void forwarding_on_copy(const radio_heard_t *heard, uint32_t tick, uint32_t now);

/** Forward health or a command with this byte changed. */
void forwarding_plain(const radio_message_t *message, uint8_t at, uint8_t changed, uint32_t now);

/** A data message went out. Put it back, if there is time, to go out again; return whether there was. */
bool forwarding_repeat(const outbox_frame_t *frame);

/** A frame did not go out. Whether it waits for its next turn, or a peer goes on with it; if not, it is
 * dropped. */
bool forwarding_waits(const outbox_frame_t *frame);
