/* Takes known amounts of stack and time: a frame of 300 bytes, 5000 cycles with interrupts off, a handler of
 * 1000 loops, and sleep. */
#include "avr_probe.h"

#include <util/delay_basic.h>

ISR(TIMER1_COMPA_vect)
{
    _delay_loop_2(1000); /* four cycles each */
}

static __attribute__((noinline)) void fill(void)
{
    volatile uint8_t bytes[300];
    mark((uint8_t)(SP >> 8));
    mark((uint8_t)SP);
    bytes[0] = 1;
    (void)bytes[0];
}

int main(void)
{
    fill();
    _delay_loop_2(1250);
    OCR1A = 10000;
    TIMSK = _BV(OCIE1A);
    TCCR1B = _BV(WGM12) | _BV(CS10);
    set_sleep_mode(SLEEP_MODE_IDLE);
    sleep_enable();
    sei();
    for (;;)
        sleep_cpu();
}
