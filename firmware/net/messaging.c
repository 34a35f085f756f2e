#include "messaging.h"

#include <string.h>

#include "causeway/am.h"
#include "causeway/dedup.h"
#include "causeway/ticks.h"
#include "hal/board.h"
#include "hal/clock.h"
#include "beacons.h"
#include "count.h"
#include "identity.h"
#include "outbox.h"
#include "random.h"
#include "recorder.h"
#include "schedule.h"
#include "seal.h"
#include "timesync.h"

/* The duplicate filter knows data by source and cw_data_number(), which has 11 bits; commands by a source
 * that no node has; health by a number that no data message has. What could not be checked, or has no time
 * and may be played again, goes by its MIC: it must not hide what is true. */
#define COMMANDS 0xFFFFU
#define UNCHECKED_COMMANDS 0xFFFEU
#define UNSURE_NUMBER(mic) ((uint16_t)((cw_get16_le(mic) & 0x3FFFU) | 0x4000U))
#define HEALTH_NUMBER(time) ((uint16_t)((time) >> 4 | 0x8000U))

/* Health and commands have no deadline of their own. */
#if CAUSEWAY_SCHEDULED
#define PLAIN_PATIENCE (UINT32_C(2) << CAUSEWAY_PERIOD_LOG2)
#else
#define PLAIN_PATIENCE UINT32_C(32768)
#endif

/* Ticks that no frame waits to be looked at: the watchdog's 2 s, or one tick. */
#define WAITED_MOST ((int32_t)(2 * UINT32_C(32768) >> CAUSEWAY_TICK_LOG2) + 1)

#define TICK_CYCLES (UINT32_C(1) << CAUSEWAY_TICK_LOG2)

/* How often a message goes out here at most, the first time included. */
#define TRIES 5

/* A message's time on the air and for channel access: what is kept free for each hop after this one, and the
 * measure of all waits below. */
#define HOP_TIME ((uint16_t)(radio_airtime(CAUSEWAY_PAYLOAD_BYTES) + MESSAGING_BACKOFF))

#define ROOT_IS_GATEWAY (CAUSEWAY_ROOT >= CAUSEWAY_MOTES)

static uint8_t sequence;
static uint32_t last_tick; /* of the last event: events must not run backwards */
static uint32_t send_tick; /* of our last send */
static bool has_sent;      /* in this epoch */
static cw_stamp_t stamp;
static cw_receipts_t receipts;
static cw_dedup_t seen;
static cw_data_counters_t checks;
static messaging_counters_t counters;

#if CAUSEWAY_MIC_BYTES
#define COMMANDS_KEPT 4
static uint32_t obeyed[COMMANDS_KEPT]; /* the last commands: when each was made, by the network's time */
#endif

/* The last messages that we left to others, as they had not enough hops to get to the gateway from here; or,
 * with a schedule, as we had no room. */
#if CAUSEWAY_SCHEDULED
#define LEFT_ROOM 12
#else
#define LEFT_ROOM 4
#endif
#define LEFT 0x8000U /* in the number of each */
static struct {
    uint16_t source, number;
} left_out[LEFT_ROOM];
static uint8_t left_next;

void messaging_start(void)
{
    sequence = 0;
    counters = (messaging_counters_t){0};
    cw_dedup_start(&seen);
    recorder_start();
    recorder_note(RECORDER_BOOT, identity_id(), (uint8_t)identity_boots(), 0);
    messaging_on_epoch(timesync_epoch());
}

const messaging_counters_t *messaging_counters(void)
{
    return &counters;
}

uint16_t messaging_bounds(void)
{
    return stamp.bounded;
}

void messaging_on_epoch(uint8_t epoch)
{
    last_tick = cw_tick(timesync_network(clock_now()));
    send_tick = last_tick - 1;
    has_sent = false;
    cw_stamp_start(&stamp, last_tick);
    cw_receipts_start(&receipts);
    outbox_forget(OUTBOX_RELAY);
#if CAUSEWAY_MIC_BYTES
    for (uint8_t i = 0; i < COMMANDS_KEPT; i++) {
        obeyed[i] = timesync_network(clock_now()); /* those made before may have been obeyed before */
    }
#endif
    recorder_note(RECORDER_EPOCH, epoch, 0, (uint16_t)last_tick);
}

