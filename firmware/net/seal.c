#include "seal.h"

#if CAUSEWAY_MIC_BYTES

#include <string.h>

#include "causeway/cmac.h"
#include "causeway/data.h"
#include "causeway/flash.h"
#include "causeway/records.h"
#include "causeway/ticks.h"
#include "causeway_key.h"
#include "timesync.h"

#define HEADER CW_AES_BYTES
#define MIC CAUSEWAY_MIC_BYTES
#define HOPS_CLEARED ((uint8_t)((1U << CAUSEWAY_FLAG_HOPS) - 1)) /* of a flags byte */
#define TIME_MASK (UINT32_MAX >> CAUSEWAY_MIC_TIME_SHIFT)

static const uint8_t KEY[CW_AES_BYTES] CW_IN_FLASH = {CAUSEWAY_KEY};
static cw_cmac_t cmac;
static uint8_t kept; /* the sum of its subkey */

/* What a MIC covers, in one piece. */
typedef struct {
    uint8_t bytes[HEADER + CAUSEWAY_PAYLOAD_LIMIT];
    uint8_t length;
} covered_t;

static uint8_t subkey_sum(void)
{
    uint8_t sum = 0;
    for (uint8_t i = 0; i < CW_AES_BYTES; i++) {
        sum = (uint8_t)(sum + cmac.subkey[i]);
    }
    return sum;
}

void seal_start(void)
{
    cw_cmac_start(&cmac, KEY);
    kept = subkey_sum();
}

bool seal_sound(void)
{
    return cmac.key == KEY && kept == subkey_sum();
}

static void put32_le(uint8_t *at, uint32_t value)
{
    cw_put16_le(at, (uint16_t)value);
    cw_put16_le(at + 2, (uint16_t)(value >> 16));
}

/* In its 6 places it would take two hundred bytes more. */
static __attribute__((noinline)) void cover(covered_t *covered, uint8_t type, uint8_t epoch, uint32_t time,
                                            uint16_t node, const uint8_t *payload, uint8_t length)
{
    uint8_t *header = covered->bytes;
    header[0] = type;
    header[1] = epoch;
    put32_le(header + 2, CAUSEWAY_LAYOUT_HASH);
    put32_le(header + 6, time);
    cw_put16_le(header + 10, node);
    memset(header + 12, 0, MIC);
    memcpy(header + HEADER, payload, length);
    covered->length = (uint8_t)(HEADER + length);
}

/* Whether this is its MIC; `made`, if any, is where to put it. Nobody learns from the time how much is right. */
static __attribute__((noinline)) bool judge(const covered_t *covered, const uint8_t *mic, uint8_t *made)
{
    uint8_t tag[CW_AES_BYTES];
    cw_cmac(&cmac, covered->bytes, covered->length, tag);
    uint8_t wrong = 0;
    for (uint8_t i = 0; i < MIC; i++) {
        wrong |= (uint8_t)(tag[i] ^ mic[i]);
    }
    if (made) {
        memcpy(made, tag, MIC);
    }
    return wrong == 0;
}

static void cover_data(covered_t *covered, const uint8_t *payload, uint8_t length, uint32_t time)
{
    bool in_sync = cw_data_in_sync(payload);
    cover(covered, CAUSEWAY_AM_DATA, in_sync ? timesync_epoch() : 0, in_sync ? time : 0,
          cw_data_source(payload), payload, (uint8_t)(length - MIC));
    covered->bytes[HEADER + CAUSEWAY_FLAGS_AT] &= HOPS_CLEARED;
}

static uint32_t time_of(const uint8_t *payload, uint32_t network)
{
#if CAUSEWAY_CLOCK_WIDTH
    return cw_stamp_clock(cw_data_stamp(payload), cw_tick(network)) & CW_TICK_MASK;
#else
    (void)payload;
    return network >> CAUSEWAY_MIC_TIME_SHIFT;
#endif
}

void seal_data(uint8_t *payload, uint8_t length, uint32_t network)
{
    covered_t covered;
    uint8_t *mic = payload + length - MIC;
    cover_data(&covered, payload, length, time_of(payload, network));
    judge(&covered, mic, mic);
}

bool seal_check_data(const uint8_t *payload, uint8_t length, uint32_t network)
{
    covered_t covered;
    const uint8_t *mic = seal_of_data(payload, length);
    uint32_t time = time_of(payload, network);
    cover_data(&covered, payload, length, time);
    bool right = judge(&covered, mic, 0);
#if !CAUSEWAY_CLOCK_WIDTH
    /* it may have been handed over in the period before ours, or after it */
    for (int8_t step = -1; !right && step <= 1 && cw_data_in_sync(payload); step = (int8_t)(step + 2)) {
        cover_data(&covered, payload, length, (time + (uint32_t)(int32_t)step) & TIME_MASK);
        right = judge(&covered, mic, 0);
    }
#endif
    return right;
}

