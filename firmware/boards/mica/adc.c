/* The ADC: single conversions for the loop, and before them for a radio that asks (adc_share.h).
 *
 * 115 kHz, so a conversion takes 217 us with the switching on, which each begins with: the converter draws
 * nothing in between.
 */
#include <avr/interrupt.h>
#include <stdbool.h>
#include <util/atomic.h>

#include "boards/mica/adc_share.h"
#include "boards/mica/atmega128.h"
#include "boards/mica/board_pins.h"
#include "causeway/flag.h"
#include "hal/board.h"
#include "hal/events.h"
#include "hal/power.h"

enum {
    CHANNELS = 0x1F,
    /* main clock / 64; ADIF: forget the last one */
    GO = _BV(ADEN) | _BV(ADSC) | _BV(ADIF) | _BV(ADIE) | _BV(ADPS2) | _BV(ADPS1),
};

/* Whose conversion is running. */
enum { NONE, LOOP, RADIO, CANCELLED };

static volatile uint8_t running;      /* NONE, LOOP, RADIO or CANCELLED */
static volatile cw_flag_t loop_waits; /* from adc_start() until its value has come */
static uint8_t loop_channel;
static cw_flag_t loop_supply; /* it is the supply's, */
static cw_flag_t settling;    /* and its first conversion: a reference just switched on is not steady yet */
static volatile uint16_t loop_value;
static uint8_t radio_channel;
static volatile cw_flag_t radio_waits;

__attribute__((weak)) void adc_share_done(uint16_t value)
{
    (void)value;
}

/* Whether a conversion runs: the converter's own flag, which a fault in memory cannot change. */
static bool is_on(void)
{
    return (ADCSRA & _BV(ADEN)) != 0;
}

static void convert(uint8_t channel, uint8_t who)
{
    running = who;
    ADMUX = channel & CHANNELS; /* the reference is AREF, which these boards tie to AVCC */
    ADCSRA = GO;
}

/* Start whatever comes first, or switch off. Interrupts are off, no conversion runs. */
static void start_next(void)
{
    if (radio_waits) {
        convert(radio_channel, RADIO);
    } else if (loop_waits) {
        convert(loop_channel, LOOP);
    } else {
        running = NONE;
        ADCSRA = 0;
        power_release(POWER_ADC);
    }
}

static bool start(uint8_t channel, bool supply)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        loop_channel = channel;
        loop_supply = settling = supply;
        loop_waits = true;
        power_need(POWER_ADC);
        if (!is_on())
            start_next();
    }
    return true;
}

static bool is_free(void)
{
    return !loop_waits || !is_on();
}

bool adc_start(uint8_t channel)
{
    return is_free() && start(channel, false);
}

bool adc_start_supply(void)
{
    return is_free() && start(board_supply(true), true);
}

uint16_t adc_value(void)
{
    uint16_t value;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        value = loop_value;
    }
    return value;
}

void adc_share_request(uint8_t channel)
{
    radio_channel = channel;
    radio_waits = true;
    power_need(POWER_ADC);
    if (!is_on())
        start_next();
    else if (running == RADIO)
        running = CANCELLED; /* the value under way is for the request that this one replaces */
}

static void end_loops(uint16_t value)
{
    loop_value = value;
    loop_waits = false;
    if (loop_supply)
        board_supply(false);
    events_post(EVENT_ADC);
}

ISR(ADC_vect)
{
    uint16_t value = ADC;
    if (running == RADIO) {
        radio_waits = false; /* before the call, which may ask again */
        running = CANCELLED; /* and must not start anything itself */
        adc_share_done(value);
    } else if (running == LOOP && settling) {
        settling = false;
    } else if (running == LOOP) {
        end_loops(value);
    }
    start_next();
}
