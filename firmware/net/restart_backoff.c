#include "restart_backoff.h"

#include "hal/board.h"
#include "hal/clock.h"
#include "hal/events.h"

#define WELL 8 /* as `begun` is, in units of 8 s: a minute at least */

enum {
    AT_ONCE = 3,         /* restarts that need not wait */
    MOST = AT_ONCE + 11, /* with the longest wait */
};

_Static_assert(MOST < 16, "a count and its complement share a byte");

/* Restarts of this row so far, and in the upper half their complement: random after power-on. */
static volatile uint8_t row __attribute__((section(".noinit")));

static uint8_t begun;

static void keep(uint8_t count)
{
    row = (uint8_t)(count | (count ^ 0xF) << 4);
}

static uint8_t kept_count(void)
{
    uint8_t count = row & 0xF;
    return (row >> 4 ^ count) == 0xF ? count : 0;
}

static uint8_t units(uint32_t time)
{
    return (uint8_t)(time >> 18);
}

/* Count this start. Return how many seconds it must wait. */
static uint16_t pause(void)
{
    uint8_t count = board_start_cause() <= START_WANTED_MOST ? 0 : kept_count();
    if (count < MOST)
        count++;
    keep(count);
    return (uint16_t)(count <= AT_ONCE ? 0 : 1U << (count - AT_ONCE - 1));
}

/* Asleep: no driver needs the I/O clock yet. */
void restart_backoff_wait(void)
{
    for (uint16_t seconds = pause(); seconds > 0; seconds--) {
        clock_alarm(clock_now() + CLOCK_SECOND);
        events_wait();
        events_take();
        watchdog_pat();
    }
    begun = units(clock_now());
}

void restart_backoff_step(uint32_t now)
{
    if ((uint8_t)(units(now) - begun) > WELL)
        keep(0);
}
