#include "gateway_acks.h"

#include <string.h>

#include "causeway/data.h"
#include "causeway/records.h"
#include "outbox.h"
#include "repair.h"
#include "mic.h"

/* Cycles that an answer waits for a clear channel: later its message has been sent again. */
#define ANSWER_PATIENCE (4 * CAUSEWAY_HOP_BACKOFF)

/* Whether it is a data message of this network. */
static bool is_ours(const radio_message_t *message)
{
    return message->group == CAUSEWAY_GROUP && message->type == CAUSEWAY_AM_DATA &&
           message->length >= CAUSEWAY_PAYLOAD_BYTES_LEAST;
}

/* ---- With a schedule ---- */

#define NAMED (CAUSEWAY_TAKEN_BYTES / 2)

/* The answer that waits and has room for one more message, or a new one; its `tries` counts the messages that
 * it names. */
static outbox_frame_t *answer_with_room(uint32_t now)
{
    for (uint8_t i = 0; i < OUTBOX_ROOM; i++) {
        outbox_frame_t *frame = outbox_frame(i);
        if (frame && frame->message.type == CAUSEWAY_AM_TAKEN && frame->tries < NAMED)
            return frame;
    }
    return outbox_new(OUTBOX_PLAIN, CAUSEWAY_AM_TAKEN, MIC_RECORD_BYTES(TAKEN), now, now);
}

static void name_in_answer(const radio_message_t *message, uint32_t now)
{
    outbox_frame_t *frame = answer_with_room(now);
    if (!frame)
        return;
    for (uint8_t i = frame->tries; i < NAMED; i++)
        cw_put16(frame->message.data + 2 * i, gateway_acks_name(message));
    frame->tries++;
    frame->not_before = now;
    frame->deadline = now + (UINT32_C(1) << CAUSEWAY_PERIOD_LOG2) / 4;
    outbox_put(frame);
}

/* ---- Without one ---- */

static bool is_waiting(const uint8_t *answer)
{
    for (uint8_t i = 0; i <= OUTBOX_ROOM; i++) {
        const outbox_frame_t *frame = outbox_frame(i);
        if (frame && frame->message.type == CAUSEWAY_AM_ARRIVED &&
            memcmp(frame->message.data, answer, MIC_RECORD_BYTES(ARRIVED)) == 0)
            return true;
    }
    return false;
}

static void answer_alone(const radio_message_t *message, uint32_t now)
{
    cw_arrived_t arrived = {cw_data_source(message->data), cw_data_arrived(cw_data_number(message->data))};
    uint8_t answer[MIC_RECORD_BYTES(ARRIVED)];
    cw_arrived_put(answer, &arrived);
    if (MIC_BYTES)
        mic_write_arrived(answer, mic_of(message));
    if (is_waiting(answer))
        return;
    outbox_frame_t *frame = outbox_new(OUTBOX_PLAIN, CAUSEWAY_AM_ARRIVED, sizeof answer, now,
                                       now + ANSWER_PATIENCE);
    if (frame) {
        memcpy(frame->message.data, answer, sizeof answer);
        outbox_put(frame);
    }
}

void gateway_acks_on_heard(const radio_message_t *message, uint32_t now)
{
    if (!is_ours(message))
        return;
    if (REPAIR)
        repair_on_arrival(message);
    if (CAUSEWAY_SCHEDULED)
        name_in_answer(message, now);
    else
        answer_alone(message, now);
}
