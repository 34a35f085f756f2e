/* Firmware that sleeps for random times as a node of a schedule does, with its radio off, and listens now and
 * then. What came of it is in memory: naps, the latest alarm in cycles, alarms before their time, frames
 * heard, radios that did not wake in time. */
#include "causeway/random.h"
#include "hal/board.h"
#include "hal/clock.h"
#include "hal/events.h"
#include "hal/radio.h"

enum { LISTEN = 300 };

volatile uint16_t sleeper_naps, sleeper_late, sleeper_early, sleeper_heard, sleeper_deaf;
volatile uint8_t sleeper_unsound;
static uint16_t state = 1;

void radio_on_heard(const radio_heard_t *heard)
{
    (void)heard;
    sleeper_heard++;
}

void radio_on_sent(radio_result_t result, uint32_t time)
{
    (void)result, (void)time;
}

uint32_t radio_stamp(uint32_t local)
{
    return local;
}

/* The loop of a node: it wakes at least every second, for the watchdog. */
static void wait_until(uint32_t when)
{
    for (;;) {
        uint32_t now = clock_now();
        watchdog_pat();
        if (!clock_before(now, when))
            return;
        clock_alarm(when - now < CLOCK_SECOND ? when : now + CLOCK_SECOND);
        events_wait();
        (void)events_take();
        radio_service();
        if (!clock_sound() || !radio_sound())
            sleeper_unsound = true;
    }
}

static void nap(void)
{
    static const uint16_t most[] = {10, 150, 750, 8000, 30000};
    uint32_t when = clock_now() + 1 + 4UL * cw_random_below(&state, most[cw_random_below(&state, 5)]);
    wait_until(when);
    uint32_t late = clock_now() - when;
    if ((int32_t)late < 0)
        sleeper_early++;
    else if (late > sleeper_late)
        sleeper_late = (uint16_t)late;
    sleeper_naps = (uint16_t)(sleeper_naps + 1);
}

static void listen(void)
{
    uint32_t end = clock_now() + RADIO_WAKE_TIME;
    while (!radio_wake() && clock_before(clock_now(), end)) {
        events_wait();
        (void)events_take();
        radio_service();
    }
    sleeper_deaf = (uint16_t)(sleeper_deaf + !radio_wake());
    wait_until(clock_now() + LISTEN);
    radio_sleep();
}

int main(void)
{
    board_start();
    clock_start();
    watchdog_start();
    radio_start(1);
    radio_sleep();
    for (;;) {
        nap();
        if (cw_random_below(&state, 4) == 0)
            listen();
    }
}
