/* The CC1000 as radio.h wants it.
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
 * the sender's, 48 counts each. What is left is the time for which another interrupt holds that one up (20 us
 * at most: less than a cycle of the crystal), rounding (half a cycle), and the delay of the two modems: some
 * 110 us between real chips, nothing in an emulator that does not model it. CC1000_CONF_DELAY is subtracted
 * for that when receiving.
 *
 * Cost. The SPI interrupt takes at most 740 CPU cycles while receiving (the byte that ends the sync word),
 * 540 while sending plus radio_stamp(), and once, at the end of a send, 1210 (164 us, three register writes),
 * of a byte's 3072. Its first act is done after 15 cycles. tests/firmware/test_cc1000_sim.py measures this;
 * how long others keep it waiting, test_report.py.
 */
#include <string.h>

#include "cc1000_board.h"
#include "cc1000_const.h"
#include "cc1000_control.h"
#include "causeway/air.h"
#include "causeway/bytes.h"
#include "causeway/crc.h"
#include "causeway/flag.h"
#include "causeway/random.h"
#include "hal/clock.h"
#include "hal/events.h"
#include "hal/power.h"
#include "hal/radio.h"

/** Bytes of preamble. TinyOS 1.1 sends 8, TinyOS 2 sends 6 and one that is under way; both want three to
 * receive. */
#ifndef CC1000_CONF_PREAMBLE
#define CC1000_CONF_PREAMBLE 8
#endif

/** What the two modems delay a frame by, in counts of timer 1 (1.085 us). */
#ifndef CC1000_CONF_DELAY
#define CC1000_CONF_DELAY 0
#endif

/** The supply, which is the ADC's reference: two fresh cells. It scales the dBm that are reported, not the
 * channel access. */
#ifndef CC1000_CONF_SUPPLY_MV
#define CC1000_CONF_SUPPLY_MV 3000UL
#endif

/** Seconds after which the PLL is calibrated again, because the temperature may have changed: by 40 degrees
 * or the supply by 0.5 V, the data sheet says, a calibration is no longer good. */
#ifndef CC1000_CONF_CALIBRATE
#define CC1000_CONF_CALIBRATE (CAUSEWAY_SCHEDULED ? 3660 : 1800)
#endif

/** The same for a radio that sleeps: it has a little time to find a moment at which nobody misses it. */
#ifndef CC1000_CONF_REFRESH
#define CC1000_CONF_REFRESH 3600
#endif

enum {
    PREAMBLE_BYTE = 0xAA,
    SYNC_FIRST = 0x33,
    SYNC_SECOND = 0xCC,
    SYNC_WORD = SYNC_FIRST << 8 | SYNC_SECOND,
    FLUSH_BYTE = 0x00,
    FLUSH = 2, /* bytes after the CRC */
    LEAD = 1,  /* byte that is under way when the antenna gets power: it is on the air in part */
    /* of local time: power is on before the first byte counts and while the last registers are written */
    POWER_CYCLES = 4,
    BIT_COUNTS = 48, /* timer 1 counts of a bit: 921600 / 19200 */

    PREAMBLE_SEEN = 2, /* bytes of preamble that open the search for the sync word */
    /* bytes other than preamble until the search is given up; the sync word ends in the third */
    SEARCH_BYTES = 4,
    SETTLE_BYTES = 2, /* not looked at after a change to receiving: 416 us at least, the PLL needs 250 */

    BACKOFF_FIRST = 8, /* bytes' time, a power of two: before the first look at the channel */
    BACKOFF_BUSY = 16, /* before each further look */
    LOOKS = 5,         /* RSSI samples of one look: noise shows a quiet one among them, a signal does not */
    TURN_CYCLES = 16,  /* of local time: from the last look to power on the antenna, 0.45 ms */
    QUIET_MARGIN = 40, /* 6 dB: a sample less than this below the floor is quiet */
    FLOOR_FIRST = 8,   /* samples of the noise floor before anything is sent */
    FLOOR_BYTES = 64,  /* bytes' time between further samples of it: 27 ms */

    WATCH_QUIET = 2,      /* 100 ms periods without a byte: the radio is stuck */
    WATCH_QUIET_MAX = 64, /* doubled up to this while restarts do not help */

