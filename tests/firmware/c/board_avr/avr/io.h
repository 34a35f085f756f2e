/* Timer 0 and timer 1 of an ATmega128 for a host: each access to a register takes time and goes through
 * board_clock.c. */
#ifndef BOARD_AVR_IO_H
#define BOARD_AVR_IO_H

#include <stdint.h>

#define __AVR_ATmega128__ 1

#define _BV(bit) (1 << (bit))

enum {
    CS00 = 0,
    CS02 = 2,
    CS11 = 1,
    AS0 = 3,
    TCN0UB = 2,
    OCR0UB = 1,
    TCR0UB = 0,
    TOV0 = 0,
    OCF0 = 1,
    TOIE0 = 0,
    OCIE0 = 1
};

enum { REG_TCNT0, REG_OCR0, REG_TCCR0, REG_ASSR, REG_TIFR, REG_TIMSK, REG_TCCR1A, REG_TCCR1B, REGS };

volatile uint8_t *fake_register(int which);
volatile uint16_t *fake_tcnt1(void);
void fake_cycles(unsigned cycles);
uint8_t fake_lock(void);
void fake_unlock(const uint8_t *was);

#define TCNT0 (*fake_register(REG_TCNT0))
#define OCR0 (*fake_register(REG_OCR0))
#define TCCR0 (*fake_register(REG_TCCR0))
#define ASSR (*fake_register(REG_ASSR))
#define TIFR (*fake_register(REG_TIFR))
#define TIMSK (*fake_register(REG_TIMSK))
#define TCCR1A (*fake_register(REG_TCCR1A))
#define TCCR1B (*fake_register(REG_TCCR1B))
#define TCNT1 (*fake_tcnt1())

#define __builtin_avr_delay_cycles(n) fake_cycles(n)

#endif
