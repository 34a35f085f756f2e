#include "timesync_parts.h"

#include "clock_fit.h"
#include "hal/clock.h"
#include "jitter.h"
#include "mic.h"
#include "network_time.h"
#include "repair.h"
#include "small.h"

#define PAIR_AGE_MOST \
    (UINT32_C(1) << 30)              /* an older newest pair (9 hours) is moved up before its age wraps */
#define ASK_FIRST (CLOCK_SECOND / 4) /* cycles from the start to the first question */
#define ASK_DOUBLED 7                /* times that the pause between two questions is doubled */
#define ASK_MOST (ASK_FIRST << ASK_DOUBLED)
/* No plan is further ahead: a root's next beacon, or a mote's next question; a successor has both. */
#define PLAN_ROOT (TIMESYNC_PERIOD + ANSWER_PAUSE)
#define PLAN_MOTE (3 * ASK_MOST > PLAN_ROOT ? 3 * ASK_MOST : PLAN_ROOT)
#define TIDY (60 * CLOCK_SECOND)
/* A starting root asks this often, with this pause, before it opens an epoch. With a schedule others are
 * awake in windows only: it asks for more than a period. */
#define LISTEN_QUESTIONS (CAUSEWAY_SCHEDULED ? 72 : 4)
#define LISTEN_PAUSE (CAUSEWAY_SCHEDULED ? TIMESYNC_PERIOD / 64 : 2 * ASK_FIRST)

static uint32_t tidy_at;

timesync_shared_t timesync;

void timesync_set_time(uint32_t local, uint32_t network, uint8_t flags)
{
    network_time_set(local, network);
    if (MIC_BYTES)
        network_time_set_round(flags >> CW_BEACON_ROUND);
}

/* Inlined in its 8 callers it would take eighty bytes more. */
__attribute__((noinline)) void timesync_plan(intent_t what, uint32_t when)
{
    timesync.intent = what;
    timesync.beacon_at = when;
}

void timesync_start(uint8_t last_epoch, uint8_t last_round, uint32_t now)
{
    guarded_u16_set(&timesync.epoch, last_epoch);
    guarded_u16_set(&timesync.sequence, 0);
    timesync.state = is_root() ? LISTENING : LOST;
    timesync.driver = CAUSEWAY_ROOT;
    timesync.hops = TIMESYNC_NO_HOPS;
    timeroot_start();
    timesync.burst = LISTEN_QUESTIONS;
    tidy_at = now + TIDY;
    /* with a key: a root's time is in no earlier round than this */
    timesync_set_time(now, MIC_BYTES ? 0 : now, (uint8_t)(last_round << CW_BEACON_ROUND));
    timesync_plan(QUESTION, now + ASK_FIRST / 4 + jitter_below((uint16_t)ASK_FIRST));
}

uint8_t timesync_round(uint32_t network)
{
    return network_time_round(network);
}

int8_t timesync_later(uint8_t from_epoch, uint8_t flags, uint32_t time)
{
    uint8_t by = (uint8_t)(from_epoch - timesync_epoch());
    if (MIC_BYTES && by == 0) /* their difference where the sign is */
        by = (uint8_t)(flags - (network_time_round(time) << CW_BEACON_ROUND)) & (uint8_t)CW_BEACON_ROUND_MASK;
    return (int8_t)by;
}

int8_t timesync_how_late(const cw_beacon_t *beacon)
{
    return timesync_later(beacon->epoch, beacon->flags, beacon->time);
}

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

uint16_t timesync_estimate_error(uint32_t now)
{
    if (timesync.state != FOLLOWING)
        return leads() ? 0 : UINT16_MAX;
    return clock_fit_error(now);
}

uint16_t timesync_error(uint32_t now)
{
    uint16_t error = timesync_estimate_error(now);
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
    return timesync.hops;
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
    return is_root() ? CAUSEWAY_ROOT : timesync.driver;
}

uint32_t timesync_taken(uint32_t now)
{
    return now - clock_fit_age(now);
}

/* Inlined in its callers it would take fifty bytes more. */
__attribute__((noinline)) bool timesync_speaks(uint32_t by)
{
    return (timesync.intent == BEACON || timesync.intent == ANSWER) && !clock_before(by, timesync.beacon_at);
}

void timesync_ask_now(uint32_t now)
{
    if (timesync.state == LISTENING && !timeroot_answered() && clock_before(now + SPREAD, timesync.beacon_at))
        timesync_plan(QUESTION, now + jitter_below(SPREAD));
}

const timesync_counters_t *timesync_counters(void)
{
    return &timesync.counters;
}

/* ---- Beacons in and out ---- */

