/** The registers of an ATmega128. Others of its family have some of the same names for other bits or places:
 * SM0 to SM2, for one, are in another register of an ATmega1281. */
#ifndef MICA_ATMEGA128_H
#define MICA_ATMEGA128_H

#include <avr/io.h>

#ifndef __AVR_ATmega128__
#error "firmware/boards is for the ATmega128: another processor needs boards of its own (CONTRIBUTING.md)"
#endif

#endif
