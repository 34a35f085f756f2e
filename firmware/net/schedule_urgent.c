/* Urgent windows: they open between the others, and only urgent messages go out in them. */
#include "schedule.h"

#if SCHEDULE_URGENT

#include "schedule_parts.h"

#define URGENT (UINT32_C(1) << CAUSEWAY_URGENT_LOG2)
#define INSTANTS (1 << (CAUSEWAY_PERIOD_LOG2 - CAUSEWAY_URGENT_LOG2)) /* of openings in a period */

bool schedule_is_urgent(void)
{
    return schedule.urgent;
}

/* In urgent windows we begin with the phase of the level behind us; the farthest level, with its own, if it
 * has something. */
bool schedule_turns_to_window(uint32_t now)
{
    bool sends = schedule_on_due(SCHEDULE_NO_ROUND), looks = sends || schedule.our_level < CAUSEWAY_LEVELS;
    uint16_t prepared = (uint16_t)(schedule.ahead + PREPARE);
    schedule.ahead = sends ? prepared : schedule.ahead;
    uint32_t network = timesync_network(now + schedule.ahead);
    uint8_t instant = (uint8_t)((uint16_t)(network >> 16) >> (CAUSEWAY_URGENT_LOG2 - 16)) & (INSTANTS - 1);
    schedule.urgent = looks && instant >= CAUSEWAY_URGENT_FIRST;
    schedule.opened = now + schedule.ahead - (network & (schedule.urgent ? URGENT - 1 : PERIOD - 1));
    instant = schedule.urgent ? instant : 0;
    uint32_t skips = schedule.our_level < CAUSEWAY_LEVELS
                         ? (CAUSEWAY_LEVELS - 1U - schedule.our_level) * (uint32_t)CAUSEWAY_PHASE
                         : 0;
    bool before = clock_before(now, schedule.opened + (schedule.urgent ? skips - RADIO_WAKE_TIME
                                                                       : (uint32_t)CAUSEWAY_BEACON_SLOT / 2));
    uint8_t next = instant;
    if (!before)
        next = schedule.urgent ? (uint8_t)(instant + 1) : looks ? CAUSEWAY_URGENT_FIRST : INSTANTS;
    schedule.starts = schedule.opened + ((uint32_t)(next - instant) << CAUSEWAY_URGENT_LOG2) - schedule.ahead;
    if (next & (INSTANTS - 1))
        schedule.starts += skips;
    schedule.ahead = schedule.urgent ? prepared : schedule.ahead;
    schedule.heard_farther = true;
    if (before && !schedule.urgent)
        schedule_find_opening(now);
    return before;
}

#endif
