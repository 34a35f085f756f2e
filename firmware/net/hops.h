/** How far the gateway is, and the hops left in a message's flags.
 *
 * Where the gateway is the time root, a mote knows its distance from it: own messages get no more hops than
 * that takes, and a message without enough hops to get there is not forwarded. The hops left in a copy show
 * how far from the gateway it was sent.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Whether we know our distance: it is timesync_hops(). */
bool hops_known(uint32_t now);

/** Hops that a message of ours needs after its first: more than the deployment's, if the network is deeper
 * and stamps show whether there is time. */
uint8_t hops_own(uint32_t now);

/** Count the hops down in the flags of a message to be forwarded; false: it cannot get to the gateway. Where
 * we know our distance, our copy carries it. */
bool hops_take(uint8_t *flags, uint32_t now);

/** Give a message one hop more: a distance is a guess, and no nearer mote may hear us, so peers at our
 * distance shall help. */
void hops_widen(uint8_t *flags);
