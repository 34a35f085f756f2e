/* vector: how many messages of each mote are known of. Its own number stands in the header, so a message
 * carries those of all motes but its sender, in order of their ids.
 *
 * Counters are modulo 256 and compared as such: 1 to 127 ahead is newer. So a mote that knows nothing yet
 * takes the first stamp as it is, and a received message itself counts unless it is one of the last few: else
 * a mote that restarts, or its peers, would be ignored for 128 messages.
 */
#include "causeway/dedup.h"
#include "causeway/stamp_fields.h"

#if CAUSEWAY_SCHEME_VECTOR

void cw_stamp_start(cw_stamp_t *state, uint32_t tick)
{
    (void)state;
    (void)tick;
}

bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t *payload)
{
    uint8_t *entry = payload + CAUSEWAY_STAMP_AT;
    uint16_t own = cw_get_source(payload + CAUSEWAY_SOURCE_AT);
    (void)tick;
    for (uint8_t mote = 0; mote < CAUSEWAY_MOTES; mote++)
        if (mote != own)
            *entry++ = state->known[mote];
    return false;
}

cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t *payload, uint8_t items)
{
    const uint8_t *entry = payload + CAUSEWAY_STAMP_AT;
    uint16_t source = cw_get_source(payload + CAUSEWAY_SOURCE_AT);
    uint8_t count = (uint8_t)(payload[CAUSEWAY_SEQUENCE_AT] + 1);
    (void)tick;
    (void)items;
    if (source >= CAUSEWAY_MOTES)
        return CW_STAMP_REFUSED;
    for (uint8_t mote = 0; mote < CAUSEWAY_MOTES; mote++) {
        uint8_t *known = &state->known[mote];
        if (mote == source) {
            if (!state->started || (uint8_t)(*known - count) >= CW_OLD_SPAN)
                *known = count;
        } else {
            uint8_t theirs = *entry++;
            if (!state->started || (int8_t)(uint8_t)(theirs - *known) > 0)
                *known = theirs;
        }
    }
    state->started = true;
    return CW_STAMP_OK;
}

#endif
