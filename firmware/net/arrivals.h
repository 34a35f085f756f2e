/** A gateway's answer to data messages: a short frame that names a message, so that nobody sends it again.
 * With a schedule (and without a key) it names up to eight, and goes out when nobody has sent for a moment.
 */
#ifndef NET_ARRIVALS_H
#define NET_ARRIVALS_H

#include <stdint.h>

#include "causeway_layout.h"
#include "hal/radio.h"

/** The AM type of the answers. */
#if CAUSEWAY_SCHEDULED && !CAUSEWAY_MIC_BYTES
#define ARRIVALS_TYPE CAUSEWAY_AM_TAKEN
#else
#define ARRIVALS_TYPE CAUSEWAY_AM_ARRIVED
#endif

/** A message was handed up. If it is a data message of this network, say so on the air, at once. A copy that
 * comes while the answer to another waits needs none of its own. */
void arrivals_on_heard(const radio_message_t *message, uint32_t now);

#endif
