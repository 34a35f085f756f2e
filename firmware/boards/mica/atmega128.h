/** The registers of an ATmega128. Others of its family have some of the same names for other bits or places:
 * SM0 to SM2, for one, are in another register of an ATmega1281. */
#pragma once

#include <avr/io.h>
#include <stdbool.h>

#ifndef __AVR_ATmega128__
#error "firmware/boards is for the ATmega128: another processor needs boards of its own (CONTRIBUTING.md)"
#endif

/** Set pins of a port high or low. Of a single pin below port F it is one instruction, so no interrupt that
 * changes another pin of the port comes in between. */
static inline __attribute__((always_inline)) void set_pins(volatile uint8_t *port, uint8_t pins, bool high)
{
    if (high)
        *port |= pins;
    else
        *port &= (uint8_t)~pins;
}
