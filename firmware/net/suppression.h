/** Decides which data frames need not go out, or not again, since others have forwarded them.
 *
 * A mote that has sent a message is responsible for it until a mote nearer to the gateway sends it, or the
 * gateway acknowledges it. A mote that has not sent it yet leaves it to a peer at the same distance that sent
 * it first. Where our distance is not known, hops left say little: then only the gateway's acknowledgement
 * counts.
 *
 * In a network with a key a copy must have our frame's MIC, and need not be checked: only its hops are used,
 * which no MIC covers. An answer of the gateway is checked.
 */
#pragma once

#include "hal/radio.h"

/** Another node has sent this data message. */
void suppression_on_data(const radio_message_t *message);

/** The gateway has answered (net/gateway_acks.h): the messages that it names have arrived. */
void suppression_on_arrived(const radio_message_t *message);
void suppression_on_taken(const radio_message_t *message);
