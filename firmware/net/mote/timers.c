#include "timers.h"

#include "hal/clock.h"

#define PERIOD_LEAST UINT32_C(256)
#define PERIOD_MOST (UINT32_C(1) << 30)

_Static_assert(NODE_TIMERS >= 1 && TIMERS <= 8, "each timer has a bit of `running`");

static uint32_t timer_at[TIMERS]; /* local times, looked at while their bit is set */
static uint8_t running;
static uint8_t resting;              /* its complement, kept by itself */
static uint32_t period[NODE_TIMERS]; /* of node_every(); 0: once */
static uint32_t periods_check;       /* exclusive or of all, kept by itself */

/* Inlined in its two callers it would take forty bytes more. */
static __attribute__((noinline)) void set_period(uint8_t timer, uint32_t cycles)
{
    periods_check ^= period[timer] ^ cycles;
    period[timer] = cycles;
}

void timers_start(void)
{
    resting = UINT8_MAX;
}

void timer_set(uint8_t timer, uint32_t when)
{
    uint8_t bit = (uint8_t)(1U << timer);
    timer_at[timer] = when;
    running |= bit;
    resting &= (uint8_t)~bit;
}

void timer_off(uint8_t timer)
{
    uint8_t bit = (uint8_t)(1U << timer);
    running &= (uint8_t)~bit;
    resting |= bit;
}

bool timer_runs(uint8_t timer)
{
    return (running >> timer & 1) != 0;
}

bool timer_due(uint8_t timer, uint32_t now)
{
    if (!timer_runs(timer) || clock_before(now, timer_at[timer]))
        return false;
    timer_off(timer);
    return true;
}

__attribute__((noinline)) uint32_t timer_vary(uint32_t mean) /* else inlined four times */
{
    return mean - mean / 4 + (mean >> 9) * (jitter_next() >> 8);
}

/* Set it for its next time, if it has one. */
static void set_again(uint8_t timer, uint32_t now)
{
    if (period[timer] != 0)
        timer_set(timer, now + timer_vary(period[timer]));
}

void node_every(uint8_t timer, uint32_t cycles)
{
    if (timer >= NODE_TIMERS)
        return;
    if (cycles > PERIOD_MOST)
        cycles = PERIOD_MOST;
    if (cycles != 0 && cycles < PERIOD_LEAST)
        cycles = PERIOD_LEAST;
    set_period(timer, cycles);
    timer_off(timer);
    set_again(timer, clock_now());
}

void node_after(uint8_t timer, uint32_t cycles)
{
    if (timer >= NODE_TIMERS)
        return;
    set_period(timer, 0);
    timer_set(timer, clock_now() + (cycles < NODE_AFTER_MOST ? cycles : NODE_AFTER_MOST));
}

void timers_step(uint32_t now)
{
    for (uint8_t i = 0; i < NODE_TIMERS; i++) {
        if (timer_due(i, now)) {
            set_again(i, now);
            app_on_timer(i);
        }
    }
}

uint32_t timers_next(uint32_t now)
{
    uint32_t next = now + 30 * NODE_SECOND;
    for (uint8_t i = 0; i < TIMERS; i++)
        if (timer_runs(i) && clock_before(timer_at[i], next))
            next = timer_at[i];
    return next;
}

bool timers_sound(uint32_t now)
{
    uint32_t check = periods_check;
    for (uint8_t i = 0; i < TIMERS; i++) {
        uint32_t latest = now + TIMER_MOST;
        if (i < NODE_TIMERS) {
            check ^= period[i];
            latest += period[i] + period[i] / 4;
        }
        if (timer_runs(i) && clock_before(latest, timer_at[i]))
            return false;
    }
    return check == 0 && (running ^ resting) == UINT8_MAX;
}
