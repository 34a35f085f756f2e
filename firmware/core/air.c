#include "causeway/air.h"

#include "causeway/bytes.h"

#ifdef CAUSEWAY_AIR_IEEE802154 /* not with a generic board */

#if CAUSEWAY_AIR_IEEE802154

/* The length byte counts what follows it, the CRC included. */
#define OVERHEAD (CW_AIR_HEADER - 1 + CW_AIR_CRC)

/* IEEE 802.15.4 frame control, low byte first. Both: a data frame with short addresses. 1.x: no source
 * address. 2.x: source address in the same PAN as the destination. A sender may ask for an acknowledgement,
 * which does not change the form. */
#if CAUSEWAY_TINYOS == 1
#define CONTROL_LOW 0x01
#define CONTROL_HIGH 0x08
#else
#define CONTROL_LOW 0x41
#define CONTROL_HIGH 0x88
#define NETWORK 0x3F /* TinyOS's place among 6LoWPAN's dispatch bytes */
#endif
#define ACK_REQUEST 0x20

static void write_addresses(uint8_t *header, const cw_am_t *am)
{
#if CAUSEWAY_TINYOS == 1
    cw_put16_le(header + 4, CW_AM_BROADCAST);
    cw_put16_le(header + 6, am->dest);
    header[8] = am->type;
    header[9] = am->group;
#else
    cw_put16_le(header + 4, am->group);
    cw_put16_le(header + 6, am->dest);
    cw_put16_le(header + 8, am->source);
    header[10] = NETWORK;
    header[11] = am->type;
#endif
}

/* False if PAN or network byte are not TinyOS's. */
static bool read_addresses(const uint8_t *header, cw_am_t *am)
{
    uint16_t pan = cw_get16_le(header + 4);
    am->dest = cw_get16_le(header + 6);
#if CAUSEWAY_TINYOS == 1
    am->source = 0;
    am->type = header[8];
    am->group = header[9];
    return pan == CW_AM_BROADCAST;
#else
    am->source = cw_get16_le(header + 8);
    am->type = header[11];
    am->group = (uint8_t)pan;
    return pan <= 0xFF && header[10] == NETWORK;
#endif
}

bool cw_air_build(const cw_am_t *am, uint8_t number, uint8_t header[CW_AIR_HEADER])
{
    if (am->length > CAUSEWAY_PAYLOAD_LIMIT)
        return false;
    header[0] = (uint8_t)(OVERHEAD + am->length);
    header[1] = CONTROL_LOW;
    header[2] = CONTROL_HIGH;
    header[3] = number;
    write_addresses(header, am);
    return true;
}

cw_air_t cw_air_parse(const uint8_t header[CW_AIR_HEADER], cw_am_t *am)
{
    if (!cw_air_fits(header[0]))
        return CW_AIR_LENGTH;
    if ((header[1] & ~ACK_REQUEST) != CONTROL_LOW || header[2] != CONTROL_HIGH || !read_addresses(header, am))
        return CW_AIR_PROTOCOL;
    am->length = (uint8_t)(header[0] - OVERHEAD);
    am->data = header + CW_AIR_HEADER;
    return CW_AIR_OK;
}

#else /* CC1000 */

#define AIR_LENGTH_AT 4 /* in both versions */

bool cw_air_build(const cw_am_t *am, uint8_t number, uint8_t header[CW_AIR_HEADER])
{
    (void)number;
    if (am->length > CAUSEWAY_PAYLOAD_LIMIT)
        return false;
#if CAUSEWAY_TINYOS == 1
    cw_put16_le(header, am->dest);
    header[2] = am->type;
    header[3] = am->group;
#else
    cw_put16_be(header, am->dest);
    cw_put16_be(header + 2, am->source);
    header[5] = am->group;
    header[6] = am->type;
#endif
    header[AIR_LENGTH_AT] = am->length;
    return true;
}

cw_air_t cw_air_parse(const uint8_t header[CW_AIR_HEADER], cw_am_t *am)
{
    if (header[AIR_LENGTH_AT] > CAUSEWAY_PAYLOAD_LIMIT)
        return CW_AIR_LENGTH;
#if CAUSEWAY_TINYOS == 1
    am->dest = cw_get16_le(header);
    am->source = 0;
    am->type = header[2];
    am->group = header[3];
#else
    am->dest = cw_get16_be(header);
    am->source = cw_get16_be(header + 2);
    am->group = header[5];
    am->type = header[6];
#endif
    am->length = header[AIR_LENGTH_AT];
    am->data = header + CW_AIR_HEADER;
    return CW_AIR_OK;
}

#endif

#endif
