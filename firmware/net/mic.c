#include "mic.h"

#if CAUSEWAY_MIC_BYTES

#include <string.h>

#include "causeway/cmac.h"
#include "causeway/data.h"
#include "causeway/flash.h"
#include "causeway/records.h"
#include "causeway/ticks.h"
#include "causeway_key.h"
#include "schedule.h"
#include "timesync.h"

#define HOPS_CLEARED ((uint8_t)((1U << CAUSEWAY_FLAG_HOPS) - 1)) /* of a flags byte */

static const uint8_t KEY[CW_AES_BYTES] CW_IN_FLASH = {CAUSEWAY_KEY};
static cw_cmac_t cmac;
static uint8_t kept_sum; /* the sum of its subkey */

static uint8_t subkey_sum(void)
{
    uint8_t sum = 0;
    for (uint8_t i = 0; i < CW_AES_BYTES; i++)
        sum = (uint8_t)(sum + cmac.subkey[i]);
    return sum;
}

void mic_start(void)
{
    cw_cmac_start(&cmac, KEY);
    kept_sum = subkey_sum();
}

bool mic_sound(void)
{
    return cmac.key == KEY && kept_sum == subkey_sum();
}

/* ---- What a MIC covers ---- */

static void put(const uint8_t *bytes, uint8_t count)
{
    while (count-- > 0)
        cw_cmac_put(&cmac, *bytes++);
}

static void put16(uint16_t value)
{
    cw_cmac_put(&cmac, (uint8_t)value);
    cw_cmac_put(&cmac, (uint8_t)(value >> 8));
}

static void put32(uint32_t value)
{
    put16((uint16_t)value);
    put16((uint16_t)(value >> 16));
}

static void put_header(uint8_t type, uint8_t epoch, uint32_t time, uint16_t node, uint32_t extra)
{
    cw_cmac_begin(&cmac);
    cw_cmac_put(&cmac, type);
    cw_cmac_put(&cmac, epoch);
    put32(CAUSEWAY_LAYOUT_HASH);
    put32(time);
    put16(node);
    put32(extra);
}

/* Of a message made in our epoch at this network time, of which the last `shift` bits are left out. */
static void put_timed_header(uint8_t type, uint32_t network, uint8_t shift, uint16_t node)
{
    put_header(type, timesync_epoch(), network >> shift, node, timesync_round(network));
}

/* A payload up to `end`, with the hops cleared: the rest of their byte stays. */
static void put_relayed(const uint8_t *payload, uint8_t hops_at, uint8_t rest, uint8_t end)
{
    put(payload, hops_at);
    cw_cmac_put(&cmac, payload[hops_at] & rest);
    hops_at++;
    put(payload + hops_at, (uint8_t)(end - hops_at));
}

/* Whether this is the MIC, in constant time: an attacker cannot measure how much of it is right. */
static bool is_mic(const uint8_t *mic)
{
    const uint8_t *tag = cw_cmac_end(&cmac);
    uint8_t wrong = 0;
    for (uint8_t i = 0; i < MIC_BYTES; i++)
        wrong |= (uint8_t)(tag[i] ^ mic[i]);
    return wrong == 0;
}

static void write_mic(uint8_t *mic)
{
    memcpy(mic, cw_cmac_end(&cmac), MIC_BYTES);
}

/* ---- Data ---- */

#define TIME_SHIFT (CAUSEWAY_CLOCK_WIDTH ? CAUSEWAY_TICK_LOG2 : CAUSEWAY_MIC_TIME_SHIFT)

static void cover_data(const uint8_t *payload, uint8_t length, uint32_t network)
{
    if (cw_data_in_sync(payload))
        put_timed_header(CAUSEWAY_AM_DATA, network, TIME_SHIFT, cw_data_source(payload));
    else
        put_header(CAUSEWAY_AM_DATA, 0, 0, cw_data_source(payload), 0);
    put_relayed(payload, CAUSEWAY_FLAGS_AT, HOPS_CLEARED, (uint8_t)(length - MIC_BYTES));
}

/* The network's time when a message was stamped, as far as its MIC covers it. */
static uint32_t time_of(const uint8_t *payload, uint32_t network)
{
#if CAUSEWAY_CLOCK_WIDTH
    return cw_stamp_clock(cw_data_stamp(payload), cw_tick(network)) << TIME_SHIFT;
#else
    (void)payload;
    return network;
#endif
}

void mic_write_data(uint8_t *payload, uint8_t length, uint32_t network)
{
    cover_data(payload, length, time_of(payload, network));
    write_mic(payload + length - MIC_BYTES);
}

bool mic_check_data(const uint8_t *payload, uint8_t length, uint32_t network)
{
    const uint8_t *mic = payload + MIC_REST(length);
    uint32_t time = time_of(payload, network);
    cover_data(payload, length, time);
    bool right = is_mic(mic);
    /* without a clock it may have been handed over in the period before ours, or after it */
    for (int8_t step = -1; !CAUSEWAY_CLOCK_WIDTH && !right && step <= 1 && cw_data_in_sync(payload);
         step = (int8_t)(step + 2)) {
        cover_data(payload, length, time + ((uint32_t)(int32_t)step << TIME_SHIFT));
        right = is_mic(mic);
    }
    return right;
}

