/* What all schemes share: whether bytes are a stamp at all, and its clock. The schemes themselves are in
 * stamp_*.c. */
#include "stamp.h"

#include "stamp_fields.h"
#include "ticks.h"

#if CAUSEWAY_SCHEME_SCALAR
#error "stamp.scheme = \"scalar\": the firmware has no such stamp; basestation compare plays it"
#elif CAUSEWAY_SCHEME_HISTORY
#error "stamp.scheme = \"history\": the firmware has no such stamp; basestation compare plays it"
#elif CAUSEWAY_SCHEME_MATRIX
#error \
    "stamp.scheme = \"matrix\": the firmware has no such stamp; under broadcast vector says the same in less"
#elif CAUSEWAY_SCHEME_DELTA_CAUSAL
#error \
    "stamp.scheme = \"delta-causal\": the firmware has no such stamp; under broadcast delta-vector says the same in less"
#elif CAUSEWAY_SCHEME_TWO_HOP
#error "stamp.scheme = \"two-hop\": the firmware has no such stamp; basestation compare plays it"
#endif

cw_stamp_fault_t cw_stamp_check(const uint8_t stamp[CAUSEWAY_STAMP_BYTES])
{
    return fault_in(stamp);
}

#if CAUSEWAY_CLOCK_WIDTH

uint32_t cw_stamp_clock(const uint8_t stamp[CAUSEWAY_STAMP_BYTES], uint32_t now)
{
    return now + (uint32_t)cw_clock_ahead(take_clock(stamp), now);
}

#endif
