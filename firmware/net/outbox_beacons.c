/* Beacons on their way out. With a key each beacon is followed by its proof, before anything else; a question
 * has none. With a schedule a beacon or proof that found no clear channel is tried once more.
 */
#include <string.h>

#include "causeway/bytes.h"
#include "deadlines.h"
#include "hal/clock.h"
#include "mic.h"
#include "outbox_parts.h"
#include "timesync.h"

static bool transmit(uint32_t now, uint8_t stamp_at)
{
    outbox_going.used = false;
    outbox_going.tries = 0;
    outbox_going.deadline = now + DEADLINES_BEACON;
    return CAUSEWAY_SCHEDULED ? radio_send_at(&outbox_going.message, now, stamp_at) /* it is our turn */
                              : radio_send(&outbox_going.message, outbox_going.deadline, stamp_at);
}

bool outbox_send_beacon(uint32_t now)
{
    outbox_address(&outbox_going.message, CAUSEWAY_AM_BEACON, CAUSEWAY_BEACON_BYTES);
    timesync_fill(outbox_going.message.data, now);
    return transmit(now, CAUSEWAY_BEACON_TIME_AT);
}

/* A beacon: behind the one that had the channel, still in the order of ids. */
static bool try_again(void)
{
    outbox_going.tries = 1;
    return outbox_going.message.type == CAUSEWAY_AM_BEACON
               ? radio_send_at(&outbox_going.message, schedule_behind_beacon(), CAUSEWAY_BEACON_TIME_AT)
               : radio_send(&outbox_going.message, outbox_going.deadline, RADIO_NO_STAMP);
}

#if CAUSEWAY_MIC_BYTES

static uint32_t beacon_time; /* the time in the last beacon that went out */

static bool send_proof(void)
{
    uint8_t *beacon = outbox_going.message.data, proof[MIC_RECORD_BYTES(PROOF)];
    if (outbox_going.message.type != CAUSEWAY_AM_BEACON ||
        beacon[CAUSEWAY_BEACON_HOPS_AT] == TIMESYNC_NO_HOPS)
        return false;
    cw_put32(beacon + CAUSEWAY_BEACON_TIME_AT, beacon_time);
    mic_write_proof(proof, beacon);
    outbox_address(&outbox_going.message, CAUSEWAY_AM_PROOF, sizeof proof);
    memcpy(beacon, proof, sizeof proof);
    return transmit(clock_now(), RADIO_NO_STAMP);
}

uint32_t radio_stamp(uint32_t local)
{
    return beacon_time = timesync_stamp(local);
}

#else

static bool send_proof(void)
{
    return false;
}

uint32_t radio_stamp(uint32_t local)
{
    return timesync_stamp(local);
}

#endif

bool outbox_beacon_ended(radio_result_t result)
{
    if (CAUSEWAY_SCHEDULED && result == RADIO_BUSY && outbox_going.tries == 0)
        return try_again();
    return result == RADIO_SENT && send_proof();
}
