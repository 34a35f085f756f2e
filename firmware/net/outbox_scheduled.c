#include "outbox_parts.h"

#if CAUSEWAY_SCHEDULED

#include <string.h>

#include "hal/clock.h"
#include "mic.h"
#include "repair.h"
#include "role.h"

#define WAIT_BEYOND_AGE (UINT32_C(4) << CAUSEWAY_PERIOD_LOG2) /* more than an age can say */

_Static_assert(CAUSEWAY_ROUNDS < OUTBOX_ROUND_MOST, "a frame's first_round holds a round");

static uint8_t own_window, own_sent; /* own messages handed over in the window of that number */
static uint8_t phase_round;          /* of our phase */
static uint32_t start_at;            /* when the frame that is handed over may start */

/* ---- Which round ---- */

static bool is_urgent(const outbox_frame_t *frame)
{
    return SCHEDULE_URGENT && frame->kind == OUTBOX_OWN && frame->urgent;
}

/* An urgent message goes out in the next window of either kind, while motes that can forward it listen. */
static bool is_time(const outbox_frame_t *frame, uint8_t round)
{
    if (SCHEDULE_URGENT && schedule_urgent())
        return round == 0 && is_urgent(frame);
    return round == 0 || (SCHEDULE_URGENT && round == 1 && is_urgent(frame));
}

/* From one window to the next an urgent message may go out where no other may. */
static bool has_place(const outbox_frame_t *frame)
{
    return own_window != schedule_window() || own_sent < CAUSEWAY_OWN_MOST ||
           (SCHEDULE_URGENT && is_urgent(frame) && own_sent < CAUSEWAY_ALL_MOST);
}

void outbox_count_own(void)
{
    own_sent = own_window == schedule_window() ? (uint8_t)(own_sent + 1) : 1;
    own_window = schedule_window();
}

/* Whether it may go out in our phase of this round. New messages go out in the first, when all listen. */
static bool is_for(const outbox_frame_t *frame, uint8_t round)
{
    if (!frame->used || frame->message.type == CAUSEWAY_AM_DOWNLINK)
        return false;
    if (frame->kind == OUTBOX_STAMPED)
        return !frame->behind && frame->first_round <= round;
    return is_time(frame, round) && !repair_is_kept(frame) &&
           (frame->kind == OUTBOX_PLAIN || has_place(frame));
}

/* Whether it may still go out in this window; or, while it is behind, whether we wait to hear it again. */
static bool is_left(const outbox_frame_t *frame)
{
    if (is_urgent(frame))
        return is_for(frame, schedule_round() == SCHEDULE_NO_ROUND ? 0 : schedule_round());
    return frame->used && frame->kind == OUTBOX_STAMPED &&
           (!frame->behind || frame->first_round >= schedule_round());
}

bool schedule_on_due(uint8_t round)
{
    for (const outbox_frame_t *frame = outbox_frames; frame < OUTBOX_END; frame++) {
        bool due = round == SCHEDULE_NO_ROUND ? is_left(frame) : is_for(frame, round);
        if (due)
            return true;
    }
    return outbox_busy && outbox_going.used;
}

bool schedule_on_sending(void)
{
    return outbox_busy;
}

/* ---- A window ---- */

/* A window is over, or nearly: drop the frames that were for it. Own messages wait for the next; their age
 * stays within what a message can say, so that their times can always be compared. */
static void drop_late(uint32_t now)
{
    for (outbox_frame_t *frame = outbox_frames; frame < OUTBOX_END; frame++) {
        if (frame->used && frame->kind != OUTBOX_OWN && clock_before(frame->deadline, now)) {
            frame->used = false;
            outbox_on_done(frame, OUTBOX_LATE);
        } else if (frame->used && frame->kind == OUTBOX_OWN &&
                   clock_before(frame->not_before, now - WAIT_BEYOND_AGE)) {
            frame->not_before = frame->deadline = now - WAIT_BEYOND_AGE;
        }
    }
}

void outbox_follow_schedule(uint32_t now)
{
    schedule_step(now);
    drop_late(now);
}