/* The tick of an event. A frame that came in before our last send was handed over, but is looked at only now,
 * takes that send's tick. No frame waits long, so a last event that seems far ahead is one of half the
 * clock's range ago. */
static uint32_t event_tick(uint32_t local)
{
    uint32_t tick = cw_tick(timesync_network(local));
    int32_t passed = cw_tick_diff(tick, last_tick);
    if (passed > 0 || passed < -WAITED_MOST) {
        last_tick = tick;
    }
    return last_tick;
}

/* ---- How far, how late ---- */

static bool knows_distance(uint32_t now)
{
    return ROOT_IS_GATEWAY && timesync_in_sync(now) && timesync_hops() != TIMESYNC_NO_HOPS;
}

/* Hops that a message of ours needs after its first: more than the deployment's, if the network is deeper and
 * stamps tell whether there is time. */
static uint8_t own_hops(uint32_t now)
{
    uint8_t distance = knows_distance(now) ? timesync_hops() : CAUSEWAY_HOPS;
    return (uint8_t)((CAUSEWAY_CLOCK_WIDTH || distance < CAUSEWAY_HOPS ? distance : CAUSEWAY_HOPS) - 1);
}

/* The hops left in the flags of a message that we would pass on, if it can get to the gateway. Where we know
 * our distance, the copy tells it. */
static bool take_hop(uint8_t *flags, uint32_t now)
{
    uint8_t left = *flags >> CAUSEWAY_FLAG_HOPS;
    if (left == 0) {
        return false;
    }
    if (knows_distance(now)) {
        uint8_t distance = timesync_hops();
        if (left < distance && left < CW_DATA_HOPS_TOP) {
            return false;
        }
        left = distance > CW_DATA_HOPS_TOP ? CW_DATA_HOPS_TOP : (uint8_t)(distance - 1);
    } else if (left < CW_DATA_HOPS_TOP) {
        left--;
    }
    uint8_t others = (uint8_t)(*flags & ((1U << CAUSEWAY_FLAG_HOPS) - 1));
    *flags = (uint8_t)(others | (uint8_t)(left << CAUSEWAY_FLAG_HOPS));
    return true;
}

#if CAUSEWAY_SCHEDULED

/* The last local time at which a message may start on the air: all that was stamped in a window is there at
 * its end, which is no more than delta after its beginning. */
static uint32_t latest_start(void)
{
    return schedule_end(clock_now()) - radio_airtime(CAUSEWAY_PAYLOAD_BYTES);
}

#else

#if CAUSEWAY_CLOCK_WIDTH

/* The last local time at which a message sent in `tick` may start on the air and still make delta. In its two
 * callers it would take ninety bytes more. */
static __attribute__((noinline)) uint32_t latest_start(uint32_t tick, uint8_t hops_after)
{
    uint32_t end = ((tick + CAUSEWAY_DELTA + 1) << CAUSEWAY_TICK_LOG2) - 1;
    uint16_t airtime = radio_airtime(CAUSEWAY_PAYLOAD_BYTES);
    uint32_t needed = airtime + (uint32_t)hops_after * HOP_TIME;
    return timesync_local(end) - needed;
}

#endif

/* Where nobody can tell how old a message is, each hop has its share of delta, from when it had the message.
 */
static uint32_t latest_start_from(uint32_t local)
{
    return local + ((uint32_t)CAUSEWAY_DELTA << CAUSEWAY_TICK_LOG2) / CAUSEWAY_HOPS -
           radio_airtime(CAUSEWAY_PAYLOAD_BYTES);
}

#endif

/* ---- Sending ---- */

static outbox_frame_t *new_frame(outbox_kind_t kind, uint8_t type, uint8_t length, uint32_t not_before,
                                 uint32_t deadline)
{
    outbox_frame_t *frame = outbox_new(kind, type, length, not_before, deadline);
    if (!frame) {
        count(&counters.full);
    }
    return frame;
}

bool messaging_send(const uint8_t *application)
{
    uint32_t now = clock_now();
    /* with a schedule, before all that was passed on to us: nobody else has it */
    uint32_t urgency = CAUSEWAY_SCHEDULED ? now : now + ((uint32_t)CAUSEWAY_DELTA << CAUSEWAY_TICK_LOG2) / 2;
    outbox_frame_t *frame = new_frame(OUTBOX_OWN, CAUSEWAY_AM_DATA, CAUSEWAY_PAYLOAD_BYTES, now, urgency);
    if (!frame) {
        return false;
    }
    uint8_t *place = cw_data_application(frame->message.data, CAUSEWAY_PAYLOAD_BYTES);
    memcpy(place, application, CAUSEWAY_DATA_BYTES);
    outbox_put(frame);
    return true;
}

