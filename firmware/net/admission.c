#include "admission.h"

#include "causeway/data.h"
#include "causeway/dedup.h"
#include "mic.h"
#include "timesync.h"
#include "traffic.h"

/* The duplicate filter finds data by source and cw_data_number(), which has 11 bits; commands by a source
 * that no node has; health by a number that no data message has. */
#define COMMANDS 0xFFFFU
#define UNCHECKED_COMMANDS 0xFFFEU
#define UNSURE_NUMBER(mic) ((uint16_t)((cw_get16_le(mic) & 0x3FFFU) | 0x4000U))
#define HEALTH_NUMBER(time) ((uint16_t)((time) >> 4 | 0x8000U))

static cw_dedup_t seen;

/* Whether a message is heard for the first time. Counts it if not. */
static bool is_new(uint16_t source, uint16_t number)
{
    bool known = cw_dedup_seen(&seen, source, number);
    if (known)
        count(&traffic.duplicates);
    return !known;
}

bool admission_is_authentic(const radio_heard_t *heard)
{
    return !MIC_BYTES ||
           mic_check_data(heard->message.data, heard->message.length, timesync_network(heard->time));
}

admission_t admission_data(const radio_heard_t *heard, uint32_t now)
{
    const uint8_t *payload = heard->message.data;
    uint16_t source = cw_data_source(payload), number = cw_data_number(payload);
    if (!MIC_BYTES)
        return is_new(source, number) ? ADMISSION_NEW : ADMISSION_DUPLICATE;
    bool timed = cw_data_in_sync(payload);
    uint16_t unsure = UNSURE_NUMBER(mic_of(&heard->message));
    if (!timed)
        number = unsure;
    if (cw_dedup_knows(&seen, source, number) || cw_dedup_knows(&seen, source, unsure)) {
        count(&traffic.duplicates);
        return ADMISSION_DUPLICATE;
    }
    if ((timesync_known() || !timed) && admission_is_authentic(heard)) {
        cw_dedup_seen(&seen, source, number);
        return ADMISSION_NEW;
    }
    if (timed && !timesync_in_sync(now)) {
        cw_dedup_seen(&seen, source, unsure);
        return ADMISSION_UNCHECKED;
    }
    traffic_forged();
    return ADMISSION_FORGED;
}

bool admission_health(const radio_message_t *message)
{
    uint16_t source = cw_get16(message->data + CAUSEWAY_HEALTH_SOURCE_AT);
    uint16_t number = HEALTH_NUMBER(cw_get32(message->data + CAUSEWAY_HEALTH_TIME_AT));
    if (MIC_BYTES && !cw_dedup_knows(&seen, source, number) && !mic_check_health(message->data)) {
        traffic_forged();
        return false;
    }
    return is_new(source, number);
}

bool admission_command(const radio_message_t *message, uint16_t sequence, uint32_t made)
{
    if (MIC_BYTES && !timesync_known())
        return !cw_dedup_seen(&seen, UNCHECKED_COMMANDS, UNSURE_NUMBER(mic_of(message)));
    if (MIC_BYTES && !cw_dedup_knows(&seen, COMMANDS, sequence) && !mic_check_command(message->data, made)) {
        traffic_forged();
        return false;
    }
    return is_new(COMMANDS, sequence);
}
