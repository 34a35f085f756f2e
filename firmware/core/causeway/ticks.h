/** Ticks: network time >> CAUSEWAY_TICK_LOG2.
 *
 * Network time is 32 bits wide, so a tick count is CW_TICK_BITS wide and wraps with it, every 36 hours. Ticks
 * are compared by serial-number arithmetic: right for ticks less than half the range (18 hours) apart. The
 * bits of a tick above CW_TICK_BITS are ignored, so sums of ticks need no masking.
 */
#ifndef CW_TICKS_H
#define CW_TICKS_H

#include <stdint.h>

#include "causeway_layout.h"

#define CW_TICK_BITS (32 - CAUSEWAY_TICK_LOG2)
#define CW_TICK_MASK ((uint32_t)-1 >> CAUSEWAY_TICK_LOG2)
#define CW_TICK_SIGN ((uint32_t)1 << (CW_TICK_BITS - 1))

/** The tick of a network time. */
static inline uint32_t cw_tick(uint32_t network_time)
{
    return network_time >> CAUSEWAY_TICK_LOG2;
}

/** How many ticks a is after b; negative when it is before. */
static inline int32_t cw_tick_diff(uint32_t a, uint32_t b)
{
    /* Sign extension by masks: a shift by TICK_LOG2 and back would be two loops on the AVR. */
    uint32_t apart = (a - b) & CW_TICK_MASK;
    return (int32_t)((apart ^ CW_TICK_SIGN) - CW_TICK_SIGN);
}

/* Ticks for which a frame may wait to be looked at: the watchdog's 2 s of a 32768 Hz crystal, or one tick. */
#define CW_WAITED_MOST ((int32_t)((uint32_t)2 * 32768 >> CAUSEWAY_TICK_LOG2) + 1)

/** The tick of the next event, `last` being that of the one before; it is changed. A frame that is looked at
 * after a later event takes that one's tick. A last event that seems to be far ahead is one of half the
 * clock's range ago. */
static inline uint32_t cw_event_tick(uint32_t *last, uint32_t tick)
{
    int32_t passed = cw_tick_diff(tick, *last);
    if (passed > 0 || passed < -CW_WAITED_MOST)
        *last = tick;
    return *last;
}

/** How far the clock in a stamp's clock field is ahead of `now`, the tick at which the message was received:
 * a value in [LEAD - B + 1, LEAD] such that `now` plus it is congruent to the field modulo B. Only the low
 * CLOCK_BITS of `field` count. */
static inline int32_t cw_clock_ahead(uint16_t field, uint32_t now)
{
    uint16_t behind_latest = (uint16_t)(now + CAUSEWAY_LEAD - field) & CAUSEWAY_CLOCK_MASK;
    return (int32_t)CAUSEWAY_LEAD - (int32_t)behind_latest;
}

#endif
