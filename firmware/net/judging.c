#include "judging.h"

#include "causeway/data.h"
#include "causeway/dedup.h"
#include "seal.h"
#include "timesync.h"
#include "traffic.h"

/* The duplicate filter knows data by source and cw_data_number(), which has 11 bits; commands by a source
 * that no node has; health by a number that no data message has. */
#define COMMANDS 0xFFFFU
#define UNCHECKED_COMMANDS 0xFFFEU
#define UNSURE_NUMBER(mic) ((uint16_t)((cw_get16_le(mic) & 0x3FFFU) | 0x4000U))
#define HEALTH_NUMBER(time) ((uint16_t)((time) >> 4 | 0x8000U))

static cw_dedup_t seen;

void judging_start(void)
{
    cw_dedup_start(&seen);
}

/* Whether it is heard for the first time; if not, it is counted. */
static bool is_new(uint16_t source, uint16_t number)
{
    bool known = cw_dedup_seen(&seen, source, number);
    if (known) {
        count(&traffic.duplicates);
    }
    return !known;
}

bool judging_is_right(const radio_heard_t *heard)
{
    return !SEAL_MIC_BYTES ||
           seal_check_data(heard->message.data, heard->message.length, timesync_network(heard->time));
}

judged_t judging_data(const radio_heard_t *heard, uint32_t now)
{
    const uint8_t *payload = heard->message.data;
    uint16_t source = cw_data_source(payload), number = cw_data_number(payload);
    if (!SEAL_MIC_BYTES) {
        return is_new(source, number) ? JUDGED_RIGHT : JUDGED_KNOWN;
    }
    bool timed = cw_data_in_sync(payload);
    uint16_t unsure = UNSURE_NUMBER(seal_of(&heard->message));
    if (!timed) {
        number = unsure;
    }
    if (cw_dedup_knows(&seen, source, number) || cw_dedup_knows(&seen, source, unsure)) {
        count(&traffic.duplicates);
        return JUDGED_KNOWN;
    }
    if ((timesync_known() || !timed) && judging_is_right(heard)) {
        cw_dedup_seen(&seen, source, number);
        return JUDGED_RIGHT;
    }
    if (timed && !timesync_in_sync(now)) {
        cw_dedup_seen(&seen, source, unsure);
        return JUDGED_UNSURE;
    }
    traffic_forged();
    return JUDGED_FORGED;
}

bool judging_health(const radio_message_t *message)
{
    uint16_t source = cw_get16(message->data + CAUSEWAY_HEALTH_SOURCE_AT);
    uint16_t number = HEALTH_NUMBER(cw_get32(message->data + CAUSEWAY_HEALTH_TIME_AT));
    if (SEAL_MIC_BYTES && !cw_dedup_knows(&seen, source, number) && !seal_check_health(message->data)) {
        traffic_forged();
        return false;
    }
    return is_new(source, number);
}

bool judging_command(const radio_message_t *message, uint16_t sequence, uint32_t made)
{
    if (SEAL_MIC_BYTES && !timesync_known()) {
        return !cw_dedup_seen(&seen, UNCHECKED_COMMANDS, UNSURE_NUMBER(seal_of(message)));
    }
    if (SEAL_MIC_BYTES && !cw_dedup_knows(&seen, COMMANDS, sequence) &&
        !seal_check_command(message->data, made)) {
        traffic_forged();
        return false;
    }
    return is_new(COMMANDS, sequence);
}
