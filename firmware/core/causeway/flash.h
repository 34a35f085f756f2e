/** Constants that stay in flash on an AVR, whose tables would otherwise take RAM; elsewhere plain constants.
 */
#ifndef CW_FLASH_H
#define CW_FLASH_H

#include <stdint.h>
#include <string.h>

#ifdef __AVR__
#include <avr/pgmspace.h>
#define CW_IN_FLASH PROGMEM
#define CW_FLASH_BYTE(at) pgm_read_byte(at)
#define CW_FLASH_COPY(to, from, size) memcpy_P((to), (from), (size))
#else
#define CW_IN_FLASH
#define CW_FLASH_BYTE(at) (*(at))
#define CW_FLASH_COPY(to, from, size) memcpy((to), (from), (size))
#endif

#endif
