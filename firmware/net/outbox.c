#include "outbox.h"

#include <string.h>

#include "causeway/am.h"
#include "causeway/bytes.h"
#include "small.h"
#include "hal/clock.h"
#include "identity.h"
#include "repair.h"
#include "role.h"
#include "mic.h"
#include "timesync.h"

/* a beacon waits this long for a clear channel */
#if CAUSEWAY_SCHEDULED
#define BEACON_PATIENCE ((uint32_t)CAUSEWAY_BEACON_SLOT)
#else
#define BEACON_PATIENCE CLOCK_SECOND
#endif
/* a radio that says nothing this long after the deadline is taken for free */
#define RADIO_PATIENCE (4 * CLOCK_SECOND)
/* No frame waits longer, and none has a later deadline: delta, which a clock that is slowed down may stretch
 * to twice as long. */
#if CAUSEWAY_SCHEDULED
#define PLAIN_MOST (UINT32_C(3) << CAUSEWAY_PERIOD_LOG2) /* what has no stamp may wait for its window */
#else
#define PLAIN_MOST 0
#endif
#define FRAME_MOST                   \
    (PLAIN_MOST + 2 * CLOCK_SECOND + \
     ((UINT32_C(2) * (CAUSEWAY_DELTA + CAUSEWAY_EPSILON + 2)) << CAUSEWAY_TICK_LOG2))
_Static_assert(UINT64_C(2) * (CAUSEWAY_DELTA + CAUSEWAY_EPSILON + 2) <
                   ((UINT32_C(1) << 31) - 2 * RADIO_PATIENCE) >> CAUSEWAY_TICK_LOG2,
               "times that far apart can be compared: packet_formats/deployment.py refuses longer ones");
#define IDLE_PAUSE (30 * CLOCK_SECOND)
#define WAIT_BEYOND_AGE (UINT32_C(4) << CAUSEWAY_PERIOD_LOG2) /* more than an age can tell */

static outbox_frame_t frames[OUTBOX_ROOM];
#define END (frames + OUTBOX_ROOM)
static outbox_frame_t going; /* the frame at the radio; not `used`: a beacon or its proof */
static cw_flag_t busy;       /* the radio has one */
#if BUNDLES
static outbox_frame_t second; /* if `used`, in one frame with it */
#endif

/* What is at the radio keeps a place, and so does what may go second: it comes back if its turn was taken. */
outbox_frame_t *outbox_place(void)
{
    uint8_t kept = CAUSEWAY_SCHEDULED && busy ? 1 + BUNDLES : 0;
    outbox_frame_t *last = 0;
    for (outbox_frame_t *frame = frames; frame < END; frame++) {
        if (frame->used && !repair_gives_way(frame))
            continue;
        if (kept > 0) {
            kept--;
            continue;
        }
        last = frame;
        if (!frame->used)
            break;
    }
    return last;
}

/* A message of ours to all. */
static __attribute__((noinline)) void address(radio_message_t *message, uint8_t type, uint8_t length)
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
#if CAUSEWAY_SCHEDULED
        frame->round = 0;
#endif
        address(&frame->message, type, length);
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
        return frames[place].used ? &frames[place] : 0;
#if BUNDLES
    if (place == OUTBOX_LAST)
        return busy && second.used ? &second : 0;
#endif
    return busy && going.used ? &going : 0;
}

void outbox_forget(outbox_kind_t kind)
{
    for (outbox_frame_t *frame = frames; frame < END; frame++)
        if (frame->kind == kind)
            frame->used = false;
}

bool outbox_idle(void)
{
    for (const outbox_frame_t *frame = frames; frame < END; frame++)
        if (frame->used)
            return false;
    return !busy;
}

bool outbox_sound(uint32_t now)
{
    uint32_t latest = now + FRAME_MOST;
    for (const outbox_frame_t *frame = frames; frame < END; frame++)
        if (frame->used && clock_before(latest, frame->not_before))
            return false;
    return !busy || !clock_before(latest, going.deadline);
}

#if CAUSEWAY_SCHEDULED

static uint8_t own_window, own_sent; /* so many were handed over in that window */

static bool may_send_own(void)
{
    return own_window != schedule_window() || own_sent < CAUSEWAY_OWN_MOST;
}

#if SCHEDULE_URGENT

static __attribute__((noinline)) bool is_urgent(const outbox_frame_t *frame)
{
    return frame->kind == OUTBOX_OWN && (frame->round & OUTBOX_URGENT);
}

