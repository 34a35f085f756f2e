/* LEDs share port A with PA5, which an interrupt clears: the interrupt comes at each moment of a change of
 * LEDs in turn. Shows in ports B and C how often it came, and how often PA5 was high afterwards. */
#include <avr/interrupt.h>
#include <avr/io.h>

#include "hal/board.h"

enum { PA5_PIN = 1 << PA5, MOMENTS = 80 };

static volatile uint8_t cleared;

ISR(TIMER1_COMPA_vect)
{
    PORTA &= (uint8_t)~PA5_PIN;
    TCCR1B = 0;
    cleared++;
}

static void (*const changes[])(uint8_t) = {leds_set, leds_toggle};

int main(void)
{
    uint8_t high = 0;
    DDRA = PA5_PIN | 7;
    TIMSK = 1 << OCIE1A;
    sei();
    for (uint8_t moment = 2; moment < MOMENTS; moment++) {
        for (uint8_t i = 0; i < 2; i++) {
            PORTA |= PA5_PIN;
            TCNT1 = 0;
            OCR1A = moment;
            TIFR = 1 << OCF1A;
            TCCR1B = 1 << CS10;
            changes[i](moment & 7);
            while (TCCR1B != 0) {
            }
            high = (uint8_t)(high + ((PORTA & PA5_PIN) != 0));
        }
    }
    PORTC = cleared;
    PORTB = high;
    for (;;) {
    }
}
