/* What the small programs share that try the emulated ATmega128. What they have to say they write to port C,
 * which the bench prints. */
#ifndef AVR_PROBE_H
#define AVR_PROBE_H

#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include <avr/wdt.h>
#include <stdbool.h>
#include <stdint.h>
#include <util/delay.h>

#define BUSY (_BV(TCN0UB) | _BV(OCR0UB) | _BV(TCR0UB))

static inline void mark(uint8_t value)
{
    PORTC = value;
}

/* Timer 0 on the crystal, its writes through. */
static inline void timer0_start(uint8_t control)
{
    ASSR = _BV(AS0);
    TCNT0 = 0;
    OCR0 = 0;
    TCCR0 = control;
    while (ASSR & BUSY) {
    }
    TIFR = _BV(TOV0) | _BV(OCF0);
}

/* Sleep once, with interrupts on only meanwhile. */
static inline void sleep_in(uint8_t mode)
{
    MCUCR = mode | _BV(SE);
    sei();
    sleep_cpu();
    cli();
    MCUCR = 0;
}

static inline _Noreturn void stop(void)
{
    for (;;) {
    }
}

#endif
