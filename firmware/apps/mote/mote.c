#include "mote.h"

#include <string.h>

#include "causeway/bytes.h"
#include "causeway/records.h"
#include "hal/board.h"
#include "hal/clock.h"
#include "hal/events.h"
#include "hal/radio.h"
#include "net/kept.h"
#include "net/messaging.h"
#include "net/node.h"
#include "net/outbox.h"
#include "net/random.h"

#define SECOND UINT32_C(32768)
#define PERIOD_LEAST UINT32_C(256)
#define PERIOD_MOST (UINT32_C(1) << 30)
#define ADC_PATIENCE (SECOND / 16)
#define STEPS_OF_1 62618U /* 1252352 mV in steps of 20 mV: what a reading of 1 would mean */

/* Timers: local times, looked at while their bit is set. */
enum { SEND, SENSOR, HEALTH, SUPPLY, UNBLINK, REBOOT, TIMERS };
static uint32_t timer_at[TIMERS];
static uint8_t timers;

static kept_t period_low, period_high; /* between sends; 0: none */
static uint16_t counter;
static uint8_t application[CAUSEWAY_DATA_BYTES + 1];
static uint8_t blinking;

static void timer_set(uint8_t timer, uint32_t when)
{
    timer_at[timer] = when;
    timers = (uint8_t)(timers | 1U << timer);
}

static void timer_off(uint8_t timer)
{
    timers = (uint8_t)(timers & ~(1U << timer));
}

static bool timer_runs(uint8_t timer)
{
    return (timers >> timer & 1) != 0;
}

/* True once when its time has come. */
static bool timer_due(uint8_t timer, uint32_t now)
{
    if (!timer_runs(timer) || clock_before(now, timer_at[timer])) {
        return false;
    }
    timer_off(timer);
    return true;
}

/* From 3/4 to 5/4 of the mean. */
static uint32_t vary(uint32_t mean)
{
    return mean - mean / 4 + (mean >> 9) * (random_next() >> 8);
}

static uint32_t send_period(void)
{
    return (uint32_t)kept_get(&period_high) << 16 | kept_get(&period_low);
}

/* ---- Sampling and sending ---- */

static void send_reading(uint16_t reading)
{
#if CAUSEWAY_DATA_BYTES >= 2
    memmove(application + 2, application, CAUSEWAY_DATA_BYTES - 2);
    cw_put16(application, reading);
#else
    application[0] = (uint8_t)reading;
#endif
    messaging_send(application);
    counter++;
}

static void sample(uint32_t now)
{
    if (MOTE_SENSOR != MOTE_NO_SENSOR && adc_start(MOTE_SENSOR)) {
        timer_set(SENSOR, now + ADC_PATIENCE);
    } else {
        send_reading(counter);
    }
}

/* The battery in a health message's steps, rounded. */
static uint8_t battery_of(uint16_t reading)
{
    if (reading == 0) {
        return 0;
    }
    uint16_t steps = (uint16_t)((STEPS_OF_1 + reading / 2) / reading);
    return (uint8_t)(steps < UINT8_MAX ? steps : UINT8_MAX);
}

static void report(uint32_t now)
{
    if (adc_start_supply()) {
        timer_set(SUPPLY, now + ADC_PATIENCE);
    } else {
        messaging_send_health(0);
    }
}

static void on_adc(void)
{
    if (timer_runs(SENSOR)) {
        timer_off(SENSOR);
        send_reading(adc_value());
    } else if (timer_runs(SUPPLY)) {
        timer_off(SUPPLY);
        messaging_send_health(battery_of(adc_value()));
    }
}

/* ---- Commands ---- */

static void set_period(uint32_t wanted)
{
    uint32_t least = wanted != 0 && wanted < PERIOD_LEAST ? PERIOD_LEAST : wanted;
    uint32_t period = least > PERIOD_MOST ? PERIOD_MOST : least;
    kept_set(&period_low, (uint16_t)period);
    kept_set(&period_high, (uint16_t)(period >> 16));
    timer_off(SEND);
    if (period != 0) {
        timer_set(SEND, clock_now() + vary(period));
    }
}

