/* When a frame may start: turns within a phase, and within a beacon slot. */
#include "schedule.h"

#if CAUSEWAY_SCHEDULED

#include "jitter.h"
#include "schedule_parts.h"

enum {
    LEAD_LATE = 8,   /* cycles that the loop may be early */
    BURST_LEAD = 40, /* cycles before a frame that follows one of ours */
    LEAD_LEAST = 60, /* later than that the turn is missed */
};
_Static_assert(CYCLE < UINT16_MAX - SCHEDULE_PHASE_MOST - 256,
               "packet_formats/schedule.py refuses longer ones");

/* Cycles from the first turn of a mote to ours. Ids are counted from another start in each window. */
static uint16_t turn_of(uint8_t window)
{
    return (uint16_t)((identity_id() + window) % CAUSEWAY_SLOT_IDS * CAUSEWAY_MINI_SLOT);
}

/* The gateway sends first in its neighbours' phase, since it may have heard motes farther away. Then it waits
 * until all have had their turn since the last frame. */
static uint16_t answer_from(uint16_t earliest)
{
    if (!schedule_answers())
        return later(schedule.length, earliest);
    bool begins = schedule.last_frame <= schedule.ahead;
    return later(begins ? schedule.ahead : schedule.last_frame + CYCLE + CAUSEWAY_MINI_SLOT / 2, earliest);
}

/* Our first turn not before `earliest`: our mini-slot in each cycle of turns. The node that sent last may go
 * on before all turns. */
static uint16_t turn_from(uint16_t earliest)
{
    if (!role_sleeps)
        return answer_from(earliest);
    if (schedule_urgent() && schedule.level > 1 && schedule.last_frame <= schedule.ahead) {
        /* a mote that polls waits for four turns; two motes that share one have different ones in the next
         * round */
        uint16_t first = schedule.ahead +
                         (uint16_t)(((uint8_t)identity_id() >> 2 * schedule.round & 3) * CAUSEWAY_MINI_SLOT);
        return earliest <= first ? first : later(schedule.length, earliest); /* no mote listens any more */
    }
    uint16_t turn = CAUSEWAY_MINI_SLOT + turn_of(schedule.window);
    if (schedule.round & 1)
        turn = CYCLE - turn; /* two motes whose clocks are a turn apart must not collide again */
    turn += schedule.ahead;
    if (schedule.last_frame > schedule.ahead)
        earliest = later(earliest,
                         schedule.last_frame + BURST_LEAD + CAUSEWAY_BURST_GAP + CAUSEWAY_MINI_SLOT);
    while (turn < earliest)
        turn += CYCLE;
    return turn;
}

/* Whether a frame that begins then is over before we turn to the next phase. */
static bool is_in_time(uint16_t turn)
{
    return turn + radio_airtime(CAUSEWAY_PAYLOAD_LIMIT) < schedule.length;
}

bool schedule_turn(uint32_t now, uint32_t *when)
{
    uint16_t present = schedule_at(now), turn = present;
    if (!role_sleeps && radio_busy())
        schedule.last_frame = present;
    if (schedule.has_channel)
        schedule.has_channel = false;
    else
        turn = turn_from(present + LEAD_LEAST);
    *when = schedule.starts + turn;
    return turn <= present + LEAD + LEAD_LATE && is_in_time(turn);
}

uint32_t schedule_turn_after(uint32_t time)
{
    return schedule.starts + turn_from(schedule_at(time) + LEAD + LEAD_LATE + 1) - LEAD;
}

/* When to look again at an open phase, if nothing is heard: at our turn, or when it may be over. */
static uint16_t look_again(uint32_t now)
{
    uint16_t present = schedule_at(now);
    uint16_t then = schedule_has_something() ? turn_from(present + LEAD + LEAD_LATE + 1) - LEAD
                                             : schedule_over_at();
    if (present >= then)
        then = schedule.phase < SLOTS ? schedule.length
                                      : present + CAUSEWAY_MINI_SLOT; /* a beacon is awaited */
    return then < schedule.length ? then : schedule.length;
}

uint32_t schedule_next(uint32_t now)
{
    if (role_sleeps && schedule.lost)
        return now + CLOCK_SECOND;
    uint16_t then = role_sleeps && !schedule.open ? 1 + PREPARED : schedule.length;
    if (role_sleeps && schedule.open && schedule.on)
        then = look_again(now);
    return schedule.starts + then; /* a gateway's loop comes here every second */
}

/* ---- Beacons ---- */

bool schedule_passes_on(uint8_t hops, uint32_t now, uint32_t *when)
{
    if (hops >= CAUSEWAY_HOPS)
        return false;
    uint32_t slot = schedule_opening_at(now) + (uint16_t)(hops * CAUSEWAY_BEACON_SLOT);
    uint32_t turn = slot + turn_of(0);
    if (now - slot + PERIOD / 8 < PERIOD / 8 + CAUSEWAY_BEACON_SLOT / 2) { /* soon, or it has just begun */
        *when = clock_before(now, turn) ? turn : now;
        return true;
    }
    *when = now + jitter_below(CAUSEWAY_BEACON_SLOT);
    return !role_sleeps || schedule.lost || schedule_joins(now);
}

/* Cycles from the start of another node's beacon to our turn behind it. */
static __attribute__((noinline)) uint16_t behind_beacon(void)
{
    return (uint16_t)(radio_airtime(CAUSEWAY_BEACON_BYTES) + MIC_PROOF_TIME + CAUSEWAY_MINI_SLOT +
                      turn_of(0));
}

/* All motes that wait for this beacon heard it at their own turns, in the same order. */
uint32_t schedule_behind_beacon(void)
{
    return clock_now() + behind_beacon();
}

bool schedule_may_succeed(uint32_t now, uint8_t missed)
{
    return schedule.phase == 0 && schedule_has_beacon() && schedule_at(now) >= schedule.ahead &&
           schedule_beacons_missed(now) >= missed;
}

uint16_t schedule_successor_turn(void)
{
    return behind_beacon(); /* the root may be on, and some motes hear it */
}

bool schedule_for_commands(uint32_t now)
{
    return schedule.phase < SLOTS && !schedule_speaks_soon(now) && schedule.phase == timesync_hops();
}

#endif
