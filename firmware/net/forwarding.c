#include "forwarding.h"

#include <string.h>

#include "causeway/data.h"
#include "deadlines.h"
#include "hal/clock.h"
#include "hops.h"
#include "admission.h"
#include "jitter.h"
#include "schedule.h"
#include "stamping.h"
#include "traffic.h"

/* How often a message goes out here at most, the first time included. */
#define TRIES 5

/* The names of the last messages deferred to others: too few hops, or no free place. With a schedule, as many
 * as half a window may bring. */
#define DEFERRED_MOST (CAUSEWAY_SCHEDULED ? CAUSEWAY_MOTES * CAUSEWAY_OWN_MOST / 2 : 4)
#define DEFERRED_ROOM (DEFERRED_MOST < 64 ? DEFERRED_MOST : 64)
static uint16_t deferred[DEFERRED_ROOM];
static uint8_t deferred_next;

/* Another message may have the same name: then it is forwarded twice, and this one is forgotten. A message of
 * name 0 is not remembered. Ids 32 apart are kept apart, since motes often have the same sequence. */
static uint16_t name_of(const uint8_t *payload)
{
    uint16_t source = cw_data_source(payload), high = CAUSEWAY_MOTES > 32 ? source >> 5 : 0;
    return (uint16_t)((source << 11 | cw_data_number(payload)) ^ high);
}

/* ---- The first time ---- */

/* Motes that heard the same frame should not all forward it at once: those that hear another forward it keep
 * quiet. */
static uint16_t jitter(uint32_t slack)
{
    uint16_t spread = 3 * DEADLINES_HOP;
    return jitter_below(slack / 4 < spread ? (uint16_t)(slack / 4) : spread);
}

/* Forward a message. Return its copy, in which a byte may be changed; NULL if no place is free. */
static outbox_frame_t *forward_message(outbox_kind_t kind, const radio_message_t *message,
                                       uint32_t not_before, uint32_t deadline)
{
    /* with a schedule turns keep them apart */
    uint32_t wait = CAUSEWAY_SCHEDULED ? 0 : jitter(deadline - not_before);
    outbox_frame_t *frame = traffic_frame(kind, message->type, message->length, not_before + wait, deadline);
    if (frame) {
        memcpy(frame->message.data, message->data, message->length);
        if (CAUSEWAY_SCHEDULED) {
            frame->first_round = schedule_round() & OUTBOX_ROUND_MOST;
            /* heard outside the rounds: its sender goes on with it */
            frame->behind = schedule_round() == SCHEDULE_NO_ROUND;
        }
        outbox_put(frame);
    }
    return frame;
}

void forwarding_plain(const radio_message_t *message, uint8_t at, uint8_t changed, uint32_t now)
{
    outbox_frame_t *frame = forward_message(OUTBOX_PLAIN, message, now, now + DEADLINES_PLAIN);
    if (frame)
        frame->message.data[at] = changed;
}

static void defer(const uint8_t *payload)
{
    count(&traffic.spent);
    deferred_next = (uint8_t)((deferred_next + 1U) % DEFERRED_ROOM);
    deferred[deferred_next] = name_of(payload);
}

void forwarding_on_new(const radio_heard_t *heard, uint32_t tick, uint32_t now)
{
    const uint8_t *payload = heard->message.data;
    uint8_t flags = payload[CAUSEWAY_FLAGS_AT];
    /* with a schedule it comes again, and a place may be free then */
    if (!hops_take(&flags, now) || (CAUSEWAY_SCHEDULED && !outbox_place())) {
        defer(payload);
        return;
    }
    /* the gateway may have heard the same frame as its neighbours: its answer goes first */
    uint8_t hops = flags >> CAUSEWAY_FLAG_HOPS;
    uint32_t not_before = hops > 0 || CAUSEWAY_SCHEDULED ? now : now + DEADLINES_HOP / 2;
    uint32_t deadline = deadlines_heard(heard, hops, tick, now);
    if (clock_before(deadline, not_before)) {
        count(&traffic.late);
        stamping_note(RECORDER_LATE, payload);
    } else {
        outbox_frame_t *frame = forward_message(OUTBOX_STAMPED, &heard->message, not_before, deadline);
        if (frame)
            frame->message.data[CAUSEWAY_FLAGS_AT] = flags;
    }
}

/* Where a name is, if its message was deferred; else NULL. */
static uint16_t *deferred_place(uint16_t name)
{
    for (uint8_t i = 0; i < DEFERRED_ROOM; i++)
        if (deferred[i] == name)
            return &deferred[i];
    return 0;
}

void forwarding_on_copy(const radio_heard_t *heard, uint32_t tick, uint32_t now)
{
    uint16_t name = name_of(heard->message.data), *left = name != 0 ? deferred_place(name) : 0;
    if (left && admission_is_authentic(heard)) {
        *left = 0;
        traffic.spent--; /* each message once */
        forwarding_on_new(heard, tick, now);
    }
}

/* ---- Again ---- */

/* With a schedule: a frame that found no clear channel waits for its next turn; NULL if that is too late, or
 * no place is free. */
static outbox_frame_t *put_back(const outbox_frame_t *frame)
{
    outbox_frame_t *place = outbox_place();
    if (!place || clock_before(frame->deadline, clock_now()))
        return 0;
    *place = *frame;
    if (place->kind == OUTBOX_OWN)
        place->kind = OUTBOX_STAMPED;
    outbox_put(place);
    return place;
}

bool forwarding_waits(const outbox_frame_t *frame)
{
    return CAUSEWAY_SCHEDULED && (put_back(frame) || frame->behind);
}

static bool repeat_in_next_round(const outbox_frame_t *frame)
{
    uint8_t round = (uint8_t)(schedule_round() + 1);
    outbox_frame_t *place = round < CAUSEWAY_ROUNDS ? put_back(frame) : 0;
    if (!place)
        return false;
    place->first_round = round & OUTBOX_ROUND_MOST;
    place->behind = false;
    place->tries++;
    if (round == CAUSEWAY_ROUNDS - 2) /* a peer that helps needs a round, too */
        hops_widen(place->message.data + CAUSEWAY_FLAGS_AT);
    return true;
}

/* When an answer should have been heard. Two frames that collided must not meet again, so the wait varies by
 * some frames. */
static bool repeat_later(const outbox_frame_t *frame)
{
    uint8_t answer = cw_data_hops(frame->message.data) > 0 ? 3 : 2; /* the gateway's comes soon */
    uint32_t next = clock_now() + answer * DEADLINES_HOP + jitter_below(3 * DEADLINES_HOP);
    outbox_frame_t *place = outbox_place();
    if (!place || frame->tries + 1 >= TRIES || clock_before(frame->deadline, next))
        return false;
    *place = *frame;
    place->kind = OUTBOX_STAMPED;
    place->not_before = next;
    place->tries++;
    if (place->tries == TRIES / 2)
        hops_widen(place->message.data + CAUSEWAY_FLAGS_AT);
    outbox_put(place);
    return true;
}

bool forwarding_repeat(const outbox_frame_t *frame)
{
    return CAUSEWAY_SCHEDULED ? repeat_in_next_round(frame) : repeat_later(frame);
}
