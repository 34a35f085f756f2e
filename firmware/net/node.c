#include "node.h"

#include "small.h"
#include "hal/board.h"
#include "hal/clock.h"
#include "hal/events.h"
#include "hal/power.h"
#include "hal/radio.h"
#include "identity.h"
#include "outbox.h"
#include "jitter.h"
#include "restart_backoff.h"
#include "role.h"
#include "schedule.h"
#include "mic.h"
#include "boot_store.h"
#include "timesync.h"

#define REST_MOST (32 * CLOCK_SECOND)
#define CHECK_PAUSE 4096U /* cycles between two checks whether memory has kept the state */

#ifndef CAUSEWAY_NODE_ID
#define CAUSEWAY_NODE_ID 1
#endif

/* In .data whatever its value, so that its initial value is in the image. */
__attribute__((section(".data"))) volatile uint16_t TOS_NODE_ID = CAUSEWAY_NODE_ID;

void node_start(void)
{
    board_start();
    clock_start();
    uint16_t id = boot_store_id(TOS_NODE_ID);
    if (!role_accepts(id))
        board_refuse();
    watchdog_start();
    restart_backoff_wait();
    uint16_t boots = boot_store_count_boot();
    identity_start(id, boots);
    uint16_t seed = (uint16_t)((id + 1) * 40503U ^ boots * 2531U);
    jitter_start(seed);
    if (MIC_BYTES)
        mic_start();
    uint32_t now = clock_now();
    timesync_start(boot_store_epoch(), MIC_BYTES ? boot_store_round() : 0, now);
    while (!radio_start(seed)) {
        leds_toggle(LED_RED); /* a node without a radio is useless: show it */
        watchdog_pat();
    }
    if (CAUSEWAY_SCHEDULED)
        schedule_start(now);
    role_start(now);
}

static uint16_t checked; /* when the state was checked last: the low half of local time */

/* With a schedule several times a second: a check in each step would take a sixth of a mote's time awake. */
static __attribute__((noinline)) void check(uint32_t now)
{
    if (CAUSEWAY_SCHEDULED && (uint16_t)((uint16_t)now - checked) < CHECK_PAUSE)
        return;
    checked = (uint16_t)now;
    bool sound = clock_sound() && power_sound() && radio_sound() && timesync_sound(now) &&
                 outbox_sound(now) && role_sound(now) && (!CAUSEWAY_SCHEDULED || schedule_sound(now)) &&
                 (!MIC_BYTES || mic_sound());
    if (!sound)
        board_reset();
}

static uint32_t due; /* when a layer has something to do */

/* At least every second, for the watchdog. */
static void set_alarm(uint32_t now)
{
    clock_alarm(earlier(now + CLOCK_SECOND, due));
}

/* Whether a mote that sleeps was only woken for the watchdog: something is due later, but not as late as
 * memory that has changed may say. */
static bool may_rest(uint8_t events, uint32_t now)
{
    return (events & ~EVENT_ALARM) == 0 && !schedule_awake() && due - now - 1 < REST_MOST;
}

static void show(uint32_t now)
{
    /* with a schedule no LED is lit for long: only while the mote looks for its network */
    bool is_well = timesync_in_sync(now) || (CAUSEWAY_SCHEDULED && !schedule_awake());
    leds_set((uint8_t)(role_leds() | (is_well ? 0 : LED_RED) | (timesync_two_roots() ? LED_YELLOW : 0)));
}

/* Each layer is called whatever the events are: an event lost by a fault in memory delays work by a second at
 * most, or until a sleeping mote has something to do. */
void node_step(void)
{
    uint8_t events = events_take();
    uint32_t now = clock_now();
    watchdog_pat();
    check(now);
    if (CAUSEWAY_SCHEDULED && may_rest(events, now)) {
        set_alarm(now);
        return;
    }
    radio_service();
    role_step(events);
    now = clock_now();
    outbox_service(now);
    show(now);
    due = earlier(outbox_next(now), role_next(now));
    set_alarm(now);
    restart_backoff_step(now);
}

void timesync_on_epoch(uint8_t epoch)
{
    if (timesync_is_root()) {
        boot_store_keep_epoch(epoch);
        if (MIC_BYTES)
            timesync_on_round(timesync_round(timesync_network(clock_now())));
    }
    role_on_epoch(epoch);
}

void timesync_on_round(uint8_t round)
{
    boot_store_keep_round(round);
}
