/** CRC-16 of the serial line and of the CC1000's frames: polynomial 0x1021, initial value 0, most significant
 * bit first.
 *
 * It goes out low byte first, so a receiver compares; running on over the CRC itself does not give 0.
 */
#ifndef CW_CRC_H
#define CW_CRC_H

#include "types.h"

CW_C_BEGIN

/** Add one byte to a CRC. */
uint16_t cw_crc16_add(uint16_t crc, uint8_t byte);

/** The CRC of `length` bytes. */
uint16_t cw_crc16(const uint8_t *bytes, uint8_t length);

CW_C_END

#endif