bool messaging_send_health(uint8_t battery)
{
    uint32_t now = clock_now();
    outbox_frame_t *frame = new_frame(OUTBOX_PLAIN, CAUSEWAY_AM_HEALTH, CAUSEWAY_HEALTH_BYTES, now,
                                      now + PLAIN_PATIENCE);
    if (!frame) {
        return false;
    }
    if (CAUSEWAY_SCHEME_BARRIER) {
        cw_stamp_tidy(&stamp, event_tick(now)); /* whatever happens, this comes every minute */
    }
    uint8_t hops = own_hops(now);
    if (hops > CW_DATA_HOPS_TOP) {
        hops = CW_DATA_HOPS_TOP;
    }
    cw_health_t health = {
        .source = identity_id(),
        .epoch = timesync_epoch(),
        .flags = (uint8_t)((timesync_in_sync(now) ? CW_HEALTH_IN_SYNC : 0) |
                           (timesync_two_roots() ? CW_HEALTH_TWO_ROOTS : 0) |
                           board_start_cause() << CW_HEALTH_START | hops << CAUSEWAY_FLAG_HOPS),
        .boots = identity_boots(),
        .layout = CAUSEWAY_LAYOUT_HASH,
        .sent = counters.sent,
        .received = counters.received,
        .late = counters.late,
        .relayed = counters.relayed,
        .duplicates = counters.duplicates,
        .bounds = stamp.bounded,
        .battery = battery,
        .hops = timesync_hops(),
    };
    cw_health_put(frame->message.data, &health);
    outbox_put(frame);
    return true;
}

/* Some stamps name a send by its tick. With them a second send in a tick goes back to the outbox, where its
 * place has just become free, until the tick is over. If it is not over by then, it is put off once more. */
static bool put_off(const outbox_frame_t *frame, uint32_t now)
{
    if (!CAUSEWAY_ONE_SEND_A_TICK || event_tick(now) != send_tick) {
        return false;
    }
    outbox_frame_t *place = outbox_place();
    *place = *frame;
    place->not_before = now + TICK_CYCLES - (timesync_network(now) & (TICK_CYCLES - 1));
    outbox_put(place);
    return true;
}

/* Stamp an own message, unless it cannot make delta anyway. */
static bool stamp_own(outbox_frame_t *frame, uint32_t now)
{
    uint8_t *payload = frame->message.data;
    uint8_t hops = own_hops(now);
    uint32_t tick = event_tick(now);
#if CAUSEWAY_SCHEDULED
    frame->deadline = latest_start();
#elif CAUSEWAY_CLOCK_WIDTH
    frame->deadline = latest_start(tick, hops);
#else
    frame->deadline = latest_start_from(now);
#endif
    if (clock_before(frame->deadline, now)) {
        count(&counters.late);
        recorder_note(RECORDER_LATE, identity_id(), (uint8_t)(sequence + 1), (uint16_t)tick);
        messaging_on_sent(false, sequence);
        return false;
    }
    bool in_sync = cw_stamp_in_sync(&stamp, tick, timesync_in_sync(now));
    cw_data_head(payload, identity_id(), ++sequence, (uint8_t)identity_boots(), hops, in_sync);
    frame->message.length = cw_data_put_stamp(payload, &stamp, tick);
    cw_data_put_receipts(payload, frame->message.length, &receipts);
#if CAUSEWAY_MIC_BYTES
    seal_data(payload, frame->message.length, timesync_network(now));
#endif
    send_tick = tick;
    has_sent = true;
    recorder_note(RECORDER_SEND, identity_id(), sequence, (uint16_t)tick);
    return true;
}

bool messaging_on_ready(outbox_frame_t *frame, uint32_t now)
{
    const uint8_t *payload = frame->message.data;
    if (frame->kind == OUTBOX_OWN) {
        if (put_off(frame, now)) {
            return false;
        }
        return stamp_own(frame, now);
    }
    if (frame->message.type == CAUSEWAY_AM_HEALTH &&
        cw_get16(payload + CAUSEWAY_HEALTH_SOURCE_AT) == identity_id()) {
        cw_put32(frame->message.data + CAUSEWAY_HEALTH_TIME_AT, timesync_network(now));
#if CAUSEWAY_MIC_BYTES
        seal_health(frame->message.data);
#endif
    }
    return true;
}

