/* The CC2420 behind hal/radio.h: start, stop, the timer, and which file handles the next event. cc2420.h says
 * how the driver works; cc2420_parts.h has the other files.
 *
 * Sharing. cc2420_on_fifop(), cc2420_on_capture() and cc2420_on_timer() run in interrupts, which do not
 * interrupt one another; FIFOP's is in cc2420_receive.c. All else runs in the loop and locks interrupts out
 * where an access must not be interrupted. While the radio wakes, only the timer's interrupt uses the chip.
 */
#include "cc2420_parts.h"
#include "hal/events.h"
#include "hal/power.h"

cc2420_mode_t cc2420_mode;
radio_counters_t cc2420_counters;

static volatile uint8_t timer_laps;
static volatile cw_flag_t timer_up;

const radio_counters_t *radio_counters(void)
{
    return &cc2420_counters;
}

/* --- the timer --- */

void cc2420_set_timer(uint16_t counts, uint8_t laps)
{
    cc2420_board_timer_off();
    timer_laps = laps;
    timer_up = false;
    cc2420_board_timer(counts);
}

void cc2420_look_later(void)
{
    cc2420_set_timer(LAP, CHECK_LAPS);
}

void cc2420_timer_is_up(void)
{
    timer_up = true;
    events_post(EVENT_RADIO);
}

void cc2420_on_timer(void)
{
#if CAUSEWAY_SCHEDULED
    if (cc2420_mode > CHIP_ASLEEP) {
        cc2420_wake_on(timer_laps);
        return;
    }
#endif
    if (timer_laps > 0) {
        timer_laps--;
        cc2420_board_timer(LAP);
        return;
    }
    cc2420_timer_is_up();
}

/* --- an edge of SFD --- */

void cc2420_on_capture(uint16_t capture)
{
    if (!cc2420_on_sent_edge(capture))
        cc2420_on_received_edge(capture);
}

/* --- starting and stopping --- */

void cc2420_restart(void)
{
    cc2420_counters.restarts++;
    if (!cc2420_send_idle())
        cc2420_end_send(RADIO_FAILED);
    cc2420_mode = cc2420_start_chip() ? CHIP_ON : CHIP_FAULTY;
    cc2420_look_later();
}

bool radio_start(uint16_t seed)
{
    cc2420_send_seed(seed);
    power_need(POWER_RADIO); /* captures and the timer need the I/O clock */
    if (!cc2420_start_chip()) {
        radio_stop();
        return false;
    }
    cc2420_mode = CHIP_ON;
    cc2420_look_later();
    return true;
}

void radio_stop(void)
{
    cc2420_board_start(); /* takes the supply away */
    cc2420_mode = CHIP_OFF;
    timer_up = false;
    if (!cc2420_send_idle()) {
        cc2420_end_send(RADIO_FAILED);
        events_post(EVENT_RADIO);
    }
    power_release(POWER_RADIO);
}

/* --- the loop --- */

/* Is the chip well? */
static void look_at_chip(void)
{
    if (cc2420_mode == CHIP_FAULTY || !cc2420_is_sane())
        cc2420_restart();
    else
        cc2420_look_later();
}

void radio_service(void)
{
    if (CAUSEWAY_SCHEDULED && cc2420_send_idle()) {
        cc2420_heard_since = false;
        cc2420_heard_since = (cw_flag_t)(cc2420_heard_since | cc2420_board_sfd());
    }
    cc2420_receive();
    bool up = timer_up;
    if (up) /* else the interrupt may come right now, and must not be overwritten */
        timer_up = false;
    if (cc2420_mode == CHIP_ON && !cc2420_send_idle())
        cc2420_send_service(up);
    else if (cc2420_mode != CHIP_OFF && up)
        look_at_chip();
    cc2420_hand_over_result();
}

/* The timer is always on its way, whether a send waits for it or the next look at the chip. */
bool radio_sound(void)
{
    uint8_t was = cc2420_board_lock();
    bool timed = timer_up || (cc2420_board_timer_runs() && timer_laps <= CHECK_LAPS);
    cc2420_board_unlock(was);
    if (CAUSEWAY_SCHEDULED && cc2420_mode > CHIP_ON)
        return (timed || cc2420_mode == CHIP_ASLEEP) && cc2420_mode <= CHIP_TUNING && cc2420_send_sound();
    return timed && (cc2420_mode == CHIP_ON || cc2420_mode == CHIP_FAULTY) && cc2420_send_sound();
}
