/** Passing on toward the gateway. It is no event: only a message's hops change.
 *
 * Who has sent a message sends it again, while there is time, until it is heard from nearer to the gateway,
 * or the gateway says that it arrived (net/suppression.h). A message that cannot make delta is dropped and
 * counted, never sent late. One that has not enough hops to get to the gateway from here is left to others;
 * with a schedule also one for which there is no room. If a copy of it comes that can be passed on, it is.
 */
#ifndef NET_FORWARDING_H
#define NET_FORWARDING_H

#include <stdbool.h>
#include <stdint.h>

#include "hal/radio.h"
#include "outbox.h"

/** A data message of another mote, heard in `tick` for the first time: pass it on, if we can. */
void forwarding_on_new(const radio_heard_t *heard, uint32_t tick, uint32_t now);

/** A copy of one that we have heard before. */
void forwarding_on_copy(const radio_heard_t *heard, uint32_t tick, uint32_t now);

/** Pass health or a command on with this byte changed. */
void forwarding_plain(const radio_message_t *message, uint8_t at, uint8_t changed, uint32_t now);

/** A data message went out: put it back, if there is time, to go out again. Whether there is. */
bool forwarding_repeat(const outbox_frame_t *frame);

/** A frame did not go out. Whether it waits for its next turn, or somebody else answers for it; if not, it is
 * dropped. */
bool forwarding_waits(const outbox_frame_t *frame);

#endif
