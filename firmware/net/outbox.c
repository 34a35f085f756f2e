#include "outbox_parts.h"

#include "causeway/am.h"
#include "deadlines.h"
#include "hal/clock.h"
#include "identity.h"
#include "repair.h"
#include "role.h"
#include "small.h"
#include "timesync.h"

/* a radio that has not answered this long after the deadline counts as free */
#define RADIO_PATIENCE (4 * CLOCK_SECOND)
/* No frame waits longer or has a later deadline: twice delta, since a clock may run at half speed. */
#define FRAME_MOST                            \
    (DEADLINES_UNSTAMPED + 2 * CLOCK_SECOND + \
     ((UINT32_C(2) * (CAUSEWAY_DELTA + CAUSEWAY_EPSILON + 2)) << CAUSEWAY_TICK_LOG2))
_Static_assert(UINT64_C(2) * (CAUSEWAY_DELTA + CAUSEWAY_EPSILON + 2) <
                   ((UINT32_C(1) << 31) - 2 * RADIO_PATIENCE) >> CAUSEWAY_TICK_LOG2,
               "times that far apart can be compared: packet_formats/deployment.py refuses longer ones");
#define IDLE_PAUSE (30 * CLOCK_SECOND)

outbox_frame_t outbox_frames[OUTBOX_ROOM], outbox_going, outbox_second;
cw_flag_t outbox_busy;

/* ---- Places ---- */

/* With a schedule the frames at the radio each keep a place, to which they come back if their turn was taken.
 */
outbox_frame_t *outbox_place(void)
{
    uint8_t reserved = CAUSEWAY_SCHEDULED && outbox_busy ? 1 + BUNDLES : 0;
    outbox_frame_t *last = 0;
    for (outbox_frame_t *frame = outbox_frames; frame < OUTBOX_END; frame++) {
        if (frame->used && !repair_gives_way(frame))
            continue;
        if (reserved > 0) {
            reserved--;
            continue;
        }
        last = frame;
        if (!frame->used)
            break;
    }
    return last;
}

__attribute__((noinline)) void outbox_address(radio_message_t *message, uint8_t type, uint8_t length)
{
    message->dest = CW_AM_BROADCAST;
    message->source = identity_id();
    message->type = type;
    message->group = CAUSEWAY_GROUP;
    message->length = length;
}

outbox_frame_t *outbox_new(outbox_kind_t kind, uint8_t type, uint8_t length, uint32_t not_before,
                           uint32_t deadline)
{
    outbox_frame_t *frame = outbox_place();
    if (frame) {
        frame->kind = (uint8_t)kind;
        frame->not_before = not_before;
        frame->deadline = deadline;
        frame->tries = 0;
        if (CAUSEWAY_SCHEDULED) {
            frame->first_round = 0;
            frame->behind = false;
            frame->urgent = false;
        }
        outbox_address(&frame->message, type, length);
    }
    return frame;
}

void outbox_put(outbox_frame_t *frame)
{
    frame->used = true;
}

outbox_frame_t *outbox_frame(uint8_t place)
{
    if (place < OUTBOX_ROOM)
        return outbox_frames[place].used ? &outbox_frames[place] : 0;
    outbox_frame_t *frame = BUNDLES && place == OUTBOX_LAST ? &outbox_second : &outbox_going;
    return outbox_busy && frame->used ? frame : 0;
}

void outbox_forget(outbox_kind_t kind)
{
    for (outbox_frame_t *frame = outbox_frames; frame < OUTBOX_END; frame++)
        if (frame->kind == kind)
            frame->used = false;
}

bool outbox_sound(uint32_t now)
{
    uint32_t latest = now + FRAME_MOST;
    for (const outbox_frame_t *frame = outbox_frames; frame < OUTBOX_END; frame++)
        if (frame->used && clock_before(latest, frame->not_before))
            return false;
    return !outbox_busy || !clock_before(latest, outbox_going.deadline);
}

/* ---- To the radio, and back ---- */

