/* What all schemes share: whether bytes are a stamp at all, and its clock. The schemes themselves are in
 * stamp_*.c. */
#include "causeway/stamp.h"

#include "causeway/stamp_fields.h"
#include "causeway/ticks.h"

#if !CAUSEWAY_STAMP_IN_FIRMWARE
#error "stamp.scheme: the firmware has no such stamp; docs/schemes.md says which it has"
#endif

int8_t cw_stamp_items(uint8_t length)
{
#if CAUSEWAY_STAMP_VARIABLE
    uint16_t bits = (uint16_t)((length - CW_STAMP_REST) * 8 - CAUSEWAY_STAMP_HEAD_BITS);
    int8_t items = 0;

    if (length < CAUSEWAY_PAYLOAD_BYTES_LEAST || length > CAUSEWAY_PAYLOAD_BYTES)
        return -1;
    for (; bits >= CAUSEWAY_ITEM_BITS && items < CAUSEWAY_ITEMS_MOST; items++)
        bits = (uint16_t)(bits - CAUSEWAY_ITEM_BITS);
    return bits < 8 ? items : -1;
#else
    return length == CAUSEWAY_PAYLOAD_BYTES ? CAUSEWAY_ITEMS_MOST : -1;
#endif
}

cw_stamp_fault_t cw_stamp_check(const uint8_t *stamp, uint8_t items)
{
    return fault_in(stamp, items);
}

#if CAUSEWAY_CLOCK_WIDTH

uint32_t cw_stamp_clock(const uint8_t *stamp, uint32_t now)
{
    return now + (uint32_t)cw_clock_ahead(take_clock(stamp), now);
}

#endif
