#include "causeway/dedup.h"

#include <string.h>

_Static_assert(CW_DEDUP_ROOM >= 1 && CW_DEDUP_ROOM <= 255, "entries are counted in a byte");

void cw_dedup_start(cw_dedup_t *filter)
{
    memset(filter, 0, sizeof(*filter));
}

bool cw_dedup_knows(const cw_dedup_t *filter, uint16_t source, uint16_t number)
{
    for (uint8_t at = 0; at < CW_DEDUP_ROOM && at < filter->used; at++)
        if (filter->number[at] == number && filter->source[at] == source)
            return true;
    return false;
}

bool cw_dedup_seen(cw_dedup_t *filter, uint16_t source, uint16_t number)
{
    if (filter->used > CW_DEDUP_ROOM || filter->next >= CW_DEDUP_ROOM)
        cw_dedup_start(filter); /* after a fault in memory */
    if (cw_dedup_knows(filter, source, number))
        return true;
    uint8_t next = filter->next;
    filter->source[next] = source;
    filter->number[next] = number;
    next++;
    if (filter->used < next)
        filter->used = next;
    filter->next = next == CW_DEDUP_ROOM ? 0 : next;
    return false;
}
