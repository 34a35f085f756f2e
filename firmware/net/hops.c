#include "hops.h"

#include "causeway/data.h"
#include "hal/clock.h"
#include "timesync.h"

#define ROOT_IS_GATEWAY (CAUSEWAY_ROOT >= CAUSEWAY_MOTES)

/* Our distance from the gateway, or TIMESYNC_NO_HOPS. */
static uint8_t distance_at(uint32_t now)
{
    return ROOT_IS_GATEWAY && timesync_in_sync(now) ? timesync_hops() : TIMESYNC_NO_HOPS;
}

bool hops_known(uint32_t now)
{
    return distance_at(now) != TIMESYNC_NO_HOPS;
}

uint8_t hops_own(uint32_t now)
{
    uint8_t distance = distance_at(now);
    if (distance == TIMESYNC_NO_HOPS)
        distance = CAUSEWAY_HOPS;
    return (uint8_t)((CAUSEWAY_CLOCK_WIDTH || distance < CAUSEWAY_HOPS ? distance : CAUSEWAY_HOPS) - 1);
}

bool hops_take(uint8_t *flags, uint32_t now)
{
    uint8_t left = *flags >> CAUSEWAY_FLAG_HOPS;
    if (left == 0)
        return false;
    uint8_t distance = distance_at(now);
    if (distance != TIMESYNC_NO_HOPS) {
        if (left < distance && left < CW_DATA_HOPS_TOP)
            return false;
        left = distance > CW_DATA_HOPS_TOP ? CW_DATA_HOPS_TOP : (uint8_t)(distance - 1);
    } else if (left < CW_DATA_HOPS_TOP) {
        left--;
    }
    uint8_t others = (uint8_t)(*flags & ((1U << CAUSEWAY_FLAG_HOPS) - 1));
    *flags = (uint8_t)(others | (uint8_t)(left << CAUSEWAY_FLAG_HOPS));
    return true;
}

void hops_widen(uint8_t *flags)
{
    if (hops_known(clock_now()) && *flags >> CAUSEWAY_FLAG_HOPS < CW_DATA_HOPS_TOP)
        *flags = (uint8_t)(*flags + (1U << CAUSEWAY_FLAG_HOPS));
}
