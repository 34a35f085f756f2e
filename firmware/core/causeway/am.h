/** Active messages, and the packets that carry them on the serial line, of the deployment's TinyOS version.
 *
 *     1.x   40 token | 41 token message | 42 message
 *           message: dest (LE), type, group, length, data
 *     2.x   43 token | 44 token message | 45 message
 *           message: 00, dest (BE), source (BE), length, group, type, data
 */
#ifndef CW_AM_H
#define CW_AM_H

#include "causeway_layout.h"
#include "types.h"

CW_C_BEGIN

#define CW_AM_BROADCAST 0xFFFFU
#define CW_AM_UART 0x007EU /* TinyOS 1's address of the host */

#if CAUSEWAY_TINYOS == 1
#define CW_PACKET_ACK 0x40
#define CW_PACKET_DATA_ACK 0x41
#define CW_PACKET_DATA 0x42
#define CW_AM_HEADER 5
#else
#define CW_PACKET_ACK 0x43
#define CW_PACKET_DATA_ACK 0x44
#define CW_PACKET_DATA 0x45
#define CW_AM_HEADER 8
#endif

/** The longest packet: type byte, token, header, data. */
#define CW_PACKET_LIMIT (2 + CW_AM_HEADER + CAUSEWAY_PAYLOAD_LIMIT)

/** A message; `data` lies elsewhere: in the packet or frame it was parsed from, or where its builder has
 * it.
 */
typedef struct {
    uint16_t dest;
    uint16_t source; /* 2.x only; parsed as 0 and not built on 1.x */
    uint8_t type;
    uint8_t group;
    uint8_t length; /* of data, at most CAUSEWAY_PAYLOAD_LIMIT */
    const uint8_t *data;
} cw_am_t;

/** A packet as it was read. */
typedef struct {
    cw_am_t am;
    bool wants_ack;
    uint8_t token; /* of an acknowledgement, or for the answer if one is wanted */
} cw_packet_t;

/** What a packet is, or why it is not one. */
typedef enum {
    CW_PACKET_IS_DATA,     /* a message */
    CW_PACKET_IS_DATA_ACK, /* a message that wants an acknowledgement: answer it with cw_am_build_ack() */
    CW_PACKET_IS_ACK,      /* an acknowledgement: only a token */
    CW_PACKET_UNKNOWN,     /* another packet type, or another TinyOS version's */
    CW_PACKET_LENGTH,      /* the length in the header is wrong, or the packet is cut short */
    CW_PACKET_OVERSIZE,    /* data over the payload limit: must not go on the air */
} cw_packet_kind_t;

/** Read a packet of `length` bytes, from its type byte on. `am` is filled for the first two kinds, its
 * data pointing into the packet. `wants_ack` and `token` are set even if the rest is wrong, since TinyOS
 * acknowledges every packet with a good CRC. At most CW_PACKET_LIMIT bytes are read: a deframer need not
 * keep more. */
cw_packet_kind_t cw_am_parse(const uint8_t *packet, uint8_t length, cw_packet_t *read);

/** Write a message as a packet that wants no acknowledgement, as motes send it; return its length. If the
 * data is over the limit, return 0 and write nothing. */
uint8_t cw_am_build(const cw_am_t *am, uint8_t packet[CW_PACKET_LIMIT]);

/** Write an acknowledgement; return its length, 2. */
uint8_t cw_am_build_ack(uint8_t token, uint8_t packet[2]);

CW_C_END

#endif
