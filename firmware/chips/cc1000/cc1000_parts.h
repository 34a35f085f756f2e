/** What the files of the CC1000 driver share. cc1000.c says how they work together, and which code may
 * interrupt which; each function below runs where its comment says: in an interrupt, in the loop, or (locked)
 * with interrupts off.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "hal/radio.h"

typedef enum {
    OFF,       /* interrupts change nothing */
    SETTLING,  /* receiving, but not yet true */
    LISTENING, /* no preamble yet */
    SEARCHING, /* in the preamble: looking for the sync word */
    HEADER,
    DATA,
    CRC_LOW,
    CRC_HIGH,
    TURNING, /* the loop is changing to sending */
    SENDING,
    /* only with a schedule: */
    ASLEEP,
    CRYSTAL, /* it starts; the watch goes on from here ... */
    BIAS,    /* ... and here */
    TUNING,  /* as SETTLING, after a sleep */
} cc1000_mode_t;

extern volatile cc1000_mode_t cc1000_mode;
extern radio_counters_t cc1000_counters;

/** The chip does not answer, or has forgotten its registers: the loop restarts it. From anywhere. */
void cc1000_stuck(void);

/** From the loop: start the chip anew. */
void cc1000_restart(void);

/* ---- cc1000_receive.c: from bits to frames ---- */

enum {
    PREAMBLE_BYTE = 0xAA,
    SYNC_FIRST = 0x33,
    SYNC_SECOND = 0xCC,
};

/** Receive from now on. The outgoing byte is preamble all the time, so that the radio sends preamble at once
 * when it turns to sending. */
void cc1000_settle(void);

/** A byte came in, in any mode but SENDING; as cc1000_on_byte(). */
void cc1000_receive(uint8_t byte, uint16_t count);

/** The strength of the frame that comes in, from an interrupt. */
void cc1000_receive_strength(uint16_t value);

/** Listening, and no preamble came. Locked. */
bool cc1000_is_quiet(void);

/** In the loop: frames go to radio_on_heard(). */
void cc1000_hand_over_frames(void);

/** Whether memory has kept a possible state. Locked. */
bool cc1000_receive_sound(void);

/* ---- cc1000_noise.c: strengths, and the noise floor ---- */

typedef enum { SAMPLE_NONE, SAMPLE_FLOOR, SAMPLE_CHANNEL, SAMPLE_FRAME } cc1000_sample_t;

/** Forget the floor. */
void cc1000_noise_start(void);

/** Ask for a sample; it replaces one that is under way. From an interrupt, or locked. */
void cc1000_sample(cc1000_sample_t purpose);

/** Whether one for this purpose is under way. From an interrupt. */
bool cc1000_samples(cc1000_sample_t purpose);

/** A byte's time passed in which nothing came, and no send looked at the channel. From an interrupt. */
void cc1000_noise_silence(void);

/** Whether the floor is known; whether a sample is at most as loud. */
bool cc1000_noise_known(void);
bool cc1000_noise_only(uint16_t value);

/* ---- cc1000_send.c: channel access, and from frames to bytes ---- */

/** Of the waits for the channel. */
void cc1000_send_seed(uint16_t seed);

/** Something comes in: a send that waits for the channel waits on. From an interrupt. */
void cc1000_back_off(void);

/** A byte's time passed: give up a send that can no longer start in time, wake the loop for one whose time is
 * near. From an interrupt. */
void cc1000_send_watch(void);

/** A byte's time passed in which nothing came. From an interrupt. */
void cc1000_send_silence(void);

/** The sample of the channel. From an interrupt. */
void cc1000_send_look(uint16_t value);

/** A byte went out, in mode SENDING. From an interrupt. */
void cc1000_send_byte(uint16_t count);

/** Nothing is to be sent. */
bool cc1000_send_idle(void);

/** The send in progress fails. Locked. */
void cc1000_send_fails(void);

/** In the loop: turn to sending if the channel is clear, or the time has come; call radio_on_sent(). */
void cc1000_send_start(void);
void cc1000_hand_over_result(void);

/** Whether memory has kept a possible state. Locked. */
bool cc1000_send_sound(void);

/* ---- cc1000_pll.c: calibrations, in the loop ---- */

/** The radio starts; the chip has been calibrated. */
void cc1000_pll_start(void);
void cc1000_calibrated(void);

/** 100 ms have passed. From an interrupt. */
void cc1000_pll_watch(void);

/** Look at the lock as soon as it can be. */
void cc1000_pll_look_soon(void);

/** Calibrate if the lock is lost, and from time to time. */
void cc1000_pll_look(void);

/* ---- cc1000_sleep.c: only with a schedule ---- */

/** The next step of waking. From an interrupt. */
void cc1000_wake_on(void);

/** Seconds of local time. */
uint16_t cc1000_seconds(void);

/** Whether a long sleep has just begun, in which the radio is not needed for 70 ms: it may be calibrated. */
bool cc1000_rests(void);