    LOOK_WATCHES = 10, /* 100 ms periods between looks at the PLL's lock: a second */
    MISSES_MOST = 10,  /* calibrations without a lock that double the pause, up to 1024 s */

    NEAR_CYCLES =
        28,          /* before its time a send is told to the loop: a byte's time, the loop's way, the look */
    LOOK_CYCLES = 8, /* before its time the look begins: a conversion takes 217 us */
    LATE_CYCLES = 8, /* after its time it may end: another conversion may come before */
    AHEAD_MOST = 16384, /* cycles that its time may be ahead */

    REST = 2, /* seconds of sleep after which it goes on for a while, most likely */

    SLOTS = 2, /* received frames, a power of two: one being handled, one coming in */
};

typedef enum {
    OFF,       /* interrupts change nothing */
    SETTLING,  /* receiving, but not yet true */
    LISTENING, /* no preamble yet */
    SEARCHING, /* in the preamble: looking for the sync word */
    HEADER,
    DATA,
    CRC_LOW,
    CRC_HIGH,
    TURNING, /* the loop is changing to sending */
    SENDING,
    /* only with a schedule: */
    ASLEEP,
    CRYSTAL, /* it starts; the watch goes on from here ... */
    BIAS,    /* ... and here */
    TUNING,  /* as SETTLING, after a sleep */
} cc1000_mode_t;

typedef enum {
    IDLE,
    BACKOFF,   /* waiting `backoff` bytes' time */
    LOOKING,   /* sampling the channel */
    CLEAR,     /* the loop may send; sampling goes on until it does */
    GOING,     /* on its way out */
    DONE,      /* `result` waits for radio_service() */
    APPOINTED, /* only with a schedule: waiting for its time, which the deadline tells */
} cc1000_send_t;

#define LAST_MODE (CAUSEWAY_SCHEDULED ? TUNING : SENDING)
#define LAST_SEND (CAUSEWAY_SCHEDULED ? APPOINTED : DONE)

typedef enum { SAMPLE_NONE, SAMPLE_FLOOR, SAMPLE_CHANNEL, SAMPLE_FRAME } cc1000_sample_t;

volatile uint8_t cc1000_outgoing;

static volatile cc1000_mode_t mode;
static radio_counters_t counters;
static uint16_t random_state;

/* Receiving. `recent` holds the last 24 bits as they came; a frame's bytes end `lag` bits before ours do. */
static struct {
    uint32_t recent;
    uint8_t lag;
    /* 0xFF: what comes is the complement of what was sent, as it is with the oscillator above */
    uint8_t invert;
    /* preamble bytes seen; search bytes left; bytes of header or data there; bytes to settle */
    uint8_t count;
    uint16_t crc;
    uint8_t crc_low;
    uint8_t header[CW_AIR_HEADER];
    radio_heard_t slots[SLOTS];
    uint16_t strengths[SLOTS]; /* RSSI samples of the slots' frames */
    uint8_t filling;           /* slot of the frame that comes in */
    volatile uint8_t full; /* slots that wait for radio_service(), the oldest first: those before `filling` */
} rx;

#define STRENGTH_UNKNOWN 0xFFFF

/* Sending. */
static struct {
    volatile cc1000_send_t state;
    uint8_t backoff;
    uint8_t looks;
    uint8_t step;     /* number of the byte that is going into the SPI, from the preamble's first on */
    uint8_t stamp_at; /* place in `frame`, or RADIO_NO_STAMP */
    uint8_t length;   /* of `frame` */
    uint16_t crc;
    uint32_t deadline;
    uint32_t time;
    radio_result_t result;
    uint8_t frame[CW_AIR_HEADER + CAUSEWAY_PAYLOAD_LIMIT];
} tx;

/* The noise floor, in sixteenths of an ADC count; the more the quieter. */
static struct {
    uint16_t floor;
    uint8_t samples;        /* up to FLOOR_FIRST */
    uint8_t wait;           /* bytes' time to the next sample */
    cc1000_sample_t wanted; /* what the conversion under way is for */
} noise;