/* An urgent message goes out in the next window of either kind, while those listen who are to pass it on. */
static bool is_time(const outbox_frame_t *frame, uint8_t round)
{
    return schedule_urgent() ? round == 0 && is_urgent(frame)
                             : round == 0 || (round == 1 && is_urgent(frame));
}

/* From one window to the next an urgent message may go out where no other may. */
static bool has_place(const outbox_frame_t *frame)
{
    return may_send_own() || (is_urgent(frame) && own_sent < CAUSEWAY_ALL_MOST);
}

#else
#define is_urgent(frame) false
#define is_time(frame, round) ((round) == 0)
#define has_place(frame) may_send_own()
#endif

static void count_own(void)
{
    own_sent = own_window == schedule_window() ? (uint8_t)(own_sent + 1) : 1;
    own_window = schedule_window();
}

/* Whether it may go out in our phase of this round. What is new goes out in the first, when all listen. */
static bool is_for(const outbox_frame_t *frame, uint8_t round)
{
    if (!frame->used || frame->message.type == CAUSEWAY_AM_DOWNLINK)
        return false;
    if (frame->kind == OUTBOX_STAMPED)
        return frame->round <= round;
    return is_time(frame, round) && !repair_is_kept(frame) &&
           (frame->kind == OUTBOX_PLAIN || has_place(frame));
}

/* Whether it may still go out in this window; or, while it is behind, whether we wait to hear it again. */
static bool is_left(const outbox_frame_t *frame)
{
    if (is_urgent(frame))
        return is_for(frame, schedule_round() == SCHEDULE_NO_ROUND ? 0 : schedule_round());
    return frame->used && frame->kind == OUTBOX_STAMPED &&
           (frame->round < OUTBOX_BEHIND || (frame->round & ~OUTBOX_BEHIND) >= schedule_round());
}

bool schedule_on_due(uint8_t round)
{
    for (const outbox_frame_t *frame = frames; frame < END; frame++) {
        bool left = round == SCHEDULE_NO_ROUND ? is_left(frame) : is_for(frame, round);
        if (left)
            return true;
    }
    return busy && going.used;
}

bool schedule_on_sending(void)
{
    return busy;
}

static uint8_t round_now; /* of our phase */

static bool may_go(const outbox_frame_t *frame, uint32_t now)
{
    if (!role_sleeps)
        return frame->message.type != CAUSEWAY_AM_TAKEN || schedule_answers();
    uint8_t round = round_now;
    return frame->message.type == CAUSEWAY_AM_DOWNLINK ? schedule_for_commands(now)
                                                       : round != SCHEDULE_NO_ROUND && is_for(frame, round);
}

/* What goes out at our turn: a mote's messages, and a gateway's answers to them. */
static bool needs_turn(const outbox_frame_t *frame)
{
    return role_sleeps ? frame->message.type != CAUSEWAY_AM_DOWNLINK
                       : frame->message.type == CAUSEWAY_AM_TAKEN;
}

/* A window is over, or nearly: drop what was for it. Own messages wait for the next, and their age does not
 * grow beyond what can be told, so that their times can always be compared. */
static void drop_late(uint32_t now)
{
    for (outbox_frame_t *frame = frames; frame < END; frame++) {
        if (frame->used && frame->kind != OUTBOX_OWN && clock_before(frame->deadline, now)) {
            frame->used = false;
            outbox_on_done(frame, OUTBOX_LATE);
        } else if (frame->used && frame->kind == OUTBOX_OWN &&
                   clock_before(frame->not_before, now - WAIT_BEYOND_AGE)) {
            frame->not_before = frame->deadline = now - WAIT_BEYOND_AGE;
        }
    }
}

#else

static bool may_go(const outbox_frame_t *frame, uint32_t now)
{
    (void)frame;
    (void)now;
    return true;
}

#endif

static outbox_frame_t *most_urgent(uint32_t now)
{
    outbox_frame_t *found = 0;
    for (outbox_frame_t *frame = frames; frame < END; frame++)
        if (frame->used && !clock_before(now, frame->not_before) && may_go(frame, now) &&
            (!found || clock_before(frame->deadline, found->deadline)))
            found = frame;
    return found;
}

static void send_beacon(uint32_t now)
{
    address(&going.message, CAUSEWAY_AM_BEACON, CAUSEWAY_BEACON_BYTES);
    timesync_fill(going.message.data, now);
    going.used = false;
    going.deadline = now + BEACON_PATIENCE;
#if CAUSEWAY_SCHEDULED
    going.tries = 0;
    busy = radio_send_at(&going.message, now, CAUSEWAY_BEACON_TIME_AT); /* it is our turn */
#else
    busy = radio_send(&going.message, going.deadline, CAUSEWAY_BEACON_TIME_AT);
#endif
}

