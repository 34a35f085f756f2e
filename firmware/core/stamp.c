/* What all schemes share: whether bytes are a stamp at all, and its clock. The schemes themselves are in
 * stamp_*.c. */
#include "causeway/stamp.h"

#include "causeway/stamp_fields.h"
#include "causeway/ticks.h"

#if !CAUSEWAY_STAMP_IN_FIRMWARE
#error "stamp.scheme: the firmware has no such stamp; docs/evidence/schemes.md says which it has"
#endif

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
