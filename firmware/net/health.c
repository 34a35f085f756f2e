#include "health.h"

#include "causeway/data.h"
#include "causeway/records.h"
#include "deadlines.h"
#include "hal/board.h"
#include "hal/clock.h"
#include "hops.h"
#include "identity.h"
#include "admission.h"
#include "forwarding.h"
#include "mic.h"
#include "stamping.h"
#include "timesync.h"
#include "traffic.h"

bool health_send(uint8_t battery)
{
    uint32_t now = clock_now();
    outbox_frame_t *frame = traffic_frame(OUTBOX_PLAIN, CAUSEWAY_AM_HEALTH, CAUSEWAY_HEALTH_BYTES, now,
                                          now + DEADLINES_PLAIN);
    if (!frame)
        return false;
    stamping_tidy(now); /* this comes every minute, even without events */
    uint8_t hops = hops_own(now);
    if (hops > CW_DATA_HOPS_TOP)
        hops = CW_DATA_HOPS_TOP;
    cw_health_t health = {
        .source = identity_id(),
        .epoch = timesync_epoch(),
        .flags = (uint8_t)((timesync_in_sync(now) ? CW_HEALTH_IN_SYNC : 0) |
                           (timesync_two_roots() ? CW_HEALTH_TWO_ROOTS : 0) |
                           board_start_cause() << CW_HEALTH_START | hops << CAUSEWAY_FLAG_HOPS),
        .boots = identity_boots(),
        .layout = CAUSEWAY_LAYOUT_HASH,
        .sent = traffic.sent,
        .received = traffic.received,
        .late = traffic.late,
        .relayed = traffic.relayed,
        .duplicates = traffic.duplicates,
        .bounds = stamping_bounds(),
        .battery = battery,
        .hops = timesync_hops(),
    };
    cw_health_put(frame->message.data, &health);
    if (CAUSEWAY_SCHEDULED)
        frame->message.data[CAUSEWAY_HEALTH_TAIL_AT] = schedule_duty();
    outbox_put(frame);
    return true;
}

bool health_is_ours(const radio_message_t *message)
{
    return message->type == CAUSEWAY_AM_HEALTH &&
           cw_get16(message->data + CAUSEWAY_HEALTH_SOURCE_AT) == identity_id();
}

void health_before_send(radio_message_t *message, uint32_t now)
{
    cw_put32(message->data + CAUSEWAY_HEALTH_TIME_AT, timesync_network(now));
    if (MIC_BYTES)
        mic_write_health(message->data);
}

void health_on_heard(const radio_message_t *message, uint32_t now)
{
    if (message->length != CAUSEWAY_HEALTH_BYTES) {
        count(&traffic.foreign);
    } else if (health_is_ours(message)) {
        count(&traffic.echoes);
    } else if (admission_health(message)) {
        uint8_t flags = message->data[CAUSEWAY_HEALTH_FLAGS_AT];
        if (hops_take(&flags, now))
            forwarding_plain(message, CAUSEWAY_HEALTH_FLAGS_AT, flags, now);
        else
            count(&traffic.spent);
    }
}
