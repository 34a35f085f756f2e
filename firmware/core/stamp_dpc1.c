/* dpc1: only the clock. Nothing is known of other motes. */
#include "causeway/stamp_fields.h"

#if CAUSEWAY_SCHEME_DPC1

void cw_stamp_start(cw_stamp_t *state, uint32_t tick)
{
    (void)state;
    (void)tick;
}

bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t *payload)
{
    (void)state;
    give_head(payload + CAUSEWAY_STAMP_AT, tick, 0);
    return false;
}

cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t *payload, uint8_t items)
{
    (void)state;
    (void)tick;
    return fault_in(payload + CAUSEWAY_STAMP_AT, items) == CW_STAMP_SOUND ? CW_STAMP_OK : CW_STAMP_REFUSED;
}

#endif
