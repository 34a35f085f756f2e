/** What the files of the CC2420 driver share. cc2420.h says how the driver works, cc2420.c which code may
 * interrupt which; each function below runs where its comment says: in an interrupt, in the loop, or (locked)
 * with interrupts off.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cc2420_board.h"
#include "causeway/flag.h"
#include "hal/radio.h"

/* Those after CHIP_ON: only with a schedule. */
typedef enum {
    CHIP_OFF,
    CHIP_FAULTY,
    CHIP_ON,
    CHIP_ASLEEP,
    CHIP_SUPPLIED, /* the regulator starts, */
    CHIP_STARTING, /* the oscillator starts, */
    CHIP_TUNING,   /* the receiver starts: the timer's interrupt goes on */
} cc2420_mode_t;

enum {
    SYNC_BYTES = 5,  /* preamble and start-of-frame delimiter */
    CHECK_LAPS = 16, /* the chip is looked at once a second */
};

#define LAP (60U * CC2420_COUNTS_PER_MS) /* of the timer, which reaches 71 ms */

extern cc2420_mode_t cc2420_mode;
extern radio_counters_t cc2420_counters;

/** The timer is up once `counts`, and `laps` laps more, have passed. Replaces its earlier setting. From
 * anywhere. */
void cc2420_set_timer(uint16_t counts, uint8_t laps);

/** The timer is up: the loop sees to a send that waits, or looks at the chip. From an interrupt. */
void cc2420_timer_is_up(void);

/** The loop looks at the chip in a second. From anywhere. */
void cc2420_look_later(void);

/** From the loop: start the chip anew; a send in progress fails. */
void cc2420_restart(void);

/* ---- cc2420_chip.c: the chip over its SPI, and its start. Only from the present user of the chip ----
 */

/** Returns the status byte. */
uint8_t cc2420_strobe(uint8_t address);
uint16_t cc2420_read_register(uint8_t address);

/** Whether the oscillator runs and the settings are there. */
bool cc2420_is_sane(void);

/** From no supply to listening; waits. False when the chip does not answer. */
bool cc2420_start_chip(void);

/** The same in steps: from a steady supply to an oscillator that starts, from a steady one to listening. */
void cc2420_start_oscillator(void);
bool cc2420_listen(void);

/* ---- cc2420_receive.c: frames that come in, and their times ---- */

/** A delimiter came since the loop looked last, before a send was handed over. Interrupts set it. */
extern volatile cw_flag_t cc2420_heard_since;

/** Cycles of local time for bytes on the air, 32 us each, rounded up. */
uint16_t cc2420_air_cycles(uint8_t bytes);

/** SFD rose, and not for a frame of ours. From an interrupt. */
void cc2420_on_received_edge(uint16_t capture);

/** Empty the receive FIFO, and forget the times of its frames. */
void cc2420_flush_receiver(void);

/** In the loop: frames go to radio_on_heard(). */
void cc2420_receive(void);

/* ---- cc2420_send.c: channel access, and the frame on the air ---- */

/** Of the waits for the channel. */
void cc2420_send_seed(uint16_t seed);

/** Nothing is to be sent; a frame is on the air. */
bool cc2420_send_idle(void);
bool cc2420_send_on_air(void);

/** Take an edge of SFD if it is of the frame on the air. From an interrupt. */
bool cc2420_on_sent_edge(uint16_t capture);

/** The send in progress ends so; the loop hands the result over. */
void cc2420_end_send(radio_result_t result);

/** In the loop: go on with the send; `up`: the timer was up. */
void cc2420_send_service(bool up);

/** In the loop: call radio_on_sent(). */
void cc2420_hand_over_result(void);

/** Whether memory has kept a possible state. */
bool cc2420_send_sound(void);

/* ---- cc2420_sleep.c: only with a schedule ---- */

/** The next step of waking; `looks` at the oscillator are left. From an interrupt. */
void cc2420_wake_on(uint8_t looks);