static struct {
    cw_flag_t alive; /* a byte came since the last look */
    cw_flag_t stuck;
    uint8_t quiet; /* looks without one */
    uint8_t limit;
} watch;

/* The PLL's calibration. */
static struct {
    uint8_t watches; /* since the last look at its lock */
    uint8_t misses;  /* calibrations that did not help: each doubles the pause before the next */
    uint16_t age;    /* seconds since it was calibrated */
} pll;

/** 0..range-1, range a power of two up to 256. */
static uint8_t random_below(uint16_t range)
{
    return (uint8_t)(cw_random_next(&random_state) & (range - 1));
}

static void sample(cc1000_sample_t purpose)
{
    noise.wanted = purpose;
    cc1000_board_rssi();
}

/* Channel access. */

static void back_off(void)
{
    if (tx.state == BACKOFF || tx.state == LOOKING || tx.state == CLEAR) {
        tx.backoff = (uint8_t)(random_below(BACKOFF_BUSY) + 1);
        tx.state = BACKOFF;
    }
}

static void send_ends(radio_result_t result)
{
    tx.result = result;
    tx.state = DONE;
    events_post(EVENT_RADIO);
}

/** A send waits for the channel and can no longer start in time. */
static bool overdue(void)
{
    if (tx.state != BACKOFF && tx.state != LOOKING && tx.state != CLEAR) {
        return false;
    }
    return clock_before(tx.deadline, clock_now() + TURN_CYCLES);
}

#if CAUSEWAY_SCHEDULED

/** The time of a send is so near that the loop should be there. */
static bool is_near(void)
{
    return tx.state == APPOINTED &&
           clock_before(tx.deadline, clock_now() + (TURN_CYCLES + LATE_CYCLES + NEAR_CYCLES));
}

#endif

/** One byte's time has passed in which nothing came. */
static void byte_of_silence(void)
{
    if (tx.state == BACKOFF && --tx.backoff == 0) {
        tx.backoff = 1;
        if (noise.samples >= FLOOR_FIRST) {
            tx.looks = 0;
            tx.state = LOOKING;
        }
    }
    if (tx.state == LOOKING || tx.state == CLEAR) {
        if (!CAUSEWAY_SCHEDULED || noise.wanted != SAMPLE_CHANNEL) { /* else a look would take too long */
            sample(SAMPLE_CHANNEL);
        }
    } else if (--noise.wait == 0) {
        noise.wait = noise.samples < FLOOR_FIRST ? 1 : FLOOR_BYTES;
        sample(SAMPLE_FLOOR);
    }
}

/** Follow the noise: quickly to where it is quieter, slowly to where it is louder, for that may be a signal.
 * Slowly, not never: a strength that stays is noise. */
static void follow_floor(uint16_t value)
{
    int16_t level = (int16_t)noise.floor;
    int16_t off = (int16_t)((int16_t)(value << 4) - level);

    if (noise.samples == 0) {
        noise.floor = (uint16_t)(value << 4);
    } else if (off > 0 || noise.samples < FLOOR_FIRST) {
        noise.floor = (uint16_t)(level + off / 8);
    } else {
        /* unsigned: libsimavr cannot skip `adiw r24, 63` */
        noise.floor = (uint16_t)(level - (int16_t)((uint16_t)-off / 64));
    }
    if (noise.samples < FLOOR_FIRST) {
        noise.samples++;
    }
}

static void judge_channel(uint16_t value)
{
    bool quiet = (uint16_t)(value + QUIET_MARGIN) >= noise.floor >> 4;

    if (tx.state == LOOKING && quiet) {
        tx.state = CLEAR;
        events_post(EVENT_RADIO);
    } else if ((tx.state == LOOKING && ++tx.looks >= LOOKS) || (tx.state == CLEAR && !quiet)) {
        back_off();
    }
}

void cc1000_on_rssi(uint16_t value)
{
    cc1000_sample_t purpose = noise.wanted;

    noise.wanted = SAMPLE_NONE;
    if (purpose == SAMPLE_FRAME && mode >= HEADER && mode <= CRC_HIGH) {
        rx.strengths[rx.filling & (SLOTS - 1)] = value;
    } else if (purpose == SAMPLE_FLOOR && mode == LISTENING) {
        follow_floor(value);
    } else if (purpose == SAMPLE_CHANNEL && mode == LISTENING) {
        judge_channel(value);
    }
}

