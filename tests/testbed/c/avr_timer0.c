/* Timer 0: which part of it, -DCASE says. */
#include "avr_probe.h"

enum { RATE = 1, FLAGS, CTC, MASKED, POWER_SAVE, WRITE_TWICE, NO_COMPARE_WHILE_WRITTEN, STOPPED, AFTER_SEI };

static volatile uint8_t overflows;

ISR(TIMER0_OVF_vect)
{
    overflows++;
    if (CASE == RATE && overflows % 128 == 0)
        mark(PORTC ^ 1);
    else if (CASE == MASKED || CASE == AFTER_SEI)
        mark(PORTC + 1);
    else if (CASE == POWER_SAVE)
        mark(50 + TCNT0); /* what it was before the sleep, until the next edge */
}

ISR(TIMER0_COMP_vect)
{
    mark(PORTC + 1);
}

static void rate(void)
{
    timer0_start(_BV(CS00));
    TIMSK = _BV(TOIE0);
    for (;;)
        sleep_in(SLEEP_MODE_IDLE);
}

static void flags(void)
{
    ASSR = _BV(AS0);
    TCCR0 = _BV(CS00);
    mark(1);
    while (ASSR & _BV(TCR0UB)) {
    }
    mark(2);
    TCNT0 = 250;
    mark(3);
    while (ASSR & _BV(TCN0UB)) {
    }
    mark(4);
    while (TCNT0 != 0) {
    }
    mark(5);
    while (!(TIFR & _BV(TOV0))) {
    }
    mark(6);
    OCR0 = 20;
    mark(7);
    while (ASSR & _BV(OCR0UB)) {
    }
    mark(8);
    TIFR = _BV(OCF0);
    while (TCNT0 != 20) {
    }
    mark(9);
    while (!(TIFR & _BV(OCF0))) {
    }
    mark(10);
    TIFR = _BV(TOV0);
    mark(TIFR & (_BV(TOV0) | _BV(OCF0))); /* OCF0 alone is left */
}

static void ctc(void)
{
    ASSR = _BV(AS0);
    OCR0 = 9;
    TCCR0 = _BV(WGM01) | _BV(CS01); /* crystal / 8 */
    while (ASSR & BUSY) {
    }
    TIFR = _BV(OCF0);
    TIMSK = _BV(OCIE0);
    for (;;)
        sleep_in(SLEEP_MODE_IDLE);
}

/* An interrupt whose flag was set while it was masked comes when it is unmasked; one whose flag was cleared
 * does not. */
static void masked(void)
{
    timer0_start(_BV(CS00));
    sei();
    while (!(TIFR & _BV(TOV0))) {
    }
    mark(10);
    TIMSK = _BV(TOIE0); /* 11 */
    TIMSK = 0;
    while (!(TIFR & _BV(TOV0))) {
    }
    mark(20);
    TIFR = _BV(TOV0);
    TIMSK = _BV(TOIE0);
    TIMSK = 0;
    mark(30);
}

static void power_save(void)
{
    timer0_start(_BV(CS00));
    TIMSK = _BV(TOIE0);
    for (uint8_t i = 0; i < 4; i++) {
        sleep_in(SLEEP_MODE_PWR_SAVE);
        TCCR0 = _BV(CS00);
        while (ASSR & _BV(TCR0UB)) {
        }
        mark(100 + TCNT0);
    }
    mark(255);
}

static void write_twice(void)
{
    ASSR = _BV(AS0);
    OCR0 = 1;
    TCCR0 = _BV(CS00);
    TCNT0 = 1;
    OCR0 = 2;
}

static void no_compare_while_written(void)
{
    timer0_start(_BV(CS00));
    OCR0 = 100;
    while (ASSR & _BV(OCR0UB)) {
    }
    TIFR = _BV(OCF0);
    while (TCNT0 != 99) {
    }
    OCR0 = 100; /* the same again, under way while the count is 100 */
    while (TCNT0 != 105) {
    }
    mark(1 + (TIFR & _BV(OCF0)));
}

static void stopped(void)
{
    timer0_start(_BV(CS00));
    for (;;) {
        mark(TCNT0);
        _delay_us(100);
    }
}

/* The instruction after sei comes before any interrupt. */
static void after_sei(void)
{
    timer0_start(_BV(CS00));
    TIMSK = _BV(TOIE0);
    for (;;) {
        while (!(TIFR & _BV(TOV0))) {
        }
        uint8_t first = 10, second = 20;
        __asm__ volatile("sei\n out %0, %1\n out %0, %2\n cli" ::"I"(_SFR_IO_ADDR(PORTC)), "r"(first),
                         "r"(second));
    }
}

int main(void)
{
    switch (CASE) {
    case RATE:
        rate();
        break;
    case FLAGS:
        flags();
        break;
    case CTC:
        ctc();
        break;
    case MASKED:
        masked();
        break;
    case POWER_SAVE:
        power_save();
        break;
    case WRITE_TWICE:
        write_twice();
        break;
    case NO_COMPARE_WHILE_WRITTEN:
        no_compare_while_written();
        break;
    case STOPPED:
        stopped();
        break;
    case AFTER_SEI:
        after_sei();
        break;
    }
    stop();
}
