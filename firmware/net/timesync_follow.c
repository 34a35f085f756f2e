/* Time sync as a follower: which beacons a mote takes, and how it sets its clock by them. */
#include "clock_fit.h"
#include "jitter.h"
#include "network_time.h"
#include "schedule.h"
#include "small.h"
#include "timesync_parts.h"

enum { OUTLIERS = 3 }; /* after this many in a row the line is begun anew */

static uint8_t outliers; /* in a row, off the line */

/* A successor's beacon says nothing about the way to the root: the hops known before stay. Inlined in both
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
    return off > (uint32_t)timesync_estimate_error(heard) + beacon->error + 2 * TIMESYNC_NOISE;
}

/* Take a pair that fits; false for an outlier. A new driver has a line of its own, which begins near the line
 * before and runs as fast. */
static bool add_to_line(const cw_beacon_t *beacon, uint32_t heard, uint32_t now)
{
    bool anew = beacon->root != timesync.driver;
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

bool timesync_may_follow(const cw_beacon_t *beacon)
{
    return (beacon->flags & CW_BEACON_IN_SYNC) != 0 && beacon->hops < TIMESYNC_MAX_HOPS;
}

static void pass_beacon_on(uint32_t now)
{
    if (CAUSEWAY_SCHEDULED) {
        uint32_t when;
        if (schedule_passes_on(timesync.hops, now, &when))
            timesync_plan(BEACON, when);
    } else if (timesync.hops < TIMESYNC_MAX_HOPS) {
        timesync_plan(BEACON, now + jitter_below(SPREAD));
    }
}

void timesync_answer(const cw_beacon_t *question, uint32_t now)
{
    if (drives())
        timesync_beacon_soon(now);
    else if (timesync.state == FOLLOWING && timesync.intent != BEACON &&
             (timesync_in_sync(now) || question->sender == CAUSEWAY_ROOT))
        timesync_plan(ANSWER, now + jitter_below(SPREAD));
}

void timesync_follow(const cw_beacon_t *beacon, uint32_t heard, uint32_t now)
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
    if (!afresh && is_successor() && !timesync_gives_way(beacon, now))
        return;
    uint16_t last = guarded_u16_get(&timesync.sequence);
    bool same = beacon->sequence == last;
    if (!afresh && (same ? !timesync_outranks(beacon->root) : in_sync && !newer16(beacon->sequence, last))) {
        count(&timesync.counters.repeated);
        if (timesync.intent == ANSWER)
            timesync.intent = NOTHING;
        if (beacon->root != timesync.driver && newer16(last, beacon->sequence))
            timesync_answer(beacon, now); /* its network shall hear of ours */
        return;
    }
    if (afresh)
        start_afresh(beacon, heard);
    else if (!add_to_line(beacon, heard, now))
        return;
    outliers = 0;
    count(&timesync.counters.accepted);
    guarded_u16_set(&timesync.sequence, beacon->sequence);
    timesync.hops = (uint8_t)(beacon->hops + 1);
    timesync.driver = beacon->root;
    timesync.ask_pause = 0;
    if (is_successor())
        timesync_succeed(now); /* it has restarted, and others still follow it */
    else
        pass_beacon_on(now);
}
