#include "causeway/data.h"

#include <string.h>

#define FLAG(name) ((uint8_t)(1U << CAUSEWAY_FLAG_##name))

static cw_data_reason_t judge_data(const uint8_t *payload, uint8_t length)
{
    int8_t items = cw_stamp_items(length);
    if (items < 0)
        return CW_DATA_LENGTH;
    switch (cw_stamp_check(cw_data_stamp(payload), (uint8_t)items)) {
    case CW_STAMP_PADDING:
        return CW_DATA_SPARE;
    case CW_STAMP_RANGE:
        return CW_DATA_VALUE;
    default:
        return CW_DATA_OK;
    }
}

cw_data_reason_t cw_data_check(const uint8_t *payload, uint8_t length, cw_data_counters_t *counters)
{
    cw_data_reason_t reason = judge_data(payload, length);
    counters->count[reason]++;
    return reason;
}

void cw_data_head(uint8_t *payload, uint16_t source, uint8_t sequence, uint8_t boot, uint8_t hops,
                  bool in_sync)
{
    uint8_t flags = (uint8_t)((boot & CW_DATA_BOOT_MASK) << CAUSEWAY_FLAG_BOOT);
    if (hops > CW_DATA_HOPS_TOP)
        hops = CW_DATA_HOPS_TOP;
    flags |= (uint8_t)(hops << CAUSEWAY_FLAG_HOPS);
    if (in_sync)
        flags |= FLAG(IN_SYNC);
    cw_put_source(payload + CAUSEWAY_SOURCE_AT, source);
    payload[CAUSEWAY_SEQUENCE_AT] = sequence;
    payload[CAUSEWAY_FLAGS_AT] = flags;
}

static void set_flag(uint8_t *payload, uint8_t flag, bool on)
{
    if (on)
        payload[CAUSEWAY_FLAGS_AT] |= flag;
    else
        payload[CAUSEWAY_FLAGS_AT] &= (uint8_t)~flag;
}

uint8_t cw_data_put_stamp(uint8_t *payload, cw_stamp_t *stamp, uint32_t tick)
{
    set_flag(payload, FLAG(SATURATED), cw_stamp_send(stamp, tick, payload));
#if CAUSEWAY_STAMP_VARIABLE
    uint8_t length = (uint8_t)(CW_STAMP_REST + cw_stamp_size(stamp));

    memmove(cw_data_application(payload, length), payload + CAUSEWAY_DATA_AT, CAUSEWAY_DATA_BYTES);
    return length;
#else
    return CAUSEWAY_PAYLOAD_BYTES;
#endif
}

void cw_data_put_receipts(uint8_t *payload, uint8_t length, cw_receipts_t *receipts)
{
    bool complete = cw_receipts_put(receipts, cw_data_source(payload), cw_data_sequence(payload),
                                    payload + cw_data_place(CAUSEWAY_RECEIPTS_AT, length));
    set_flag(payload, FLAG(COMPLETE), complete);
}

bool cw_data_relay(uint8_t *payload)
{
    uint8_t hops = cw_data_hops(payload);
    if (hops == 0)
        return false;
    if (hops < CW_DATA_HOPS_TOP)
        payload[CAUSEWAY_FLAGS_AT] = (uint8_t)(payload[CAUSEWAY_FLAGS_AT] - (1U << CAUSEWAY_FLAG_HOPS));
    return true;
}
