/** Active messages on the air: the header for the deployment's radio and TinyOS version. Data follows it,
 * then a CRC of two bytes.
 *
 *     CC2420 1.x   length 01 08 dsn FF FF dest(LE) type group               length = 9 + data + 2
 *     CC2420 2.x   length 41 88 dsn group 00 dest(LE) source(LE) 3F type    length = 11 + data + 2
 *     CC1000 1.x   dest(LE) type group length
 *     CC1000 2.x   dest(BE) source(BE) length group type
 *
 * On the CC2420 with 2.x the group is the PAN. The bytes are those in the CC2420's FIFO, from the length byte
 * on, or those after the CC1000's sync word. With a generic board, whose radio we do not know, this is empty.
 */
#ifndef CW_AIR_H
#define CW_AIR_H

#include "am.h"
#include "causeway_layout.h"
#include "types.h"

CW_C_BEGIN

#ifdef CAUSEWAY_AIR_IEEE802154

#define CW_AIR_CRC 2 /* bytes after the data */

#if CAUSEWAY_AIR_IEEE802154
#if CAUSEWAY_TINYOS == 1
#define CW_AIR_HEADER 10
#else
#define CW_AIR_HEADER 12
#endif
#else
#if CAUSEWAY_TINYOS == 1
#define CW_AIR_HEADER 5
#else
#define CW_AIR_HEADER 7
#endif
#endif

/** Why a frame is not read. */
typedef enum {
    CW_AIR_OK,
    CW_AIR_LENGTH,   /* a length that no frame of ours has */
    CW_AIR_PROTOCOL, /* CC2420: another TinyOS version, another protocol, an acknowledgement... */
} cw_air_t;

/** Write the header of a message. `number` is the CC2420's data sequence number, one more for each frame;
 * the CC1000 has none. If the data is over the limit, return false and write nothing. */
bool cw_air_build(const cw_am_t *am, uint8_t number, uint8_t header[CW_AIR_HEADER]);

/** Read a header and fill `am` if it is good; `am->data` then points behind the header, where am->length
 * bytes and the CRC must follow. The group is not checked here. CC2420: check the first byte with
 * cw_air_fits() first; a shorter frame has no such header. */
cw_air_t cw_air_parse(const uint8_t header[CW_AIR_HEADER], cw_am_t *am);

#if CAUSEWAY_AIR_IEEE802154
/** Whether a CC2420 frame with this length byte can be one of ours. */
static inline bool cw_air_fits(uint8_t length)
{
    return length >= CW_AIR_HEADER - 1 + CW_AIR_CRC &&
           length <= CW_AIR_HEADER - 1 + CW_AIR_CRC + CAUSEWAY_PAYLOAD_LIMIT;
}
#endif

#endif

CW_C_END

#endif
