/* sequence: the header's own number is all there is. last-sender: which message was received last. */
#include "causeway/stamp_fields.h"

#if CAUSEWAY_SCHEME_SEQUENCE || CAUSEWAY_SCHEME_LAST_SENDER

void cw_stamp_start(cw_stamp_t *state, uint32_t tick)
{
    (void)state;
    (void)tick;
}

#endif

#if CAUSEWAY_SCHEME_SEQUENCE

bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t *payload)
{
    (void)state;
    (void)tick;
    (void)payload;
    return false;
}

cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t *payload, uint8_t items)
{
    (void)state;
    (void)tick;
    (void)payload;
    (void)items;
    return CW_STAMP_OK;
}

#elif CAUSEWAY_SCHEME_LAST_SENDER

static void give_name(uint8_t *stamp, uint16_t source, uint8_t sequence)
{
    memset(stamp, 0, CAUSEWAY_STAMP_BYTES);
    give(stamp, CAUSEWAY_ENTRY_BIT, CAUSEWAY_ENTRY_WIDTH, source);
    give(stamp, CAUSEWAY_ENTRY_BIT + CAUSEWAY_ENTRY_WIDTH, CAUSEWAY_ENTRY_WIDTH, sequence);
}

/* After a fault in memory: what we remember must be a mote's. */
static void mend_name(cw_stamp_t *state)
{
    if (state->source < CAUSEWAY_MOTES)
        return;
    state->source = 0;
    state->known = false;
    state->bounded++;
}

/* Where nothing was received the message names itself, as an unused receipt does. */
bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t *payload)
{
    (void)tick;
    mend_name(state);
    if (state->known)
        give_name(payload + CAUSEWAY_STAMP_AT, state->source, state->sequence);
    else
        give_name(payload + CAUSEWAY_STAMP_AT, cw_get_source(payload + CAUSEWAY_SOURCE_AT),
                  payload[CAUSEWAY_SEQUENCE_AT]);
    return false;
}

cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t *payload, uint8_t items)
{
    uint16_t source = cw_get_source(payload + CAUSEWAY_SOURCE_AT);
    (void)tick;
    if (source >= CAUSEWAY_MOTES || fault_in(payload + CAUSEWAY_STAMP_AT, items) != CW_STAMP_SOUND)
        return CW_STAMP_REFUSED;
    state->source = (cw_entry_t)source;
    state->sequence = payload[CAUSEWAY_SEQUENCE_AT];
    state->known = true;
    return CW_STAMP_OK;
}

#endif