/* Receiving. Whatever memory may hold, no byte that comes in is written outside its frame. */

static radio_heard_t *coming(void)
{
    return &rx.slots[rx.filling & (SLOTS - 1)];
}

static void listen(void)
{
    rx.count = 0;
    mode = LISTENING;
}

static bool is_preamble(uint8_t byte)
{
    return byte == PREAMBLE_BYTE || byte == (uint8_t)~PREAMBLE_BYTE;
}

static void look_for_preamble(uint8_t byte)
{
    if (!is_preamble(byte)) {
        rx.count = 0;
        byte_of_silence();
    } else {
        back_off();
        if (++rx.count >= PREAMBLE_SEEN) {
            rx.count = SEARCH_BYTES;
            mode = SEARCHING;
        }
    }
}

/** The sync word has ended `lag` bits before the byte whose end was at `count`. */
static void frame_begins(uint8_t lag, uint16_t count)
{
    uint16_t late = (uint16_t)(lag * BIT_COUNTS + CC1000_CONF_DELAY);

    if (rx.full >= SLOTS) {
        counters.overrun++;
        listen();
        return;
    }
    rx.lag = lag;
    rx.count = 0;
    rx.crc = 0;
    coming()->time = clock_of_capture((uint16_t)(count - late));
    rx.strengths[rx.filling & (SLOTS - 1)] = STRENGTH_UNKNOWN;
    mode = HEADER;
    sample(SAMPLE_FRAME);
}

/** Look for the sync word, or its complement, at each of the eight places where it can have ended in this
 * byte. The earliest first: before the right one, preamble bits keep either word from matching. */
static void look_for_sync(uint8_t byte, uint16_t count)
{
    uint32_t bits = rx.recent;
    uint8_t newest = (uint8_t)bits;
    uint16_t word = (uint16_t)(bits >> 8);

    for (uint8_t lag = 8; lag-- > 0;) {
        word = (uint16_t)(word << 1 | newest >> 7);
        newest = (uint8_t)(newest << 1);
        if (word == SYNC_WORD || word == (uint16_t)~SYNC_WORD) {
            rx.invert = word == SYNC_WORD ? 0 : 0xFF;
            frame_begins(lag, count);
            return;
        }
    }
    if (is_preamble(byte)) {
        rx.count = SEARCH_BYTES;
    } else if (--rx.count == 0) {
        listen();
    }
}

static void header_ends(void)
{
    radio_message_t *message = &coming()->message;
    cw_am_t am;

    if (cw_air_parse(rx.header, &am) != CW_AIR_OK) {
        counters.garbage++;
        listen();
        return;
    }
    message->dest = am.dest;
    message->source = am.source;
    message->type = am.type;
    message->group = am.group;
    message->length = am.length;
    rx.count = 0;
    mode = am.length > 0 ? DATA : CRC_LOW;
}

static void frame_ends(uint16_t crc)
{
    if (crc != rx.crc) {
        counters.crc++;
    } else {
        counters.heard++;
        rx.filling ^= 1;
        rx.full++;
        events_post(EVENT_RADIO);
    }
    listen();
}

static void frame_byte(void)
{
    uint8_t byte = (uint8_t)((uint16_t)rx.recent >> rx.lag ^ rx.invert);
    radio_message_t *message = &coming()->message;

    switch (mode) {
    case HEADER:
        if (rx.count < CW_AIR_HEADER) {
            rx.header[rx.count] = byte;
        }
        rx.crc = cw_crc16_add(rx.crc, byte);
        if (++rx.count >= CW_AIR_HEADER) {
            header_ends();
        }
        break;
    case DATA:
        if (rx.count < CAUSEWAY_PAYLOAD_LIMIT) {
            message->data[rx.count] = byte;
        }
        rx.crc = cw_crc16_add(rx.crc, byte);
        if (++rx.count >= message->length) {
            mode = CRC_LOW;
        }
        break;
    case CRC_LOW:
        rx.crc_low = byte;
        mode = CRC_HIGH;
        break;
    default:
        frame_ends((uint16_t)((uint16_t)byte << 8 | rx.crc_low));
        break;
    }
}

