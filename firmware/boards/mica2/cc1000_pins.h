/** MICA2's wires to its CC1000: see chips/cc1000/cc1000_board.h. */
#pragma once

#include <avr/interrupt.h>
#include <stdbool.h>
#include <stdint.h>

#include "boards/mica/atmega128.h"

#define CC1000_ROM __flash

enum {
    MICA2_PALE = 1 << 4, /* port D */
    MICA2_PCLK = 1 << 6,
    MICA2_PDATA = 1 << 7,
    MICA2_BAT_MON = 1 << 5, /* port A */
    MICA2_CHP_OUT = 1 << 6,
    MICA2_SS = 1 << 0, /* port B */
    MICA2_SCK = 1 << 1,
    MICA2_MOSI = 1 << 2,
    MICA2_MISO = 1 << 3,
    MICA2_OC1C = 1 << 7,
};

/* Each of these is a single instruction, so no other user of the port is disturbed. */

static inline void cc1000_pale(bool high)
{
    set_pins(&PORTD, MICA2_PALE, high);
}

static inline void cc1000_pclk(bool high)
{
    set_pins(&PORTD, MICA2_PCLK, high);
}

static inline void cc1000_pdata(bool high)
{
    set_pins(&PORTD, MICA2_PDATA, high);
}

static inline void cc1000_pdata_input(bool input)
{
    set_pins(&DDRD, MICA2_PDATA, !input);
}

static inline bool cc1000_pdata_read(void)
{
    /* PIND shows the pin as it was up to one and a half cycles ago: before PCLK fell */
    __builtin_avr_delay_cycles(2);
    return (PIND & MICA2_PDATA) != 0;
}

static inline uint8_t cc1000_lock(void)
{
    uint8_t was = SREG;
    cli();
    return was;
}

static inline void cc1000_unlock(uint8_t was)
{
    __asm__ volatile("" ::: "memory");
    SREG = was;
}
