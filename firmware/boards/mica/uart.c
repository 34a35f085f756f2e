/* UART0: 57600 baud is UBRR 15 at double speed, 0.0 % off. */
#include "hal/uart.h"

#include <avr/interrupt.h>
#include <util/atomic.h>

#include "boards/mica/atmega128.h"
#include "boards/mica/events_pending.h"
#include "hal/events.h"
#include "hal/power.h"

/* Ring sizes are powers of two, 128 at most; a ring holds one byte less. At 57600 baud 64 bytes last 11 ms.
 */
#ifndef UART_RX_SIZE
#define UART_RX_SIZE 64
#endif
#ifndef UART_TX_SIZE
#define UART_TX_SIZE 64
#endif
_Static_assert((UART_RX_SIZE & (UART_RX_SIZE - 1)) == 0 && UART_RX_SIZE <= 128, "UART_RX_SIZE");
_Static_assert((UART_TX_SIZE & (UART_TX_SIZE - 1)) == 0 && UART_TX_SIZE <= 128, "UART_TX_SIZE");

enum { RX_MASK = UART_RX_SIZE - 1, TX_MASK = UART_TX_SIZE - 1 };

/* Each index has one writer: the interrupt or the loop. None is used as memory holds it: a mask keeps it in
 * its ring. */
static uint8_t rx_ring[UART_RX_SIZE];
static volatile uint8_t rx_in;
static volatile uint8_t rx_out;
static uint8_t tx_ring[UART_TX_SIZE];
static volatile uint8_t tx_in;
static volatile uint8_t tx_out;
static volatile uint16_t lost;

void uart_start(void)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        UCSR0A = _BV(U2X0); /* before the divider: emulators work out the rate when that is written */
        UCSR0C = _BV(UCSZ01) | _BV(UCSZ00);
        UBRR0H = 0;
        UBRR0L = 15;
        UCSR0B = _BV(RXCIE0) | _BV(RXEN0) | _BV(TXEN0);
    }
    power_need(POWER_UART); /* a byte may come at any time */
}

uint8_t uart_room(void)
{
    return (uint8_t)((tx_out - tx_in - 1) & TX_MASK);
}

bool uart_write(uint8_t byte)
{
    uint8_t in = tx_in & TX_MASK;
    uint8_t next = (in + 1) & TX_MASK;
    if (next == (tx_out & TX_MASK))
        return false;
    tx_ring[in] = byte;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE) /* also a barrier: the byte is in the ring before the index says so */
    {
        tx_in = next;
        UCSR0B |= _BV(UDRIE0);
    }
    return true;
}

int16_t uart_read(void)
{
    uint8_t out = rx_out & RX_MASK;
    if (out == (rx_in & RX_MASK))
        return -1;
    uint8_t byte;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        byte = rx_ring[out];
        rx_out = (out + 1) & RX_MASK;
    }
    return byte;
}

uint16_t uart_lost(void)
{
    uint16_t count;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        count = lost;
    }
    return count;
}

/* MICA2's radio cannot wait for long (clock.c): the handlers call nothing. */

ISR(USART0_RX_vect)
{
    uint8_t status = UCSR0A; /* goes with the byte: before it is read */
    uint8_t byte = UDR0;
    uint8_t in = rx_in & RX_MASK, next = (in + 1) & RX_MASK, out = rx_out & RX_MASK;
    if (status & _BV(DOR0))
        lost++; /* one before this */
    if ((status & _BV(FE0)) || next == out) {
        lost++;
        return;
    }
    rx_ring[in] = byte;
    rx_in = next;
    events_pending |= EVENT_UART_RX;
}

ISR(USART0_UDRE_vect)
{
    uint8_t in = tx_in & TX_MASK, out = tx_out & TX_MASK;
    if (out != in) {
        UDR0 = tx_ring[out];
        tx_out = (out + 1) & TX_MASK;
    } else {
        UCSR0B &= (uint8_t)~_BV(UDRIE0);
        events_pending |= EVENT_UART_TX;
    }
}