outbox_frame_t *outbox_most_urgent(uint32_t now)
{
    outbox_frame_t *found = 0;
    for (outbox_frame_t *frame = outbox_frames; frame < OUTBOX_END; frame++)
        if (frame->used && !clock_before(now, frame->not_before) &&
            (!CAUSEWAY_SCHEDULED || outbox_may_go(frame, now)) &&
            (!found || clock_before(frame->deadline, found->deadline)))
            found = frame;
    return found;
}

/* An own message that must wait does not count as sent in its window. */
bool outbox_prepare(outbox_frame_t *frame, uint32_t now)
{
    bool ready = outbox_before_send(frame, now);
    if (CAUSEWAY_SCHEDULED && ready && frame->kind == OUTBOX_OWN)
        outbox_count_own();
    return ready;
}

static void report(outbox_result_t result)
{
    outbox_on_done(&outbox_going, result);
    if (BUNDLES && outbox_second.used) {
        outbox_second.used = false;
        outbox_on_done(&outbox_second, result);
    }
}

/* The frame leaves its place first, so that the reports may put a new one there. False: a frame that must
 * wait is back, and would be the next again. */
static bool send_frame(outbox_frame_t *frame, uint32_t now)
{
    outbox_going = *frame;
    frame->used = false;
    if (!outbox_prepare(&outbox_going, now))
        return !(CAUSEWAY_SCHEDULED && CAUSEWAY_ONE_SEND_A_TICK);
    if (clock_before(outbox_going.deadline, now)) {
        outbox_on_done(&outbox_going, OUTBOX_LATE);
        return true;
    }
    if (BUNDLES)
        outbox_take_second(now);
    outbox_busy = CAUSEWAY_SCHEDULED
                      ? outbox_transmit_at_turn()
                      : radio_send(&outbox_going.message, outbox_going.deadline, RADIO_NO_STAMP);
    if (!outbox_busy)
        report(OUTBOX_FAILED);
    return true;
}

void outbox_service(uint32_t now)
{
    if (outbox_busy && clock_before(outbox_going.deadline + RADIO_PATIENCE, now))
        radio_on_sent(RADIO_FAILED, now);
    if (CAUSEWAY_SCHEDULED)
        outbox_follow_schedule(now);
    if (!outbox_busy && timesync_due(now) && (!CAUSEWAY_SCHEDULED || schedule_awake()))
        outbox_busy = outbox_send_beacon(now);
    if (CAUSEWAY_SCHEDULED)
        outbox_begin_phase(now);
    outbox_frame_t *frame;
    while (!outbox_busy && (frame = outbox_most_urgent(now)) != 0 &&
           (!CAUSEWAY_SCHEDULED || outbox_is_turn(frame, now)) && send_frame(frame, now)) {
    }
}

uint32_t outbox_next(uint32_t now)
{
    if (outbox_busy) {
        uint32_t given_up = outbox_going.deadline + RADIO_PATIENCE + 1;
        return CAUSEWAY_SCHEDULED ? earlier(given_up, schedule_next(now)) : given_up;
    }
    uint32_t next = earlier(now + IDLE_PAUSE, timesync_next());
    if (CAUSEWAY_SCHEDULED) {
        if (!schedule_awake() && clock_before(next, now))
            next = now + IDLE_PAUSE; /* a question waits until we listen */
        next = earlier(next, schedule_next(now));
        if (role_sleeps)
            return next; /* the schedule knows when a frame may go */
    }
    for (const outbox_frame_t *frame = outbox_frames; frame < OUTBOX_END; frame++)
        if (frame->used)
            next = earlier(next, CAUSEWAY_SCHEDULED ? outbox_next_turn(frame, now) : frame->not_before);
    return next;
}

void radio_on_sent(radio_result_t result, uint32_t time)
{
    (void)time;
    if (CAUSEWAY_SCHEDULED && result == RADIO_SENT)
        schedule_on_sent(clock_now());
    if (!outbox_busy)
        return; /* an answer after RADIO_PATIENCE: that frame's end has been reported */
    outbox_busy = false;
    if (outbox_going.used) {
        outbox_going.used = false;
        report(result == RADIO_SENT ? OUTBOX_SENT : result == RADIO_BUSY ? OUTBOX_LATE : OUTBOX_FAILED);
    } else {
        outbox_busy = outbox_beacon_ended(result);
    }
}