/* Inlined in its callers it would take a hundred bytes more. */
__attribute__((noinline)) void timesync_on_beacon(const uint8_t *payload, uint32_t heard, uint8_t unsure,
                                                  uint32_t now)
{
    cw_beacon_t beacon;
    cw_beacon_get(payload, CAUSEWAY_BEACON_BYTES, &beacon);
    beacon.error = (uint8_t)(unsure < UINT8_MAX - beacon.error ? beacon.error + unsure : UINT8_MAX);
    if (beacon.root != CAUSEWAY_ROOT && beacon.root >= CAUSEWAY_MOTES) {
        count(&timesync.counters.foreign);
    } else if (beacon.hops == TIMESYNC_NO_HOPS) {
        timesync_answer(&beacon, now);
    } else if (unsure == RADIO_UNTIMED) {
        count(&timesync.counters.foreign);
    } else if (listens()) {
        timeroot_on_answer(&beacon, heard);
    } else if (leads()) {
        timeroot_on_beacon(&beacon, heard, now);
    } else {
        uint16_t accepted = timesync.counters.accepted;
        timesync_follow(&beacon, heard, now);
        if (REPAIR && timesync.counters.accepted != accepted && beacon.root == CAUSEWAY_ROOT)
            repair_on_beacon(payload, now);
    }
}

/* A mote out of sync asks, less and less often. */
static void ask_again(uint32_t now)
{
    if (timesync.intent == NOTHING && !timesync_in_sync(now)) {
        timesync_plan(QUESTION,
                      now + (ASK_FIRST << timesync.ask_pause % 16) + jitter_below((uint16_t)ASK_FIRST));
        timesync.ask_pause = timesync.ask_pause < ASK_DOUBLED ? (uint8_t)(timesync.ask_pause + 1)
                                                              : ASK_DOUBLED;
    }
}

bool timesync_due(uint32_t now)
{
    if (!clock_before(now, tidy_at)) {
        network_time_tidy(now);
        if (timesync.state == FOLLOWING && (int32_t)clock_fit_age(now) > (int32_t)PAIR_AGE_MOST)
            clock_fit_move_up(timesync_estimate_error(now), now); /* as good as our clock still is */
        if (MIC_BYTES && leads())
            timeroot_mind_round(now);
        tidy_at = now + TIDY;
    }
    if (is_successor() && !timesync_in_sync(now)) { /* no mote has followed it for long */
        timesync.driver = CAUSEWAY_ROOT;
        timesync.intent = NOTHING;
    } else if (timesync_must_succeed(now)) {
        timesync_succeed(now);
    }
    ask_again(now);
    if (timesync.intent == NOTHING || clock_before(now, timesync.beacon_at))
        return false;
    if (listens() && timesync.burst == 0)
        timeroot_begin(now);
    else if (timesync.intent == QUESTION && timesync_in_sync(now))
        timesync.intent = NOTHING;
    return timesync.intent != NOTHING;
}

uint32_t timesync_next(void)
{
    return timesync.intent != NOTHING ? earlier(timesync.beacon_at, tidy_at) : tidy_at;
}

static void plan_next(uint32_t now)
{
    timesync.intent = NOTHING;
    if (listens()) {
        timesync.burst--;
        timesync_plan(QUESTION, now + LISTEN_PAUSE);
    } else if (drives()) {
        timesync.last_beacon = now;
        timesync_plan(BEACON, timesync_next_beacon(now));
        timesync.burst = timesync.burst > 0 ? (uint8_t)(timesync.burst - 1) : 0;
    } else {
        ask_again(now);
    }
}

void timesync_fill(uint8_t *payload, uint32_t now)
{
    if (drives())
        guarded_u16_set(&timesync.sequence, (uint16_t)(guarded_u16_get(&timesync.sequence) + 1));
    uint16_t error = timesync_estimate_error(now);
    bool in_sync = leads() || (timesync.state == FOLLOWING && error <= TIMESYNC_LIMIT);
    cw_beacon_t beacon = {
        .sender = identity_id(),
        .root = timesync_driver(),
        .epoch = timesync_epoch(),
        .sequence = guarded_u16_get(&timesync.sequence),
        .hops = leads() ? 0 : timesync.hops,
        /* if the time comes round before it is written, this beacon is stale and ignored */
        .flags = (uint8_t)((in_sync ? CW_BEACON_IN_SYNC : 0) |
                           (MIC_BYTES ? network_time_round(network_time_estimate(now)) << CW_BEACON_ROUND
                                      : 0)),
        .error = (uint8_t)(error < UINT8_MAX ? error : UINT8_MAX),
    };
    if (timesync.intent == QUESTION) {
        beacon.hops = TIMESYNC_NO_HOPS;
        beacon.flags = 0;
    }
    cw_beacon_put(payload, &beacon);
    if (REPAIR)
        repair_fill(payload, now);
    plan_next(now);
}

/* ---- Soundness ---- */

/* A plan too far ahead would never be carried out. A driver always has a plan, or it would stay silent. */
static bool plan_is_sound(uint32_t now)
{
    if ((is_root() || is_successor()) && timesync.intent != (listens() ? QUESTION : BEACON))
        return false;
    return timesync.intent == NOTHING ||
           !clock_before(now + (is_root() ? PLAN_ROOT : PLAN_MOTE), timesync.beacon_at);
}

bool timesync_sound(uint32_t now)
{
    bool role = is_root() ? leads() || listens() : timesync.state == FOLLOWING || timesync.state == LOST;
    return role && plan_is_sound(now) && (timesync.state != FOLLOWING || clock_fit_sound(now)) &&
           network_time_sound(now);
}
