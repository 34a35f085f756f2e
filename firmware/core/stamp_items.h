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

/** The items in the stamp of a data payload of `length` bytes; -1 if no number of items gives that length.
 * A stamp of fixed length has CAUSEWAY_ITEMS_MOST of them. */
static inline int8_t cw_stamp_items(uint8_t length)
{
    uint8_t rest = CAUSEWAY_PAYLOAD_BYTES - CAUSEWAY_STAMP_BYTES;
    int8_t items;

    for (items = CAUSEWAY_ITEMS_MOST; items >= CAUSEWAY_ITEMS_LEAST; items--)
        if (rest + cw_stamp_bytes((uint8_t)items) == length)
            return items;
    return -1;
}

#endif
