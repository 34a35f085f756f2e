/** Serial framing: 7E | packet, escaped | CRC-16 low byte first, escaped | 7E. Byte by byte in both
 * directions.
 *
 * To send, wherever there is room for a byte:
 *
 *     cw_framer_start(&framer, packet, length);
 *     while (uart_room() && (byte = cw_framer_next(&framer)) >= 0)
 *         uart_write((uint8_t)byte);
 *
 * To receive:
 *
 *     length = cw_deframer_put(&deframer, byte);
 *     if (length)
 *         kind = cw_am_parse(deframer.packet, length, &packet);
 */
#ifndef CW_FRAME_H
#define CW_FRAME_H

#include "causeway_layout.h"
#include "flag.h"
#include "types.h"

CW_C_BEGIN

#define CW_FRAME_FLAG 0x7E
#define CW_FRAME_ESCAPE 0x7D
#define CW_FRAME_FLIP 0x20
#define CW_FRAME_MIN 4 /* bytes between flags, unescaped, CRC included */
#define CW_FRAME_MAX 256

/** A packet on its way out. */
typedef struct {
    const uint8_t *packet;
    uint16_t crc;
    uint8_t length;
    uint8_t at;
    uint8_t step;
    uint8_t escaped; /* the second byte of an escape, 0: none is due */
} cw_framer_t;

/** Start a packet of 2 to 254 bytes, from its type byte on. It must not change until cw_framer_next() has
 * returned -1. A packet of another length gives no bytes. */
void cw_framer_start(cw_framer_t *framer, const uint8_t *packet, uint8_t length);

/** The next byte for the line, or -1 when the frame is complete (and before any was started, in a static
 * framer). */
int16_t cw_framer_next(cw_framer_t *framer);

/** Packet bytes that the deframer keeps; a longer packet is checked as well, but only its beginning is kept.
 */
#ifndef CW_DEFRAMER_ROOM
#define CW_DEFRAMER_ROOM (2 + 8 + CAUSEWAY_PAYLOAD_LIMIT) /* type byte, token, the longer header, data */
#endif

/** Frames and drops by their reason; each wraps. */
typedef struct {
    uint16_t frames; /* given out, not dropped */
    uint16_t noise;  /* bytes before the first flag, or before the first one after cw_deframer_resync() */
    uint16_t brief;  /* fewer than 4 bytes between flags: "short" elsewhere, but that is a word of C */
    uint16_t crc;
    uint16_t escape;   /* an escape followed by a flag */
    uint16_t overlong; /* more than 256 bytes between flags */
} cw_deframer_counters_t;

typedef struct {
    uint8_t packet[CW_DEFRAMER_ROOM];
    cw_deframer_counters_t counters;
    uint16_t crc;      /* of all but the last two bytes */
    uint16_t count;    /* bytes since the flag, unescaped; stays at CW_FRAME_MAX + 1 */
    uint8_t last[2];   /* the last two, older first: perhaps the CRC */
    cw_flag_t in_sync; /* a flag was seen: until then bytes are noise */
    cw_flag_t escaping;
} cw_deframer_t;

/** Wait for a flag, counters at 0. A static deframer is ready without it. */
void cw_deframer_start(cw_deframer_t *deframer);

/** Bytes were lost (the UART said so): drop the current frame and wait for a flag. Bytes before it count
 * as noise. */
void cw_deframer_resync(cw_deframer_t *deframer);

/** Take a byte from the line. If it completes a good packet, return the packet's length from its type
 * byte on, without CRC, 2 to 254; `packet` holds its first CW_DEFRAMER_ROOM bytes until the next call.
 * Otherwise return 0. */
uint8_t cw_deframer_put(cw_deframer_t *deframer, uint8_t byte);

CW_C_END

#endif
