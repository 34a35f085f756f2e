/* Resets: what MCUCSR says, the watchdog, memory that stays. -DCASE: what happens after the first start. */
#include "avr_probe.h"

enum { WAIT = 1, WATCHDOG, WATCHDOG_LATER, WATCHDOG_OFF, LIGHTS, WILD };

static uint8_t kept __attribute__((section(".noinit")));

int main(void)
{
    DDRC = 0xFF;
    mark(0x80 | MCUCSR);
    mark(0x40 | WDTCR);
    if (kept != 0x5A) {
        kept = 0x5A;
        mark(1);
    } else {
        mark(2);
    }
    switch (CASE) {
    case WAIT:
        break;
    case WATCHDOG:
        MCUCSR = 0;
        wdt_enable(WDTO_30MS);
        break;
    case WATCHDOG_LATER: /* a shorter time counts from the last wdr */
        wdt_enable(WDTO_2S);
        _delay_ms(10);
        wdt_enable(WDTO_15MS);
        break;
    case WATCHDOG_OFF:
        wdt_enable(WDTO_15MS);
        WDTCR = 0; /* does nothing without WDCE */
        mark(WDTCR);
        wdt_disable();
        mark(WDTCR);
        break;
    case LIGHTS:
        PORTA = 7;
        DDRA = 7;
        PORTA = 7 & ~_BV(2);
        PINA = 7; /* does nothing */
        break;
    case WILD:
        *(volatile uint8_t *)0x8000 = 1;
        mark(3);
        break;
    }
    stop();
}
