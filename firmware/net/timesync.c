#include "timesync.h"

#include "hal/clock.h"
#include "hal/radio.h"

#include "causeway/records.h"
#include "small.h"
#include "identity.h"
#include "network_time.h"
#include "jitter.h"
#include "repair.h"
#include "schedule.h"
#include "clock_fit.h"
#include "timesync_parts.h"

enum {
    OUTLIERS = 3, /* so many in a row, and the line is begun anew */
};

#define PAIR_AGE_MOST \
    (UINT32_C(1) << 30) /* an older newest pair (9 hours) is moved up before its age wraps */
/* cycles from the start to the first question, and between a root's */
#define ASK_FIRST (CLOCK_SECOND / 4)
#define ASK_DOUBLED 7 /* times that the pause between two questions is doubled */
#define ASK_MOST (ASK_FIRST << ASK_DOUBLED)
/* No plan is further ahead: a root's next beacon, or anybody's next question; a successor has both. */
#define PLAN_ROOT (TIMESYNC_PERIOD + ANSWER_PAUSE)
#define PLAN_MOTE (3 * ASK_MOST > PLAN_ROOT ? 3 * ASK_MOST : PLAN_ROOT)
#define ANSWER_PAUSE CLOCK_SECOND /* a root answers questions by a beacon, but no more often than this */
#define TIDY (60 * CLOCK_SECOND)
#if CAUSEWAY_SCHEDULED
/* others are awake in windows only: a starting root asks for more than a period before it opens an epoch */
#define LISTEN_PAUSE (TIMESYNC_PERIOD / 64)
#define LISTEN_QUESTIONS 72
#else
#define LISTEN_PAUSE (2 * ASK_FIRST)
#define LISTEN_QUESTIONS 4 /* a starting root asks so often before it opens an epoch */
#endif
/* After this long without a beacon a mote takes over: half a period sooner if it knows the network's speed.
 * The lowest id goes first, each other one waits a share of half a period longer, so that mostly one speaks.
 * A MICAz that has heard a single beacon is in sync for 47 s, 4.7 periods. */
#define SILENCE ((uint32_t)(4 * TIMESYNC_PERIOD))
#define SUCCESSION_STEP ((uint32_t)(TIMESYNC_PERIOD / 2 / CAUSEWAY_MOTES))
#define BEACONS_MISSED 4 /* the same with a schedule, in whose windows all take turns */

static uint8_t hops;     /* our own, by the last beacon taken */
static uint16_t driver;  /* following: whose beacons we take; our own id: we are the successor */
static uint8_t outliers; /* in a row, off the line */

static intent_t intent;
static uint32_t beacon_at;
static uint8_t ask_pause; /* the next one is ASK_FIRST, doubled so often */
static uint32_t tidy_at;

timesync_shared_t timesync;

static bool is_successor(void)
{
    return timesync.state == FOLLOWING && driver == identity_id();
}

static bool drives(void)
{
    return leads() || is_successor();
}

void timesync_set_time(uint32_t local, uint32_t network, uint8_t flags)
{
    network_time_set(local, network);
#if CAUSEWAY_MIC_BYTES
    network_time_set_round(flags >> CW_BEACON_ROUND);
#else
    (void)flags;
#endif
}

/* In its 8 places it would take eighty bytes more. */
__attribute__((noinline)) void timesync_plan(intent_t what, uint32_t when)
{
    intent = what;
    beacon_at = when;
}

void timesync_start(uint8_t last_epoch, uint8_t last_round, uint32_t now)
{
    guarded_u16_set(&timesync.epoch, last_epoch);
    guarded_u16_set(&timesync.sequence, 0);
    timesync.state = is_root() ? LISTENING : LOST;
    driver = CAUSEWAY_ROOT;
    hops = TIMESYNC_NO_HOPS;
    clock_fit_clear();
    outliers = 0;
    timeroot_start();
    timesync.burst = LISTEN_QUESTIONS;
    ask_pause = 0;
    tidy_at = now + TIDY;
    timesync.counters = (timesync_counters_t){0};
#if CAUSEWAY_MIC_BYTES
    timesync_set_time(now, 0,
                      (uint8_t)(last_round << CW_BEACON_ROUND)); /* a root knows that it is no earlier */
#else
    (void)last_round;
    network_time_set(now, now);
#endif
    timesync_plan(QUESTION, now + ASK_FIRST / 4 + jitter_below((uint16_t)ASK_FIRST));
}