/* ---- Health: the MIC stands in place of the layout's hash, and is left out ---- */

static void cover_health(const uint8_t *payload)
{
    bool in_sync = (payload[CAUSEWAY_HEALTH_FLAGS_AT] & CW_HEALTH_IN_SYNC) != 0;
    put_header(CAUSEWAY_AM_HEALTH, payload[CAUSEWAY_HEALTH_EPOCH_AT], 0,
               cw_get16(payload + CAUSEWAY_HEALTH_SOURCE_AT),
               in_sync ? timesync_round(cw_get32(payload + CAUSEWAY_HEALTH_TIME_AT)) : 0);
    put_relayed(payload, CAUSEWAY_HEALTH_FLAGS_AT, HOPS_CLEARED, CAUSEWAY_HEALTH_MIC_AT);
    put(payload + CAUSEWAY_HEALTH_MIC_AT + MIC_BYTES,
        CAUSEWAY_HEALTH_BYTES - CAUSEWAY_HEALTH_MIC_AT - MIC_BYTES);
}

void mic_write_health(uint8_t *payload)
{
    cover_health(payload);
    write_mic(payload + CAUSEWAY_HEALTH_MIC_AT);
}

bool mic_check_health(const uint8_t *payload)
{
    cover_health(payload);
    return is_mic(payload + CAUSEWAY_HEALTH_MIC_AT);
}

/* ---- Commands ---- */

uint32_t mic_command_time(const uint8_t *payload, uint32_t network)
{
    uint16_t low = (uint16_t)(network >> CAUSEWAY_MIC_COMMAND_SHIFT);
    int32_t later = (int16_t)(cw_get16(payload + CAUSEWAY_DOWNLINK_SEQUENCE_AT) - low);
    uint32_t whole = (network >> CAUSEWAY_MIC_COMMAND_SHIFT) + (uint32_t)later;
    return whole << CAUSEWAY_MIC_COMMAND_SHIFT;
}

bool mic_check_command(const uint8_t *payload, uint32_t made)
{
    put_timed_header(CAUSEWAY_AM_DOWNLINK, made, CAUSEWAY_MIC_COMMAND_SHIFT,
                     cw_get16(payload + CAUSEWAY_DOWNLINK_TARGET_AT));
    put_relayed(payload, CAUSEWAY_DOWNLINK_HOPS_AT, 0, CAUSEWAY_DOWNLINK_BYTES);
    return is_mic(payload + CAUSEWAY_DOWNLINK_MIC_AT);
}

/* ---- Arrived: the header only ---- */

static void cover_arrived(const uint8_t *payload, const uint8_t *mic)
{
    uint32_t extra;
    memcpy(&extra, mic, MIC_BYTES); /* processors here are all little-endian, as the header is */
    put_header(CAUSEWAY_AM_ARRIVED, 0, cw_get16(payload + CAUSEWAY_ARRIVED_NUMBER_AT),
               cw_get16(payload + CAUSEWAY_ARRIVED_SOURCE_AT), extra);
}

void mic_write_arrived(uint8_t *payload, const uint8_t *mic)
{
    cover_arrived(payload, mic);
    write_mic(payload + CAUSEWAY_ARRIVED_MIC_AT);
}

bool mic_check_arrived(const uint8_t *payload, const uint8_t *mic)
{
    cover_arrived(payload, mic);
    return is_mic(payload + CAUSEWAY_ARRIVED_MIC_AT);
}

/* ---- Taken ---- */

static void cover_taken(const uint8_t *payload, uint32_t network)
{
    put_timed_header(CAUSEWAY_AM_TAKEN, network, CAUSEWAY_PERIOD_LOG2, 0);
    put(payload, CAUSEWAY_TAKEN_BYTES);
}

void mic_write_taken(uint8_t *payload, uint32_t network)
{
    cover_taken(payload, network);
    write_mic(payload + CAUSEWAY_TAKEN_MIC_AT);
}

bool mic_check_taken(const uint8_t *payload, uint32_t network)
{
    cover_taken(payload, network);
    return is_mic(payload + CAUSEWAY_TAKEN_MIC_AT);
}

/* ---- Proofs ---- */

static void cover_beacon(const uint8_t *beacon)
{
    put_header(CAUSEWAY_AM_BEACON, beacon[CAUSEWAY_BEACON_EPOCH_AT], 0,
               cw_get16(beacon + CAUSEWAY_BEACON_SENDER_AT), 0);
    put(beacon, CAUSEWAY_BEACON_BYTES);
}

void mic_write_proof(uint8_t *proof, const uint8_t *beacon)
{
    memcpy(proof + CAUSEWAY_PROOF_SENDER_AT, beacon + CAUSEWAY_BEACON_SENDER_AT, 2);
    memcpy(proof + CAUSEWAY_PROOF_SEQUENCE_AT, beacon + CAUSEWAY_BEACON_SEQUENCE_AT, 2);
    cover_beacon(beacon);
    write_mic(proof + CAUSEWAY_PROOF_MIC_AT);
}

bool mic_check_proof(const uint8_t *proof, const uint8_t *beacon)
{
    cover_beacon(beacon);
    return is_mic(proof + CAUSEWAY_PROOF_MIC_AT);
}

#endif
