#include "bundle.h"

#if BUNDLES

#include <string.h>

/* Inlined, its message would be on the stack while the caller handles other frames. */
__attribute__((noinline)) void bundle_open(const radio_heard_t *bundle, uint32_t now, bundle_take_t *take)
{
    radio_heard_t part = *bundle;
    part.message.type = CAUSEWAY_AM_DATA;
    part.message.length = CAUSEWAY_PAYLOAD_BYTES;
    take(&part, now);
    memcpy(part.message.data, bundle->message.data + CAUSEWAY_PAYLOAD_BYTES, CAUSEWAY_PAYLOAD_BYTES);
    take(&part, now);
}

#endif