static void note_data(recorder_kind_t kind, const uint8_t *payload)
{
    recorder_note(kind, cw_data_source(payload), cw_data_sequence(payload), (uint16_t)last_tick);
}

static void count_sent(const outbox_frame_t *frame)
{
    const uint8_t *payload = frame->message.data;
    if (frame->tries > 0) {
        count(&counters.repeated);
    } else if (frame->kind == OUTBOX_OWN) {
        count(&counters.sent);
    } else if (frame->kind == OUTBOX_RELAY) {
        count(&counters.relayed);
        note_data(RECORDER_RELAY, payload);
    } else if (frame->message.type != CAUSEWAY_AM_HEALTH ||
               cw_get16(payload + CAUSEWAY_HEALTH_SOURCE_AT) != identity_id()) {
        count(&counters.relayed);
    }
}

/* A distance is a guess, and who is nearer may not hear us: then those who are as far shall help. */
static void ask_wider(uint8_t *flags)
{
    if (knows_distance(clock_now()) && *flags >> CAUSEWAY_FLAG_HOPS < CW_DATA_HOPS_TOP) {
        *flags = (uint8_t)(*flags + (1U << CAUSEWAY_FLAG_HOPS));
    }
}

#if CAUSEWAY_SCHEDULED

/* What had no clear channel waits for its next turn; NULL if it is too late, or there is no room. */
static outbox_frame_t *put_back(const outbox_frame_t *frame)
{
    outbox_frame_t *place = outbox_place();
    if (!place || clock_before(frame->deadline, clock_now())) {
        return 0;
    }
    *place = *frame;
    if (place->kind == OUTBOX_OWN) {
        place->kind = OUTBOX_RELAY; /* it has its stamp */
    }
    outbox_put(place);
    return place;
}

/* Put a message that went out back, to go out again in the next round. */
static void repeat(const outbox_frame_t *frame)
{
    uint8_t round = (uint8_t)(schedule_round() + 1);
    outbox_frame_t *place = round < CAUSEWAY_ROUNDS ? put_back(frame) : 0;
    if (!place) {
        return;
    }
    place->round = round;
    place->tries++;
    if (round == CAUSEWAY_ROUNDS - 1) {
        ask_wider(place->message.data + CAUSEWAY_FLAGS_AT);
    }
}

#else

/* Put a message that went out back, to go out again when an answer should have been heard, if there is time.
 * Two that spoilt each other must not meet again, so the wait varies by some frames. */
static void repeat(const outbox_frame_t *frame)
{
    uint8_t answer = cw_data_hops(frame->message.data) > 0 ? 3 : 2; /* the gateway's comes soon */
    uint32_t next = clock_now() + answer * HOP_TIME + random_below(3 * HOP_TIME);
    outbox_frame_t *place = outbox_place();
    if (!place || frame->tries + 1 >= TRIES || clock_before(frame->deadline, next)) {
        return;
    }
    *place = *frame;
    place->kind = OUTBOX_RELAY;
    place->not_before = next;
    place->tries++;
    if (place->tries == TRIES / 2) {
        ask_wider(place->message.data + CAUSEWAY_FLAGS_AT);
    }
    outbox_put(place);
}

#endif

void messaging_on_done(const outbox_frame_t *frame, outbox_result_t result)
{
#if CAUSEWAY_SCHEDULED
    if (result != OUTBOX_SENT && (put_back(frame) || frame->round >= OUTBOX_BEHIND)) {
        return;
    }
#endif
    if (frame->kind == OUTBOX_OWN) {
        messaging_on_sent(result == OUTBOX_SENT, cw_data_sequence(frame->message.data));
    }
    if (result == OUTBOX_SENT) {
        count_sent(frame);
        if (frame->message.type == CAUSEWAY_AM_DATA) {
            repeat(frame);
        }
    } else if (result == OUTBOX_FAILED) {
        count(&counters.failed);
    } else if (frame->kind == OUTBOX_PLAIN) {
        count(&counters.expired);
    } else if (frame->tries == 0) {
        count(&counters.late);
        note_data(RECORDER_LATE, frame->message.data);
    }
}

