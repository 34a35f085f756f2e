/** A gateway's answer to data messages: a short frame that names a message, so that no mote sends it again.
 * With a schedule it names up to eight, and goes out when the channel has been quiet for a moment.
 */
#pragma once

#include <stdint.h>

#include "causeway/data.h"
#include "causeway_layout.h"
#include "hal/radio.h"
#include "mic.h"

/** The AM type of the answers. */
#define GATEWAY_ACKS_TYPE (CAUSEWAY_SCHEDULED ? CAUSEWAY_AM_TAKEN : CAUSEWAY_AM_ARRIVED)

/** A data message's name in a Taken: with a key two bytes of its MIC; without one, source and sequence, which
 * no other message of a window shares. */
static inline uint16_t gateway_acks_name(const radio_message_t *message)
{
    return MIC_BYTES ? cw_get16_le(mic_of(message))
                     : (uint16_t)(cw_data_source(message->data) << 8 | cw_data_sequence(message->data));
}

/** A message was handed up. If it is a data message of this network, acknowledge it on the air, at once. A
 * copy that comes while the first answer waits needs no answer of its own. */
void gateway_acks_on_heard(const radio_message_t *message, uint32_t now);