/* The MIC stands in place of the layout's hash, and is left out. */
static void cover_health(covered_t *covered, const uint8_t *payload)
{
    cover(covered, CAUSEWAY_AM_HEALTH, payload[CAUSEWAY_HEALTH_EPOCH_AT], 0,
          cw_get16(payload + CAUSEWAY_HEALTH_SOURCE_AT), payload, CAUSEWAY_HEALTH_BYTES);
    uint8_t *copy = covered->bytes + HEADER;
    copy[CAUSEWAY_HEALTH_FLAGS_AT] &= HOPS_CLEARED;
    uint8_t *mic = copy + CAUSEWAY_HEALTH_MIC_AT;
    memmove(mic, mic + MIC, CAUSEWAY_HEALTH_BYTES - CAUSEWAY_HEALTH_MIC_AT - MIC);
    covered->length = (uint8_t)(covered->length - MIC);
}

void seal_health(uint8_t *payload)
{
    covered_t covered;
    uint8_t *mic = payload + CAUSEWAY_HEALTH_MIC_AT;
    cover_health(&covered, payload);
    judge(&covered, mic, mic);
}

bool seal_check_health(const uint8_t *payload)
{
    covered_t covered;
    cover_health(&covered, payload);
    return judge(&covered, payload + CAUSEWAY_HEALTH_MIC_AT, 0);
}

uint32_t seal_command_time(const uint8_t *payload, uint32_t network)
{
    uint16_t low = (uint16_t)(network >> CAUSEWAY_MIC_COMMAND_SHIFT);
    int16_t later = (int16_t)(cw_get16(payload + CAUSEWAY_DOWNLINK_SEQUENCE_AT) - low);
    uint32_t whole = (network >> CAUSEWAY_MIC_COMMAND_SHIFT) + (uint32_t)(int32_t)later;
    return whole << CAUSEWAY_MIC_COMMAND_SHIFT;
}

bool seal_check_command(const uint8_t *payload, uint32_t made)
{
    covered_t covered;
    cover(&covered, CAUSEWAY_AM_DOWNLINK, timesync_epoch(), made >> CAUSEWAY_MIC_COMMAND_SHIFT,
          cw_get16(payload + CAUSEWAY_DOWNLINK_TARGET_AT), payload, CAUSEWAY_DOWNLINK_BYTES);
    covered.bytes[HEADER + CAUSEWAY_DOWNLINK_HOPS_AT] = 0;
    return judge(&covered, payload + CAUSEWAY_DOWNLINK_MIC_AT, 0);
}

static void cover_arrived(covered_t *covered, const uint8_t *payload, const uint8_t *mic)
{
    cover(covered, CAUSEWAY_AM_ARRIVED, 0, cw_get16(payload + CAUSEWAY_ARRIVED_NUMBER_AT),
          cw_get16(payload + CAUSEWAY_ARRIVED_SOURCE_AT), payload, 0);
    memcpy(covered->bytes + 12, mic, MIC);
}

void seal_arrived(uint8_t *payload, const uint8_t *mic)
{
    covered_t covered;
    cover_arrived(&covered, payload, mic);
    judge(&covered, mic, payload + CAUSEWAY_ARRIVED_MIC_AT);
}

bool seal_check_arrived(const uint8_t *payload, const uint8_t *mic)
{
    covered_t covered;
    cover_arrived(&covered, payload, mic);
    return judge(&covered, payload + CAUSEWAY_ARRIVED_MIC_AT, 0);
}

static void cover_beacon(covered_t *covered, const uint8_t *beacon)
{
    cover(covered, CAUSEWAY_AM_BEACON, beacon[CAUSEWAY_BEACON_EPOCH_AT], 0,
          cw_get16(beacon + CAUSEWAY_BEACON_SENDER_AT), beacon, CAUSEWAY_BEACON_BYTES);
}

void seal_proof(uint8_t *proof, const uint8_t *beacon)
{
    covered_t covered;
    cover_beacon(&covered, beacon);
    memcpy(proof + CAUSEWAY_PROOF_SENDER_AT, beacon + CAUSEWAY_BEACON_SENDER_AT, 2);
    memcpy(proof + CAUSEWAY_PROOF_SEQUENCE_AT, beacon + CAUSEWAY_BEACON_SEQUENCE_AT, 2);
    judge(&covered, proof, proof + CAUSEWAY_PROOF_MIC_AT);
}

bool seal_check_proof(const uint8_t *proof, const uint8_t *beacon)
{
    covered_t covered;
    cover_beacon(&covered, beacon);
    return judge(&covered, proof + CAUSEWAY_PROOF_MIC_AT, 0);
}

#endif
