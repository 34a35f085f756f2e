/* Time sync as its driver, the root or a successor: when beacons go out, when a mote succeeds a silent root,
 * and which of two drivers gives way. */
#include "clock_fit.h"
#include "hal/clock.h"
#include "jitter.h"
#include "schedule.h"
#include "timesync_parts.h"

/* After this long without a beacon a mote takes over: half a period sooner if it knows the network's speed.
 * The lowest id goes first, each further one waits a share of half a period longer, so that mostly one
 * speaks. A MICAz that has heard a single beacon is in sync for 47 s, 4.7 periods. */
#define SILENCE ((uint32_t)(4 * TIMESYNC_PERIOD))
#define SUCCESSION_STEP ((uint32_t)(TIMESYNC_PERIOD / 2 / CAUSEWAY_MOTES))
#define BEACONS_MISSED 4 /* the same with a schedule, in whose windows motes take turns */
#define SUCCESSOR_TURN (CAUSEWAY_SCHEDULED ? schedule_successor_turn() : 0)

void timesync_beacon_soon(uint32_t now)
{
    uint32_t when = now + jitter_below(SPREAD);
    if (clock_before(when, timesync.last_beacon + ANSWER_PAUSE))
        when = timesync.last_beacon + ANSWER_PAUSE;
    if (clock_before(when, timesync.beacon_at))
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

void timesync_succeed(uint32_t now)
{
    clock_fit_move_up(timesync_estimate_error(now), now);
    timesync.driver = identity_id();
    timesync.hops = 0;
    timesync.last_beacon = now;
    timesync_speak_up(now);
    timesync_plan(BEACON, now + SUCCESSOR_TURN);
}

static bool root_is_silent(uint32_t now)
{
    if (CAUSEWAY_SCHEDULED)
        return schedule_may_succeed(now, clock_fit_knows_skew() ? BEACONS_MISSED : BEACONS_MISSED + 1);
    uint32_t wait = SILENCE - (clock_fit_knows_skew() ? TIMESYNC_PERIOD / 2 : 0) +
                    identity_id() * SUCCESSION_STEP;
    return (int32_t)(clock_fit_age(now) - wait) > 0;
}

bool timesync_must_succeed(uint32_t now)
{
    return identity_id() < CAUSEWAY_MOTES && !drives() && timesync_in_sync(now) && root_is_silent(now);
}

bool timesync_outranks(uint16_t root)
{
    return timesync.driver != CAUSEWAY_ROOT && (root == CAUSEWAY_ROOT || root < timesync.driver);
}

bool timesync_gives_way(const cw_beacon_t *beacon, uint32_t now)
{
    if (beacon->root == timesync.driver) { /* our own, forwarded: others follow our time */
        clock_fit_move_up((uint16_t)(clock_fit_base_error() - clock_fit_base_error() / 8), now);
        return false;
    }
    if (!timesync_outranks(beacon->root) || newer16(guarded_u16_get(&timesync.sequence), beacon->sequence)) {
        timesync_outbid(beacon, now);
        return false;
    }
    timesync.intent = NOTHING;
    return true;
}

/* With a schedule motes listen for the driver when a window opens. */
uint32_t timesync_next_beacon(uint32_t now)
{
    uint32_t quick = now + TIMESYNC_QUICK;
    if (!CAUSEWAY_SCHEDULED)
        return timesync.burst > 0 ? quick : now + TIMESYNC_PERIOD;
    uint32_t opening = schedule_opening(now);
    if (is_successor())
        return opening + SUCCESSOR_TURN;
    return timesync.burst > 0 && clock_before(quick, opening) ? quick : opening;
}
