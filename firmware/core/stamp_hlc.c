/* hlc and shlc, a hybrid logical clock: (top, kn[0]) is (l, counter). */
#include "causeway/stamp_fields.h"
#include "causeway/ticks.h"

#if CAUSEWAY_SCHEME_HLC || CAUSEWAY_SCHEME_SHLC

/* A full counter carries into l while l is less than this ahead of our clock. A receiver's clock may be
 * EPSILON behind ours, and reads l up to LEAD ahead of itself. */
#define CARRY_ROOM (CAUSEWAY_LEAD - CAUSEWAY_EPSILON)

/* How far l is ahead of the clock, after the bound. */
static int32_t bound(cw_stamp_t *state, uint32_t tick)
{
    int32_t ahead = cw_tick_diff(state->top, tick);
    if (ahead <= CAUSEWAY_LEAD)
        return ahead;
    state->bounded++;
    state->top = tick;
    state->kn[0] = 0;
    return 0;
}

/* One event at `tick`, when kn[0] events are known at l, the largest clock value known, which is `ahead` of
 * it. How far l is ahead then. */
static uint16_t step(cw_stamp_t *state, uint32_t tick, int32_t ahead)
{
    uint16_t c = 0;
    cw_entry_t counter = 0;
    if (ahead >= 0) {
        c = (uint16_t)ahead;
        counter = state->kn[0];
        if (counter < CAUSEWAY_ENTRY_TOP - 1) {
            counter++;
        } else if (ahead < CARRY_ROOM) {
            c++;
            counter = 0;
        } else {
            counter = CAUSEWAY_ENTRY_TOP;
        }
    }
    state->top = tick + c;
    state->kn[0] = counter;
    return c;
}

void cw_stamp_start(cw_stamp_t *state, uint32_t tick)
{
    state->top = tick;
    state->kn[0] = 0;
}

bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t *payload)
{
    uint8_t *stamp = payload + CAUSEWAY_STAMP_AT;
    uint16_t c = step(state, tick, bound(state, tick));
    give_head(stamp, tick, c);
    give(stamp, CAUSEWAY_ENTRY_BIT, CAUSEWAY_ENTRY_WIDTH, state->kn[0]);
    return state->kn[0] == CAUSEWAY_ENTRY_TOP;
}

cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t *payload, uint8_t items)
{
    const uint8_t *stamp = payload + CAUSEWAY_STAMP_AT;
    if (fault_in(stamp, items) != CW_STAMP_SOUND)
        return CW_STAMP_REFUSED;

    uint16_t before = state->bounded;
    int32_t ours = bound(state, tick);
    int32_t theirs = cw_clock_ahead(take_clock(stamp), tick) + take_c(stamp);
    cw_entry_t counter = (cw_entry_t)take(stamp, CAUSEWAY_ENTRY_BIT, CAUSEWAY_ENTRY_WIDTH);

    if (theirs > CAUSEWAY_LEAD) {
        state->bounded++;
    } else if (theirs > ours || (theirs == ours && counter > state->kn[0])) {
        state->top = tick + (uint32_t)theirs;
        state->kn[0] = counter;
    }
#if CAUSEWAY_SCHEME_HLC
    step(state, tick, cw_tick_diff(state->top, tick));
#endif
    return state->bounded == before ? CW_STAMP_OK : CW_STAMP_BOUNDED;
}

#endif
