/* Sleeping and waking. A start waits for regulator and oscillator; here the timer's interrupt does, so that
 * the processor sleeps meanwhile. Without a schedule the radio never sleeps. */
#include "cc2420_parts.h"

#if CAUSEWAY_SCHEDULED

#include "cc2420_const.h"
#include "hal/events.h"
#include "hal/power.h"

enum {
    REGULATOR_COUNTS = 554, /* from VREG_EN to a steady supply: 600 us */
    OSCILLATOR_FIRST = 830, /* 0.9 ms to the first look at the oscillator, */
    OSCILLATOR_COUNTS = 93, /* 100 us to each other one */
    TUNING_COUNTS = 296,    /* from SRXON to a look at the channel: 320 us */
};

/* Without its regulator the chip draws least, and forgets all; 7 registers are soon written again. */
void radio_sleep(void)
{
    radio_stop();
    cc2420_mode = CHIP_ASLEEP;
}

bool radio_wake(void)
{
    uint8_t was = cc2420_board_lock();
    if (cc2420_mode == CHIP_ASLEEP) {
        power_need(POWER_RADIO);
        cc2420_board_power(true);
        cc2420_mode = CHIP_SUPPLIED;
        cc2420_set_timer(REGULATOR_COUNTS, 0);
    }
    bool on = cc2420_mode == CHIP_ON;
    cc2420_board_unlock(was);
    return on;
}

static void wake_next(cc2420_mode_t next, uint16_t counts, uint8_t laps)
{
    cc2420_mode = next;
    cc2420_set_timer(counts, laps);
}

/* The loop restarts it, and is more patient. */
static void wake_fails(void)
{
    cc2420_mode = CHIP_FAULTY;
    cc2420_timer_is_up();
}

/* The oscillator has had its time. */
static void wake_listens(uint8_t looks)
{
    if (!(cc2420_strobe(CC2420_SNOP) & CC2420_STATUS_XOSC) && looks > 0)
        wake_next(CHIP_STARTING, OSCILLATOR_COUNTS, (uint8_t)(looks - 1));
    else if (cc2420_listen())
        wake_next(CHIP_TUNING, TUNING_COUNTS, 0);
    else
        wake_fails();
}

/* The loop need not wake for it, and the bus has no other user. */
void cc2420_wake_on(uint8_t looks)
{
    if (cc2420_mode == CHIP_SUPPLIED) {
        cc2420_start_oscillator();
        wake_next(CHIP_STARTING, OSCILLATOR_FIRST, CHECK_LAPS);
    } else if (cc2420_mode == CHIP_STARTING) {
        wake_listens(looks);
    } else {
        cc2420_mode = CHIP_ON;
        cc2420_look_later();
        events_post(EVENT_RADIO);
    }
}

bool radio_busy(void)
{
    return cc2420_mode == CHIP_ON && (cc2420_send_on_air() || !cc2420_board_cca());
}

#endif