/* ---- Passing on ---- */

/* Relays that heard the same frame should not all answer it at once: who hears another one keeps quiet. */
static uint16_t jitter(uint32_t slack)
{
    uint16_t spread = 3 * HOP_TIME;
    return random_below(slack / 4 < spread ? (uint16_t)(slack / 4) : spread);
}

/* Pass a message on with this byte changed. */
static void pass_on(outbox_kind_t kind, const radio_message_t *message, uint8_t at, uint8_t changed,
                    uint32_t not_before, uint32_t deadline)
{
    uint32_t wait = CAUSEWAY_SCHEDULED ? 0 : jitter(deadline - not_before); /* else turns keep them apart */
    outbox_frame_t *frame = new_frame(kind, message->type, message->length, not_before + wait, deadline);
    if (frame) {
        memcpy(frame->message.data, message->data, message->length);
        frame->message.data[at] = changed;
#if CAUSEWAY_SCHEDULED
        frame->round = schedule_round();
#endif
        outbox_put(frame);
    }
}

/* Who is in sync knows the age of a message from a sender in sync. Who is not may take no more than the time
 * that was kept free for him. If the sender was not in sync, nobody knows. */
static uint32_t relay_deadline(const uint8_t *payload, uint8_t hops, uint32_t heard, uint32_t tick,
                               uint32_t now)
{
#if CAUSEWAY_SCHEDULED
    (void)payload;
    (void)hops;
    (void)heard;
    (void)tick;
    (void)now;
    return latest_start();
#else
#if CAUSEWAY_CLOCK_WIDTH
    if (cw_data_in_sync(payload) && timesync_in_sync(now)) {
        return latest_start(cw_stamp_clock(cw_data_stamp(payload), tick), hops);
    }
    if (cw_data_in_sync(payload)) {
        return heard + MESSAGING_BACKOFF;
    }
#else
    (void)payload;
    (void)hops;
    (void)tick;
    (void)now;
#endif
    return latest_start_from(heard);
#endif
}

#if CAUSEWAY_MIC_BYTES

/* The number of one of the last that we left to others, if it is one of them. */
static uint16_t *left_number(uint16_t source, uint16_t number)
{
    for (uint8_t i = 0; i < LEFT_ROOM; i++) {
        if (left_out[i].source == source && left_out[i].number == (number | LEFT)) {
            return &left_out[i].number;
        }
    }
    return 0;
}

#else

/* Whether it is one of the last that we left to others; from now on it is not. */
static bool was_left(uint16_t source, uint16_t number)
{
    for (uint8_t i = 0; i < LEFT_ROOM; i++) {
        if (left_out[i].source == source && left_out[i].number == (number | LEFT)) {
            left_out[i].number = 0;
            return true;
        }
    }
    return false;
}

#endif

static void relay_data(const radio_heard_t *heard, uint32_t tick, uint32_t now)
{
    const uint8_t *payload = heard->message.data;
    uint8_t flags = payload[CAUSEWAY_FLAGS_AT];
    /* with a schedule it comes again, and there may be room then */
    if (!take_hop(&flags, now) || (CAUSEWAY_SCHEDULED && !outbox_place())) {
        count(&counters.spent);
        left_next = (uint8_t)((left_next + 1U) % LEFT_ROOM);
        left_out[left_next].source = cw_data_source(payload);
        left_out[left_next].number = (uint16_t)(cw_data_number(payload) | LEFT);
        return;
    }
    /* the gateway may have heard what its neighbours hear: its answer goes first */
    uint8_t hops = flags >> CAUSEWAY_FLAG_HOPS;
    uint32_t not_before = hops > 0 || CAUSEWAY_SCHEDULED ? now : now + HOP_TIME / 2;
    uint32_t deadline = relay_deadline(payload, hops, heard->time, tick, now);
    if (clock_before(deadline, not_before)) {
        count(&counters.late);
        note_data(RECORDER_LATE, payload);
    } else {
        pass_on(OUTBOX_RELAY, &heard->message, CAUSEWAY_FLAGS_AT, flags, not_before, deadline);
    }
}

#if CAUSEWAY_SCHEDULED

/* Somebody as near has sent a message that we have not. He answers for it now, and will send it again if
 * nobody nearer passes it on: if we hear that, we help. */
