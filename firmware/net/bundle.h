/** Two data messages of one length in one frame, where a schedule is kept and they fit: a frame's preamble
 * and header cost a slow radio more than a short message. Who hears one takes it apart; a host never sees it.
 */
#ifndef NET_BUNDLE_H
#define NET_BUNDLE_H

#include <string.h>

#include "hal/radio.h"

#define BUNDLES (CAUSEWAY_SCHEDULED && CAUSEWAY_BUNDLE_BYTES > 0)

#if BUNDLES

static inline bool bundle_is(const radio_message_t *message)
{
    return message->type == CAUSEWAY_AM_BUNDLE && message->length == CAUSEWAY_BUNDLE_BYTES;
}

/** Message number 0 or 1 of a bundle, as if it had come alone. */
static inline void bundle_part(const radio_heard_t *bundle, uint8_t number, radio_heard_t *part)
{
    *part = *bundle;
    part->message.type = CAUSEWAY_AM_DATA;
    part->message.length = CAUSEWAY_PAYLOAD_BYTES;
    memcpy(part->message.data, bundle->message.data + number * CAUSEWAY_PAYLOAD_BYTES,
           CAUSEWAY_PAYLOAD_BYTES);
}

#endif
#endif
