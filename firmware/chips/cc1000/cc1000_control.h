/** The CC1000's registers: start, calibrate, change between receiving and sending. All wait actively. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Write a register. PALE is low for seven address bits, most significant first, and a 1; then eight bits of
 * data. The chip takes PDATA at each falling edge of PCLK. */
void cc1000_write(uint8_t address, uint8_t value);

/** Read a register: as above with a 0; then the chip puts out a bit after each falling edge. */
uint8_t cc1000_read(uint8_t address);

/** Reset the chip, set its registers, calibrate the PLL for both frequencies, and receive. 55 ms to 60 ms,
 * 150 ms with a chip that does not answer: then false, and the chip is off. */
bool cc1000_control_start(void);

/** Whether the PLL is in lock; to be called while receiving. */
bool cc1000_control_locked(void);

/** Calibrate the PLL for both frequencies once more, while receiving, and receive again: 52 ms to 70 ms.
 * False when the chip does not say that it is done. */
bool cc1000_control_calibrate(void);

/** All off but the registers' memory. */
void cc1000_control_stop(void);

/** The steps back to receiving that must be awaited: the crystal starts (CC1000_CRYSTAL_US), then bias
 * settles (CC1000_BIAS_US); then cc1000_control_receive(). Registers and calibration are as they were, if
 * cc1000_control_kept() says so. From anywhere. */
void cc1000_control_start_crystal(void);
void cc1000_control_start_bias(void);
bool cc1000_control_kept(void);

/** From off: calibrate the PLL for both frequencies, and off again: 55 ms to 72 ms. */
void cc1000_control_refresh(void);

/** Receive. Good data come 250 us later; this function does not wait for them and may be called from an
 * interrupt. */
void cc1000_control_receive(void);

/** Make ready to send: PLL on the sending frequency, locked after 250 us, no power yet. */
void cc1000_control_prepare(void);

/** After cc1000_control_prepare(): power on the antenna. */
void cc1000_control_transmit(void);
