/** What the CC1000 driver needs from a board: pins, the SPI slave, conversions of the RSSI pin, a timer.
 *
 * The board supplies a header (CC1000_CONF_PINS) with these as static inline functions, since registers are
 * written in an interrupt:
 *
 *     void cc1000_pale(bool high);          the three wires of the register interface;
 *     void cc1000_pclk(bool high);          all are outputs and rest high
 *     void cc1000_pdata(bool high);
 *     void cc1000_pdata_input(bool input);  PDATA is an input, or an output again
 *     bool cc1000_pdata_read(void);
 *     uint8_t cc1000_lock(void);            interrupts off; the value is for cc1000_unlock()
 *     void cc1000_unlock(uint8_t was);
 *     CC1000_ROM                            qualifies a table that may lie in program memory; else empty
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifndef CC1000_CONF_PINS
#define CC1000_CONF_PINS "boards/mica2/cc1000_pins.h"
#endif
#include CC1000_CONF_PINS

/** Pins to their resting state. */
void cc1000_board_start(void);

/** Wait at least `us`, interrupts as they are. */
void cc1000_board_wait(uint16_t us);

/** The SPI slave and its interrupt on (from receive mode), or off. */
void cc1000_board_spi(bool on);

/** The data pin is the radio's (false) or ours (true). */
void cc1000_board_drive(bool on);

/** It is ours. */
bool cc1000_board_drives(void);

/** Convert the RSSI pin's voltage; cc1000_on_rssi() follows. A new request replaces one that has not been
 * answered. From an interrupt, or with interrupts off. */
void cc1000_board_rssi(void);

/** Call cc1000_on_watch() every 100 ms from an interrupt, or no longer. */
void cc1000_board_watch(bool on);

/** Call cc1000_on_watch() once after `us` (at most 4000) in place of that; it is called again and again until
 * one of the two is called. From anywhere. */
void cc1000_board_after(uint16_t us);

/* What the board calls. */

/** The byte that goes out next. The board's SPI handler puts it into the SPI's data register before anything
 * else: the radio wants its first bit half a bit's time (26 us, 192 CPU cycles) after the byte before it
 * ended, so nothing may keep the handler waiting longer than that. */
extern volatile uint8_t cc1000_outgoing;

/** A byte has been shifted in and one out. `count` is timer 1 (main clock / 8) as it was when the byte ended:
 * the board takes the handler's own latency off. From the SPI interrupt. */
void cc1000_on_byte(uint8_t byte, uint16_t count);

/** The answer to cc1000_board_rssi(): 0..1023, the less the stronger. From an interrupt. */
void cc1000_on_rssi(uint16_t value);

/** 100 ms have passed, or what cc1000_board_after() was asked for. From an interrupt. */
void cc1000_on_watch(void);
