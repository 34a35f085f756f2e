#include "restarts.h"

#include <stdbool.h>

#include "hal/board.h"
#include "hal/clock.h"
#include "hal/events.h"

#define SECOND UINT32_C(32768)
#define WELL (60 * SECOND >> 8) /* in units of 256 cycles, as `begun` is */

enum {
    AT_ONCE = 3,         /* restarts that need not wait */
    MOST = AT_ONCE + 11, /* with the longest wait */
};

/* Of this row so far, beside its complement: after power-on it is anything. */
static volatile struct {
    uint8_t count;
    uint8_t complement;
} row __attribute__((section(".noinit")));

static uint16_t begun;

static void keep(uint8_t count)
{
    row.count = count;
    row.complement = (uint8_t)~count;
}

static bool was_wanted(void)
{
    uint8_t cause = board_start_cause();
    return cause != START_BROWN_OUT && cause != START_WATCHDOG && cause != START_DAMAGE &&
           cause != START_JUMP;
}

/* Count this start; for how long it must wait. */
static uint32_t pause(void)
{
    bool known = (row.count ^ row.complement) == UINT8_MAX;
    uint8_t count = known && !was_wanted() ? row.count : 0;
    if (count < MOST) {
        count++;
    }
    keep(count);
    return count <= AT_ONCE ? 0 : SECOND << (count - AT_ONCE - 1);
}

/* Asleep, as nobody needs the I/O clock yet. */
void restarts_wait(void)
{
    uint32_t now = clock_now();
    uint32_t end = now + pause();
    while (clock_before(now, end)) {
        clock_alarm(clock_before(now + SECOND, end) ? now + SECOND : end);
        events_wait();
        events_take();
        watchdog_pat();
        now = clock_now();
    }
    begun = (uint16_t)(now >> 8);
}

void restarts_step(uint32_t now)
{
    if (row.count != 0 && (uint16_t)((uint16_t)(now >> 8) - begun) >= WELL) {
        keep(0);
    }
}