static void put_behind(outbox_frame_t *frame)
{
    uint8_t round = schedule_round();
    if (frame->round < OUTBOX_BEHIND) {
        frame->round = (uint8_t)((round + 1U) | OUTBOX_BEHIND);
    } else if (frame->round == (round | OUTBOX_BEHIND)) {
        frame->round = (uint8_t)(round + 1);
    }
}

#endif

/* Whether a frame need not go out (again) when somebody at this distance from the gateway has sent its
 * message. Who has sent it answers for it until somebody nearer does; who has not leaves that to others as
 * near. Where the distance is not known, hops left say little: then only the gateway's word counts. */
static bool is_done(outbox_frame_t *frame, uint8_t distance)
{
    uint8_t ours = (uint8_t)(cw_data_hops(frame->message.data) + 1);
    if (frame->tries > 0) {
        return distance < ours || ours > CW_DATA_HOPS_TOP;
    }
#if CAUSEWAY_SCHEDULED
    if (knows_distance(clock_now()) && distance == ours) {
        put_behind(frame);
        return false;
    }
#endif
    return knows_distance(clock_now()) ? distance <= ours : distance == 0;
}

#if CAUSEWAY_MIC_BYTES

static const radio_message_t *hearing; /* the frame that we look at */

/* Whether it, another copy or an Arrived, speaks of this frame of ours, whose number it has. A copy with the
 * same MIC need not be checked: only its hops are believed, and they are in no MIC. */
static bool speaks_of(const radio_message_t *message)
{
    const uint8_t *mic = seal_of_data(message->data, message->length);
    return hearing->type == CAUSEWAY_AM_ARRIVED
               ? seal_check_arrived(hearing->data, mic)
               : memcmp(seal_of_data(hearing->data, hearing->length), mic, CAUSEWAY_MIC_BYTES) == 0;
}

#endif

/* Somebody at this distance has sent a message; 0: the gateway has it. */
static void hush(uint16_t source, uint16_t number, uint8_t distance)
{
    for (uint8_t i = 0; i <= OUTBOX_ROOM; i++) {
        outbox_frame_t *frame = outbox_frame(i);
        bool at_radio = i == OUTBOX_ROOM;
        if (!frame || frame->message.type != CAUSEWAY_AM_DATA || (frame->kind == OUTBOX_OWN && !at_radio) ||
            cw_data_source(frame->message.data) != source || cw_data_number(frame->message.data) != number ||
            !is_done(frame, distance)) {
            continue;
        }
#if CAUSEWAY_MIC_BYTES
        if (!speaks_of(&frame->message)) {
            continue;
        }
#endif
        count(&counters.hushed);
        frame->used = at_radio;
        frame->deadline = clock_now(); /* what the radio has goes out, but not again */
    }
}

/* ---- Hearing ---- */

static void merge(const radio_heard_t *heard, uint32_t now)
{
    const uint8_t *payload = heard->message.data;
    uint32_t tick = event_tick(heard->time);
    if (CAUSEWAY_SCHEME_BARRIER) {
        cw_stamp_in_sync(&stamp, tick, timesync_in_sync(now));
    }
    if (!cw_data_in_sync(payload)) {
        count(&counters.unmerged);
        note_data(RECORDER_UNMERGED, payload);
        return;
    }
    cw_stamp_receive(&stamp, tick, payload, (uint8_t)cw_stamp_items(heard->message.length));
    cw_receipts_add(&receipts, cw_data_source(payload), cw_data_boot(payload), cw_data_sequence(payload));
    count(&counters.received);
    note_data(RECORDER_RECEIVE, payload);
}

static void on_arrived(const radio_message_t *message)
{
    cw_arrived_t arrived;
    if (cw_arrived_get(message->data, SEAL_REST(message->length), &arrived)) {
        hush(arrived.source, cw_data_arrived(arrived.number), 0);
    } else {
        count(&counters.foreign);
    }
}

#if CAUSEWAY_SCHEDULED && !CAUSEWAY_MIC_BYTES

/* What of ours the gateway names has arrived. Nothing has the same source and sequence within a window. */
static void on_taken(const radio_message_t *message)
{
    for (uint8_t at = 0; at + 1 < message->length; at = (uint8_t)(at + 2)) {
        uint16_t name = cw_get16(message->data + at);
        for (uint8_t i = 0; i <= OUTBOX_ROOM; i++) {
            outbox_frame_t *frame = outbox_frame(i);
            if (frame && frame->message.type == CAUSEWAY_AM_DATA &&
                cw_data_sequence(frame->message.data) == (uint8_t)name) {
                hush(name >> 8, cw_data_number(frame->message.data), 0);
            }
        }
    }
}

