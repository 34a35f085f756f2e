#include "traffic.h"

traffic_t traffic;

outbox_frame_t *traffic_frame(outbox_kind_t kind, uint8_t type, uint8_t length, uint32_t not_before,
                              uint32_t deadline)
{
    outbox_frame_t *frame = outbox_new(kind, type, length, not_before, deadline);
    if (!frame)
        count(&traffic.full);
    return frame;
}
