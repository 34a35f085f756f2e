/** The small parts of a board: LEDs, ADC, EEPROM, watchdog, reset, serial id. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { LED_RED = 1, LED_GREEN = 2, LED_YELLOW = 4 };

/** Why a node started; the numbers are those in its health message. */
enum {
    START_UNKNOWN, /* its board does not know */
    START_POWER_ON,
    START_BUTTON,
    START_DEBUGGER,
    START_COMMAND,                     /* board_reboot() */
    START_WANTED_MOST = START_COMMAND, /* deliberate starts up to here */
    START_BROWN_OUT,                   /* the supply was too low for a moment */
    START_WATCHDOG,                    /* the program hung */
    START_DAMAGE,                      /* board_reset() */
    START_JUMP,                        /* no reset: the program jumped to its start */
};

/** Set pins to their resting state, LEDs off. The first call at boot. */
void board_start(void);

/** Why this start came about: one of START_... */
uint8_t board_start_cause(void);

/** Light exactly these LEDs. */
void leds_set(uint8_t leds);

/** Change these LEDs. */
void leds_toggle(uint8_t leds);

/** Start one conversion of `channel` (0..7); EVENT_ADC follows, then adc_value() holds 0..1023. False while
 * one is running. On MICA2 the radio's RSSI conversions come first and may delay it. */
bool adc_start(uint8_t channel);
uint16_t adc_value(void);

/** Measure the supply in the same way: adc_value() is then the reading of a 1.223 V reference against it, so
 * the supply in mV is 1252352 / adc_value(). */
bool adc_start_supply(void);

/** Read or write EEPROM bytes; writing waits (3.4 ms to 8.5 ms a byte), interrupts stay on. Unchanged bytes
 * are not written. */
uint8_t eeprom_get(uint16_t address);
void eeprom_put(uint16_t address, uint8_t value);

/** Reset the mote unless watchdog_pat() comes every 2 s. */
void watchdog_start(void);
void watchdog_pat(void);

/** Reset now: memory is damaged. */
_Noreturn void board_reset(void);

/** Reset now, deliberately. */
_Noreturn void board_reboot(void);

/** Stop a node that must not run: red and yellow in turn, half a second each, for ever. To be called before
 * the radio is started. */
_Noreturn void board_refuse(void);