/* Sending. */

enum {
    STEP_SYNC = CC1000_CONF_PREAMBLE,
    STEP_FRAME = STEP_SYNC + 2,
};

/** Number `step` of the bytes to send; each is asked for once, in turn. */
static uint8_t byte_to_send(uint8_t step)
{
    uint8_t place = (uint8_t)(step - STEP_FRAME);

    if (step < STEP_SYNC) {
        return PREAMBLE_BYTE;
    }
    if (step < STEP_FRAME) {
        return step == STEP_SYNC ? SYNC_FIRST : SYNC_SECOND;
    }
    if (place < tx.length) {
        tx.crc = cw_crc16_add(tx.crc, tx.frame[place]);
        return tx.frame[place];
    }
    place = (uint8_t)(place - tx.length);
    if (place < CW_AIR_CRC) {
        return (uint8_t)(place == 0 ? tx.crc : tx.crc >> 8);
    }
    return FLUSH_BYTE;
}

/** The sync word is out: that is the frame's time, early enough for bytes that go out later. */
static void sync_is_out(uint16_t count)
{
    tx.time = clock_of_capture(count);
    if (tx.stamp_at <= sizeof tx.frame - 4) { /* RADIO_NO_STAMP is not */
        cw_put32(&tx.frame[tx.stamp_at], radio_stamp(tx.time));
    }
}

/** Receive from now on. What would go out is preamble all the time, so that it already does when the radio
 * turns to sending. */
static void settle(void)
{
    cc1000_outgoing = PREAMBLE_BYTE;
    rx.count = SETTLE_BYTES;
    mode = SETTLING;
}

/** Byte number tx.step went into the SPI just now, the one before it ended at `count`. */
static void send_byte(uint16_t count)
{
    uint8_t step = tx.step++;

    if (step == STEP_FRAME) {
        sync_is_out(count);
    }
    if (step == (uint8_t)(STEP_FRAME + tx.length + CW_AIR_CRC + FLUSH)) {
        cc1000_board_drive(false);
        cc1000_control_receive();
        settle();
        send_ends(RADIO_SENT);
        return;
    }
    cc1000_outgoing = byte_to_send((uint8_t)(step + 1));
}

#if CAUSEWAY_SCHEDULED

/** A byte's time of waking, the last part of which is as SETTLING. */
static void wake_byte(void)
{
    if (mode == TUNING && --rx.count == 0) {
        listen();
        events_post(EVENT_RADIO); /* radio_wake() is waited for */
    }
}

#endif

void cc1000_on_byte(uint8_t byte, uint16_t count)
{
    watch.alive = true;
    rx.recent = rx.recent << 8 | byte;
    if (overdue()) {
        send_ends(RADIO_BUSY);
    }
#if CAUSEWAY_SCHEDULED
    if (is_near()) {
        events_post(EVENT_RADIO);
    }
    if (mode >= ASLEEP) {
        wake_byte();
        return;
    }
#endif
    switch (mode) {
    case OFF:
    case TURNING:
        break;
    case SETTLING:
        if (--rx.count == 0) {
            listen();
        }
        break;
    case LISTENING:
        look_for_preamble(byte);
        break;
    case SEARCHING:
        look_for_sync(byte, count);
        break;
    case SENDING:
        send_byte(count);
        break;
    default:
        frame_byte();
        break;
    }
}

#if CAUSEWAY_SCHEDULED

/** A chip that has forgotten its registers is left to restart(). */
static void wake_tunes(void)
{
    watch.stuck = !cc1000_control_kept();
    if (watch.stuck) {
        events_post(EVENT_RADIO);
    }
    cc1000_control_receive();
    settle();
    mode = TUNING;
    cc1000_board_spi(true);
    cc1000_board_watch(true);
}

/** The next step of waking. Nobody else uses the registers: the loop does while listening. */
static void wake_on(void)
{
    if (mode == CRYSTAL) {
        cc1000_control_start_bias();
        mode = BIAS;
        cc1000_board_after(CC1000_BIAS_US);
    } else if (mode == BIAS) {
        wake_tunes();
    }
}