static bool is_to_seal(const outbox_frame_t *frame, uint32_t now)
{
    return frame->used && frame->kind == OUTBOX_OWN && !clock_before(now, frame->not_before) &&
           is_time(frame, phase_round) && has_place(frame);
}

/* To seal a message takes longer than a turn: own messages are stamped and sealed as soon as their phase
 * begins, the oldest first. A message that is put off keeps its place, so the loop ends. */
static void seal_own(uint32_t now)
{
    if (phase_round > SCHEDULE_URGENT)
        return;
    for (uint8_t left = OUTBOX_ROOM; left > 0; left--) {
        outbox_frame_t *oldest = NULL;
        for (outbox_frame_t *frame = outbox_frames; frame < OUTBOX_END; frame++)
            if (is_to_seal(frame, now) &&
                (oldest == NULL || clock_before(frame->not_before, oldest->not_before)))
                oldest = frame;
        if (oldest == NULL)
            return;
        outbox_frame_t own = *oldest;
        oldest->used = false;
        if (outbox_prepare(&own, now)) {
            own.kind = OUTBOX_STAMPED;
            *oldest = own;
        }
    }
}

void outbox_begin_phase(uint32_t now)
{
    phase_round = schedule_our_round();
    if (MIC_BYTES)
        seal_own(now);
}

/* ---- A turn ---- */

bool outbox_may_go(const outbox_frame_t *frame, uint32_t now)
{
    if (!role_sleeps)
        return frame->message.type != CAUSEWAY_AM_TAKEN || schedule_answers();
    return frame->message.type == CAUSEWAY_AM_DOWNLINK
               ? schedule_for_commands(now)
               : phase_round != SCHEDULE_NO_ROUND && is_for(frame, phase_round);
}

/* A mote's messages, and a gateway's answers to them, go out at our turn. */
static bool needs_turn(const outbox_frame_t *frame)
{
    return role_sleeps ? frame->message.type != CAUSEWAY_AM_DOWNLINK
                       : frame->message.type == CAUSEWAY_AM_TAKEN;
}

bool outbox_is_turn(const outbox_frame_t *frame, uint32_t now)
{
    return schedule_awake() && (!needs_turn(frame) || schedule_turn(now, &start_at));
}

uint32_t outbox_next_turn(const outbox_frame_t *frame, uint32_t now)
{
    return needs_turn(frame) && clock_before(frame->not_before, now) ? schedule_turn_after(now)
                                                                     : frame->not_before;
}

static bool can_share(const outbox_frame_t *frame)
{
    return frame->message.type == CAUSEWAY_AM_DATA && frame->message.length == CAUSEWAY_PAYLOAD_BYTES;
}

void outbox_take_second(uint32_t now)
{
    outbox_frame_t *frame = can_share(&outbox_going) ? outbox_most_urgent(now) : 0;
    if (!frame || !can_share(frame))
        return;
    outbox_second = *frame;
    frame->used = false;
    outbox_second.used = outbox_prepare(&outbox_second, now);
}

/* The second message stands behind the first while the radio copies both. */
static bool transmit_bundle(void)
{
    radio_message_t *bundle = &outbox_going.message;
    memcpy(bundle->data + CAUSEWAY_PAYLOAD_BYTES, outbox_second.message.data, CAUSEWAY_PAYLOAD_BYTES);
    bundle->type = CAUSEWAY_AM_BUNDLE;
    bundle->length = CAUSEWAY_BUNDLE_BYTES;
    bool taken = radio_send_at(bundle, start_at, RADIO_NO_STAMP);
    bundle->type = CAUSEWAY_AM_DATA;
    bundle->length = CAUSEWAY_PAYLOAD_BYTES;
    return taken;
}

bool outbox_transmit_at_turn(void)
{
    if (BUNDLES && outbox_second.used)
        return transmit_bundle();
    return needs_turn(&outbox_going)
               ? radio_send_at(&outbox_going.message, start_at, RADIO_NO_STAMP)
               : radio_send(&outbox_going.message, outbox_going.deadline, RADIO_NO_STAMP);
}

#endif
