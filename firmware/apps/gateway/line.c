#include "line.h"

#include "causeway/am.h"
#include "causeway/frame.h"
#include "hal/uart.h"

enum { ACKS = 4 };

static uint8_t ring[LINE_ROOM];
static uint16_t head, used; /* where the oldest byte is, how many there are */
static uint8_t acks[ACKS];
static uint8_t acks_waiting;
static uint8_t packet[CW_PACKET_LIMIT];
static cw_framer_t framer;
static int16_t held = -1; /* a byte that the UART had no room for */

static void ring_put(uint8_t byte)
{
    uint16_t at = (uint16_t)(head + used);
    ring[at < LINE_ROOM ? at : at - LINE_ROOM] = byte;
    used++;
}

static uint8_t ring_get(void)
{
    uint8_t byte = ring[head];
    head = (uint16_t)(head + 1 < LINE_ROOM ? head + 1 : 0);
    used--;
    return byte;
}

static void ring_put_packet(const uint8_t *bytes, uint8_t length)
{
    ring_put(length);
    for (uint8_t i = 0; i < length; i++)
        ring_put(bytes[i]);
}

bool line_put_pair(const uint8_t *first, uint8_t first_length, const uint8_t *second, uint8_t second_length)
{
    if ((uint16_t)(first_length + second_length + 2) > LINE_ROOM - used)
        return false;
    ring_put_packet(first, first_length);
    ring_put_packet(second, second_length);
    return true;
}

bool line_put(const uint8_t *bytes, uint8_t length)
{
    if ((uint16_t)(length + 1) > LINE_ROOM - used)
        return false;
    ring_put_packet(bytes, length);
    return true;
}

bool line_empty(void)
{
    return used == 0;
}

bool line_put_ack(uint8_t token)
{
    if (acks_waiting == ACKS)
        return false;
    acks[acks_waiting++] = token;
    return true;
}

static uint8_t take_ack(void)
{
    uint8_t length = cw_am_build_ack(acks[0], packet);
    acks_waiting--;
    for (uint8_t i = 0; i < acks_waiting; i++)
        acks[i] = acks[i + 1];
    return length;
}

/* An impossible length means that memory has changed the ring: where packets begin is not known. */
static uint8_t take_packet(void)
{
    uint8_t length = ring_get();
    if (length > CW_PACKET_LIMIT || length > used) {
        used = 0;
        return 0;
    }
    for (uint8_t i = 0; i < length; i++)
        packet[i] = ring_get();
    return length;
}

/* The next byte for the UART, or -1. */
static int16_t next_byte(void)
{
    int16_t byte = held >= 0 ? held : cw_framer_next(&framer);
    held = -1;
    if (byte < 0 && (acks_waiting || used)) {
        cw_framer_start(&framer, packet, acks_waiting ? take_ack() : take_packet());
        byte = cw_framer_next(&framer);
    }
    return byte;
}

bool line_sound(void)
{
    bool framer_is_sound = framer.packet == packet && framer.length <= CW_PACKET_LIMIT &&
                           framer.at <= framer.length;
    return head < LINE_ROOM && used <= LINE_ROOM && acks_waiting <= ACKS &&
           (framer.packet == 0 || framer_is_sound);
}

void line_service(void)
{
    int16_t byte;
    while ((byte = next_byte()) >= 0) {
        if (!uart_write((uint8_t)byte)) {
            held = byte;
            return;
        }
    }
}