#if CAUSEWAY_MIC_BYTES

uint8_t timesync_round(uint32_t network)
{
    return network_time_round(network);
}

int8_t timesync_later(uint8_t from_epoch, uint8_t flags, uint32_t time)
{
    uint8_t by = (uint8_t)(from_epoch - timesync_epoch());
    if (by == 0) /* their difference where the sign is */
        by = (uint8_t)(flags - (network_time_round(time) << CW_BEACON_ROUND)) & (uint8_t)CW_BEACON_ROUND_MASK;
    return (int8_t)by;
}

int8_t timesync_how_late(const cw_beacon_t *beacon)
{
    return timesync_later(beacon->epoch, beacon->flags, beacon->time);
}

#else

int8_t timesync_how_late(const cw_beacon_t *beacon)
{
    return (int8_t)(uint8_t)(beacon->epoch - timesync_epoch());
}

#endif

uint32_t timesync_network(uint32_t local)
{
    return network_time_shown(local);
}

uint32_t timesync_local(uint32_t network)
{
    return network_time_local(network);
}

uint32_t timesync_stamp(uint32_t local)
{
    return network_time_estimate(local);
}

/* Error of the estimate; the shown clock is off by what is left to correct besides. */
static uint16_t estimate_error(uint32_t now)
{
    if (timesync.state != FOLLOWING)
        return leads() ? 0 : UINT16_MAX;
    return clock_fit_error(now);
}

uint16_t timesync_error(uint32_t now)
{
    uint16_t error = estimate_error(now);
    uint32_t left = network_time_size(network_time_left(now));
    return left > (uint32_t)(UINT16_MAX - error) ? UINT16_MAX : (uint16_t)(error + left);
}

bool timesync_in_sync(uint32_t now)
{
    return leads() || (timesync.state == FOLLOWING && timesync_error(now) <= TIMESYNC_LIMIT);
}

uint8_t timesync_hops(void)
{
    if (timesync.state != FOLLOWING)
        return leads() ? 0 : TIMESYNC_NO_HOPS;
    return clock_fit_hops();
}

uint8_t timesync_last_hops(void)
{
    return hops;
}

uint8_t timesync_epoch(void)
{
    return (uint8_t)guarded_u16_get(&timesync.epoch);
}

bool timesync_known(void)
{
    return leads() || timesync.state == FOLLOWING;
}

bool timesync_is_root(void)
{
    return leads();
}

uint16_t timesync_driver(void)
{
    return is_root() ? CAUSEWAY_ROOT : driver;
}

#if CAUSEWAY_SCHEDULED

uint32_t timesync_taken(uint32_t now)
{
    return now - clock_fit_age(now);
}

/* In its callers it would take fifty bytes more. */
__attribute__((noinline)) bool timesync_speaks(uint32_t by)
{
    return (intent == BEACON || intent == ANSWER) && !clock_before(by, beacon_at);
}

void timesync_ask_now(uint32_t now)
{
    if (timesync.state == LISTENING && !timeroot_answered() && clock_before(now + SPREAD, beacon_at))
        timesync_plan(QUESTION, now + jitter_below(SPREAD));
}

#endif

const timesync_counters_t *timesync_counters(void)
{
    return &timesync.counters;
}

/* ---- Following ---- */

/* A successor's beacon says nothing about the way to the root: what was known of it stays. In its two
 * callers it would take fifty bytes more. */
static __attribute__((noinline)) void take_pair(const cw_beacon_t *beacon, uint32_t heard, bool anew)
{
    uint8_t distance = beacon->root == CAUSEWAY_ROOT ? (uint8_t)(beacon->hops + 1) : timesync_hops();
    if (anew)
        clock_fit_clear();
    clock_fit_take(heard, beacon->time, distance);
}

static void start_afresh(const cw_beacon_t *beacon, uint32_t heard)
{
    take_pair(beacon, heard, true);
    timesync.state = FOLLOWING;
    guarded_u16_set(&timesync.epoch, beacon->epoch);
    clock_fit_begin(beacon->error);
    timesync_set_time(heard, beacon->time, beacon->flags);
    timesync_on_epoch(beacon->epoch);
}

