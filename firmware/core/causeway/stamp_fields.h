/** Reads and writes the fields of a stamp. Only the stamp programs (stamp_*.c) include this.
 *
 * Fields lie most significant bit first. The compiler knows the places of the clock, c and an HLC's counter:
 * take() and give() become a few constant shifts. They span at most three bytes, since no field has more than
 * 16 bits. Entries lie one after the other: a cursor goes over them.
 */
#ifndef CW_STAMP_FIELDS_H
#define CW_STAMP_FIELDS_H

#include <string.h>

#include "bytes.h"
#include "causeway_layout.h"
#include "stamp.h"
#include "types.h"

#define INLINE static inline __attribute__((always_inline))

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

#if CAUSEWAY_CLOCK_WIDTH

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

/* Clock and c, for a top that is c ahead of the sender's clock. All other bits become zero. */
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

#endif

#if CAUSEWAY_ENTRIES

/* A cursor over fields that lie one after the other. Bit by bit costs less than shifts by a variable number.
 */
INLINE cw_entry_t next_bits(const uint8_t **at, uint8_t *mask, uint8_t width)
{
    cw_entry_t value = 0;
    for (; width; width--) {
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
INLINE void put_bits(uint8_t **at, uint8_t *mask, uint8_t width, cw_entry_t value)
{
    for (cw_entry_t bit = (cw_entry_t)(1U << (width - 1)); bit; bit >>= 1) {
        if (value & bit)
            **at |= *mask;
        *mask >>= 1;
        if (!*mask) {
            *mask = 0x80;
            ++*at;
        }
    }
}

#define WHOLE_BYTES (CAUSEWAY_ENTRY_WIDTH == 8 && CAUSEWAY_ENTRY_BIT % 8 == 0)
#define FIRST_BYTE (CAUSEWAY_ENTRY_BIT / 8)
#define FIRST_MASK (0x80 >> CAUSEWAY_ENTRY_BIT % 8)

INLINE cw_entry_t next_entry(const uint8_t **at, uint8_t *mask)
{
    return WHOLE_BYTES ? *(*at)++ : next_bits(at, mask, CAUSEWAY_ENTRY_WIDTH);
}

INLINE void put_entry(uint8_t **at, uint8_t *mask, cw_entry_t value)
{
    if (WHOLE_BYTES)
        *(*at)++ = (uint8_t)value;
    else
        put_bits(at, mask, CAUSEWAY_ENTRY_WIDTH, value);
}

#endif

/* A field can hold more than its range only where it is wider than its values: in bytes packing, where it is
 * a byte. */
#define IN_RANGE(width, top) ((1UL << (width)) - 1 <= (top))

/* See cw_stamp_check(). */
static inline cw_stamp_fault_t fault_in(const uint8_t *stamp, uint8_t items)
{
    (void)stamp;
    (void)items;
#if CAUSEWAY_STAMP_VARIABLE
    uint8_t used = (uint8_t)(CAUSEWAY_STAMP_HEAD_BITS + items * CAUSEWAY_ITEM_BITS) % 8;
    if (used && stamp[cw_stamp_bytes(items) - 1] & (0xFFU >> used))
        return CW_STAMP_PADDING;
#elif CAUSEWAY_STAMP_BITS % 8
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
#if CAUSEWAY_SCHEME_LAST_SENDER
    if (take(stamp, 0, CAUSEWAY_ENTRY_WIDTH) >= CAUSEWAY_MOTES)
        return CW_STAMP_RANGE;
    if (take(stamp, CAUSEWAY_ENTRY_WIDTH, CAUSEWAY_ENTRY_WIDTH) > UINT8_MAX)
        return CW_STAMP_RANGE;
#endif
    return CW_STAMP_SOUND;
}

#endif
