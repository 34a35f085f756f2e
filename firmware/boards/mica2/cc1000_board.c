/* MICA2's side of the CC1000 driver.
 *
 * The radio is the SPI's master: it clocks SCK whenever it receives or sends. Its one data line is on MOSI
 * and, through our driver while we send, on MISO. Timer 3, which has no other user, is the watch.
 */
#include "chips/cc1000/cc1000_board.h"

#include <util/delay_basic.h>

#include "boards/mica/adc_share.h"
#include "boards/mica/board_pins.h"
#include "chips/cc1000/cc1000_control.h"

enum { RSSI_CHANNEL = 0, SUPPLY_CHANNEL = 7 };

#define SPI_SLAVE (1 << SPIE | 1 << SPE) /* mode 0, most significant bit first */

/** Timer 1 counts (8 CPU cycles) from the end of a byte to where the handler reads the timer, when nothing
 * holds it up. */
#define SPI_LATENCY 2

/** 7372800 / 1024 / 10: 100 ms. */
#define WATCH_TOP (720 - 1)

void cc1000_board_start(void)
{
    uint8_t was = cc1000_lock();
    SPCR = 0;
    DDRB &= (uint8_t) ~(MICA2_SS | MICA2_SCK | MICA2_MOSI | MICA2_MISO | MICA2_OC1C);
    PORTB &= (uint8_t) ~(MICA2_SS | MICA2_SCK | MICA2_MOSI | MICA2_MISO | MICA2_OC1C);
    DDRA &= (uint8_t)~MICA2_CHP_OUT;
    PORTD |= MICA2_PALE | MICA2_PCLK | MICA2_PDATA;
    DDRD |= MICA2_PALE | MICA2_PCLK | MICA2_PDATA;
    cc1000_unlock(was);
}

void board_radio_pins(void)
{
    board_supply(false);
    DDRA |= MICA2_BAT_MON;
    cc1000_board_start();
    cc1000_control_stop(); /* a reset of ours is none of the radio's: it may be sending */
}

uint8_t board_supply(bool on)
{
    set_pins(&PORTA, MICA2_BAT_MON, on);
    return SUPPLY_CHANNEL;
}

void cc1000_board_wait(uint16_t us)
{
    /* Four CPU cycles a round, 1.8432 rounds a us: 59 / 32 of up to 1024 us at a time. */
    for (; us > 1024; us = (uint16_t)(us - 1024))
        _delay_loop_2(32 * 59);
    _delay_loop_2((uint16_t)((uint16_t)(us * 59) / 32 + 1));
}

void cc1000_board_spi(bool on)
{
    SPCR = on ? SPI_SLAVE : 0;
}

void cc1000_board_drive(bool on)
{
    set_pins(&DDRB, MICA2_MISO, on);
}

bool cc1000_board_drives(void)
{
    return (DDRB & MICA2_MISO) != 0;
}

void cc1000_board_rssi(void)
{
    adc_share_request(RSSI_CHANNEL);
}

void adc_share_done(uint16_t value)
{
    cc1000_on_rssi(value);
}

/** The watch comes each time that the timer has counted to `top` with this clock; without one, never. */
static __attribute__((noinline)) void set_watch(uint16_t top, uint8_t clock)
{
    uint8_t was = cc1000_lock();
    TCCR3A = 0;
    TCCR3B = 0;
    TCNT3 = 0;
    OCR3A = top;
    ETIFR = 1 << OCF3A;
    ETIMSK |= 1 << OCIE3A;
    TCCR3B = clock;
    cc1000_unlock(was);
}

void cc1000_board_watch(bool on)
{
    set_watch(WATCH_TOP, on ? 1 << WGM32 | 1 << CS32 | 1 << CS30 : 0);
}

/* Main clock / 64 is 115.2 kHz: 59 / 512 counts a us. */
void cc1000_board_after(uint16_t us)
{
    set_watch((uint16_t)(us / 8 * 59 / 64 + 1), 1 << WGM32 | 1 << CS31 | 1 << CS30);
}

static volatile uint8_t spi_byte;
static volatile uint16_t spi_count;

/* The rest of the handler. The compiler takes a name that begins like this for an interrupt handler's. */
__attribute__((signal, used)) void __vector_spi_rest(void);

/* The next byte must be in the SPI soon after the last, whatever delayed this handler: so that comes first,
 * before the compiler saves some twenty registers. No instruction here changes a flag. */
ISR(SPI_STC_vect, ISR_NAKED)
{
    __asm__ volatile("push r24\n\t"
                     "push r25\n\t"
                     "in r24, %[spdr]\n\t"
                     "lds r25, %[outgoing]\n\t"
                     "out %[spdr], r25\n\t"
                     "sts %[byte], r24\n\t"
                     "in r24, %[low]\n\t" /* of timer 1: low first, which holds high */
                     "in r25, %[high]\n\t"
                     "sts %[count], r24\n\t"
                     "sts %[count]+1, r25\n\t"
                     "pop r25\n\t"
                     "pop r24\n\t"
                     "jmp %x[rest]\n\t"
                     :
                     : [spdr] "I"(_SFR_IO_ADDR(SPDR)), [low] "I"(_SFR_IO_ADDR(TCNT1L)),
                       [high] "I"(_SFR_IO_ADDR(TCNT1H)), [outgoing] "i"(&cc1000_outgoing),
                       [byte] "i"(&spi_byte), [count] "i"(&spi_count), [rest] "i"(__vector_spi_rest));
}

void __vector_spi_rest(void)
{
    cc1000_on_byte(spi_byte, (uint16_t)(spi_count - SPI_LATENCY));
}

ISR(TIMER3_COMPA_vect)
{
    cc1000_on_watch();
}