#if CAUSEWAY_MIC_BYTES

static uint32_t beacon_time; /* the time in the last beacon that went out */

/* A beacon has gone out: its proof follows, before anything else. A question has none. */
static void send_proof(void)
{
    uint8_t *beacon = going.message.data, proof[MIC_RECORD_BYTES(PROOF)];
    if (beacon[CAUSEWAY_BEACON_HOPS_AT] == TIMESYNC_NO_HOPS)
        return;
    cw_put32(beacon + CAUSEWAY_BEACON_TIME_AT, beacon_time);
    mic_write_proof(proof, beacon);
    address(&going.message, CAUSEWAY_AM_PROOF, sizeof proof);
    memcpy(going.message.data, proof, sizeof proof);
    going.deadline = clock_now() + BEACON_PATIENCE;
#if CAUSEWAY_SCHEDULED
    going.tries = 0;
    busy = radio_send_at(&going.message, clock_now(), RADIO_NO_STAMP); /* before most others get in between */
#else
    busy = radio_send(&going.message, going.deadline, RADIO_NO_STAMP);
#endif
}

#endif

#if CAUSEWAY_SCHEDULED
static uint32_t start_at; /* when the frame that is handed over may start */
#endif

/* What was at the radio is done with. */
static void report(outbox_result_t result)
{
    outbox_on_done(&going, result);
#if BUNDLES
    if (second.used) {
        second.used = false;
        outbox_on_done(&second, result);
    }
#endif
}

/* The last changes to a frame. An own message that must wait does not count as one of its window. */
static bool get_ready(outbox_frame_t *frame, uint32_t now)
{
    bool ready = outbox_before_send(frame, now);
#if CAUSEWAY_SCHEDULED
    if (ready && frame->kind == OUTBOX_OWN)
        count_own();
#endif
    return ready;
}

#if BUNDLES

static bool can_share(const outbox_frame_t *frame)
{
    return frame->message.type == CAUSEWAY_AM_DATA && frame->message.length == CAUSEWAY_PAYLOAD_BYTES;
}

/* A second message that may go out now, too. */
static void take_second(uint32_t now)
{
    outbox_frame_t *frame = can_share(&going) ? most_urgent(now) : 0;
    if (!frame || !can_share(frame))
        return;
    second = *frame;
    frame->used = false;
    second.used = get_ready(&second, now);
}

/* The second message stands behind the first one while the radio copies both. */
static bool transmit_bundle(void)
{
    radio_message_t *bundle = &going.message;
    memcpy(bundle->data + CAUSEWAY_PAYLOAD_BYTES, second.message.data, CAUSEWAY_PAYLOAD_BYTES);
    bundle->type = CAUSEWAY_AM_BUNDLE;
    bundle->length = CAUSEWAY_BUNDLE_BYTES;
    bool taken = radio_send_at(bundle, start_at, RADIO_NO_STAMP);
    bundle->type = CAUSEWAY_AM_DATA;
    bundle->length = CAUSEWAY_PAYLOAD_BYTES;
    return taken;
}

#endif

static bool transmit(void)
{
#if BUNDLES
    if (second.used)
        return transmit_bundle();
#endif
#if CAUSEWAY_SCHEDULED
    if (needs_turn(&going))
        return radio_send_at(&going.message, start_at, RADIO_NO_STAMP);
#endif
    return radio_send(&going.message, going.deadline, RADIO_NO_STAMP);
}

/* The frame leaves its place first, so that the reports may put a new one there. False: one that must wait is
 * back, and would be the next again. */
static bool send_frame(outbox_frame_t *frame, uint32_t now)
{
    going = *frame;
    frame->used = false;
    if (!get_ready(&going, now))
        return !(CAUSEWAY_SCHEDULED && CAUSEWAY_ONE_SEND_A_TICK);
    if (clock_before(going.deadline, now)) {
        outbox_on_done(&going, OUTBOX_LATE);
        return true;
    }
#if BUNDLES
    take_second(now);
#endif
    busy = transmit();
    if (!busy)
        report(OUTBOX_FAILED);
    return true;
}

#if CAUSEWAY_SCHEDULED

#if CAUSEWAY_MIC_BYTES

static bool is_to_seal(const outbox_frame_t *frame, uint32_t now)
{
    return frame->used && frame->kind == OUTBOX_OWN && !clock_before(now, frame->not_before) &&
           is_time(frame, round_now) && has_place(frame);
}

/* To seal a message takes longer than a turn: own ones are stamped and sealed as soon as their phase begins,
 * the oldest first. One that is put off keeps its place, so there is an end to it. */