static bool far_off(const cw_beacon_t *beacon, uint32_t heard)
{
    uint32_t off = network_time_size((int32_t)(beacon->time - network_time_estimate(heard)));
    return off > (uint32_t)estimate_error(heard) + beacon->error + 2 * TIMESYNC_NOISE;
}

/* Take a pair that fits; false for an outlier. Who drives now has a line of its own, which begins near the
 * one before and runs as fast. */
static bool add_to_line(const cw_beacon_t *beacon, uint32_t heard, uint32_t now)
{
    bool anew = beacon->root != driver;
    if (!anew && far_off(beacon, heard)) {
        count(&timesync.counters.outliers);
        if (++outliers < OUTLIERS && timesync_in_sync(now)) /* else it is our line that is wrong */
            return false;
        count(&timesync.counters.restarts);
        anew = true;
        clock_fit_forget_skew();
    }
    take_pair(beacon, heard, anew);
    if (!clock_fit_steer(beacon->error, now))
        start_afresh(beacon, heard);
    return true;
}

static bool is_question(const cw_beacon_t *beacon)
{
    return beacon->hops == TIMESYNC_NO_HOPS;
}

bool timesync_may_follow(const cw_beacon_t *beacon)
{
    return (beacon->flags & CW_BEACON_IN_SYNC) != 0 && beacon->hops < TIMESYNC_MAX_HOPS;
}

static void pass_beacon_on(uint32_t now)
{
#if CAUSEWAY_SCHEDULED
    uint32_t when;
    if (schedule_passes_on(hops, now, &when))
        timesync_plan(BEACON, when);
#else
    if (hops < TIMESYNC_MAX_HOPS)
        timesync_plan(BEACON, now + jitter_below(SPREAD));
#endif
}

/* ---- Driving: the root, or a successor ---- */

void timesync_beacon_soon(uint32_t now)
{
    uint32_t when = now + jitter_below(SPREAD);
    if (clock_before(when, timesync.last_beacon + ANSWER_PAUSE))
        when = timesync.last_beacon + ANSWER_PAUSE;
    if (clock_before(when, beacon_at))
        timesync_plan(BEACON, when);
}

void timesync_speak_up(uint32_t now)
{
    guarded_u16_set(&timesync.sequence, (uint16_t)(guarded_u16_get(&timesync.sequence) + SEQUENCE_LEAP));
    timesync.burst = QUICK_BEACONS;
    timesync_beacon_soon(now);
}

void timesync_outbid(const cw_beacon_t *beacon, uint32_t now)
{
    if (newer16(guarded_u16_get(&timesync.sequence), beacon->sequence)) {
        timesync_beacon_soon(now);
    } else {
        guarded_u16_set(&timesync.sequence, beacon->sequence);
        timesync_speak_up(now);
    }
}

#if CAUSEWAY_SCHEDULED
#define SUCCESSOR_TURN schedule_successor_turn()
#else
#define SUCCESSOR_TURN 0
#endif

/* Our time goes on as the network's. */
static void succeed(uint32_t now)
{
    clock_fit_move_up(estimate_error(now), now);
    driver = identity_id();
    hops = 0;
    timesync.last_beacon = now;
    timesync_speak_up(now);
    timesync_plan(BEACON, now + SUCCESSOR_TURN);
}

#if CAUSEWAY_SCHEDULED

static bool root_is_silent(uint32_t now)
{
    return schedule_may_succeed(now, clock_fit_knows_skew() ? BEACONS_MISSED : BEACONS_MISSED + 1);
}

#else

static bool root_is_silent(uint32_t now)
{
    uint32_t wait = SILENCE - (clock_fit_knows_skew() ? TIMESYNC_PERIOD / 2 : 0) +
                    identity_id() * SUCCESSION_STEP;
    return (int32_t)(clock_fit_age(now) - wait) > 0;
}

#endif

/* A mote whose clock is good has not heard whoever drives for long. */
static bool must_succeed(uint32_t now)
{
    return identity_id() < CAUSEWAY_MOTES && !drives() && timesync_in_sync(now) && root_is_silent(now);
}

/* Whether this one is to drive rather than whom we follow. */
static bool outranks(uint16_t root)
{
    return driver != CAUSEWAY_ROOT && (root == CAUSEWAY_ROOT || root < driver);
}

