/** What the CC2420 driver needs of a board: pins, bus, two interrupts and a timer. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CC2420_COUNTS_PER_MS 922 /* of the counter, rounded up: main clock / 8 is 921.6 kHz */

/** Pins and bus ready, the chip unpowered and in reset, interrupts off. */
void cc2420_board_start(void);

/** The chip's voltage regulator on or off. */
void cc2420_board_power(bool on);

/** Hold the chip in reset, or let it go. */
void cc2420_board_reset(bool hold);

/** Begin an access to the chip (CSn low), or end it. */
void cc2420_board_select(bool select);

/** Send a byte to the chip; return the byte that came back. */
uint8_t cc2420_board_exchange(uint8_t byte);

/** The chip's pins. */
bool cc2420_board_fifo(void);
bool cc2420_board_fifop(void);
bool cc2420_board_cca(void);
bool cc2420_board_sfd(void);

/** Wait at least this long, interrupts as they are. */
void cc2420_board_wait(uint16_t us);

/** cc2420_on_fifop() at each rising edge of FIFOP and cc2420_on_capture() at each edge of SFD, from now on;
 * or no longer. Starts with rising edges of SFD; edges of before are forgotten. */
void cc2420_board_listen(bool on);

/** Which edge of SFD is captured: the rising one, or the falling one. From an interrupt, or with interrupts
 * off. */
void cc2420_board_capture_rising(bool rising);

/** The counter that captures are taken from. From anywhere. */
uint16_t cc2420_board_counter(void);

/** Call cc2420_on_timer() once after `counts` of the counter (at least 32), in place of an earlier wish; or
 * not at all. From anywhere. */
void cc2420_board_timer(uint16_t counts);
void cc2420_board_timer_off(void);

/** The call is still to come. */
bool cc2420_board_timer_runs(void);

/** Interrupts off; the value is for cc2420_board_unlock(). */
uint8_t cc2420_board_lock(void);
void cc2420_board_unlock(uint8_t was);

/* What the board calls, from interrupts. */
void cc2420_on_fifop(void);
void cc2420_on_capture(uint16_t capture);
void cc2420_on_timer(void);
