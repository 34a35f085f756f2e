/* EEPROM. avr-libc's functions keep the timed sequence of a write away from interrupts. */
#include <avr/eeprom.h>

#include "boards/mica/atmega128.h"
#include "hal/board.h"

uint8_t eeprom_get(uint16_t address)
{
    return eeprom_read_byte((const uint8_t *)address);
}

void eeprom_put(uint16_t address, uint8_t value)
{
    eeprom_update_byte((uint8_t *)address, value);
    eeprom_busy_wait(); /* so that no reset and no sleep comes in between */
}