/* A successor hears a beacon of its epoch: its own, passed on, which shows that it is not alone, and that its
 * time is becoming the network's; or another's. The root comes first, then the lowest id, unless its number
 * is old: then it may be of one that is no more. */
static bool gives_way(const cw_beacon_t *beacon, uint32_t now)
{
    if (beacon->root == driver) {
        clock_fit_move_up((uint16_t)(clock_fit_base_error() - clock_fit_base_error() / 8), now);
        return false;
    }
    if (!outranks(beacon->root) || newer16(guarded_u16_get(&timesync.sequence), beacon->sequence)) {
        timesync_outbid(beacon, now);
        return false;
    }
    intent = NOTHING;
    return true;
}

/* ---- Following, continued ---- */

static void answer(const cw_beacon_t *question, uint32_t now)
{
    if (drives())
        timesync_beacon_soon(now);
    else if (timesync.state == FOLLOWING && intent != BEACON &&
             (timesync_in_sync(now) || question->sender == CAUSEWAY_ROOT))
        timesync_plan(ANSWER, now + jitter_below(SPREAD));
}

static void follow(const cw_beacon_t *beacon, uint32_t heard, uint32_t now)
{
    bool in_sync = timesync_in_sync(now);
    if (!timesync_may_follow(beacon)) {
        count(&timesync.counters.foreign);
        return;
    }
    int8_t how_late = timesync_how_late(beacon);
    if (in_sync && how_late < 0) {
        count(&timesync.counters.old);
        return;
    }
    bool afresh = timesync.state == LOST || how_late != 0;
    if (!afresh && is_successor() && !gives_way(beacon, now))
        return;
    uint16_t last = guarded_u16_get(&timesync.sequence);
    bool same = beacon->sequence == last;
    if (!afresh && (same ? !outranks(beacon->root) : in_sync && !newer16(beacon->sequence, last))) {
        count(&timesync.counters.repeated);
        if (intent == ANSWER)
            intent = NOTHING;
        if (beacon->root != driver && newer16(last, beacon->sequence))
            answer(beacon, now); /* its network shall hear of ours */
        return;
    }
    if (afresh)
        start_afresh(beacon, heard);
    else if (!add_to_line(beacon, heard, now))
        return;
    outliers = 0;
    count(&timesync.counters.accepted);
    guarded_u16_set(&timesync.sequence, beacon->sequence);
    hops = (uint8_t)(beacon->hops + 1);
    driver = beacon->root;
    ask_pause = 0;
    if (is_successor())
        succeed(now); /* it has restarted, and others still follow it */
    else
        pass_beacon_on(now);
}

/* ---- Beacons in and out ---- */

/* In its callers it would take a hundred bytes more. */
__attribute__((noinline)) void timesync_on_beacon(const uint8_t *payload, uint32_t heard, uint8_t unsure,
                                                  uint32_t now)
{
    cw_beacon_t beacon;
    cw_beacon_get(payload, CAUSEWAY_BEACON_BYTES, &beacon);
    beacon.error = (uint8_t)(unsure < UINT8_MAX - beacon.error ? beacon.error + unsure : UINT8_MAX);
    if (beacon.root != CAUSEWAY_ROOT && beacon.root >= CAUSEWAY_MOTES) {
        count(&timesync.counters.foreign);
    } else if (is_question(&beacon)) {
        answer(&beacon, now);
    } else if (unsure == RADIO_UNTIMED) {
        count(&timesync.counters.foreign);
    } else if (listens()) {
        timeroot_on_answer(&beacon, heard);
    } else if (leads()) {
        timeroot_on_beacon(&beacon, heard, now);
    } else {
        uint16_t accepted = timesync.counters.accepted;
        follow(&beacon, heard, now);
        if (REPAIR && timesync.counters.accepted != accepted && beacon.root == CAUSEWAY_ROOT)
            repair_on_beacon(payload, now);
    }
}

/* A mote out of sync asks, less and less often. */
static void ask_again(uint32_t now)
{
    if (intent == NOTHING && !timesync_in_sync(now)) {
        timesync_plan(QUESTION, now + (ASK_FIRST << ask_pause % 16) + jitter_below((uint16_t)ASK_FIRST));
        ask_pause = ask_pause < ASK_DOUBLED ? (uint8_t)(ask_pause + 1) : ASK_DOUBLED;
    }
}

