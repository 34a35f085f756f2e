/* Without the time: a mote that has lost the network listens for it, for a bounded share of its life. */
#include "schedule.h"

#if CAUSEWAY_SCHEDULED

#include "schedule_parts.h"

/* Without the time, times are in units of 2 s: 16 bits hold them. */
#define COARSE(cycles) ((uint16_t)((cycles) >> 16))
#define JOIN_FIRST (COARSE(2 * TIMESYNC_PERIOD) + 1)
#define JOIN_LISTEN (COARSE(TIMESYNC_PERIOD + TIMESYNC_PERIOD / 4) + 1)
#define JOIN_FOUND (COARSE(PERIOD) + 1)
#define JOIN_PAUSE COARSE(120 * CLOCK_SECOND)
#define JOIN_PAUSE_LONG COARSE(1800 * CLOCK_SECOND)
#define JOIN_EAGER 5 /* times that the network is looked for every two minutes; then every half hour */

static uint16_t join_until; /* COARSE: awake until then, for the network if lost, or as it was just found */
static uint16_t join_again; /* COARSE: lost, it listens again then */
static uint8_t join_tries;

void schedule_join_start(uint32_t now)
{
    schedule.lost = true;
    join_again = COARSE(now);
    join_until = join_again + JOIN_FIRST;
}

static bool is_lost(uint32_t now)
{
    return !timesync_known() || timesync_error(now) > ERROR_MOST;
}

/* Whether to listen beside the windows: for the network, or just after it was found. */
bool schedule_joins(uint32_t now)
{
    return (int16_t)(uint16_t)(COARSE(now) - join_until) < 0;
}

/* See whether the network is lost or found, and until when to listen for that. */
void schedule_join(uint32_t now)
{
    uint16_t present = COARSE(now);
    if ((schedule.phase == OUTSIDE || schedule.lost) && is_lost(now) != schedule.lost) {
        schedule.lost = !schedule.lost;
        join_tries = 0;
        join_until = (uint16_t)(present + (schedule.lost ? JOIN_FIRST : JOIN_FOUND));
    }
    if (schedule_joins(now)) {
        join_again = (uint16_t)(present + (join_tries < JOIN_EAGER ? JOIN_PAUSE : JOIN_PAUSE_LONG));
        return;
    }
    join_until = present; /* neither is ever half the clock's range ago */
    if (!schedule.lost) {
        join_again = present;
    } else if ((int16_t)(uint16_t)(present - join_again) >= 0) {
        join_tries = (uint8_t)(join_tries + (join_tries < JOIN_EAGER));
        join_until = present + JOIN_LISTEN;
    }
}

bool schedule_join_sound(uint32_t now)
{
    uint16_t present = COARSE(now);
    return (int16_t)(uint16_t)(join_until - present) <= (int16_t)JOIN_FIRST &&
           (int16_t)(uint16_t)(join_again - present) <= (int16_t)JOIN_PAUSE_LONG;
}

#endif
