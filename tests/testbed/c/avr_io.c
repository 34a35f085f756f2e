/* UART 0, SPI, ADC, EEPROM: which, -DCASE says. */
#include <avr/eeprom.h>

#include "avr_probe.h"

enum {
    UART_ECHO = 1,
    UART_SEND,
    UART_LEVEL,
    UART_SLOW,
    SPI_MASTER,
    SPI_COLLISION,
    SPI_SLAVE,
    SPI_INTERRUPT,
    ADC_ONE,
    ADC_FREE,
    EEPROM,
    EEPROM_WRONG,
    EEPROM_READY,
};

static volatile uint8_t count;

ISR(USART0_RX_vect)
{
    mark(200);
    UDR0 = UDR0;
    mark(201);
}

ISR(USART0_UDRE_vect)
{
    mark(PORTC + 1);
    if (++count == 5)
        UCSR0B &= (uint8_t)~_BV(UDRIE0);
}

ISR(SPI_STC_vect)
{
    if (CASE == SPI_INTERRUPT) {
        mark(SPSR + 1); /* SPIF has been cleared by coming here */
        mark(77);
    } else {
        uint8_t byte = SPDR;
        if (byte == 3)
            _delay_loop_1(100); /* too late for this one */
        SPDR = byte + 0x40;
        mark(SPSR & _BV(WCOL));
        mark(byte);
    }
}

ISR(ADC_vect)
{
    mark(PORTC ^ 0x80);
}

ISR(EE_READY_vect)
{
    EECR = 0;
    mark(50);
}

static void uart_on(uint8_t interrupts)
{
    UCSR0A = _BV(U2X0);
    UBRR0L = 15; /* 57600 baud: 128 cycles a bit */
    UCSR0B = _BV(RXEN0) | _BV(TXEN0) | interrupts;
}

static void uart_send(void)
{
    uart_on(0);
    mark(UCSR0A);
    UDR0 = 0x11;
    mark(1);
    UDR0 = 0x22;
    mark(2 + (UCSR0A & _BV(UDRE0)));
    while (!(UCSR0A & _BV(UDRE0))) {
    }
    mark(3);
    while (!(UCSR0A & _BV(TXC0))) {
    }
    mark(4);
    UCSR0A = _BV(U2X0) | _BV(TXC0);
    mark(UCSR0A);
    UDR0 = 0x33;
    UDR0 = 0x44;
    UDR0 = 0x55; /* no room */
}

/* Bytes are read 5 ms late: two are in the buffer, the last in the shift register, those between are lost. */
static void uart_slow(void)
{
    uart_on(0);
    _delay_ms(5);
    for (uint8_t i = 0; i < 6; i++) {
        mark(UCSR0A & (_BV(RXC0) | _BV(DOR0)));
        mark(UDR0);
    }
    UCSR0B = 0;
    mark(UCSR0A & _BV(RXC0));
}

static void spi_master(void)
{
    DDRB = 7;
    SPCR = _BV(SPE) | _BV(MSTR) | _BV(SPR0); /* main clock / 16 */
    SPDR = 0xA5;
    mark(1);
    while (!(SPSR & _BV(SPIF))) {
    }
    mark(SPDR);
    mark(SPSR & _BV(SPIF)); /* cleared by reading both */
    SPSR = _BV(SPI2X);
    SPDR = 0x0F;
    mark(3);
    while (!(SPSR & _BV(SPIF))) {
    }
    mark(4);
    SPDR = 0x10;
    mark(5);
}

static void spi_collision(void)
{
    DDRB = 7;
    SPCR = _BV(SPE) | _BV(MSTR) | _BV(SPR1) | _BV(SPR0);
    SPDR = 1;
    SPDR = 2;
    mark(SPSR);
    while (!(SPSR & _BV(SPIF))) {
    }
    mark(SPDR);
    mark(SPSR);
}

static void adc_one(void)
{
    ADMUX = 2;
    ADCSRA = _BV(ADEN) | _BV(ADSC) | _BV(ADPS2) | _BV(ADPS1);
    mark(1);
    while (!(ADCSRA & _BV(ADIF))) {
    }
    mark(2);
    mark(ADCL);
    mark(ADCH);
    ADMUX = 30; /* the bandgap against the supply */
    ADCSRA |= _BV(ADSC);
    mark(3);
    while (ADCSRA & _BV(ADSC)) {
    }
    mark(4);
    mark(ADCL);
    mark(ADCH);
    ADMUX = _BV(REFS1) | _BV(REFS0) | _BV(ADLAR) | 2;
    ADCSRA |= _BV(ADSC);
    while (ADCSRA & _BV(ADSC)) {
    }
    mark(5);
    mark(ADCH);
}

static void adc_free(void)
{
    ADMUX = 1;
    ADCSRA = _BV(ADEN) | _BV(ADSC) | _BV(ADFR) | _BV(ADIE) | _BV(ADPS2) | _BV(ADPS1);
    for (;;)
        sleep_in(SLEEP_MODE_IDLE);
}

static void eeprom(void)
{
    mark(eeprom_read_byte((const uint8_t *)0x123));
    mark(1);
    eeprom_write_byte((uint8_t *)0x124, 0x5A);
    mark(2);
    eeprom_busy_wait();
    mark(3);
    mark(eeprom_read_byte((const uint8_t *)0x124));
    eeprom_write_byte((uint8_t *)0x125, 0x77);
}

static void eeprom_wrong(void)
{
    EEAR = 0x10;
    EEDR = 0x20;
    EECR = _BV(EEWE);
    eeprom_write_byte((uint8_t *)0x11, 1);
    EECR |= _BV(EERE);
    EECR |= _BV(EEMWE);
    EECR |= _BV(EEWE);
}

static void eeprom_ready(void)
{
    eeprom_write_byte((uint8_t *)1, 1);
    EECR |= _BV(EERIE);
    mark(1);
    sleep_in(SLEEP_MODE_IDLE);
}

int main(void)
{
    switch (CASE) {
    case UART_ECHO:
        uart_on(_BV(RXCIE0));
        sei();
        break;
    case UART_SEND:
        uart_send();
        break;
    case UART_LEVEL:
        uart_on(_BV(UDRIE0));
        sei();
        break;
    case UART_SLOW:
        uart_slow();
        break;
    case SPI_MASTER:
        spi_master();
        break;
    case SPI_COLLISION:
        spi_collision();
        break;
    case SPI_SLAVE:
        DDRB = _BV(PB3);
        SPCR = _BV(SPE) | _BV(SPIE);
        SPDR = 0x99;
        sei();
        break;
    case SPI_INTERRUPT:
        DDRB = 7;
        SPCR = _BV(SPE) | _BV(SPIE) | _BV(MSTR);
        SPDR = 0x42;
        sei();
        break;
    case ADC_ONE:
        adc_one();
        break;
    case ADC_FREE:
        adc_free();
        break;
    case EEPROM:
        eeprom();
        break;
    case EEPROM_WRONG:
        eeprom_wrong();
        break;
    case EEPROM_READY:
        eeprom_ready();
        break;
    }
    stop();
}
