/** Beacons that wait for their proof, before time sync hears of them.
 *
 * The radio writes the time into a beacon while it goes out, so its MIC follows it, in a proof. A beacon
 * waits here until that came and is right. A stranger's beacon in the name of another, even with the same
 * number, takes a place of its own, and goes when it is the oldest. A question (it knows no hops) has no
 * proof: it moves nothing, and one a second is heard.
 *
 * Without a key there is nothing here: time sync gets each beacon at once.
 */
#ifndef NET_BEACONS_H
#define NET_BEACONS_H

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"
#include "hal/radio.h"
#include "timesync.h"

#if CAUSEWAY_MIC_BYTES

/** How many may wait. */
#ifndef BEACONS_ROOM
#define BEACONS_ROOM 4
#endif

/** A beacon of the right length came in. */
void beacons_on_heard(const radio_heard_t *heard, uint32_t now);

/** A proof came in, of any length. False: it proves none that waits. */
bool beacons_on_proof(const radio_message_t *message, uint32_t now);

#endif

#endif
