/** A CC2420 as its data sheet (SWRS041) describes it, seen from its pins and its SPI, in true time.
 *
 * It does not know what drives it: a processor on libsimavr (micaz.c) or a test on the host. Every call says
 * what time it is, never less than the last one did. What happens by itself happens in cc2420_due(), for
 * which the host is asked to call at a time.
 *
 * Left out: encryption, the serial test modes, test outputs other than XOSC16M_STABLE on the CCA pin, the
 * battery monitor.
 */
#pragma once

#include "ether.h"
#include "radio_states.h"

typedef enum { CC2420_FIFO, CC2420_FIFOP, CC2420_SFD, CC2420_PINS } cc2420_pin_t;

typedef struct {
    /* call cc2420_due() then, not at an earlier wish; NEVER: not at all */
    void (*at)(void *owner, ns_t when);
    /* a pin has changed; all are low at the start */
    void (*on_pin)(void *owner, cc2420_pin_t pin, bool level);
    void (*on_fault)(void *owner, const char *what); /* it was used wrongly; each kind once */
    void *owner;
} cc2420_host_t;

typedef struct cc2420 cc2420_t;

/** A chip without supply, joined to the ether as `node`. `ppm` is the error of its own 16 MHz crystal. */
cc2420_t *cc2420_make(ether_t *ether, int node, double ppm, cc2420_host_t host);

void cc2420_due(cc2420_t *chip, ns_t now);

/* Its inputs. CSn and RESETn by their levels. */
void cc2420_supply(cc2420_t *chip, bool on, ns_t now);
void cc2420_vreg(cc2420_t *chip, bool level, ns_t now);
void cc2420_resetn(cc2420_t *chip, bool level, ns_t now);
void cc2420_csn(cc2420_t *chip, bool level, ns_t now);

/** A byte over the SPI, at its end: what came back. */
uint8_t cc2420_exchange(cc2420_t *chip, uint8_t out, ns_t now);

/** The level of the CCA pin. It may change at any moment with what others send, so it is computed when it is
 * read. */
bool cc2420_cca(cc2420_t *chip, ns_t now);

/** The time since 0 that it was in a state. Its regulator's start counts as down, the 12 symbols before it
 * listens or sends as calibrating. */
ns_t cc2420_spent(const cc2420_t *chip, radio_state_t state, ns_t now);

/** How often its crystal was started. */
uint64_t cc2420_starts(const cc2420_t *chip);

/** Some describe chips whose FIFOP stays high until no whole frame is left; this one does from now on. */
void cc2420_hold_fifop(cc2420_t *chip, bool hold);
