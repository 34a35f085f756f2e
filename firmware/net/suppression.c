#include "suppression.h"

#include <string.h>

#include "gateway_acks.h"
#include "causeway/data.h"
#include "causeway/records.h"
#include "hal/clock.h"
#include "hops.h"
#include "outbox.h"
#include "repair.h"
#include "schedule.h"
#include "mic.h"
#include "timesync.h"
#include "traffic.h"

/* A peer at our distance has sent a message that we have not. It is responsible now, and sends it again if no
 * nearer mote forwards it: if we hear that, we help. */
static void put_behind(outbox_frame_t *frame)
{
    uint8_t round = schedule_round() & OUTBOX_ROUND_MOST;
    if (frame->behind && frame->first_round != round)
        return;
    frame->behind = !frame->behind;
    frame->first_round = (round + 1U) & OUTBOX_ROUND_MOST;
}

/* Whether a frame need not go out (again) after a node at this distance from the gateway has sent its
 * message; 0: the gateway has it. */
static bool is_done(outbox_frame_t *frame, uint8_t distance)
{
    uint8_t ours = (uint8_t)(cw_data_hops(frame->message.data) + 1);
    if (frame->tries > 0)
        return distance < ours || ours > CW_DATA_HOPS_TOP;
    if (CAUSEWAY_SCHEDULED && hops_known(clock_now()) && distance == ours) {
        put_behind(frame);
        return false;
    }
    return hops_known(clock_now()) ? distance <= ours : distance == 0;
}

/* Whether a frame heard is about this message of ours, whose source and number it has. */
static bool is_about(const radio_message_t *heard, const radio_message_t *message)
{
    if (!MIC_BYTES)
        return true;
    return heard->type == CAUSEWAY_AM_ARRIVED ? mic_check_arrived(heard->data, mic_of(message))
                                              : memcmp(mic_of(heard), mic_of(message), MIC_BYTES) == 0;
}

/* The data message at a place of the outbox, if it has its stamp. */
static outbox_frame_t *stamped_frame(uint8_t place)
{
    outbox_frame_t *frame = outbox_frame(place);
    bool has_stamp = frame && frame->message.type == CAUSEWAY_AM_DATA &&
                     (frame->kind != OUTBOX_OWN || place >= OUTBOX_ROOM) && !repair_is_kept(frame);
    return has_stamp ? frame : 0;
}

/* A frame at the radio goes out, but not again. */
static void silence(outbox_frame_t *frame, uint8_t place)
{
    count(&traffic.suppressed);
    frame->used = place >= OUTBOX_ROOM;
    frame->deadline = clock_now();
}

/* A node at this distance has sent a message, as `heard` shows. */
static void suppress(const radio_message_t *heard, uint16_t source, uint16_t number, uint8_t distance)
{
    for (uint8_t i = 0; i <= OUTBOX_LAST; i++) {
        outbox_frame_t *frame = stamped_frame(i);
        if (frame && cw_data_source(frame->message.data) == source &&
            cw_data_number(frame->message.data) == number && is_done(frame, distance) &&
            is_about(heard, &frame->message)) {
            silence(frame, i);
            if (REPAIR && distance > 0 && i < OUTBOX_ROOM) /* it may be lost later */
                repair_keep(frame);
        }
    }
}

void suppression_on_data(const radio_message_t *message)
{
    const uint8_t *payload = message->data;
    suppress(message, cw_data_source(payload), cw_data_number(payload), (uint8_t)(cw_data_hops(payload) + 1));
}

void suppression_on_arrived(const radio_message_t *message)
{
    cw_arrived_t arrived;
    if (cw_arrived_get(message->data, MIC_REST(message->length), &arrived))
        suppress(message, arrived.source, cw_data_arrived(arrived.number), 0);
    else
        count(&traffic.foreign);
}

static bool names(const radio_message_t *taken, const radio_message_t *message)
{
    for (uint8_t at = 0; at < CAUSEWAY_TAKEN_BYTES; at = (uint8_t)(at + 2))
        if (cw_get16(taken->data + at) == gateway_acks_name(message))
            return true;
    return false;
}

static bool has_right_mic(const radio_message_t *taken)
{
    if (MIC_BYTES && !mic_check_taken(taken->data, timesync_network(clock_now()))) {
        traffic_forged();
        return false;
    }
    return true;
}

/* A Taken that names no message of ours need not be checked. */
void suppression_on_taken(const radio_message_t *taken)
{
    bool checked = false;
    for (uint8_t i = 0; i <= OUTBOX_LAST && taken->length == MIC_RECORD_BYTES(TAKEN); i++) {
        outbox_frame_t *frame = stamped_frame(i);
        if (!frame || !names(taken, &frame->message))
            continue;
        if (!checked && !has_right_mic(taken))
            return;
        checked = true;
        silence(frame, i);
    }
}
