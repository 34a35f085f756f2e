/** How deep the loop may sleep.
 *
 * Power-save stops the I/O clock: UART, timer 1 capture, SPI slave and ADC are dead in it and only timer 0 on
 * its crystal wakes. So each user of the I/O clock says while it needs it; with no user left, events_wait()
 * takes power-save, after the crystal cycle that the data sheet asks for between a wake and the next sleep (a
 * dummy write to OCR0, wait for OCR0UB).
 */
#ifndef HAL_POWER_H
#define HAL_POWER_H

#include <stdbool.h>
#include <stdint.h>

enum { POWER_RADIO = 1 << 0, POWER_UART = 1 << 1, POWER_ADC = 1 << 2, POWER_EEPROM = 1 << 3 };

/** `user` needs the I/O clock from now on; or no longer. From anywhere. */
void power_need(uint8_t user);
void power_release(uint8_t user);

/** Memory has kept who the users are. If it has not, the next sleep may be too deep for one of them. */
bool power_sound(void);

#endif
