/* The CC1000 behind hal/radio.h: start, stop, and which file handles the next byte. cc1000_parts.h has the
 * other files.
 *
 * The chip gives and takes a bit stream: it clocks the SPI slave for ever, a byte each 416 us, and knows
 * nothing of frames. On the air:
 *
 *     preamble AA..., sync 33 CC, header, data, CRC-16 low byte first, two bytes to flush the modulator
 *
 * Sharing. cc1000_on_byte(), cc1000_on_rssi() and cc1000_on_watch() run in interrupts, which do not interrupt
 * one another. All else runs in the loop and locks interrupts out for the few lines in which it touches what
 * they change.
 *
 * Time. The start of a frame is the end of its sync word. Both sides take timer 1 at the SPI interrupt after
 * that word, less the interrupt's latency; a receiver also subtracts the bits by which its bytes lag behind
 * the sender's, 48 counts each. The remaining error is the time for which another interrupt delays that one
 * (20 us at most: less than a cycle of the crystal), rounding (half a cycle), and the delay of the two
 * modems: some 110 us between real chips, nothing in an emulator that does not model it. CC1000_CONF_DELAY is
 * subtracted for that when receiving.
 *
 * Cost. The SPI interrupt takes at most 740 CPU cycles while receiving (the byte that ends the sync word),
 * 540 while sending plus radio_stamp(), and once, at the end of a send, 1210 (164 us, three register writes),
 * of a byte's 3072. Its first act is done after 15 cycles. tests/firmware/cc1000/test_emulated.py measures
 * this; how long others keep it waiting, tests/firmware/test_report.py.
 */
#include "cc1000_board.h"
#include "cc1000_control.h"
#include "cc1000_parts.h"
#include "causeway/flag.h"
#include "hal/events.h"
#include "hal/power.h"

enum {
    WATCH_QUIET = 2,      /* 100 ms periods without a byte: the radio is stuck */
    WATCH_QUIET_MAX = 64, /* doubled up to this while restarts do not help */
};

#define LAST_MODE (CAUSEWAY_SCHEDULED ? TUNING : SENDING)

volatile cc1000_mode_t cc1000_mode;
radio_counters_t cc1000_counters;

static struct {
    cw_flag_t alive; /* a byte came since the last look */
    cw_flag_t stuck;
    uint8_t quiet; /* looks without one */
    uint8_t limit;
} watch;

/* ---- Interrupts ---- */

void cc1000_stuck(void)
{
    watch.stuck = true;
    events_post(EVENT_RADIO);
}

void cc1000_on_byte(uint8_t byte, uint16_t count)
{
    watch.alive = true;
    cc1000_send_watch();
    if (cc1000_mode == SENDING)
        cc1000_send_byte(count);
    else
        cc1000_receive(byte, count);
}

void cc1000_on_watch(void)
{
    uint8_t mode = cc1000_mode;
    if (CAUSEWAY_SCHEDULED && mode >= ASLEEP && mode < TUNING) {
        cc1000_wake_on();
        return;
    }
    if (mode == OFF)
        return;
    cc1000_pll_watch();
    if (watch.alive) {
        watch.alive = false;
        watch.quiet = 0;
        watch.limit = WATCH_QUIET;
    } else if (++watch.quiet >= watch.limit) {
        watch.quiet = 0;
        cc1000_stuck();
    }
}

/* ---- The loop ---- */

/** Start the chip and listen. The frames and the send that wait stay. */
static bool chip_start(void)
{
    bool started;
    cc1000_board_spi(false);
    cc1000_board_drive(false);
    started = cc1000_control_start();
    cc1000_noise_start();
    watch.alive = false;
    watch.stuck = false;
    watch.quiet = 0;
    cc1000_calibrated();
    cc1000_settle();
    cc1000_board_spi(true);
    return started;
}

bool radio_start(uint16_t seed)
{
    radio_stop();
    cc1000_send_seed(seed);
    watch.limit = WATCH_QUIET;
    cc1000_pll_start();
    power_need(POWER_RADIO);
    cc1000_board_start();
    if (!chip_start()) {
        radio_stop();
        return false;
    }
    cc1000_board_watch(true);
    return true;
}

/** From here on interrupts change nothing. */
static void halt(void)
{
    uint8_t was = cc1000_lock();
    cc1000_mode = OFF;
    cc1000_send_fails();
    cc1000_unlock(was);
}

void radio_stop(void)
{
    if (cc1000_mode == OFF)
        return;
    halt();
    cc1000_board_watch(false);
    watch.stuck = false;
    cc1000_board_spi(false);
    cc1000_board_drive(false);
    cc1000_control_stop();
    power_release(POWER_RADIO);
}

/* No byte for long: the chip has lost its crystal or its registers. */
void cc1000_restart(void)
{
    halt();
    cc1000_counters.restarts++;
    if (watch.limit < WATCH_QUIET_MAX)
        watch.limit = (uint8_t)(watch.limit * 2);
    (void)chip_start();
}

void radio_service(void)
{
    if (watch.stuck)
        cc1000_restart();
    cc1000_send_start();
    cc1000_hand_over_frames();
    cc1000_hand_over_result();
    cc1000_pll_look();
}

const radio_counters_t *radio_counters(void)
{
    return &cc1000_counters;
}

/* The antenna has power exactly while a frame goes out. */
bool radio_sound(void)
{
    uint8_t was = cc1000_lock();
    bool sound = cc1000_mode != OFF && cc1000_mode != TURNING && cc1000_mode <= LAST_MODE &&
                 cc1000_send_sound() && (cc1000_mode == SENDING) == cc1000_board_drives() &&
                 cc1000_receive_sound();
    cc1000_unlock(was);
    return sound;
}
