/* kn, and dpc2: kn without entries. */
#include "causeway/stamp_fields.h"
#include "causeway/ticks.h"

#if CAUSEWAY_SCHEME_KN || CAUSEWAY_SCHEME_DPC2

#if CAUSEWAY_ENTRIES

/* kn = max(kn, theirs), when their top is `below` ours. */
static void merge(cw_stamp_t *state, const uint8_t *stamp, uint16_t below)
{
    const uint8_t *at = stamp + FIRST_BYTE;
    uint8_t mask = FIRST_MASK;
    for (uint16_t i = below; i < CAUSEWAY_ENTRIES; i++) {
        cw_entry_t known = next_entry(&at, &mask);
        if (known > state->kn[i])
            state->kn[i] = known;
    }
}

/* Write the entries; true if one is at its top code. */
static bool give_entries(const cw_stamp_t *state, uint8_t *stamp)
{
    uint8_t *at = stamp + FIRST_BYTE;
    uint8_t mask = FIRST_MASK;
    bool saturated = false;
    for (uint8_t i = 0; i < CAUSEWAY_ENTRIES; i++) {
        cw_entry_t value = state->kn[i];
        if (value >= CAUSEWAY_ENTRY_TOP) {
            value = CAUSEWAY_ENTRY_TOP; /* after a fault in memory it may be more, and that is no entry */
            saturated = true;
        }
        put_entry(&at, &mask, value);
    }
    return saturated;
}

static void clear(cw_stamp_t *state)
{
    memset(state->kn, 0, sizeof(state->kn));
}

/* The window goes up by `rise` clock values: entry i becomes entry i + rise. */
static void slide(cw_stamp_t *state, uint32_t rise)
{
    if (rise >= CAUSEWAY_ENTRIES) {
        clear(state);
        return;
    }
    size_t moved = sizeof(state->kn[0]) * (size_t)rise;
    memmove(state->kn + rise, state->kn, sizeof(state->kn) - moved);
    memset(state->kn, 0, moved);
}

/* One more event at our clock, which is c below the top; below the window it is not counted. */
static void count_event(cw_stamp_t *state, uint16_t c)
{
    if (c < CAUSEWAY_ENTRIES && state->kn[c] < CAUSEWAY_ENTRY_TOP)
        state->kn[c]++;
}

#else

INLINE void merge(cw_stamp_t *state, const uint8_t *stamp, uint16_t below)
{
    (void)state;
    (void)stamp;
    (void)below;
}

INLINE bool give_entries(const cw_stamp_t *state, uint8_t *stamp)
{
    (void)state;
    (void)stamp;
    return false;
}

INLINE void clear(cw_stamp_t *state)
{
    (void)state;
}

INLINE void slide(cw_stamp_t *state, uint32_t rise)
{
    (void)state;
    (void)rise;
}

INLINE void count_event(cw_stamp_t *state, uint16_t c)
{
    (void)state;
    (void)c;
}

#endif

/* Move to the clock of an event: the bound, then top = max(top, tick). How far top is ahead of the clock
 * then: c. */
static uint16_t shift_to(cw_stamp_t *state, uint32_t tick)
{
    int32_t ahead = cw_tick_diff(state->top, tick);
    if (ahead >= 0 && ahead <= CAUSEWAY_EPSILON)
        return (uint16_t)ahead;
    if (ahead < 0) {
        slide(state, 0U - (uint32_t)ahead); /* -ahead may be no int32_t */
    } else {
        state->bounded++;
        clear(state);
    }
    state->top = tick;
    return 0;
}

void cw_stamp_start(cw_stamp_t *state, uint32_t tick)
{
    state->top = tick;
    clear(state);
    count_event(state, 0);
}

bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t *payload)
{
    uint8_t *stamp = payload + CAUSEWAY_STAMP_AT;
    uint16_t c = shift_to(state, tick);
    count_event(state, c);
    give_head(stamp, tick, c);
    return give_entries(state, stamp);
}

cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t *payload, uint8_t items)
{
    const uint8_t *stamp = payload + CAUSEWAY_STAMP_AT;
    if (fault_in(stamp, items) != CW_STAMP_SOUND)
        return CW_STAMP_REFUSED;

    uint16_t before = state->bounded;
    int32_t ours = shift_to(state, tick);
    int32_t theirs = cw_clock_ahead(take_clock(stamp), tick);
    bool sound = theirs + take_c(stamp) <= CAUSEWAY_EPSILON;

    if (sound)
        theirs += take_c(stamp);
    else
        state->bounded++;
    if (theirs > ours) {
        slide(state, (uint32_t)(theirs - ours));
        ours = theirs;
        state->top = tick + (uint32_t)ours;
    }
    if (sound && ours - theirs < CAUSEWAY_ENTRIES)
        merge(state, stamp, (uint16_t)(ours - theirs));
#if !CAUSEWAY_COUNT_SENDS
    count_event(state, (uint16_t)ours);
#endif
    return state->bounded == before ? CW_STAMP_OK : CW_STAMP_BOUNDED;
}

#endif
