/** Computes how many items a stamp of variable length holds from the length of the payload. */
#ifndef CW_STAMP_ITEMS_H
#define CW_STAMP_ITEMS_H

#include <stdint.h>

#include "causeway_layout.h"

/** The bytes of a stamp with this many items. */
static inline uint8_t cw_stamp_bytes(uint8_t items)
{
    return (uint8_t)((CAUSEWAY_STAMP_HEAD_BITS + items * CAUSEWAY_ITEM_BITS + 7) / 8);
}

/** The bytes of a data payload besides its stamp. */
#define CW_STAMP_REST (CAUSEWAY_PAYLOAD_BYTES - CAUSEWAY_STAMP_BYTES)

/** The items in the stamp of a data payload of `length` bytes: as many as fit; -1 if no number of items gives
 * that length. A stamp of fixed length has CAUSEWAY_ITEMS_MOST of them. */
static inline int8_t cw_stamp_items(uint8_t length)
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

#endif
