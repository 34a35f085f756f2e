#include "beacons.h"

#if CAUSEWAY_MIC_BYTES

#include <string.h>

#include "causeway/flag.h"
#include "causeway/records.h"
#include "hal/clock.h"
#include "mic.h"

#define PROOF_PATIENCE \
    (2 *               \
     CLOCK_SECOND) /* a beacon waits this long for its proof, which its sender tries to send for a second */
#define LONG_PAST (8 * CLOCK_SECOND) /* no clock of this epoch is further behind its root's */
#define BEHIND_MOST 2

typedef struct {
    uint8_t beacon[CAUSEWAY_BEACON_BYTES];
    uint32_t heard;
    uint8_t unsure;
    cw_flag_t used;
} place_t;

static place_t places[BEACONS_ROOM];
static uint8_t oldest;
static uint32_t last_question;
static uint8_t behind; /* beacons in a row that were behind */
static uint16_t last_behind;

static void hear_question(const radio_heard_t *heard, uint32_t now)
{
    if (now - last_question < CLOCK_SECOND)
        return;
    last_question = now;
    timesync_on_beacon(heard->message.data, heard->time, heard->error, now);
}

void beacons_on_heard(const radio_heard_t *heard, uint32_t now)
{
    const uint8_t *beacon = heard->message.data;
    if (beacon[CAUSEWAY_BEACON_HOPS_AT] == TIMESYNC_NO_HOPS) {
        hear_question(heard, now);
        return;
    }
    oldest = (uint8_t)(oldest % BEACONS_ROOM); /* after a fault in memory */
    place_t *place = &places[oldest];
    oldest = (uint8_t)((oldest + 1U) % BEACONS_ROOM);
    memcpy(place->beacon, beacon, CAUSEWAY_BEACON_BYTES);
    place->heard = heard->time;
    place->unsure = heard->error;
    place->used = true;
}

static bool is_meant(const place_t *place, const uint8_t *proof)
{
    return place->used &&
           cw_get16(place->beacon + CAUSEWAY_BEACON_SENDER_AT) ==
               cw_get16(proof + CAUSEWAY_PROOF_SENDER_AT) &&
           cw_get16(place->beacon + CAUSEWAY_BEACON_SEQUENCE_AT) ==
               cw_get16(proof + CAUSEWAY_PROOF_SEQUENCE_AT);
}

/* An attacker without the key can only delay or replay beacons, so those lag behind our clock. True beacons
 * lag, too: those of a mote with a faulty clock at its root, and all of the network's at a mote whose clock
 * is ahead by a fault, or in a half of the network that was cut off. So a beacon of our epoch that lags is
 * believed only after BEHIND_MOST others, each newer than the one before, lagged too, with no newer one in
 * between that did not. An older beacon that does not lag proves nothing: of two drivers, motes follow the
 * one with the newer numbers. A root would take a replayed beacon for that of a mote that needs help, so it
 * believes none that is long past. */
static bool is_behind(const place_t *place, uint32_t now)
{
    const uint8_t *beacon = place->beacon;
    if (!timesync_in_sync(now) || beacon[CAUSEWAY_BEACON_EPOCH_AT] != timesync_epoch())
        return false;
    int8_t later = timesync_later(beacon[CAUSEWAY_BEACON_EPOCH_AT], beacon[CAUSEWAY_BEACON_FLAGS_AT],
                                  cw_get32(beacon + CAUSEWAY_BEACON_TIME_AT));
    if (later != 0)
        return later < 0; /* only a node with the key makes a later one */
    int32_t late = (int32_t)(timesync_stamp(place->heard) - cw_get32(beacon + CAUSEWAY_BEACON_TIME_AT));
    uint32_t allowed = (uint32_t)timesync_error(now) + beacon[CAUSEWAY_BEACON_ERROR_AT] + place->unsure +
                       2 * TIMESYNC_NOISE;
    uint16_t sequence = cw_get16(beacon + CAUSEWAY_BEACON_SEQUENCE_AT);
    bool newer = (int16_t)(uint16_t)(sequence - last_behind) > 0;
    if (late <= (int32_t)allowed) {
        if (newer)
            behind = 0;
        return false;
    }
    if ((behind > 0 && !newer) || (timesync_is_root() && late > (int32_t)LONG_PAST))
        return true;
    last_behind = sequence;
    if (behind >= BEHIND_MOST)
        return false;
    behind++;
    return true;
}

/* The first beacon of its number: the others, copies or forged, are not needed. */
static void take_beacon(const place_t *place, const uint8_t *proof, uint32_t now)
{
    for (uint8_t i = 0; i < BEACONS_ROOM; i++)
        if (is_meant(&places[i], proof))
            places[i].used = false;
    if (!is_behind(place, now))
        timesync_on_beacon(place->beacon, place->heard, place->unsure, now);
}

bool beacons_on_proof(const radio_message_t *message, uint32_t now)
{
    if (message->length != MIC_RECORD_BYTES(PROOF))
        return false;
    for (uint8_t i = 0; i < BEACONS_ROOM; i++) { /* in the order in which they came */
        const place_t *place = &places[(uint8_t)(oldest + i) % BEACONS_ROOM];
        if (is_meant(place, message->data) && now - place->heard < PROOF_PATIENCE &&
            mic_check_proof(message->data, place->beacon)) {
            take_beacon(place, message->data, now);
            return true;
        }
    }
    return false;
}

#endif
