/** Events: interrupts wake the loop when it has something to do.
 *
 * An event is a bit. Posting a pending one changes nothing, so a handler must drain whatever caused it.
 */
#pragma once

#include <stdint.h>

enum {
    EVENT_ALARM = 1 << 0,   /* the clock's alarm time has come */
    EVENT_RADIO = 1 << 1,   /* the radio driver wants radio_service() */
    EVENT_UART_RX = 1 << 2, /* bytes wait in the UART's receive buffer */
    EVENT_UART_TX = 1 << 3, /* the UART's transmit buffer has run empty */
    EVENT_ADC = 1 << 4,     /* a conversion is finished */
};

/** Post events; from anywhere, interrupts included. */
void events_post(uint8_t events);

/** Take all pending events and clear them; from the loop. */
uint8_t events_take(void);

/** Sleep until an event is pending, in the deepest mode that power.h allows; return at once if one is.
 * Interrupts cannot come between the check and the sleep, so no event is missed. */
void events_wait(void);