#endif

void cc1000_on_watch(void)
{
#if CAUSEWAY_SCHEDULED
    if (mode >= ASLEEP && mode < TUNING) {
        wake_on();
        return;
    }
#endif
    if (mode == OFF) {
        return;
    }
    if (pll.watches < LOOK_WATCHES) {
        pll.watches++;
    }
    if (pll.watches >= LOOK_WATCHES) {
        events_post(EVENT_RADIO);
    }
    if (watch.alive) {
        watch.alive = false;
        watch.quiet = 0;
        watch.limit = WATCH_QUIET;
    } else if (++watch.quiet >= watch.limit) {
        watch.quiet = 0;
        watch.stuck = true;
        events_post(EVENT_RADIO);
    }
}

/* The loop's side. */

#if CAUSEWAY_SCHEDULED

static uint32_t calibrated_at, asleep_since;

static uint16_t seconds_since(uint32_t time)
{
    return (uint16_t)((clock_now() - time) >> 15);
}

#endif

static void calibrated(void)
{
    pll.age = 0;
#if CAUSEWAY_SCHEDULED
    calibrated_at = clock_now();
#endif
}

/** Start the chip and listen; the frames and the send that wait are left alone. */
static bool chip_start(void)
{
    bool started;

    cc1000_board_spi(false);
    cc1000_board_drive(false);
    started = cc1000_control_start();
    noise.samples = 0;
    noise.wait = 1;
    noise.wanted = SAMPLE_NONE;
    watch.alive = false;
    watch.stuck = false;
    watch.quiet = 0;
    calibrated();
    settle();
    cc1000_board_spi(true);
    return started;
}

bool radio_start(uint16_t seed)
{
    radio_stop();
    random_state = seed;
    watch.limit = WATCH_QUIET;
    pll.misses = 0;
    power_need(POWER_RADIO);
    cc1000_board_start();
    if (!chip_start()) {
        radio_stop();
        return false;
    }
    cc1000_board_watch(true);
    return true;
}

void radio_stop(void)
{
    uint8_t was;

    if (mode == OFF) {
        return;
    }
    was = cc1000_lock();
    mode = OFF;
    if (tx.state != IDLE && tx.state != DONE) {
        send_ends(RADIO_FAILED);
    }
    cc1000_unlock(was);
    cc1000_board_watch(false);
    watch.stuck = false;
    cc1000_board_spi(false);
    cc1000_board_drive(false);
    cc1000_control_stop();
    power_release(POWER_RADIO);
}

#if CAUSEWAY_SCHEDULED

/* Registers and calibration are kept, and so is the noise floor. */
void radio_sleep(void)
{
    radio_stop();
    asleep_since = clock_now();
    mode = ASLEEP;
}

bool radio_wake(void)
{
    uint8_t was = cc1000_lock();
    bool begins = mode == ASLEEP;
    bool on = mode > OFF && mode <= SENDING;

    if (begins) {
        mode = CRYSTAL;
    }
    cc1000_unlock(was);
    if (begins) {
        power_need(POWER_RADIO);
        pll.watches = LOOK_WATCHES; /* its lock is looked at as soon as it is on */
        cc1000_control_start_crystal();
        cc1000_board_after(CC1000_CRYSTAL_US);
    }
    return on;
}

/* A carrier is known by its preamble: after two of its bytes. */
bool radio_busy(void)
{
    uint8_t was = cc1000_lock();
    bool busy = mode > LISTENING && mode <= SENDING;

    busy = busy || mode == SETTLING || (mode == LISTENING && rx.count > 0);
    cc1000_unlock(was);
    return busy;
}

/** In the middle of a long sleep nobody misses the radio for 70 ms. */
static void refresh(void)
{
    if (mode == ASLEEP && seconds_since(calibrated_at) >= CC1000_CONF_REFRESH &&
        seconds_since(asleep_since) >= REST) {
        cc1000_control_refresh();
        calibrated();
    }
}

#endif

