#include "stamping.h"

#include "causeway/data.h"
#include "causeway/ticks.h"
#include "deadlines.h"
#include "hal/clock.h"
#include "hops.h"
#include "identity.h"
#include "mic.h"
#include "timesync.h"
#include "traffic.h"

#define TICK_CYCLES (UINT32_C(1) << CAUSEWAY_TICK_LOG2)

static uint8_t sequence;
static uint32_t last_tick; /* of the last event: events must not run backwards */
static uint32_t send_tick; /* of our last send */
static bool has_sent;      /* in this epoch */
static cw_stamp_t stamp;
static cw_receipts_t receipts;

void stamping_start(void)
{
    recorder_start();
    recorder_note(RECORDER_BOOT, identity_id(), (uint8_t)identity_boots(), 0);
}

void stamping_on_epoch(uint8_t epoch)
{
    last_tick = cw_tick(timesync_network(clock_now()));
    send_tick = last_tick - 1;
    has_sent = false;
    cw_stamp_start(&stamp, last_tick);
    cw_receipts_start(&receipts);
    recorder_note(RECORDER_EPOCH, epoch, 0, (uint16_t)last_tick);
}

uint8_t stamping_sequence(void)
{
    return sequence;
}

uint16_t stamping_bounds(void)
{
    return stamp.bounded;
}

void stamping_note(recorder_kind_t kind, const uint8_t *payload)
{
    recorder_note(kind, cw_data_source(payload), cw_data_sequence(payload), (uint16_t)last_tick);
}

static uint32_t tick_at(uint32_t local)
{
    return cw_event_tick(&last_tick, cw_tick(timesync_network(local)));
}

/* Some stamps name a send by its tick. With them a second send in a tick goes back to the outbox, where its
 * place has just become free, until the tick is over. If it is not over by then, it is put off once more.
 * With a schedule it waits for our next turn, and its age still counts from its `not_before`. */
bool stamping_puts_off(const outbox_frame_t *frame, uint32_t now)
{
    if (!CAUSEWAY_ONE_SEND_A_TICK || tick_at(now) != send_tick)
        return false;
    outbox_frame_t *place = outbox_place();
    *place = *frame;
    if (!CAUSEWAY_SCHEDULED)
        place->not_before = now + TICK_CYCLES - (timesync_network(now) & (TICK_CYCLES - 1));
    outbox_put(place);
    return true;
}

/* How old an own message is, in the units in which it travels: it was handed over at its `not_before`. */
static uint8_t event_age(const outbox_frame_t *frame, uint32_t now)
{
    uint32_t age = (now - frame->not_before) >> CAUSEWAY_AGE_SHIFT;
    if (frame->tries & OUTBOX_AGAIN) {
        age = (age >> (CAUSEWAY_AGE_AGAIN_SHIFT - CAUSEWAY_AGE_SHIFT)) + CAUSEWAY_AGE_AGAIN;
        return (uint8_t)(age < UINT8_MAX ? age : UINT8_MAX);
    }
    return (uint8_t)(age < CAUSEWAY_AGE_AGAIN ? age : CAUSEWAY_AGE_AGAIN - 1);
}

bool stamping_own(outbox_frame_t *frame, uint32_t now)
{
    uint8_t *payload = frame->message.data;
    uint8_t hops = hops_own(now);
    uint32_t tick = tick_at(now);
    frame->deadline = deadlines_own(tick, hops, now);
    if (clock_before(frame->deadline, now)) {
        count(&traffic.late);
        recorder_note(RECORDER_LATE, identity_id(), (uint8_t)(sequence + 1), (uint16_t)tick);
        return false;
    }
    bool in_sync = cw_stamp_in_sync(&stamp, tick, timesync_in_sync(now));
    cw_data_head(payload, identity_id(), ++sequence, (uint8_t)identity_boots(), hops, in_sync);
    if (CAUSEWAY_SCHEDULED)
        payload[CAUSEWAY_AGE_AT] = event_age(frame, now);
    if (SCHEDULE_URGENT)
        frame->urgent = false; /* from here on it is forwarded as others */
    frame->message.length = cw_data_put_stamp(payload, &stamp, tick);
    cw_data_put_receipts(payload, frame->message.length, &receipts);
    if (MIC_BYTES)
        mic_write_data(payload, frame->message.length, timesync_network(now));
    send_tick = tick;
    has_sent = true;
    recorder_note(RECORDER_SEND, identity_id(), sequence, (uint16_t)tick);
    return true;
}

void stamping_merge(const radio_heard_t *heard, uint32_t now)
{
    const uint8_t *payload = heard->message.data;
    uint32_t tick = tick_at(heard->time);
    if (CAUSEWAY_SCHEME_BARRIER)
        cw_stamp_in_sync(&stamp, tick, timesync_in_sync(now));
    if (!cw_data_in_sync(payload)) {
        count(&traffic.unmerged);
        stamping_note(RECORDER_UNMERGED, payload);
        return;
    }
    cw_stamp_receive(&stamp, tick, payload, (uint8_t)cw_stamp_items(heard->message.length));
    cw_receipts_add(&receipts, cw_data_source(payload), cw_data_boot(payload), cw_data_sequence(payload));
    count(&traffic.received);
    stamping_note(RECORDER_RECEIVE, payload);
}

cw_knows_t stamping_knows(const radio_message_t *message, uint32_t tick)
{
    cw_own_t ours = {identity_id(), sequence, send_tick};
    return has_sent ? cw_knows(message->data, message->length, tick, &ours) : CW_KNOWS_NOT;
}

void stamping_tidy(uint32_t now)
{
    if (CAUSEWAY_SCHEME_BARRIER)
        cw_stamp_tidy(&stamp, tick_at(now));
}
