/** Keeping quiet: which of our data frames need not go out, or not again, as others have sent them on.
 *
 * Who has sent a message answers for it until somebody nearer to the gateway does, or the gateway says that
 * it arrived. A relay that has not sent it yet leaves it to one as near that was first. Where our distance is
 * not known, hops left say little: then only the gateway's word counts.
 *
 * In a network with a key a copy must have our frame's MIC, and need not be checked: only its hops are
 * believed, and they are in no MIC. An answer of the gateway is checked.
 */
#ifndef NET_SUPPRESSION_H
#define NET_SUPPRESSION_H

#include "hal/radio.h"

/** Somebody has sent this data message. */
void suppression_on_data(const radio_message_t *message);

/** The gateway has answered, as net/gateway_acks.h has it: what it names has arrived. */
void suppression_on_arrived(const radio_message_t *message);
void suppression_on_taken(const radio_message_t *message);

#endif