bool timesync_due(uint32_t now)
{
    if (!clock_before(now, tidy_at)) {
        network_time_tidy(now);
        if (timesync.state == FOLLOWING && (int32_t)clock_fit_age(now) > (int32_t)PAIR_AGE_MOST)
            clock_fit_move_up(estimate_error(now), now); /* as good as our clock still is */
#if CAUSEWAY_MIC_BYTES
        if (leads())
            timeroot_mind_round(now);
#endif
        tidy_at = now + TIDY;
    }
    if (is_successor() && !timesync_in_sync(now)) { /* nobody has followed it for long */
        driver = CAUSEWAY_ROOT;
        intent = NOTHING;
    } else if (must_succeed(now)) {
        succeed(now);
    }
    ask_again(now);
    if (intent == NOTHING || clock_before(now, beacon_at))
        return false;
    if (listens() && timesync.burst == 0)
        timeroot_begin(now);
    else if (intent == QUESTION && timesync_in_sync(now))
        intent = NOTHING;
    return intent != NOTHING;
}

uint32_t timesync_next(void)
{
    return intent != NOTHING ? earlier(beacon_at, tidy_at) : tidy_at;
}

#if CAUSEWAY_SCHEDULED

/* Motes listen for who drives when a window opens. */
static uint32_t next_beacon(uint32_t now)
{
    uint32_t opening = schedule_opening(now), quick = now + TIMESYNC_QUICK;
    if (is_successor())
        return opening + SUCCESSOR_TURN;
    return timesync.burst > 0 && clock_before(quick, opening) ? quick : opening;
}

#else

static uint32_t next_beacon(uint32_t now)
{
    return now + (timesync.burst > 0 ? TIMESYNC_QUICK : TIMESYNC_PERIOD);
}

#endif

static void plan_next(uint32_t now)
{
    intent = NOTHING;
    if (listens()) {
        timesync.burst--;
        timesync_plan(QUESTION, now + LISTEN_PAUSE);
    } else if (drives()) {
        timesync.last_beacon = now;
        timesync_plan(BEACON, next_beacon(now));
        timesync.burst = timesync.burst > 0 ? (uint8_t)(timesync.burst - 1) : 0;
    } else {
        ask_again(now);
    }
}

void timesync_fill(uint8_t *payload, uint32_t now)
{
    if (drives())
        guarded_u16_set(&timesync.sequence, (uint16_t)(guarded_u16_get(&timesync.sequence) + 1));
    uint16_t error = estimate_error(now);
    bool in_sync = leads() || (timesync.state == FOLLOWING && error <= TIMESYNC_LIMIT);
    cw_beacon_t beacon = {
        .sender = identity_id(),
        .root = timesync_driver(),
        .epoch = timesync_epoch(),
        .sequence = guarded_u16_get(&timesync.sequence),
        .hops = leads() ? 0 : hops,
#if CAUSEWAY_MIC_BYTES
        /* If the time comes round before it is written, this beacon is a round old, and nobody minds it. */
        .flags = (uint8_t)((in_sync ? CW_BEACON_IN_SYNC : 0) | network_time_round(network_time_estimate(now))
                                                                   << CW_BEACON_ROUND),
#else
        .flags = in_sync ? CW_BEACON_IN_SYNC : 0,
#endif
        .error = (uint8_t)(error < UINT8_MAX ? error : UINT8_MAX),
    };
    if (intent == QUESTION) {
        beacon.hops = TIMESYNC_NO_HOPS;
        beacon.flags = 0;
    }
    cw_beacon_put(payload, &beacon);
    if (REPAIR)
        repair_fill(payload, now);
    plan_next(now);
}

/* ---- Soundness ---- */

/* A plan further ahead than any is made would never be carried out. Who drives has always one, or it would
 * not be heard of again. */
static bool plan_is_sound(uint32_t now)
{
    if ((is_root() || is_successor()) && intent != (listens() ? QUESTION : BEACON))
        return false;
    return intent == NOTHING || !clock_before(now + (is_root() ? PLAN_ROOT : PLAN_MOTE), beacon_at);
}

bool timesync_sound(uint32_t now)
{
    bool role = is_root() ? leads() || listens() : timesync.state == FOLLOWING || timesync.state == LOST;
    return role && plan_is_sound(now) && (timesync.state != FOLLOWING || clock_fit_sound(now)) &&
           network_time_sound(now);
}
