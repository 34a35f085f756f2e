#include "repair.h"

#if REPAIR

#include <string.h>

#include "causeway/data.h"
#include "hal/clock.h"
#include "identity.h"
#include "schedule.h"
#include "timesync.h"

#define LIST_BYTES (CAUSEWAY_BEACON_BYTES - CAUSEWAY_BEACON_TAIL_AT)
#define EVERY ((UINT32_C(1) << CAUSEWAY_PERIOD_LOG2) * CAUSEWAY_BEACON_EVERY)

static uint8_t list[LIST_BYTES]; /* the gateway's own, or as in the beacon that we follow */

/* A message's place in the list: a byte, and its bit. */
typedef struct {
    uint8_t *byte, bit;
} list_place_t;

static list_place_t place_of(const uint8_t *payload)
{
    uint16_t at = (uint16_t)(cw_data_source(payload) * CAUSEWAY_REPAIR_BITS +
                             cw_data_sequence(payload) % CAUSEWAY_REPAIR_BITS);
    return (list_place_t){list + at / 8, (uint8_t)(1U << (at & 7))};
}

void repair_on_arrival(const radio_message_t *message)
{
    if (cw_data_source(message->data) < CAUSEWAY_MOTES) {
        list_place_t place = place_of(message->data);
        *place.byte |= place.bit;
    }
}

/* Whether a window with a beacon has just opened, or is about to, by a clock that may be behind. */
static bool is_opening(uint32_t now)
{
    uint32_t since = timesync_network(now) + CAUSEWAY_BEACON_SLOT;
    return (since & (EVERY - 1)) < CAUSEWAY_DATA_START + CAUSEWAY_BEACON_SLOT;
}

/* The root's list: while a window opens it stays as it was then, in all beacons of that window. */
static const uint8_t *list_of_root(uint32_t now)
{
    static uint8_t sent_list[LIST_BYTES], sent_in; /* sent in the window of that number */
    if ((timesync_network(now) & (EVERY - 1)) >= CAUSEWAY_DATA_START)
        return list;
    if (sent_in != schedule_window()) {
        sent_in = schedule_window();
        memcpy(sent_list, list, LIST_BYTES);
        memset(list, 0, LIST_BYTES);
    }
    return sent_list;
}

void repair_fill(uint8_t *beacon, uint32_t now)
{
    memcpy(beacon + CAUSEWAY_BEACON_TAIL_AT, timesync_is_root() ? list_of_root(now) : list, LIST_BYTES);
}

/* The message becomes as it was when the app handed it over, at its `not_before`; but new messages go
 * first. */
static void send_again(outbox_frame_t *frame, uint32_t now)
{
    uint8_t *payload = frame->message.data;
    memmove(cw_data_application(payload, CAUSEWAY_PAYLOAD_BYTES),
            cw_data_application(payload, frame->message.length), CAUSEWAY_DATA_BYTES);
    frame->message.length = CAUSEWAY_PAYLOAD_BYTES;
    frame->kind = OUTBOX_OWN;
    frame->deadline = now;
    frame->tries = OUTBOX_AGAIN;
    frame->first_round = 0;
    frame->behind = false;
}

void repair_on_beacon(const uint8_t *beacon, uint32_t now)
{
    memcpy(list, beacon + CAUSEWAY_BEACON_TAIL_AT, LIST_BYTES);
    if (!is_opening(now))
        return;
    for (uint8_t i = 0; i < OUTBOX_ROOM; i++) {
        outbox_frame_t *frame = outbox_frame(i);
        if (!frame || frame->kind != OUTBOX_KEPT)
            continue;
        list_place_t place = place_of(frame->message.data);
        if (*place.byte & place.bit)
            frame->used = false;
        else
            send_again(frame, now);
    }
}

void repair_keep(const outbox_frame_t *frame)
{
    outbox_frame_t *place = outbox_place();
    if (place && frame->tries < OUTBOX_AGAIN && cw_data_source(frame->message.data) == identity_id()) {
        *place = *frame;
        place->kind = OUTBOX_KEPT;
        place->deadline = schedule_opening(clock_now()) + CAUSEWAY_DATA_START;
        outbox_put(place);
    }
}

#endif
