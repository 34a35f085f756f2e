/** Decides how deep the loop may sleep.
 *
 * Power-save stops the I/O clock: UART, timer 1 capture, SPI slave and ADC stop, and only timer 0 on its
 * crystal wakes the processor. So each user of the I/O clock says when it needs it. With no user left,
 * events_wait() uses power-save, after the crystal cycle that the data sheet demands between a wake and the
 * next sleep (a dummy write to OCR0, wait for OCR0UB).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { POWER_RADIO = 1 << 0, POWER_UART = 1 << 1, POWER_ADC = 1 << 2, POWER_EEPROM = 1 << 3 };

/** `user` needs the I/O clock from now on; or no longer. From anywhere. */
void power_need(uint8_t user);
void power_release(uint8_t user);

/** Whether memory has kept the users. If not, the next sleep may be too deep for one of them. */
bool power_sound(void);