#endif

#if CAUSEWAY_MIC_BYTES

static bool is_right(const radio_heard_t *heard)
{
    return seal_check_data(heard->message.data, heard->message.length, timesync_network(heard->time));
}

/* A message that we may have had, or that may be forged. What is in sync cannot be checked without the time:
 * then it is passed on, and no more. */
static void judge_data(const radio_heard_t *heard, uint16_t source, uint16_t number, uint32_t tick,
                       uint32_t now)
{
    const uint8_t *payload = heard->message.data;
    uint16_t unsure = UNSURE_NUMBER(seal_of_data(payload, heard->message.length));
    if (!cw_data_in_sync(payload)) {
        number = unsure;
    }
    if (cw_dedup_knows(&seen, source, number) || cw_dedup_knows(&seen, source, unsure)) {
        count(&counters.duplicates);
        uint16_t *left = left_number(source, cw_data_number(payload));
        if (left && is_right(heard)) {
            *left = 0;
            counters.spent--;
            relay_data(heard, tick, now);
        }
    } else if ((timesync_known() || !cw_data_in_sync(payload)) && is_right(heard)) {
        cw_dedup_seen(&seen, source, number);
        merge(heard, now);
        relay_data(heard, tick, now);
        messaging_on_data(&heard->message, tick);
    } else if (cw_data_in_sync(payload) && !timesync_in_sync(now)) {
        count(&counters.unmerged);
        cw_dedup_seen(&seen, source, unsure);
        relay_data(heard, tick, now);
    } else {
        count(&counters.forged);
    }
}

#endif

static void on_data(const radio_heard_t *heard, uint32_t now)
{
    const uint8_t *payload = heard->message.data;
    if (cw_data_check(payload, heard->message.length, &checks) != CW_DATA_OK ||
        cw_data_source(payload) >= CAUSEWAY_MOTES) {
        count(&counters.foreign);
        return;
    }
    uint16_t source = cw_data_source(payload), number = cw_data_number(payload);
    uint32_t tick = cw_tick(timesync_network(heard->time));
    hush(source, number, (uint8_t)(cw_data_hops(payload) + 1));
    if (source == identity_id()) {
        count(&counters.echoes);
#if CAUSEWAY_MIC_BYTES
    } else {
        judge_data(heard, source, number, tick, now);
    }
#else
    } else if (cw_dedup_seen(&seen, source, number)) {
        count(&counters.duplicates);
        if (was_left(source, number)) {
            counters.spent--; /* each message once */
            relay_data(heard, tick, now);
        }
    } else {
        merge(heard, now);
        relay_data(heard, tick, now);
        messaging_on_data(&heard->message, tick);
    }
#endif
}

cw_knows_t messaging_knows(const radio_message_t *message, uint32_t tick)
{
    cw_own_t ours = {identity_id(), sequence, send_tick};
    return has_sent ? cw_knows(message->data, message->length, tick, &ours) : CW_KNOWS_NOT;
}

/* Health is passed on as data is: its hops are in the same bits of its own flags. */
static void relay_health(const radio_message_t *message, uint32_t now)
{
    uint8_t flags = message->data[CAUSEWAY_HEALTH_FLAGS_AT];
    if (take_hop(&flags, now)) {
        pass_on(OUTBOX_PLAIN, message, CAUSEWAY_HEALTH_FLAGS_AT, flags, now, now + PLAIN_PATIENCE);
    } else {
        count(&counters.spent);
    }
}

static void on_health(const radio_message_t *message, uint32_t now)
{
    if (message->length != CAUSEWAY_HEALTH_BYTES) {
        count(&counters.foreign);
        return;
    }
    uint16_t source = cw_get16(message->data + CAUSEWAY_HEALTH_SOURCE_AT);
    uint16_t number = HEALTH_NUMBER(cw_get32(message->data + CAUSEWAY_HEALTH_TIME_AT));
    if (source == identity_id()) {
        count(&counters.echoes);
#if CAUSEWAY_MIC_BYTES
    } else if (!cw_dedup_knows(&seen, source, number) && !seal_check_health(message->data)) {
        count(&counters.forged);
#endif
    } else if (cw_dedup_seen(&seen, source, number)) {
        count(&counters.duplicates);
    } else {
        relay_health(message, now);
    }
}

