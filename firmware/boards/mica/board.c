/* Pins, LEDs, watchdog, reset. */
#include "hal/board.h"

#include <avr/interrupt.h>
#include <avr/wdt.h>
#include <util/atomic.h>
#include <util/delay.h>

#include "boards/mica/atmega128.h"
#include "boards/mica/board_pins.h"

/* Port A: LEDs and the flash chip's select are low when active; PA4 is the serial id's wire, PA5 and PA6 are
 * the radio's (and on MICA2 the battery monitor's), PA7 powers the thermistor. */
enum {
    PIN_YELLOW = _BV(PA0),
    PIN_GREEN = _BV(PA1),
    PIN_RED = _BV(PA2),
    PIN_LEDS = PIN_YELLOW | PIN_GREEN | PIN_RED,
    PIN_FLASH_SELECT = _BV(PA3),
    PIN_THERMISTOR = _BV(PA7),
    PIN_FLASH_IN = _BV(PD2), /* port D */
    PIN_FLASH_CLOCK = _BV(PD5),
};

enum { BANDGAP_CHANNEL = 30 };

__attribute__((weak)) void board_radio_pins(void) {}

__attribute__((weak)) uint8_t board_supply(bool on)
{
    (void)on;
    return BANDGAP_CHANNEL;
}

/* ASKED and why, if we asked for the reset; after power-on it is anything. */
enum { ASKED = 0xA0, ASKED_MASK = 0xF0 };
static volatile uint8_t asked __attribute__((section(".noinit")));

static uint8_t cause;

/* At power-on the supply may pass the brown-out's level, and a reset of ours is the watchdog's. */
static uint8_t cause_of(uint8_t flags)
{
    if (flags & _BV(PORF))
        return START_POWER_ON;
    if (flags & _BV(BORF))
        return START_BROWN_OUT;
    if (flags & _BV(WDRF))
        return (asked & ASKED_MASK) == ASKED ? asked & (uint8_t)~ASKED_MASK : START_WATCHDOG;
    if (flags & _BV(EXTRF))
        return START_BUTTON;
    return (flags & _BV(JTRF)) ? START_DEBUGGER : START_JUMP;
}

uint8_t board_start_cause(void)
{
    return cause;
}

void board_start(void)
{
    wdt_disable();
    cause = cause_of(MCUCSR);
    MCUCSR = 0; /* or the next start would see this one's flags too */
    asked = 0;
    PORTA |= PIN_LEDS | PIN_FLASH_SELECT;
    PORTA &= (uint8_t)~PIN_THERMISTOR;
    DDRA |= PIN_LEDS | PIN_FLASH_SELECT | PIN_THERMISTOR;
    PORTD &= (uint8_t) ~(PIN_FLASH_IN | PIN_FLASH_CLOCK);
    DDRD |= PIN_FLASH_IN | PIN_FLASH_CLOCK;
    PORTC = 0; /* the sensor board's power switches: off */
    DDRC = 0xFF;
    ACSR = _BV(ACD); /* the comparator only draws current */
    board_radio_pins();
}

/* From LED_ bits to pins. */
static uint8_t led_pins(uint8_t leds)
{
    uint8_t pins = 0;
    if (leds & LED_RED)
        pins |= PIN_RED;
    if (leds & LED_GREEN)
        pins |= PIN_GREEN;
    if (leds & LED_YELLOW)
        pins |= PIN_YELLOW;
    return pins;
}

/* Handlers change other pins of the port: MICA2's switches its battery monitor off. */

void leds_set(uint8_t leds)
{
    uint8_t lit = led_pins(leds);
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        PORTA = (uint8_t)((PORTA | PIN_LEDS) & ~lit);
    }
}

void leds_toggle(uint8_t leds)
{
    uint8_t changed = led_pins(leds);
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        PORTA ^= changed;
    }
}

void watchdog_start(void)
{
    wdt_enable(WDTO_2S);
}

/* No single stray write can switch it off; should two have done so, it is on again from here. */
void watchdog_pat(void)
{
    wdt_reset();
    if (!(WDTCR & _BV(WDE)))
        watchdog_start();
}

static _Noreturn void reset_for(uint8_t why)
{
    cli();
    asked = ASKED | why;
    wdt_enable(WDTO_15MS);
    for (;;) {
    }
}

_Noreturn void board_reset(void)
{
    reset_for(START_DAMAGE);
}

_Noreturn void board_reboot(void)
{
    reset_for(START_COMMAND);
}

_Noreturn void board_refuse(void)
{
    leds_set(LED_RED);
    for (;;) {
        for (uint8_t i = 0; i < 50; i++) {
            _delay_ms(10);
            wdt_reset(); /* it is on for good where a fuse says so */
        }
        leds_toggle(LED_RED | LED_YELLOW);
    }
}
