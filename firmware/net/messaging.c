#include "messaging.h"

#include <string.h>

#include "gateway_acks.h"
#include "beacons.h"
#include "causeway/am.h"
#include "causeway/data.h"
#include "causeway/ticks.h"
#include "commands.h"
#include "deadlines.h"
#include "hal/clock.h"
#include "health.h"
#include "suppression.h"
#include "identity.h"
#include "admission.h"
#include "forwarding.h"
#include "repair.h"
#include "stamping.h"
#include "timesync.h"
#include "traffic.h"

static cw_data_counters_t checks;

void messaging_start(void)
{
    stamping_start();
    messaging_on_epoch(timesync_epoch());
}

void messaging_on_epoch(uint8_t epoch)
{
    stamping_on_epoch(epoch);
    outbox_forget(OUTBOX_STAMPED);
    commands_on_epoch();
}

/* ---- Sending ---- */

bool messaging_send(const uint8_t *application, bool urgent)
{
    uint32_t now = clock_now();
    /* with a schedule, before all messages that we forward: no other mote has this one */
    uint32_t urgency = CAUSEWAY_SCHEDULED ? now : now + ((uint32_t)CAUSEWAY_DELTA << CAUSEWAY_TICK_LOG2) / 2;
    outbox_frame_t *frame = traffic_frame(OUTBOX_OWN, CAUSEWAY_AM_DATA, CAUSEWAY_PAYLOAD_BYTES, now, urgency);
    if (!frame)
        return false;
    uint8_t *place = cw_data_application(frame->message.data, CAUSEWAY_PAYLOAD_BYTES);
    memcpy(place, application, CAUSEWAY_DATA_BYTES);
    if (SCHEDULE_URGENT && urgent) {
        frame->urgent = true;
        frame->deadline -= DEADLINES_PLAIN / 2; /* a period: before all others of ours */
    }
    outbox_put(frame);
    return true;
}

static bool ready_own(outbox_frame_t *frame, uint32_t now)
{
    if (stamping_puts_off(frame, now))
        return false;
    bool stamped = stamping_own(frame, now);
    if (!stamped)
        messaging_on_sent(false, stamping_sequence());
    return stamped;
}

bool messaging_before_send(outbox_frame_t *frame, uint32_t now)
{
    if (frame->kind == OUTBOX_OWN)
        return ready_own(frame, now);
    if (health_is_ours(&frame->message))
        health_before_send(&frame->message, now);
    return true;
}

/* An own data message, which may have had its stamp for a while. */
static bool is_own(const outbox_frame_t *frame)
{
    return frame->message.type == CAUSEWAY_AM_DATA && cw_data_source(frame->message.data) == identity_id();
}

static void count_sent(const outbox_frame_t *frame)
{
    if ((frame->tries & ~OUTBOX_AGAIN) > 0) {
        count(&traffic.repeated);
    } else if (is_own(frame)) {
        count(&traffic.sent);
        if (REPAIR && (frame->tries & OUTBOX_AGAIN))
            count(&traffic.repaired);
    } else if (frame->kind == OUTBOX_STAMPED) {
        count(&traffic.relayed);
        stamping_note(RECORDER_RELAY, frame->message.data);
    } else if (!health_is_ours(&frame->message)) {
        count(&traffic.relayed);
    }
}

void messaging_on_done(const outbox_frame_t *frame, outbox_result_t result)
{
    if (repair_is_kept(frame) || (result != OUTBOX_SENT && forwarding_waits(frame)))
        return;
    bool goes_on = false;
    if (is_own(frame) && frame->tries == 0)
        messaging_on_sent(result == OUTBOX_SENT, cw_data_sequence(frame->message.data));
    if (result == OUTBOX_SENT) {
        count_sent(frame);
        if (frame->message.type == CAUSEWAY_AM_DATA)
            goes_on = forwarding_repeat(frame);
    } else if (result == OUTBOX_FAILED) {
        count(&traffic.failed);
    } else if (frame->kind == OUTBOX_PLAIN) {
        count(&traffic.expired);
    } else if (frame->tries == 0) {
        count(&traffic.late);
        stamping_note(RECORDER_LATE, frame->message.data);
    }
    if (REPAIR && !goes_on && frame->message.type == CAUSEWAY_AM_DATA)
        repair_keep(frame);
}

/* ---- Hearing ---- */

static void on_new_data(const radio_heard_t *heard, uint32_t now)
{
    uint32_t tick = cw_tick(timesync_network(heard->time));
    switch (admission_data(heard, now)) {
    case ADMISSION_DUPLICATE:
        forwarding_on_copy(heard, tick, now);
        break;
    case ADMISSION_NEW:
        stamping_merge(heard, now);
        forwarding_on_new(heard, tick, now);
        messaging_on_data(&heard->message, tick);
        break;
    case ADMISSION_UNCHECKED:
        count(&traffic.unmerged);
        forwarding_on_new(heard, tick, now);
        break;
    case ADMISSION_FORGED:
        break;
    }
}

static void on_data(const radio_heard_t *heard, uint32_t now)
{
    const uint8_t *payload = heard->message.data;
    if (cw_data_check(payload, heard->message.length, &checks) != CW_DATA_OK ||
        cw_data_source(payload) >= CAUSEWAY_MOTES) {
        count(&traffic.foreign);
        return;
    }
    suppression_on_data(&heard->message);
    if (cw_data_source(payload) == identity_id())
        count(&traffic.echoes);
    else
        on_new_data(heard, now);
}

static void on_answer(const radio_message_t *message, uint32_t now)
{
    if (GATEWAY_ACKS_TYPE == CAUSEWAY_AM_TAKEN) {
        suppression_on_taken(message);
        schedule_on_answer(now);
    } else {
        suppression_on_arrived(message);
    }
}

void messaging_on_heard(const radio_heard_t *heard)
{
    const radio_message_t *message = &heard->message;
    uint32_t now = clock_now();
    if (CAUSEWAY_SCHEDULED)
        schedule_on_frame(heard->time + radio_airtime(message->length));
    if (message->group != CAUSEWAY_GROUP ||
        (message->dest != CW_AM_BROADCAST && message->dest != identity_id())) {
        count(&traffic.foreign);
    } else if (message->type == CAUSEWAY_AM_DATA) {
        on_data(heard, now);
    } else if (bundle_is(message)) {
        bundle_open(heard, now, on_data);
    } else if (beacons_is(message)) {
        count(&traffic.beacons);
        beacons_on_heard(heard, now);
    } else if (beacons_is_proof(message)) {
        if (!beacons_on_proof(message, now))
            traffic_forged();
    } else if (message->type == CAUSEWAY_AM_HEALTH) {
        health_on_heard(message, now);
    } else if (message->type == GATEWAY_ACKS_TYPE) {
        on_answer(message, now);
    } else if (message->type == CAUSEWAY_AM_DOWNLINK) {
        commands_on_heard(message, now);
    } else {
        count(&traffic.foreign);
    }
}
