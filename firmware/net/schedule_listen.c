/* Decides which phases a mote listens to, and how long. */
#include "schedule.h"

#if CAUSEWAY_SCHEDULED

#include "schedule_parts.h"

enum {
    BEHIND_BEACON = 110, /* cycles in which a command follows a beacon */
    NEARER = 31,         /* in every 32nd window a mote listens whether it has come nearer */
    /* cycles in which a planned beacon keeps the receiver on; the last of many motes has its turn later */
    NEAR = CAUSEWAY_MOTES > 32 ? CAUSEWAY_BEACON_SLOT : 4096,
};

static uint16_t errors_seen;              /* damaged frames, as counted by the radio */
static uint16_t learned[CAUSEWAY_LEVELS]; /* how long phases of the first round lasted of late */

__attribute__((noinline)) bool schedule_speaks_soon(uint32_t now)
{
    return timesync_speaks(now + NEAR);
}

bool schedule_has_beacon(void)
{
    /* cppcheck-suppress moduloofone ; in some deployments each window has one */
    return schedule.window % CAUSEWAY_BEACON_EVERY == 0;
}

/* Windows with a beacon since that of the last one taken. */
uint8_t schedule_beacons_missed(uint32_t now)
{
    return (uint8_t)(schedule_periods(schedule.opened - timesync_taken(now)) / CAUSEWAY_BEACON_EVERY);
}

/* The beacon comes to us in the slot before our own; in any slot, if we missed the last one or a successor
 * drives. Now and then we listen in earlier slots, in case we have come nearer. */
static bool wants_beacon(uint8_t slot, uint32_t now)
{
    if (schedule_speaks_soon(now))
        return true;
    uint8_t missed = schedule_beacons_missed(now);
    bool as_usual = missed == 1 && timesync_driver() == CAUSEWAY_ROOT && (schedule.window & NEARER) != 0;
    return schedule_has_beacon() && missed > 0 &&
           (!as_usual || slot + 1 >= schedule.our_level || slot + 1 >= timesync_last_hops());
}

/* In the first round the levels beside the sender's listen: the next one to forward, peers, and the one
 * behind to hear its messages forwarded. In later rounds the next level listens for repeats, as long as any
 * came; other levels, if they have frames left. */
bool schedule_wants_phase(uint32_t now)
{
    if (!role_sleeps || schedule.phase >= OUTSIDE)
        return true;
    if (schedule.phase < SLOTS)
        return wants_beacon(schedule.phase, now);
    if ((uint8_t)(schedule.level + 1 - schedule.our_level) > 2) /* neither ours nor beside it */
        return false;
    return (schedule.round == 0 && !schedule_urgent()) ||
           (schedule.level > schedule.our_level ? schedule.heard_farther
                                                : schedule_on_due(SCHEDULE_NO_ROUND));
}

/* A mote that has no frames left listens only for its peers. */
static uint16_t quiet_time(void)
{
    if (schedule.phase < SLOTS)
        return BEHIND_BEACON;
    if (polls() && schedule.last_frame <= schedule.ahead)
        return (uint16_t)(schedule.ahead + CAUSEWAY_URGENT_QUIET - schedule.last_frame);
    if (schedule.level > 1)
        return CAUSEWAY_QUIET;
    if (schedule_on_due(SCHEDULE_NO_ROUND)) /* the gateway may hear a mote that we do not hear, and wait */
        return CAUSEWAY_QUIET + CYCLE;
    return schedule.gateway_answered ? CAUSEWAY_MINI_SLOT : CAUSEWAY_QUIET;
}

/* Whether a frame waits for its turn in this phase. */
bool schedule_has_something(void)
{
    return schedule_our_round() != SCHEDULE_NO_ROUND && schedule_on_due(schedule.round);
}

/* When the phase may be over, if nothing more is heard. */
uint16_t schedule_over_at(void)
{
    uint16_t quiet = schedule.last_frame + quiet_time();
    return schedule.round == 0 && !schedule_urgent() && !schedule.gateway_answered
               ? later(quiet, schedule.ahead + learned[schedule.level - 1])
               : quiet;
}

bool schedule_is_over(uint32_t now)
{
    uint16_t damaged = radio_counters()->crc, present = schedule_at(now);
    bool speaking = schedule.phase < SLOTS && schedule_on_sending(); /* a command may follow our beacon */
    if (speaking || radio_busy() || damaged != errors_seen) {
        errors_seen = damaged;
        schedule.last_frame = later(present, schedule.ahead);
        return false;
    }
    if (schedule.round == 0 && schedule.level < schedule.our_level && present >= schedule.ahead &&
        !schedule_on_due(SCHEDULE_NO_ROUND))
        return true; /* all of ours was forwarded */
    if (present < schedule_over_at())
        return false;
    if (schedule.phase < SLOTS)
        return !schedule_speaks_soon(now) && (schedule_beacons_missed(now) == 0 || !schedule_has_beacon());
    return !schedule_has_something();
}

/* The learned length moves towards how long the phase lasted: quickly up, slowly down. */
void schedule_learn(void)
{
    if (schedule.round != 0 || !schedule.on || schedule_urgent())
        return;
    uint16_t *known = &learned[schedule.level - 1];
    uint16_t lasted = schedule.last_frame > schedule.ahead ? schedule.last_frame - schedule.ahead : 0;
    if ((schedule.level < schedule.our_level || schedule.level == 1) && schedule_on_due(SCHEDULE_NO_ROUND))
        lasted = CAUSEWAY_PHASE; /* it would have been forwarded later */
    *known = (uint16_t)(lasted > *known ? *known + (lasted - *known) / 2 : *known - (*known - lasted) / 4);
}

#endif
