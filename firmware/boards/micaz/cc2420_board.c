/* The CC2420 on a MICAz: SPI as master, CSn PB0, VREG_EN PA5, RESETn PA6, FIFO PB7, FIFOP PE6 = INT6, CCA
 * PD6, SFD PD4 = ICP1. Timer 1 runs from clock_start() on; its compare A is the driver's timer. */
#include "chips/cc2420/cc2420_board.h"

#include <avr/interrupt.h>
#include <util/atomic.h>
#include <util/delay.h>

#include "boards/mica/atmega128.h"
#include "boards/mica/board_pins.h"

enum {
    PIN_CSN = _BV(PB0),
    PIN_SCK = _BV(PB1),
    PIN_MOSI = _BV(PB2),
    PIN_MISO = _BV(PB3),
    PIN_FIFO = _BV(PB7)
};
enum { PIN_POWER = _BV(PA5), PIN_RESETN = _BV(PA6) };
enum { PIN_FIFOP = _BV(PE6), PIN_CCA = _BV(PD6), PIN_SFD = _BV(PD4) };

void board_radio_pins(void)
{
    PORTA &= (uint8_t) ~(PIN_POWER | PIN_RESETN);
    DDRA |= PIN_POWER | PIN_RESETN;
    PORTB = (uint8_t)((PORTB & ~(PIN_SCK | PIN_MOSI)) | PIN_CSN);
    /* CSn is also SS: an output before the SPI is a master, or it may stop being one */
    DDRB |= PIN_CSN | PIN_SCK | PIN_MOSI;
}

void cc2420_board_start(void)
{
    cc2420_board_listen(false);
    cc2420_board_timer_off();
    board_radio_pins();
    DDRB &= (uint8_t) ~(PIN_MISO | PIN_FIFO);
    DDRD &= (uint8_t) ~(PIN_CCA | PIN_SFD);
    DDRE &= (uint8_t)~PIN_FIFOP;
    SPCR = _BV(SPE) | _BV(MSTR);
    SPSR = _BV(SPI2X); /* main clock / 2; the chip takes 10 MHz */
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        EICRB |= _BV(ISC61) | _BV(ISC60); /* INT6 at rising edges */
    }
}

void cc2420_board_power(bool on)
{
    set_pins(&PORTA, PIN_POWER, on);
}

void cc2420_board_reset(bool hold)
{
    set_pins(&PORTA, PIN_RESETN, !hold);
}

void cc2420_board_select(bool select)
{
    set_pins(&PORTB, PIN_CSN, !select);
}

uint8_t cc2420_board_exchange(uint8_t byte)
{
    SPDR = byte;
    while (!(SPSR & _BV(SPIF))) {
    }
    return SPDR;
}

bool cc2420_board_fifo(void)
{
    return (PINB & PIN_FIFO) != 0;
}

bool cc2420_board_fifop(void)
{
    return (PINE & PIN_FIFOP) != 0;
}

bool cc2420_board_cca(void)
{
    return (PIND & PIN_CCA) != 0;
}

bool cc2420_board_sfd(void)
{
    return (PIND & PIN_SFD) != 0;
}

void cc2420_board_wait(uint16_t us)
{
    while (us > 10) {
        _delay_us(10);
        us = (uint16_t)(us - 10);
    }
    _delay_us(10);
}

void cc2420_board_listen(bool on)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        if (on) {
            cc2420_board_capture_rising(true);
            TIMSK |= _BV(TICIE1);
            EIFR = _BV(INTF6);
            EIMSK |= _BV(INT6);
        } else {
            TIMSK &= (uint8_t)~_BV(TICIE1);
            EIMSK &= (uint8_t)~_BV(INT6);
        }
    }
}

void cc2420_board_capture_rising(bool rising)
{
    if (rising)
        TCCR1B |= _BV(ICES1);
    else
        TCCR1B &= (uint8_t)~_BV(ICES1);
    TIFR = _BV(ICF1); /* changing the edge may have looked like one */
}

uint16_t cc2420_board_counter(void)
{
    uint16_t counts;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        counts = TCNT1;
    }
    return counts;
}

void cc2420_board_timer(uint16_t counts)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        OCR1A = (uint16_t)(TCNT1 + counts);
        TIFR = _BV(OCF1A);
        TIMSK |= _BV(OCIE1A);
    }
}

void cc2420_board_timer_off(void)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        TIMSK &= (uint8_t)~_BV(OCIE1A);
    }
}

bool cc2420_board_timer_runs(void)
{
    return (TIMSK & _BV(OCIE1A)) != 0;
}

uint8_t cc2420_board_lock(void)
{
    uint8_t was = SREG;
    cli();
    return was;
}

void cc2420_board_unlock(uint8_t was)
{
    __asm__ volatile("" ::: "memory");
    SREG = was;
}

ISR(INT6_vect)
{
    cc2420_on_fifop();
}

ISR(TIMER1_CAPT_vect)
{
    cc2420_on_capture(ICR1);
}

ISR(TIMER1_COMPA_vect)
{
    TIMSK &= (uint8_t)~_BV(OCIE1A); /* once; an interrupt's own change to TIMSK cannot be disturbed */
    cc2420_on_timer();
}
