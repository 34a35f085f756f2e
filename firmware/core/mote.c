#include "causeway/types.h"
#include "causeway_layout.h"

#if !defined(CAUSEWAY_MIC_BYTES) || defined(CW_SEALED_BY_CALLER) /* it makes none */

#include <string.h>

#include "causeway/mote.h"
#include "causeway/ticks.h"

void cw_mote_start(cw_mote_t *mote, uint16_t id, uint8_t boots, uint32_t tick)
{
    mote->id = id;
    mote->boots = boots;
    cw_mote_restart(mote, tick);
}

void cw_mote_restart(cw_mote_t *mote, uint32_t tick)
{
    mote->tick = tick;
    mote->sent = false;
    cw_stamp_start(&mote->stamp, tick);
    cw_receipts_start(&mote->receipts);
}

static uint32_t next_tick(cw_mote_t *mote, uint32_t tick)
{
    uint32_t last = mote->tick;
    if (cw_event_tick(&mote->tick, tick) != last)
        mote->sent = false;
    return mote->tick;
}

uint8_t cw_mote_send(cw_mote_t *mote, uint32_t tick, bool in_sync, uint8_t hops, const uint8_t *data,
                     uint8_t payload[CAUSEWAY_PAYLOAD_BYTES])
{
    tick = next_tick(mote, tick);
    if (CAUSEWAY_ONE_SEND_A_TICK && mote->sent)
        return 0;
    mote->sent = true;
    in_sync = cw_stamp_in_sync(&mote->stamp, tick, in_sync);
    memcpy(cw_data_application(payload, CAUSEWAY_PAYLOAD_BYTES), data, CAUSEWAY_DATA_BYTES);
    cw_data_head(payload, mote->id, ++mote->sequence, mote->boots, hops, in_sync);
    uint8_t length = cw_data_put_stamp(payload, &mote->stamp, tick);
    cw_data_put_receipts(payload, length, &mote->receipts);
    return length;
}

cw_mote_heard_t cw_mote_receive(cw_mote_t *mote, uint32_t tick, bool in_sync, const uint8_t *payload,
                                uint8_t length)
{
    if (cw_data_check(payload, length, &mote->checks) != CW_DATA_OK)
        return CW_MOTE_FOREIGN;
    uint16_t source = cw_data_source(payload);
    if (source >= CAUSEWAY_MOTES)
        return CW_MOTE_FOREIGN;
    if (source == mote->id)
        return CW_MOTE_OWN;
    if (cw_dedup_seen(&mote->seen, source, cw_data_number(payload)))
        return CW_MOTE_KNOWN;
    tick = next_tick(mote, tick);
    cw_stamp_in_sync(&mote->stamp, tick, in_sync);
    if (cw_data_in_sync(payload)) { /* another one's stamp says nothing */
        cw_stamp_receive(&mote->stamp, tick, payload, (uint8_t)cw_stamp_items(length));
        cw_receipts_add(&mote->receipts, source, cw_data_boot(payload), cw_data_sequence(payload));
    }
    return CW_MOTE_NEW;
}

#endif
