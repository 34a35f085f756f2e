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

/* Of a message sent in `tick`. Inlined in its two callers it would take ninety bytes more. */
static __attribute__((noinline)) uint32_t deadline_by_stamp(uint32_t tick, uint8_t hops)
{
    uint32_t end = ((tick + CAUSEWAY_DELTA + 1) << CAUSEWAY_TICK_LOG2) - 1;
    uint16_t airtime = AIRTIME;
    uint32_t needed = airtime + (uint32_t)hops * DEADLINES_HOP;
    return timesync_local(end) - needed;
}

/* Of a message that we have had since this local time, and whose age is not known. */
static uint32_t by_share(uint32_t since)
{
    return since + ((uint32_t)CAUSEWAY_DELTA << CAUSEWAY_TICK_LOG2) / CAUSEWAY_HOPS - AIRTIME;
}

uint32_t deadlines_own(uint32_t tick, uint8_t hops, uint32_t now)
{
    if (CAUSEWAY_SCHEDULED)
        return by_window() - 1; /* before messages that others forward, too: no other mote has ours */
    return CAUSEWAY_CLOCK_WIDTH ? deadline_by_stamp(tick, hops) : by_share(now);
}

/* A mote in sync knows the age of a message from a sender in sync. A mote out of sync may take no more than
 * the time reserved for its hop. If the sender was out of sync, the age is not known. */
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
