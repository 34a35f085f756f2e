/* Wakes from power-save 16 times a second, by timer 0, and lights its LEDs in turn: red from one waking to
 * the next but one, green for -DGREEN_MS with the processor awake. A -DSENSOR is powered as long as red is
 * lit. */
#include "avr_probe.h"

enum { GREEN = 1 << 1, RED = 1 << 2, LIGHT = 1 << 5 };

EMPTY_INTERRUPT(TIMER0_OVF_vect)

int main(void)
{
    PORTA = DDRA = GREEN | RED;
    DDRE = LIGHT;
    timer0_start(_BV(CS01)); /* one count in 8 cycles of the crystal */
    TIMSK = _BV(TOIE0);
    for (uint8_t i = 0;; i++) {
        sleep_in(_BV(SM1) | _BV(SM0));
        if (i % 2 == 0) {
            PORTA &= (uint8_t)~RED;
            PORTE |= LIGHT;
        } else {
            PORTA |= RED;
            PORTE &= (uint8_t)~LIGHT;
        }
        PORTA &= (uint8_t)~GREEN;
        _delay_ms(GREEN_MS);
        PORTA |= GREEN;
        OCR0 = 0; /* a crystal's cycle must pass before the next sleep */
        while (ASSR & BUSY) {
        }
    }
}
