/* What every mote does beside its app: it forwards messages, merges the stamps that it receives, reports its
 * health, obeys commands.
 *
 * Commands (docs/reference/formats.md, downlink): report sends a health message now; blink lights LEDs for
 * two seconds; reboot resets two seconds later. All others are the app's.
 */
#include "net/node.h"

#include "causeway/data.h"
#include "hal/clock.h"
#include "hal/radio.h"
#include "net/commands.h"
#include "net/health.h"
#include "net/messaging.h"
#include "net/outbox.h"
#include "net/role.h"
#include "net/stamping.h"
#include "readings.h"
#include "timers.h"

#define STEPS_OF_1 62618U /* 1252352 mV in steps of 20 mV: what a reading of 1 would mean */

_Static_assert((int)NODE_MAY_BE_AFTER_OURS == CW_KNOWS_MAYBE && (int)NODE_AFTER_OURS == CW_KNOWS &&
                   (int)NODE_NOT_AFTER_OURS == CW_KNOWS_NOT,
               "the same words");

static uint8_t blinking, app_leds;

/* ---- What an app leaves out ---- */

__attribute__((weak)) void app_start(void) {}

__attribute__((weak)) void app_on_timer(uint8_t timer)
{
    (void)timer;
}

__attribute__((weak)) void app_on_message(const node_message_t *message)
{
    (void)message;
}

__attribute__((weak)) void app_on_sent(bool sent, uint8_t sequence)
{
    (void)sent;
    (void)sequence;
}

__attribute__((weak)) void app_on_reading(uint8_t sensor, uint16_t reading)
{
    (void)sensor;
    (void)reading;
}

__attribute__((weak)) void app_on_command(uint8_t command, uint32_t argument)
{
    if (command == CW_COMMAND_RATE)
        node_every(0, argument);
}

__attribute__((weak)) bool app_sound(uint32_t now)
{
    (void)now;
    return true;
}

/* ---- What it may call ---- */

bool node_send(const uint8_t *data)
{
    return messaging_send(data, false);
}

bool node_send_urgent(const uint8_t *data)
{
    return messaging_send(data, true);
}

void node_leds(uint8_t leds)
{
    app_leds = leds;
}

/* ---- Health ---- */

/* The battery in a health message's steps, rounded. */
static uint8_t battery_of(uint16_t reading)
{
    if (reading == 0)
        return 0;
    uint16_t steps = (uint16_t)((STEPS_OF_1 + reading / 2) / reading);
    return (uint8_t)(steps < UINT8_MAX ? steps : UINT8_MAX);
}

void readings_on_battery(uint16_t reading)
{
    health_send(battery_of(reading));
}

/* ---- Commands ---- */

void commands_on_command(uint8_t command, uint32_t argument)
{
    uint32_t now = clock_now();
    switch (command) {
    case CW_COMMAND_REPORT:
        timer_set(TIMER_HEALTH, now + jitter_below(NODE_SECOND / 4));
        break;
    case CW_COMMAND_BLINK:
        blinking = (uint8_t)(argument & (LED_RED | LED_GREEN | LED_YELLOW));
        timer_set(TIMER_UNBLINK, now + 2 * NODE_SECOND);
        break;
    case CW_COMMAND_REBOOT:
        /* others must have heard it from us first, and its copies have died out */
        timer_set(TIMER_REBOOT, now + 2 * NODE_SECOND);
        break;
    default:
        app_on_command(command, argument);
        break;
    }
}

/* ---- Messages ---- */

void messaging_on_data(const radio_message_t *message, uint32_t tick)
{
    const uint8_t *payload = message->data;
    node_message_t told = {
        .source = cw_data_source(payload),
        .sequence = cw_data_sequence(payload),
        .order = (uint8_t)stamping_knows(message, tick),
        .tick = tick,
        .sent = cw_data_sent(payload, tick),
        .data = payload + cw_data_place(CAUSEWAY_DATA_AT, message->length),
    };
    app_on_message(&told);
}

void messaging_on_sent(bool sent, uint8_t sequence)
{
    app_on_sent(sent, sequence);
}

/* ---- The role ---- */

const bool role_sleeps = true;

bool role_accepts(uint16_t id)
{
    return id < CAUSEWAY_MOTES;
}

void role_start(uint32_t now)
{
    messaging_start();
    timers_start();
    timer_set(TIMER_HEALTH, now + 4 * NODE_SECOND + timer_vary(4 * NODE_SECOND));
    app_start();
}

void role_step(uint8_t events)
{
    uint32_t now = clock_now();
    timers_step(now);
    if (timer_due(TIMER_HEALTH, now)) {
        timer_set(TIMER_HEALTH, now + timer_vary(MOTE_HEALTH_PERIOD));
        readings_battery();
    }
    if (timer_due(TIMER_UNBLINK, now))
        blinking = 0;
    if (timer_due(TIMER_REBOOT, now))
        board_reboot();
    readings_step(events, now);
}

uint32_t role_next(uint32_t now)
{
    return timers_next(now);
}

bool role_sound(uint32_t now)
{
    return timers_sound(now) && readings_sound() && (blinking == 0 || timer_runs(TIMER_UNBLINK)) &&
           app_sound(now);
}

uint8_t role_leds(void)
{
    return blinking | app_leds;
}

/* ---- What the layers below ask for ---- */

void radio_on_heard(const radio_heard_t *heard)
{
    messaging_on_heard(heard);
}

void role_on_epoch(uint8_t epoch)
{
    messaging_on_epoch(epoch);
}

bool outbox_before_send(outbox_frame_t *frame, uint32_t now)
{
    return messaging_before_send(frame, now);
}

void outbox_on_done(const outbox_frame_t *frame, outbox_result_t result)
{
    messaging_on_done(frame, result);
}
