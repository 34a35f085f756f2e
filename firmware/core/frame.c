#include "causeway/frame.h"

#include <string.h>

#include "causeway/crc.h"

/* Where a framer is. Done is 0, so that a static one has nothing to say. */
enum { DONE, OPEN, BODY, CRC_LOW, CRC_HIGH, CLOSING };

void cw_framer_start(cw_framer_t *framer, const uint8_t *packet, uint8_t length)
{
    framer->packet = packet;
    framer->crc = 0;
    framer->length = length;
    framer->at = 0;
    framer->escaped = 0;
    framer->step = length >= CW_FRAME_MIN - 2 && length <= CW_FRAME_MAX - 2 ? OPEN : DONE;
}

/* The next byte of packet or CRC, before escaping. */
static uint8_t next_plain(cw_framer_t *framer)
{
    uint8_t byte;
    switch (framer->step) {
    case BODY:
        byte = framer->packet[framer->at++];
        framer->crc = cw_crc16_add(framer->crc, byte);
        if (framer->at == framer->length)
            framer->step = CRC_LOW;
        return byte;
    case CRC_LOW:
        framer->step = CRC_HIGH;
        return (uint8_t)framer->crc;
    default:
        framer->step = CLOSING;
        return (uint8_t)(framer->crc >> 8);
    }
}

int16_t cw_framer_next(cw_framer_t *framer)
{
    uint8_t byte = framer->escaped;
    if (byte) {
        framer->escaped = 0;
        return byte;
    }
    if (framer->step == DONE)
        return -1;
    if (framer->step == OPEN || framer->step == CLOSING) {
        framer->step = framer->step == OPEN ? BODY : DONE;
        return CW_FRAME_FLAG;
    }
    byte = next_plain(framer);
    if (byte == CW_FRAME_FLAG || byte == CW_FRAME_ESCAPE) {
        framer->escaped = byte ^ CW_FRAME_FLIP;
        return CW_FRAME_ESCAPE;
    }
    return byte;
}

void cw_deframer_start(cw_deframer_t *deframer)
{
    memset(deframer, 0, sizeof(*deframer));
}

void cw_deframer_resync(cw_deframer_t *deframer)
{
    if (deframer->escaping)
        deframer->count = 1;
    deframer->escaping = false;
    deframer->in_sync = false;
}

/* Add an unescaped byte. The last two wait: if a flag follows they are the CRC, and the CRC does not cover
 * itself. */
static void add_byte(cw_deframer_t *deframer, uint8_t byte)
{
    uint16_t count = deframer->count;
    if (count > CW_FRAME_MAX)
        return;
    if (count >= 2) {
        deframer->crc = cw_crc16_add(deframer->crc, deframer->last[0]);
        if (count - 2 < CW_DEFRAMER_ROOM)
            deframer->packet[count - 2] = deframer->last[0];
    }
    deframer->last[0] = deframer->last[1];
    deframer->last[1] = byte;
    deframer->count = count + 1;
}

/* The counter of what lies between the last flag and this one; NULL if it was nothing. */
static uint16_t *judge_frame(cw_deframer_t *deframer)
{
    cw_deframer_counters_t *counters = &deframer->counters;
    if (deframer->count == 0 && !deframer->escaping)
        return NULL;
    if (!deframer->in_sync)
        return &counters->noise;
    if (deframer->count + (deframer->escaping != 0) > CW_FRAME_MAX)
        return &counters->overlong;
    if (deframer->escaping)
        return &counters->escape;
    if (deframer->count < CW_FRAME_MIN)
        return &counters->brief;
    if (deframer->crc != (uint16_t)(deframer->last[0] | (uint16_t)deframer->last[1] << 8))
        return &counters->crc;
    return &counters->frames;
}

static uint8_t end_frame(cw_deframer_t *deframer)
{
    uint16_t *counter = judge_frame(deframer);
    uint8_t length = counter == &deframer->counters.frames ? (uint8_t)(deframer->count - 2) : 0;
    if (counter)
        ++*counter;
    deframer->in_sync = true;
    deframer->escaping = false;
    deframer->count = 0;
    deframer->crc = 0;
    return length;
}

uint8_t cw_deframer_put(cw_deframer_t *deframer, uint8_t byte)
{
    if (byte == CW_FRAME_FLAG)
        return end_frame(deframer);
    if (!deframer->in_sync) {
        deframer->count = 1;
    } else if (deframer->escaping) {
        deframer->escaping = false;
        add_byte(deframer, byte ^ CW_FRAME_FLIP);
    } else if (byte == CW_FRAME_ESCAPE) {
        deframer->escaping = true;
    } else {
        add_byte(deframer, byte);
    }
    return 0;
}
