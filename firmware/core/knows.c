#include "causeway/knows.h"

#include "causeway/stamp_fields.h"
#include "causeway/ticks.h"

static bool in_receipts(const uint8_t *payload, uint8_t length, const cw_own_t *ours)
{
    const uint8_t *slot = payload + cw_data_place(CAUSEWAY_RECEIPTS_AT, length);
    for (uint8_t left = CAUSEWAY_RECEIPTS; left; left--, slot += CAUSEWAY_RECEIPT_BYTES)
        if (cw_get_source(slot) == ours->source && slot[CAUSEWAY_SOURCE_BYTES] == ours->sequence)
            return true;
    return false;
}

#if CAUSEWAY_CLOCK_WIDTH && !CAUSEWAY_SCHEME_DELTA_VECTOR

/* A sender that knew ours knew a clock value of at least our tick; a plain clock (dpc1) may be EPSILON behind
 * it.
 */
static bool is_before(const uint8_t *stamp, uint32_t now, const cw_own_t *ours)
{
    uint32_t known = cw_stamp_clock(stamp, now) + take_c(stamp);
    return cw_tick_diff(known + (CAUSEWAY_SCHEME_DPC1 ? CAUSEWAY_EPSILON : 0), ours->tick) < 0;
}

#endif

#if CAUSEWAY_SCHEME_BARRIER

static bool is_named(const uint8_t *stamp, uint8_t items, const cw_own_t *ours)
{
    const uint8_t *at = stamp + CAUSEWAY_STAMP_HEAD_BITS / 8;
    uint8_t mask = 0x80 >> CAUSEWAY_STAMP_HEAD_BITS % 8, width = CAUSEWAY_ITEM_BITS - CAUSEWAY_ENTRY_WIDTH;
    bool found = false;
    for (; items; items--) {
        bool us = next_bits(&at, &mask, CAUSEWAY_ENTRY_WIDTH) == ours->source;
        cw_entry_t residue = next_bits(&at, &mask, width);
        if (us && residue == (ours->sequence & ((1U << width) - 1)))
            found = true;
    }
    return found;
}

static cw_knows_t known_by_stamp(const uint8_t *payload, uint8_t length, uint32_t now, const cw_own_t *ours)
{
    const uint8_t *stamp = cw_data_stamp(payload);
    if (is_before(stamp, now, ours))
        return CW_KNOWS_NOT;
    return is_named(stamp, (uint8_t)cw_stamp_items(length), ours) ? CW_KNOWS : CW_KNOWS_MAYBE;
}

#elif CAUSEWAY_SCHEME_VECTOR

static cw_knows_t known_by_stamp(const uint8_t *payload, uint8_t length, uint32_t now, const cw_own_t *ours)
{
    uint16_t place = (uint16_t)(ours->source - (cw_data_source(payload) < ours->source));
    (void)length;
    (void)now;
    return cw_data_stamp(payload)[place] == (uint8_t)(ours->sequence + 1) ? CW_KNOWS : CW_KNOWS_NOT;
}

#elif CAUSEWAY_SCHEME_DELTA_VECTOR

/* It says how long ago we last sent, plus EPSILON, unless that is too long ago to matter
 * (stamp_delta_vector.c). */
static cw_knows_t known_by_stamp(const uint8_t *payload, uint8_t length, uint32_t now, const cw_own_t *ours)
{
    const uint8_t *stamp = cw_data_stamp(payload), *at = stamp + FIRST_BYTE;
    uint8_t mask = FIRST_MASK;
    int32_t age = cw_tick_diff(cw_stamp_clock(stamp, now) + CAUSEWAY_EPSILON, ours->tick);
    cw_entry_t told = 0;
    (void)length;
    for (uint16_t mote = 0; mote <= ours->source; mote++)
        told = next_entry(&at, &mask);
    if (age < 0)
        return CW_KNOWS_NOT;
    if (age > CAUSEWAY_DELTA + 3L * CAUSEWAY_EPSILON)
        return CW_KNOWS_MAYBE;
    return told == (cw_entry_t)age ? CW_KNOWS : CW_KNOWS_NOT;
}

#elif CAUSEWAY_SCHEME_LAST_SENDER

static cw_knows_t known_by_stamp(const uint8_t *payload, uint8_t length, uint32_t now, const cw_own_t *ours)
{
    const uint8_t *stamp = cw_data_stamp(payload);
    bool named = take(stamp, CAUSEWAY_ENTRY_BIT, CAUSEWAY_ENTRY_WIDTH) == ours->source &&
                 take(stamp, CAUSEWAY_ENTRY_BIT + CAUSEWAY_ENTRY_WIDTH, CAUSEWAY_ENTRY_WIDTH) ==
                     ours->sequence;
    (void)length;
    (void)now;
    return named ? CW_KNOWS : CW_KNOWS_MAYBE;
}

#elif CAUSEWAY_CLOCK_WIDTH

static cw_knows_t known_by_stamp(const uint8_t *payload, uint8_t length, uint32_t now, const cw_own_t *ours)
{
    (void)length;
    return is_before(cw_data_stamp(payload), now, ours) ? CW_KNOWS_NOT : CW_KNOWS_MAYBE;
}

#else

static cw_knows_t known_by_stamp(const uint8_t *payload, uint8_t length, uint32_t now, const cw_own_t *ours)
{
    (void)payload;
    (void)length;
    (void)now;
    (void)ours;
    return CW_KNOWS_MAYBE;
}

#endif

cw_knows_t cw_knows(const uint8_t *payload, uint8_t length, uint32_t now, const cw_own_t *ours)
{
    if (!cw_data_in_sync(payload))
        return CW_KNOWS_MAYBE;
    return in_receipts(payload, length, ours) ? CW_KNOWS : known_by_stamp(payload, length, now, ours);
}
