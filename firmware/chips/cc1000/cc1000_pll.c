#include "cc1000_board.h"
#include "cc1000_control.h"
#include "cc1000_parts.h"
#include "causeway_layout.h"
#include "hal/clock.h"
#include "hal/events.h"

/** Seconds after which the PLL is calibrated again, because the temperature may have changed: by 40 degrees
 * or the supply by 0.5 V, the data sheet says, a calibration is no longer good. */
#ifndef CC1000_CONF_CALIBRATE
#define CC1000_CONF_CALIBRATE (CAUSEWAY_SCHEDULED ? 3660 : 1800)
#endif

/** The same for a radio that sleeps: a little earlier, to find a moment when the radio is not needed. */
#ifndef CC1000_CONF_REFRESH
#define CC1000_CONF_REFRESH 3600
#endif

enum {
    LOOK_WATCHES = 10, /* 100 ms periods between looks at the PLL's lock: a second */
    MISSES_MOST = 10,  /* calibrations without a lock that double the pause, up to 1024 s */
};

/* The PLL's calibration. */
static struct {
    uint8_t watches; /* since the last look at its lock */
    uint8_t misses;  /* calibrations that did not help: each doubles the pause before the next */
    uint16_t age;    /* seconds since it was calibrated */
} pll;

#if CAUSEWAY_SCHEDULED
static uint16_t calibrated_at; /* in cc1000_seconds(): looks do not come once a second */
#endif

void cc1000_pll_start(void)
{
    pll.misses = 0;
}

void cc1000_calibrated(void)
{
#if CAUSEWAY_SCHEDULED
    calibrated_at = cc1000_seconds();
#else
    pll.age = 0;
#endif
}

void cc1000_pll_watch(void)
{
    if (pll.watches < LOOK_WATCHES)
        pll.watches++;
    if (pll.watches >= LOOK_WATCHES)
        events_post(EVENT_RADIO);
}

void cc1000_pll_look_soon(void)
{
    pll.watches = LOOK_WATCHES;
}

/** A radio that sleeps. */
static void refresh(void)
{
#if CAUSEWAY_SCHEDULED
    pll.age = (uint16_t)(cc1000_seconds() - calibrated_at);
    if (pll.age >= CC1000_CONF_REFRESH && cc1000_rests()) {
        cc1000_control_refresh();
        cc1000_calibrated();
    }
#endif
}

/** Nothing is on its way in or out: interrupts change nothing until cc1000_settle(). */
static bool take_receiver(void)
{
    uint8_t was = cc1000_lock();
    bool taken = cc1000_send_idle() && cc1000_is_quiet();
    if (taken)
        cc1000_mode = TURNING;
    cc1000_unlock(was);
    return taken;
}

/** For some 60 ms nothing is heard. */
static void calibrate(void)
{
    cc1000_board_spi(false);
    if (!cc1000_control_calibrate()) {
        cc1000_restart();
        return;
    }
    cc1000_calibrated();
    cc1000_settle();
    cc1000_board_spi(true);
}

/** Seconds from one calibration to the next. */
static uint16_t calibration_lasts(bool locked)
{
    return (uint16_t)(locked || pll.misses > MISSES_MOST ? CC1000_CONF_CALIBRATE : 1U << pll.misses);
}

void cc1000_pll_look(void)
{
    refresh();
    if (pll.watches < LOOK_WATCHES ||
        cc1000_mode != LISTENING) /* registers are not written by an interrupt then */
        return;
    bool locked = cc1000_control_locked();
    if (pll.age + 1 < calibration_lasts(locked)) {
        pll.age++;
    } else if (take_receiver()) {
        pll.misses = (uint8_t)(pll.misses < MISSES_MOST ? pll.misses + 1 : MISSES_MOST + 1);
        calibrate();
    } else {
        return; /* soon */
    }
    pll.watches = 0;
    if (locked)
        pll.misses = 0;
}