#if CAUSEWAY_MIC_BYTES

/* Whether a command that was made then is newer than all that we know; from now on we know it. It takes the
 * place of the oldest. */
static bool is_new_command(uint32_t made)
{
    uint32_t *oldest = obeyed;
    for (uint8_t i = 0; i < COMMANDS_KEPT; i++) {
        if (obeyed[i] == made) {
            return false;
        }
        if (clock_before(obeyed[i], *oldest)) {
            oldest = &obeyed[i];
        }
    }
    if (clock_before(made, *oldest)) {
        return false;
    }
    *oldest = made;
    return true;
}

/* Whether a command is to be gone on with: it is right, or we cannot tell. */
static bool judge_command(const radio_message_t *message, const cw_downlink_t *command, uint32_t made)
{
    if (!timesync_known()) {
        uint16_t unsure = UNSURE_NUMBER(message->data + CAUSEWAY_DOWNLINK_MIC_AT);
        return !cw_dedup_seen(&seen, UNCHECKED_COMMANDS, unsure);
    }
    if (cw_dedup_knows(&seen, COMMANDS, command->sequence)) {
        count(&counters.duplicates);
        return false;
    }
    if (!seal_check_command(message->data, made)) {
        count(&counters.forged);
        return false;
    }
    cw_dedup_seen(&seen, COMMANDS, command->sequence);
    return true;
}

#endif

static void on_downlink(const radio_message_t *message, uint32_t now)
{
    cw_downlink_t command;
    if (!cw_downlink_get(message->data, SEAL_REST(message->length), &command)) {
        count(&counters.foreign);
        return;
    }
#if CAUSEWAY_MIC_BYTES
    uint32_t made = seal_command_time(message->data, timesync_network(now));
    if (!judge_command(message, &command, made)) {
        return;
    }
#else
    if (cw_dedup_seen(&seen, COMMANDS, command.sequence)) {
        count(&counters.duplicates);
        return;
    }
#endif
    if (command.hops > 0 && command.target != identity_id()) {
        pass_on(OUTBOX_PLAIN, message, CAUSEWAY_DOWNLINK_HOPS_AT, (uint8_t)(command.hops - 1), now,
                now + PLAIN_PATIENCE);
    }
#if CAUSEWAY_MIC_BYTES
    if (!timesync_known() || !is_new_command(made)) {
        return;
    }
#endif
    if (command.target == identity_id() || command.target == CW_TARGET_ALL) {
        messaging_on_command(command.command, command.argument);
    }
}

void messaging_on_heard(const radio_heard_t *heard)
{
    const radio_message_t *message = &heard->message;
    uint32_t now = clock_now();
#if CAUSEWAY_SCHEDULED
    schedule_on_frame(now);
#endif
#if CAUSEWAY_MIC_BYTES
    hearing = message;
#endif
    if (message->group != CAUSEWAY_GROUP ||
        (message->dest != CW_AM_BROADCAST && message->dest != identity_id())) {
        count(&counters.foreign);
    } else if (message->type == CAUSEWAY_AM_DATA) {
        on_data(heard, now);
    } else if (message->type == CAUSEWAY_AM_BEACON && message->length == CAUSEWAY_BEACON_BYTES) {
        count(&counters.beacons);
#if CAUSEWAY_MIC_BYTES
        beacons_on_heard(heard, now);
    } else if (message->type == CAUSEWAY_AM_PROOF) {
        if (!beacons_on_proof(message, now)) {
            count(&counters.forged);
        }
#else
        timesync_on_beacon(message->data, heard->time, heard->error, now);
#endif
    } else if (message->type == CAUSEWAY_AM_HEALTH) {
        on_health(message, now);
    } else if (message->type == CAUSEWAY_AM_ARRIVED) {
        on_arrived(message);
#if CAUSEWAY_SCHEDULED && !CAUSEWAY_MIC_BYTES
    } else if (message->type == CAUSEWAY_AM_TAKEN) {
        on_taken(message);
#endif
    } else if (message->type == CAUSEWAY_AM_DOWNLINK) {
        on_downlink(message, now);
    } else {
        count(&counters.foreign);
    }
}
