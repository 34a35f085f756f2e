/* One SLEEP, in -DMODE after -DSETUP. */
#include "avr_probe.h"

ISR(BADISR_vect)
{
    mark(9);
}

ISR(TIMER1_OVF_vect)
{
    mark(11);
}

/* As `sleep_in`, but twice without a pause. */
static inline void sleep_again(uint8_t mode)
{
    sleep_in(mode);
    sleep_in(mode);
}

static inline void uart_on(uint8_t interrupts)
{
    UBRR0L = 15;
    UCSR0B = _BV(RXEN0) | _BV(TXEN0) | interrupts;
}

int main(void)
{
    SETUP;
    mark(1);
    SLEEP(MODE);
    mark(2);
    stop();
}