void messaging_on_command(uint8_t command, uint32_t argument)
{
    uint32_t now = clock_now();
    switch (command) {
    case CW_COMMAND_RATE:
        set_period(argument);
        break;
    case CW_COMMAND_REPORT:
        timer_set(HEALTH, now + random_below(SECOND / 4));
        break;
    case CW_COMMAND_BLINK:
        blinking = (uint8_t)(argument & (LED_RED | LED_GREEN | LED_YELLOW));
        timer_set(UNBLINK, now + 2 * SECOND);
        break;
    case CW_COMMAND_REBOOT:
        /* others must have heard it from us first, and its copies have died out */
        timer_set(REBOOT, now + 2 * SECOND);
        break;
    default:
        break;
    }
}

/* ---- The loop ---- */

/* There is one ADC: who is due while it is in use waits for the fraction of a millisecond that it takes. */
static bool adc_free(void)
{
    return !timer_runs(SENSOR) && !timer_runs(SUPPLY);
}

static void run_timers(uint32_t now)
{
    if (adc_free() && timer_due(SEND, now)) {
        timer_set(SEND, now + vary(send_period()));
        sample(now);
    }
    if (timer_due(SENSOR, now)) {
        send_reading(counter);
    }
    if (adc_free() && timer_due(HEALTH, now)) {
        timer_set(HEALTH, now + vary(MOTE_HEALTH_PERIOD));
        report(now);
    }
    if (timer_due(SUPPLY, now)) {
        messaging_send_health(0);
    }
    if (timer_due(UNBLINK, now)) {
        blinking = 0;
    }
    if (timer_due(REBOOT, now)) {
        board_reboot();
    }
}

uint32_t app_next(uint32_t now)
{
    uint32_t next = now + SECOND;
    for (uint8_t i = 0; i < TIMERS; i++) {
        if (timer_runs(i) && clock_before(timer_at[i], next)) {
            next = timer_at[i];
        }
    }
    return next;
}

uint8_t app_leds(void)
{
    return blinking;
}

/* The longest that each timer is ever set to. */
static uint32_t timer_most(uint8_t timer)
{
    uint32_t mean = timer == SEND     ? send_period()
                    : timer == HEALTH ? MOTE_HEALTH_PERIOD + 8 * SECOND
                                      : 2 * SECOND;
    return mean + mean / 4;
}

bool app_sound(uint32_t now)
{
    for (uint8_t i = 0; i < TIMERS; i++) {
        if (timer_runs(i) && clock_before(now + timer_most(i), timer_at[i])) {
            return false;
        }
    }
    return timer_runs(HEALTH) && timer_runs(SEND) == (send_period() != 0) &&
           (blinking == 0 || timer_runs(UNBLINK));
}

bool app_accepts(uint16_t id)
{
    return id < CAUSEWAY_MOTES;
}

void app_start(uint32_t now)
{
    messaging_start();
    set_period(MOTE_PERIOD);
    timer_set(HEALTH, now + 4 * SECOND + vary(4 * SECOND));
}

void app_step(uint8_t events)
{
    if (events & EVENT_ADC) {
        on_adc();
    }
    run_timers(clock_now());
}

/* ---- What the layers below ask for ---- */

void radio_on_heard(const radio_heard_t *heard)
{
    messaging_on_heard(heard);
}

void app_on_epoch(uint8_t epoch)
{
    messaging_on_epoch(epoch);
}

bool outbox_on_ready(outbox_frame_t *frame, uint32_t now)
{
    return messaging_on_ready(frame, now);
}

void outbox_on_done(const outbox_frame_t *frame, outbox_result_t result)
{
    messaging_on_done(frame, result);
}
