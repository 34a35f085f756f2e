#include "causeway/am.h"

#include <string.h>

#include "causeway/bytes.h"

/* Place of the length byte in a message's header. */
#if CAUSEWAY_TINYOS == 1
#define LENGTH_AT 4
#else
#define LENGTH_AT 5
#endif

static void read_header(const uint8_t *message, cw_am_t *am)
{
#if CAUSEWAY_TINYOS == 1
    am->dest = cw_get16_le(message);
    am->source = 0;
    am->type = message[2];
    am->group = message[3];
#else
    am->dest = cw_get16_be(message + 1);
    am->source = cw_get16_be(message + 3);
    am->group = message[6];
    am->type = message[7];
#endif
    am->length = message[LENGTH_AT];
    am->data = message + CW_AM_HEADER;
}

static void write_header(uint8_t *message, const cw_am_t *am)
{
#if CAUSEWAY_TINYOS == 1
    cw_put16_le(message, am->dest);
    message[2] = am->type;
    message[3] = am->group;
#else
    message[0] = 0;
    cw_put16_be(message + 1, am->dest);
    cw_put16_be(message + 3, am->source);
    message[6] = am->group;
    message[7] = am->type;
#endif
    message[LENGTH_AT] = am->length;
}

/* A message of `length` bytes from its header on. */
static cw_packet_kind_t parse_message(const uint8_t *message, uint8_t length, cw_packet_t *read)
{
    if (length < CW_AM_HEADER || length - CW_AM_HEADER != message[LENGTH_AT])
        return CW_PACKET_LENGTH;
#if CAUSEWAY_TINYOS == 2
    if (message[0] != 0)
        return CW_PACKET_UNKNOWN;
#endif
    if (message[LENGTH_AT] > CAUSEWAY_PAYLOAD_LIMIT)
        return CW_PACKET_OVERSIZE;
    read_header(message, &read->am);
    return read->wants_ack ? CW_PACKET_IS_DATA_ACK : CW_PACKET_IS_DATA;
}

cw_packet_kind_t cw_am_parse(const uint8_t *packet, uint8_t length, cw_packet_t *read)
{
    read->wants_ack = false;
    read->token = 0;
    if (length == 0)
        return CW_PACKET_LENGTH;
    if (packet[0] == CW_PACKET_DATA)
        return parse_message(packet + 1, (uint8_t)(length - 1), read);
    if (packet[0] != CW_PACKET_ACK && packet[0] != CW_PACKET_DATA_ACK)
        return CW_PACKET_UNKNOWN;
    if (length < 2)
        return CW_PACKET_LENGTH;
    read->token = packet[1];
    if (packet[0] == CW_PACKET_ACK)
        return length == 2 ? CW_PACKET_IS_ACK : CW_PACKET_LENGTH;
    read->wants_ack = true;
    return parse_message(packet + 2, (uint8_t)(length - 2), read);
}

uint8_t cw_am_build(const cw_am_t *am, uint8_t packet[CW_PACKET_LIMIT])
{
    if (am->length > CAUSEWAY_PAYLOAD_LIMIT)
        return 0;
    packet[0] = CW_PACKET_DATA;
    write_header(packet + 1, am);
    memcpy(packet + 1 + CW_AM_HEADER, am->data, am->length);
    return (uint8_t)(1 + CW_AM_HEADER + am->length);
}

uint8_t cw_am_build_ack(uint8_t token, uint8_t packet[2])
{
    packet[0] = CW_PACKET_ACK;
    packet[1] = token;
    return 2;
}