bool radio_send(const radio_message_t *message, uint32_t deadline, uint8_t stamp_at)
{
    const cw_am_t am = {
        .dest = message->dest,
        .source = message->source,
        .type = message->type,
        .group = message->group,
        .length = message->length,
    };
    uint8_t was;

    if (mode == OFF || (CAUSEWAY_SCHEDULED && mode >= ASLEEP) || tx.state != IDLE) {
        return false;
    }
    if (stamp_at != RADIO_NO_STAMP && (uint16_t)stamp_at + 4 > message->length) {
        return false;
    }
    if (!cw_air_build(&am, 0, tx.frame)) {
        return false;
    }
    memcpy(&tx.frame[CW_AIR_HEADER], message->data, message->length);
    tx.length = (uint8_t)(CW_AIR_HEADER + message->length);
    tx.stamp_at = stamp_at == RADIO_NO_STAMP ? RADIO_NO_STAMP : (uint8_t)(CW_AIR_HEADER + stamp_at);
    tx.deadline = deadline;
    was = cc1000_lock();
    tx.backoff = (uint8_t)(random_below(BACKOFF_FIRST) + 1);
    tx.state = BACKOFF;
    cc1000_unlock(was);
    return true;
}

#if CAUSEWAY_SCHEDULED

bool radio_send_at(const radio_message_t *message, uint32_t when, uint8_t stamp_at)
{
    uint32_t now = clock_now();
    uint8_t was;

    if (clock_before(now + AHEAD_MOST, when)) {
        return false;
    }
    if (!radio_send(message, now + AHEAD_MOST, stamp_at)) {
        return false;
    }
    now = clock_now() + NEAR_CYCLES; /* the loop must come by again */
    was = cc1000_lock();
    tx.state = APPOINTED; /* from BACKOFF, which lasts for a byte's time at least */
    tx.deadline = (clock_before(when, now) ? now : when) + TURN_CYCLES + LATE_CYCLES;
    cc1000_unlock(was);
    return true;
}

#endif

/** The channel is clear: take it, unless something changed meanwhile. */
static bool take_channel(void)
{
    uint8_t was = cc1000_lock();
    bool taken = tx.state == CLEAR && mode == LISTENING && rx.count == 0 && !overdue();

    if (taken) {
        mode = TURNING;
        tx.state = GOING;
    }
    cc1000_unlock(was);
    return taken;
}

static void start_sending(void)
{
    uint8_t was;

    if (!take_channel()) {
        return;
    }
    cc1000_control_prepare();
    cc1000_board_drive(true);
    cc1000_control_transmit();
    was = cc1000_lock();
    tx.step = 0;
    tx.crc = 0;
    mode = SENDING;
    cc1000_unlock(was);
}

#if CAUSEWAY_SCHEDULED

/** Look at the channel once. */
static void look(void)
{
    uint8_t was = cc1000_lock();

    tx.looks = LOOKS - 1;
    tx.state = LOOKING;
    sample(SAMPLE_CHANNEL);
    cc1000_unlock(was);
    while (tx.state == LOOKING && !overdue()) {
    }
}

/** Send at its time or not at all. */
static void keep_appointment(void)
{
    uint8_t was;

    if (!is_near()) {
        return;
    }
    while (clock_before(clock_now(), tx.deadline - (TURN_CYCLES + LATE_CYCLES + LOOK_CYCLES))) {
    }
    look();
    start_sending();
    was = cc1000_lock();
    if (tx.state == BACKOFF || tx.state == LOOKING || tx.state == CLEAR) {
        send_ends(RADIO_BUSY);
    }
    cc1000_unlock(was);
}

#endif

/** No byte for long: the chip has lost its crystal or its registers. */
static void restart(void)
{
    uint8_t was = cc1000_lock();

    mode = OFF;
    if (tx.state != IDLE && tx.state != DONE) {
        send_ends(RADIO_FAILED);
    }
    cc1000_unlock(was);
    counters.restarts++;
    if (watch.limit < WATCH_QUIET_MAX) {
        watch.limit = (uint8_t)(watch.limit * 2);
    }
    (void)chip_start();
}

/** Nothing is on its way in or out: interrupts change nothing until settle(). */
static bool take_receiver(void)
{
    uint8_t was = cc1000_lock();
    bool taken = tx.state == IDLE && mode == LISTENING && rx.count == 0;

    if (taken) {
        mode = TURNING;
    }
    cc1000_unlock(was);
    return taken;
}

