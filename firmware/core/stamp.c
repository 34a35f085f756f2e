#include "stamp.h"

#include <string.h>

#include "ticks.h"

#define INLINE static inline __attribute__((always_inline))

/* Fields lie most significant bit first. Clock, c and an HLC's counter lie where the compiler knows: take() and give() become
 * a few constant shifts. They span three bytes at most, since no field has more than 16 bits. */

INLINE uint16_t take(const uint8_t *stamp, uint16_t bit, uint8_t width)
{
    const uint8_t *at = stamp + bit / 8;
    uint8_t end = (uint8_t)(bit % 8 + width);
    uint16_t mask = (uint16_t)(0xFFFFU >> (16 - width));

    if (end <= 8)
        return (uint16_t)(at[0] >> (8 - end)) & mask;
    uint16_t word = (uint16_t)((uint16_t)at[0] << 8 | at[1]);
    if (end <= 16)
        return (uint16_t)(word >> (16 - end)) & mask;
    return ((uint16_t)(word << (end - 16)) | (uint16_t)(at[2] >> (24 - end))) & mask;
}

/* The bits must be zero before. */
INLINE void give(uint8_t *stamp, uint16_t bit, uint8_t width, uint16_t value)
{
    uint8_t *at = stamp + bit / 8;
    uint8_t end = (uint8_t)(bit % 8 + width);

    if (end <= 8) {
        at[0] = (uint8_t)(at[0] | value << (8 - end));
        return;
    }
    uint16_t word = (uint16_t)(end <= 16 ? value << (16 - end) : value >> (end - 16));
    at[0] = (uint8_t)(at[0] | word >> 8);
    at[1] = (uint8_t)(at[1] | word);
    if (end > 16)
        at[2] = (uint8_t)(at[2] | value << (24 - end));
}

INLINE uint16_t take_clock(const uint8_t *stamp)
{
    return take(stamp, CAUSEWAY_CLOCK_BIT, CAUSEWAY_CLOCK_WIDTH);
}

INLINE uint16_t take_c(const uint8_t *stamp)
{
#if CAUSEWAY_C_WIDTH
    return take(stamp, CAUSEWAY_C_BIT, CAUSEWAY_C_WIDTH);
#else
    (void)stamp;
    return 0;
#endif
}

/* Clock and c, for a top that is c ahead of the sender's clock. */
INLINE void give_head(uint8_t *stamp, uint32_t tick, uint16_t c)
{
    memset(stamp, 0, CAUSEWAY_STAMP_BYTES);
#if CAUSEWAY_CARRY_SUM
    give(stamp, CAUSEWAY_CLOCK_BIT, CAUSEWAY_CLOCK_WIDTH, (uint16_t)(tick + c) & CAUSEWAY_CLOCK_MASK);
#else
    give(stamp, CAUSEWAY_CLOCK_BIT, CAUSEWAY_CLOCK_WIDTH, (uint16_t)tick & CAUSEWAY_CLOCK_MASK);
#if CAUSEWAY_C_WIDTH
    give(stamp, CAUSEWAY_C_BIT, CAUSEWAY_C_WIDTH, c);
#else
    (void)c;
#endif
#endif
}

/* A field can hold more than its range only where it is wider than its values: in bytes packing, where it is a byte. */
#define IN_RANGE(width, top) ((1UL << (width)) - 1 <= (top))

cw_stamp_fault_t cw_stamp_check(const uint8_t stamp[CAUSEWAY_STAMP_BYTES])
{
    (void)stamp;
#if CAUSEWAY_STAMP_BITS % 8
    if (stamp[CAUSEWAY_STAMP_BYTES - 1] & (0xFFU >> CAUSEWAY_STAMP_BITS % 8))
        return CW_STAMP_PADDING;
#endif
#if !IN_RANGE(CAUSEWAY_CLOCK_WIDTH, CAUSEWAY_CLOCK_MASK)
    if (stamp[CAUSEWAY_CLOCK_BIT / 8] > CAUSEWAY_CLOCK_MASK)
        return CW_STAMP_RANGE;
#endif
#if !IN_RANGE(CAUSEWAY_C_WIDTH, CAUSEWAY_C_TOP)
    if (stamp[CAUSEWAY_C_BIT / 8] > CAUSEWAY_C_TOP)
        return CW_STAMP_RANGE;
#endif
#if !IN_RANGE(CAUSEWAY_ENTRY_WIDTH, CAUSEWAY_ENTRY_TOP)
    for (uint8_t i = 0; i < CAUSEWAY_ENTRIES; i++)
        if (stamp[CAUSEWAY_ENTRY_BIT / 8 + i] > CAUSEWAY_ENTRY_TOP)
            return CW_STAMP_RANGE;
#endif
    return CW_STAMP_SOUND;
}

uint32_t cw_stamp_clock(const uint8_t stamp[CAUSEWAY_STAMP_BYTES], uint32_t now)
{
    return now + (uint32_t)cw_clock_ahead(take_clock(stamp), now);
}

#if CAUSEWAY_SCHEME_DPC1

/* The clock alone: nothing is known of others. */

void cw_stamp_start(cw_stamp_t *state, uint32_t tick)
{
    (void)state;
    (void)tick;
}

bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t stamp[CAUSEWAY_STAMP_BYTES])
{
    (void)state;
    give_head(stamp, tick, 0);
    return false;
}

cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t stamp[CAUSEWAY_STAMP_BYTES])
{
    (void)state;
    (void)tick;
    return cw_stamp_check(stamp) == CW_STAMP_SOUND ? CW_STAMP_OK : CW_STAMP_REFUSED;
}

#elif CAUSEWAY_SCHEME_HLC || CAUSEWAY_SCHEME_SHLC

/* A hybrid logical clock: (top, kn[0]) is (l, counter). */

/* A full counter carries into l while l is less than this ahead of our clock. The quarter of EPSILON left free is for receivers
 * that are behind us, who must not take l for an impossible value. */
#define CARRY_ROOM (CAUSEWAY_EPSILON - CAUSEWAY_EPSILON / 4)

/* How far l is ahead of the clock, after the bound. */
static int32_t bound(cw_stamp_t *state, uint32_t tick)
{
    int32_t ahead = cw_tick_diff(state->top, tick);

    if (ahead <= CAUSEWAY_EPSILON)
        return ahead;
    state->bounded++;
    state->top = tick;
    state->kn[0] = 0;
    return 0;
}

/* One event at `tick`, when kn[0] events are known at l, the largest clock value known, which is `ahead` of it.
 * How far l is ahead then. */
static uint16_t step(cw_stamp_t *state, uint32_t tick, int32_t ahead)
{
    uint16_t c = 0;
    cw_entry_t counter = 0;

    if (ahead >= 0) {
        c = (uint16_t)ahead;
        counter = state->kn[0];
        if (counter < CAUSEWAY_ENTRY_TOP - 1) {
            counter++;
        } else if (c < CARRY_ROOM) {
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

bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t stamp[CAUSEWAY_STAMP_BYTES])
{
    uint16_t c = step(state, tick, bound(state, tick));

    give_head(stamp, tick, c);
    give(stamp, CAUSEWAY_ENTRY_BIT, CAUSEWAY_ENTRY_WIDTH, state->kn[0]);
    return state->kn[0] == CAUSEWAY_ENTRY_TOP;
}

cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t stamp[CAUSEWAY_STAMP_BYTES])
{
    if (cw_stamp_check(stamp) != CW_STAMP_SOUND)
        return CW_STAMP_REFUSED;

    uint16_t before = state->bounded;
    int32_t ours = bound(state, tick);
    int32_t theirs = cw_clock_ahead(take_clock(stamp), tick) + take_c(stamp);
    cw_entry_t counter = (cw_entry_t)take(stamp, CAUSEWAY_ENTRY_BIT, CAUSEWAY_ENTRY_WIDTH);

    if (theirs > CAUSEWAY_EPSILON) {
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

#else /* kn, and dpc2: kn without entries */

#if CAUSEWAY_ENTRIES

/* Entries lie one after the other: a cursor that goes over them, bit by bit unless they are whole bytes, costs less than shifts
 * by a variable number. */
#define WHOLE_BYTES (CAUSEWAY_ENTRY_WIDTH == 8 && CAUSEWAY_ENTRY_BIT % 8 == 0)
#define FIRST_BYTE (CAUSEWAY_ENTRY_BIT / 8)
#define FIRST_MASK (0x80 >> CAUSEWAY_ENTRY_BIT % 8)

INLINE cw_entry_t next_entry(const uint8_t **at, uint8_t *mask)
{
    cw_entry_t value = 0;

    if (WHOLE_BYTES)
        return *(*at)++;
    for (uint8_t left = CAUSEWAY_ENTRY_WIDTH; left; left--) {
        value = (cw_entry_t)(value << 1);
        if (**at & *mask)
            value |= 1;
        *mask >>= 1;
        if (!*mask) {
            *mask = 0x80;
            ++*at;
        }
    }
    return value;
}

/* The bits must be zero before. */
INLINE void put_entry(uint8_t **at, uint8_t *mask, cw_entry_t value)
{
    if (WHOLE_BYTES) {
        *(*at)++ = (uint8_t)value;
        return;
    }
    for (cw_entry_t bit = (cw_entry_t)(1U << (CAUSEWAY_ENTRY_WIDTH - 1)); bit; bit >>= 1) {
        if (value & bit)
            **at |= *mask;
        *mask >>= 1;
        if (!*mask) {
            *mask = 0x80;
            ++*at;
        }
    }
}

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
            value = CAUSEWAY_ENTRY_TOP;    /* after a fault in memory it may be more, and that is no entry */
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

/* One more event at our clock, which is c below the top; out of the window nobody can ask for it. */
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

/* Move to the clock of an event: the bound, then top = max(top, tick). How far top is ahead of the clock then: c. */
static uint16_t shift_to(cw_stamp_t *state, uint32_t tick)
{
    int32_t ahead = cw_tick_diff(state->top, tick);

    if (ahead >= 0 && ahead <= CAUSEWAY_EPSILON)
        return (uint16_t)ahead;
    if (ahead < 0) {
        slide(state, (uint32_t)-ahead);
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

bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t stamp[CAUSEWAY_STAMP_BYTES])
{
    uint16_t c = shift_to(state, tick);

    count_event(state, c);
    give_head(stamp, tick, c);
    return give_entries(state, stamp);
}

cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t stamp[CAUSEWAY_STAMP_BYTES])
{
    if (cw_stamp_check(stamp) != CW_STAMP_SOUND)
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