static void seal_own(uint32_t now)
{
    for (uint8_t left = OUTBOX_ROOM; round_now <= SCHEDULE_URGENT && left > 0; left--) {
        outbox_frame_t *oldest = NULL;
        for (outbox_frame_t *frame = frames; frame < END; frame++)
            if (is_to_seal(frame, now) &&
                (oldest == NULL || clock_before(frame->not_before, oldest->not_before)))
                oldest = frame;
        if (oldest == NULL)
            return;
        outbox_frame_t own = *oldest;
        oldest->used = false;
        if (get_ready(&own, now)) {
            own.kind = OUTBOX_STAMPED;
            *oldest = own;
        }
    }
}

#endif

static bool is_its_turn(const outbox_frame_t *frame, uint32_t now)
{
    return schedule_awake() && (!needs_turn(frame) || schedule_turn(now, &start_at));
}

static bool may_speak(void)
{
    return schedule_awake();
}

#else

static bool is_its_turn(const outbox_frame_t *frame, uint32_t now)
{
    (void)frame;
    (void)now;
    return true;
}

static bool may_speak(void)
{
    return true;
}

#endif

void outbox_service(uint32_t now)
{
    if (busy && clock_before(going.deadline + RADIO_PATIENCE, now))
        radio_on_sent(RADIO_FAILED, now);
#if CAUSEWAY_SCHEDULED
    schedule_step(now);
    drop_late(now);
#endif
    if (!busy && timesync_due(now) && may_speak())
        send_beacon(now);
#if CAUSEWAY_SCHEDULED
    round_now = schedule_our_round();
#if CAUSEWAY_MIC_BYTES
    seal_own(now);
#endif
#endif
    outbox_frame_t *frame;
    while (!busy && (frame = most_urgent(now)) != 0 && is_its_turn(frame, now) && send_frame(frame, now)) {
    }
}

static uint32_t when_to_try(const outbox_frame_t *frame, uint32_t now)
{
#if CAUSEWAY_SCHEDULED
    if (needs_turn(frame) && clock_before(frame->not_before, now))
        return schedule_turn_after(now);
#endif
    (void)now;
    return frame->not_before;
}

uint32_t outbox_next(uint32_t now)
{
    if (busy) {
#if CAUSEWAY_SCHEDULED
        return earlier(going.deadline + RADIO_PATIENCE + 1, schedule_next(now));
#else
        return going.deadline + RADIO_PATIENCE + 1;
#endif
    }
    uint32_t next = earlier(now + IDLE_PAUSE, timesync_next());
#if CAUSEWAY_SCHEDULED
    if (!may_speak() && clock_before(next, now))
        next = now + IDLE_PAUSE; /* a question waits until we listen */
    next = earlier(next, schedule_next(now));
    if (role_sleeps)
        return next; /* and knows when a frame may go */
#endif
    for (const outbox_frame_t *frame = frames; frame < END; frame++)
        if (frame->used)
            next = earlier(next, when_to_try(frame, now));
    return next;
}

void radio_on_sent(radio_result_t result, uint32_t time)
{
    (void)time;
#if CAUSEWAY_SCHEDULED
    if (result == RADIO_SENT)
        schedule_on_sent(clock_now());
#endif
    if (!busy)
        return; /* an answer after RADIO_PATIENCE: that frame's end has been reported */
    busy = false;
    if (going.used) {
        going.used = false;
        report(result == RADIO_SENT ? OUTBOX_SENT : result == RADIO_BUSY ? OUTBOX_LATE : OUTBOX_FAILED);
    }
#if CAUSEWAY_SCHEDULED
    else if (going.message.type == CAUSEWAY_AM_BEACON && result == RADIO_BUSY && going.tries == 0) {
        going.tries = 1; /* somebody else's turn: behind it, still in the order of ids */
        busy = radio_send_at(&going.message, schedule_behind_beacon(), CAUSEWAY_BEACON_TIME_AT);
    }
#endif
#if CAUSEWAY_MIC_BYTES
    else if (going.message.type == CAUSEWAY_AM_BEACON && result == RADIO_SENT) {
        send_proof();
    }
#if CAUSEWAY_SCHEDULED
    else if (going.message.type == CAUSEWAY_AM_PROOF && result == RADIO_BUSY && going.tries == 0) {
        going.tries = 1;
        busy = radio_send(&going.message, going.deadline, RADIO_NO_STAMP);
    }
#endif
#endif
}

uint32_t radio_stamp(uint32_t local)
{
#if CAUSEWAY_MIC_BYTES
    return beacon_time = timesync_stamp(local);
#else
    return timesync_stamp(local);
#endif
}