/** For some 60 ms nothing is heard. */
static void calibrate(void)
{
    cc1000_board_spi(false);
    if (!cc1000_control_calibrate()) {
        restart();
        return;
    }
    calibrated();
    settle();
    cc1000_board_spi(true);
}

/** Seconds from one calibration to the next. */
static uint16_t calibration_lasts(bool locked)
{
    return (uint16_t)(locked || pll.misses > MISSES_MOST ? CC1000_CONF_CALIBRATE : 1U << pll.misses);
}

/** Once a second: calibrate if the lock is lost, and from time to time. */
static void look_at_pll(void)
{
    if (pll.watches < LOOK_WATCHES ||
        mode != LISTENING) { /* registers are not written by an interrupt then */
        return;
    }
    bool locked = cc1000_control_locked();
#if CAUSEWAY_SCHEDULED
    pll.age = seconds_since(calibrated_at); /* these looks do not come once a second */
#endif
    if (pll.age + 1 < calibration_lasts(locked)) {
        pll.age++;
    } else if (take_receiver()) {
        pll.misses = (uint8_t)(pll.misses < MISSES_MOST ? pll.misses + 1 : MISSES_MOST + 1);
        calibrate();
    } else {
        return; /* soon */
    }
    pll.watches = 0;
    if (locked) {
        pll.misses = 0;
    }
}

/** A line that falls with the voltage, as the data sheet has it for each band. */
static int8_t dbm(uint16_t value)
{
    uint16_t below =
        (uint16_t)(CAUSEWAY_BAND_RSSI_AT_0 +
                   ((uint32_t)value * (CAUSEWAY_BAND_RSSI_TENTHS * CC1000_CONF_SUPPLY_MV / 10000) >> 10));

    return below < 127 ? (int8_t) - (int16_t)below : -127;
}

static void hand_over_frames(void)
{
    while (rx.full > 0) {
        uint8_t was = cc1000_lock();
        uint8_t oldest = (uint8_t)((rx.filling ^ rx.full) & (SLOTS - 1));
        radio_heard_t *heard = &rx.slots[oldest];

        cc1000_unlock(was);
        if (heard->message.length > CAUSEWAY_PAYLOAD_LIMIT) {
            heard->message.length = 0;
        }
        heard->rssi = rx.strengths[oldest] == STRENGTH_UNKNOWN ? RADIO_RSSI_UNKNOWN
                                                               : dbm(rx.strengths[oldest]);
        heard->lqi = 0;
        heard->error = 0;
        radio_on_heard(heard);
        was = cc1000_lock();
        rx.full--;
        cc1000_unlock(was);
    }
}

static void hand_over_result(void)
{
    if (tx.state == DONE) {
        radio_result_t result = tx.result;
        uint32_t time = tx.time;

        tx.state = IDLE;
        radio_on_sent(result, time);
    }
}

void radio_service(void)
{
    if (watch.stuck) {
        restart();
    }
    start_sending();
#if CAUSEWAY_SCHEDULED
    keep_appointment();
    refresh();
#endif
    hand_over_frames();
    hand_over_result();
    look_at_pll();
}

uint16_t radio_airtime(uint8_t length)
{
    /* A byte is 8 / 19200 s = 1024 / 75 cycles. */
    uint16_t bytes = (uint16_t)(LEAD + STEP_FRAME + CW_AIR_HEADER + length + CW_AIR_CRC + FLUSH);

    return (uint16_t)((uint16_t)(bytes * 1024U + 74U) / 75U + POWER_CYCLES);
}

const radio_counters_t *radio_counters(void)
{
    return &counters;
}

/* The antenna has power exactly while a frame goes out. */
bool radio_sound(void)
{
    uint8_t was = cc1000_lock();
    bool going = mode == SENDING;
    bool sound = mode != OFF && mode != TURNING && mode <= LAST_MODE && tx.state <= LAST_SEND &&
                 going == (tx.state == GOING) && going == cc1000_board_drives() && rx.full <= SLOTS &&
                 rx.filling < SLOTS;

    cc1000_unlock(was);
    return sound;
}
