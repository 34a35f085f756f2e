/** Two data messages of one length in one frame, with a schedule and where they fit: on a slow radio a
 * frame's preamble and header cost more than a short message. The receiver takes the frame apart; a host
 * never sees it.
 */
#pragma once

#include "hal/radio.h"

#define BUNDLES (CAUSEWAY_SCHEDULED && CAUSEWAY_BUNDLE_BYTES > 0)

static inline bool bundle_is(const radio_message_t *message)
{
    return BUNDLES && message->type == CAUSEWAY_AM_BUNDLE && message->length == CAUSEWAY_BUNDLE_BYTES;
}

/** What a receiver does with a message. */
typedef void bundle_take_t(const radio_heard_t *heard, uint32_t now);

/** Do it with each of the two messages of a bundle, as if each had a frame of its own. */
void bundle_open(const radio_heard_t *bundle, uint32_t now, bundle_take_t *take);
