/** Beacons that wait for their proof before time sync gets them.
 *
 * The radio writes the time into a beacon while the beacon goes out, so its MIC follows in a message of its
 * own, the proof. A beacon waits here until a right proof comes. A forged beacon, even with the same sender
 * and number, takes a place of its own, and is overwritten when it is the oldest. A question (a beacon
 * without hops) has no proof: it changes no state, and one a second is heard.
 *
 * Without a key time sync gets each beacon at once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"
#include "hal/radio.h"
#include "timesync.h"

/** How many may wait. */
#ifndef BEACONS_ROOM
#define BEACONS_ROOM 4
#endif

static inline bool beacons_is(const radio_message_t *message)
{
    return message->type == CAUSEWAY_AM_BEACON && message->length == CAUSEWAY_BEACON_BYTES;
}

#if CAUSEWAY_MIC_BYTES

static inline bool beacons_is_proof(const radio_message_t *message)
{
    return message->type == CAUSEWAY_AM_PROOF;
}

/** A beacon came in. */
void beacons_on_heard(const radio_heard_t *heard, uint32_t now);

/** A proof came in, of any length. False: it proves no beacon that waits. */
bool beacons_on_proof(const radio_message_t *message, uint32_t now);

#else

#define beacons_is_proof(message) false
#define beacons_on_proof(message, now) false

static inline void beacons_on_heard(const radio_heard_t *heard, uint32_t now)
{
    timesync_on_beacon(heard->message.data, heard->time, heard->error, now);
}

#endif
