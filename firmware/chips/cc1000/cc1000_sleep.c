#include "cc1000_parts.h"

#if CAUSEWAY_SCHEDULED

#include "cc1000_board.h"
#include "cc1000_const.h"
#include "cc1000_control.h"
#include "hal/clock.h"
#include "hal/power.h"

enum {
    REST = 3, /* seconds begun since the sleep did: most likely the sleep goes on for a while */
};

static uint16_t asleep_since;

uint16_t cc1000_seconds(void)
{
    return (uint16_t)(clock_now() >> 15);
}

/* Registers and calibration are kept, and so is the noise floor. */
void radio_sleep(void)
{
    radio_stop();
    asleep_since = cc1000_seconds();
    cc1000_mode = ASLEEP;
}

bool cc1000_rests(void)
{
    return cc1000_mode == ASLEEP && (uint16_t)(cc1000_seconds() - asleep_since) >= REST;
}

bool radio_wake(void)
{
    uint8_t was = cc1000_lock();
    uint8_t mode = cc1000_mode;
    bool begins = mode == ASLEEP;
    if (begins)
        cc1000_mode = CRYSTAL;
    cc1000_unlock(was);
    if (begins) {
        power_need(POWER_RADIO);
        cc1000_pll_look_soon();
        cc1000_control_start_crystal();
        cc1000_board_after(CC1000_CRYSTAL_US);
    }
    return mode > OFF && mode <= SENDING;
}

/** The last part of waking is as SETTLING. */
static void tune(void)
{
    if (!cc1000_control_kept())
        cc1000_stuck();
    cc1000_control_receive();
    cc1000_settle();
    cc1000_mode = TUNING;
    cc1000_board_spi(true);
    cc1000_board_watch(true);
}

/* The registers have no other user: the loop uses them only while listening. */
void cc1000_wake_on(void)
{
    uint8_t mode = cc1000_mode;
    if (mode == CRYSTAL) {
        cc1000_control_start_bias();
        cc1000_mode = BIAS;
        cc1000_board_after(CC1000_BIAS_US);
    } else if (mode == BIAS) {
        tune();
    }
}

/* A carrier is known by its preamble: after two of its bytes. */
bool radio_busy(void)
{
    uint8_t was = cc1000_lock();
    uint8_t mode = cc1000_mode;
    bool busy = mode > OFF && mode <= SENDING && !cc1000_is_quiet();
    cc1000_unlock(was);
    return busy;
}

#endif
