#include "deadlines.h"

#include "causeway/data.h"
#include "hal/clock.h"
#include "schedule.h"
#include "timesync.h"

#define AIRTIME radio_airtime(CAUSEWAY_PAYLOAD_BYTES)

/* With a schedule. */
static uint32_t by_window(void)
{
    return schedule_end(clock_now()) - AIRTIME;
}

/* Of a message sent in `tick`. In its two callers it would take ninety bytes more. */
static __attribute__((noinline)) uint32_t deadline_by_stamp(uint32_t tick, uint8_t hops)
{
    uint32_t end = ((tick + CAUSEWAY_DELTA + 1) << CAUSEWAY_TICK_LOG2) - 1;
    uint16_t airtime = AIRTIME;
    uint32_t needed = airtime + (uint32_t)hops * DEADLINES_HOP;
    return timesync_local(end) - needed;
}

/* Of a message that we have since this local time, if nobody can tell how old it is. */
static uint32_t by_share(uint32_t since)
{
    return since + ((uint32_t)CAUSEWAY_DELTA << CAUSEWAY_TICK_LOG2) / CAUSEWAY_HOPS - AIRTIME;
}

uint32_t deadlines_own(uint32_t tick, uint8_t hops, uint32_t now)
{
    if (CAUSEWAY_SCHEDULED)
        return by_window() - 1; /* before what was passed on to us: nobody else has it */
    return CAUSEWAY_CLOCK_WIDTH ? deadline_by_stamp(tick, hops) : by_share(now);
}

/* Who is in sync knows the age of a message from a sender in sync. Who is not may take no more than the time
 * that was kept free for him. If the sender was not in sync, nobody knows. */
uint32_t deadlines_heard(const radio_heard_t *heard, uint8_t hops, uint32_t tick, uint32_t now)
{
    const uint8_t *payload = heard->message.data;
    if (CAUSEWAY_SCHEDULED)
        return by_window();
    if (!CAUSEWAY_CLOCK_WIDTH || !cw_data_in_sync(payload))
        return by_share(heard->time);
    return timesync_in_sync(now) ? deadline_by_stamp(cw_data_sent(payload, tick), hops)
                                 : heard->time + MESSAGING_BACKOFF;
}
