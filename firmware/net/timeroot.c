#include "causeway/flag.h"
#include "small.h"
#include "hal/clock.h"
#include "network_time.h"
#include "jitter.h"
#include "mic.h"
#include "timesync_parts.h"

#define APART ((int32_t)2 * TIMESYNC_LIMIT) /* cycles: two clocks in sync are not further apart */
#define ROUNDS_MOST 16                      /* then, after 24 days, a root opens a new epoch */
#define LISTEN_MORE 2 /* with a schedule a starting root asks so often after an answer */

static guarded_u16_t two_roots; /* whether it has heard another root */
static cw_beacon_t best;        /* a listening root's best answer, */
static uint32_t best_heard;     /* when it was heard, */
static cw_flag_t got_answer;    /* and whether one came */

void timeroot_start(void)
{
    guarded_u16_set(&two_roots, false);
}

static bool newer8(uint8_t a, uint8_t b)
{
    return (int8_t)(uint8_t)(a - b) > 0;
}

static void adopt(const cw_beacon_t *beacon, uint32_t heard)
{
    timesync.state = ROOT;
    guarded_u16_set(&timesync.epoch, beacon->epoch);
    guarded_u16_set(&timesync.sequence, (uint16_t)(beacon->sequence + SEQUENCE_LEAP));
    timesync_set_time(heard, beacon->time, beacon->flags);
    timesync_on_epoch(beacon->epoch);
}

static void next_epoch(void)
{
    guarded_u16_set(&timesync.epoch, (uint8_t)(timesync_epoch() + 1));
    if (MIC_BYTES)
        network_time_set_round(0);
    timesync_on_epoch(timesync_epoch());
}

static void open_epoch(uint32_t now)
{
    next_epoch();
    timesync.burst = QUICK_BEACONS;
    timesync_plan(BEACON, now + jitter_below(SPREAD));
}

void timeroot_mind_round(uint32_t now)
{
    if (network_time_round(network_time_estimate(now)) >= ROUNDS_MOST)
        open_epoch(now);
    else
        timesync_on_round(network_time_round(network_time_estimate(now)));
}

/* ---- Starting ---- */

static bool better(const cw_beacon_t *beacon)
{
    if (!got_answer || beacon->epoch != best.epoch)
        return !got_answer || newer8(beacon->epoch, best.epoch);
    uint8_t change = (uint8_t)((beacon->flags ^ best.flags) & CW_BEACON_IN_SYNC);
    return change ? (beacon->flags & CW_BEACON_IN_SYNC) != 0 : beacon->error < best.error;
}

/* With a key the latest time counts: beacons that are played again are behind it, or behind the time that we
 * knew when we started. (An erased EEPROM says epoch FF.) False: this answer is earlier. */
static bool is_latest(const cw_beacon_t *beacon, uint32_t heard)
{
    int32_t ahead = (int32_t)(beacon->time - network_time_estimate(heard));
    int8_t how_late = timesync_how_late(beacon);
    bool knew = got_answer || timesync_epoch() != UINT8_MAX;
    if (knew && (how_late < 0 || (how_late == 0 && ahead < -APART)))
        return false;
    if (how_late > 0 || ahead > APART)
        got_answer = false;
    return true;
}

void timeroot_on_answer(const cw_beacon_t *beacon, uint32_t heard)
{
    if ((MIC_BYTES && !is_latest(beacon, heard)) || !better(beacon))
        return;
    if (MIC_BYTES) {
        guarded_u16_set(&timesync.epoch, beacon->epoch);
        timesync_set_time(heard, beacon->time, beacon->flags);
    }
    best = *beacon;
    best_heard = heard;
    got_answer = true;
    if (CAUSEWAY_SCHEDULED && timesync.burst > LISTEN_MORE)
        timesync.burst = LISTEN_MORE; /* nodes that know more are awake now */
}

bool timeroot_answered(void)
{
    return got_answer;
}

void timeroot_begin(uint32_t now)
{
    if (got_answer) {
        adopt(&best, best_heard);
    } else {
        timesync.state = ROOT;
        network_time_set(now, now);
        next_epoch();
    }
    timesync.burst = QUICK_BEACONS;
    timesync.last_beacon = now;
    timesync_plan(BEACON, now);
}

/* ---- Other roots, and successors ---- */

bool timesync_two_roots(void)
{
    return guarded_u16_get(&two_roots) != 0;
}

static void note_conflict(void)
{
    guarded_u16_set(&two_roots, true);
    if (timesync.counters.conflicts < UINT16_MAX)
        count(&timesync.counters.conflicts);
}

/* Another root is in our epoch. Time must not run backwards at any mote, so the clock that is ahead wins: the
 * root behind takes its time; a root that is ahead by more than clocks in sync can be opens a new epoch,
 * which all follow. */
static void meet_root(const cw_beacon_t *beacon, int32_t ahead, uint32_t heard, uint32_t now)
{
    note_conflict();
    if (newer16(beacon->sequence, guarded_u16_get(&timesync.sequence)))
        guarded_u16_set(&timesync.sequence, beacon->sequence);
    if (ahead > APART)
        adopt(beacon, heard);
    else if (ahead > 2 * TIMESYNC_NOISE)
        network_time_steer(now, beacon->time + (now - heard), 0, 0, (uint16_t)TIMESYNC_LIMIT);
    else if (ahead < -APART)
        open_epoch(now);
}

/* Beacons of our epoch: a successor's, or in our own name, and then mostly ours, forwarded. */
static void hear_own_epoch(const cw_beacon_t *beacon, uint32_t heard, uint32_t now)
{
    int32_t ahead = timesync_may_follow(beacon) ? (int32_t)(beacon->time - network_time_estimate(heard)) : 0;
    if (beacon->root != CAUSEWAY_ROOT) {
        if (MIC_BYTES && ahead > APART) /* we took up a replayed time, the motes did not */
            adopt(beacon, heard);
        else
            timesync_outbid(beacon, now);
        return;
    }
    int32_t allowed = beacon->error + TIMESYNC_LIMIT / 2;
    /* with a key, one of our own may be replayed; another root notices us by our newer number */
    bool anothers = (!MIC_BYTES && beacon->sender == identity_id()) ||
                    newer16(beacon->sequence, guarded_u16_get(&timesync.sequence));
    if (anothers || (ahead > allowed && timesync_two_roots())) {
        meet_root(beacon, ahead, heard, now);
    } else if (ahead < -allowed) {
        /* A mote is further behind than its error says: its clock is wrong, or it follows a root that we do
         * not hear. Newer beacons make it follow us; the other root, if one exists, notices that by the
         * mote's beacons. */
        timesync_speak_up(now);
    }
}

void timeroot_on_beacon(const cw_beacon_t *beacon, uint32_t heard, uint32_t now)
{
    int8_t how_late = timesync_how_late(beacon);
    if (how_late == 0) {
        hear_own_epoch(beacon, heard, now);
    } else if (how_late > 0 && timesync_may_follow(beacon)) {
        if (beacon->root == CAUSEWAY_ROOT && beacon->epoch != timesync_epoch())
            note_conflict();
        adopt(beacon, heard);
    } else {
        timesync_beacon_soon(now); /* the sender has not heard of our epoch yet */
    }
}
