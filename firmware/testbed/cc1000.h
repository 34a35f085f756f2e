/** A CC1000 with a 14.7456 MHz crystal, from its data sheet (SWRS048), in true time.
 *
 * Registers over three wires, oscillator, bias and PLL with their times, calibration, synchronous Manchester
 * or NRZ data, RSSI. The bit clock runs while the chip receives or sends, eight bits a byte for the
 * processor's SPI. While a signal is received it follows the sender's bits: half a bit at most in a byte's
 * time, so the first byte of preamble may be spoilt.
 *
 * Between a sender's byte and a receiver's lie two bits: one in each modem, 104 us (real chips: 110 us). A
 * carrier is on the air ETHER_AHEAD after power is on the antenna, for the ether wants to know of it so
 * early; the bits that this takes are preamble.
 *
 * Left out: UART data, Manchester violations, the averaging filter's settling, what an error of the crystal
 * does to the carrier (its error counts only for the bit clock), and the loss of sensitivity that goes with
 * it.
 */
#pragma once

#include "ether.h"
#include "radio_states.h"

typedef struct cc1000 cc1000_t;

/** What the chip does to the board. */
typedef struct {
    void *board;
    /* call cc1000_due() then; takes the place of an earlier wish; NEVER: no more */
    void (*wake)(void *board, ns_t when);
    bool (*byte_in)(void *board, uint8_t byte,
                    bool driven);     /* a byte's time has ended; driven: the chip has put it on its data pin.
                                         False: no program takes bytes */
    uint8_t (*byte_out)(void *board); /* half a bit has passed since, and the chip sends: the byte to come */
    void (*pdata)(void *board, bool high); /* the chip drives PDATA: a register is read */
    void (*chp_out)(void *board, bool high);
    void (*fault)(void *board, const char *what); /* wrong use; each kind once */
} cc1000_wires_t;

/** A chip without power, joined to the ether. */
cc1000_t *cc1000_make(ether_t *ether, int node, double ppm, cc1000_wires_t wires);

void cc1000_power(cc1000_t *chip, ns_t now, bool on);

/* Its pins. */
void cc1000_pale(cc1000_t *chip, bool high);
void cc1000_pclk(cc1000_t *chip, ns_t now, bool high);
void cc1000_pdata(cc1000_t *chip, bool high);

/** The time that it wished for has come. */
void cc1000_due(cc1000_t *chip, ns_t now);

/** At the RSSI pin: the less the stronger, 0 at -49 dBm and above, 1200 at most. */
uint32_t cc1000_rssi_millivolts(const cc1000_t *chip, ns_t now);

/** The time since 0 that it was in a state. Starting: its crystal is on, its bias not yet; idle: both are.
 * Calibrating: the synthesizer is on, but it calibrates, settles, or is to send without power on the antenna.
 */
ns_t cc1000_spent(const cc1000_t *chip, radio_state_t state, ns_t now);

/** How often its crystal was started. */
uint64_t cc1000_starts(const cc1000_t *chip);

/** Is there power on the antenna? */
bool cc1000_is_sending(const cc1000_t *chip);
