#include <string.h>

#include "cc1000_board.h"
#include "cc1000_control.h"
#include "cc1000_parts.h"
#include "causeway/air.h"
#include "causeway/bytes.h"
#include "causeway/crc.h"
#include "causeway/random.h"
#include "hal/clock.h"
#include "hal/events.h"

/** Bytes of preamble. TinyOS 1.1 sends 8, TinyOS 2 sends 6 and one that is under way; both want three to
 * receive. */
#ifndef CC1000_CONF_PREAMBLE
#define CC1000_CONF_PREAMBLE 8
#endif

enum {
    FLUSH_BYTE = 0x00,
    FLUSH = 2, /* bytes after the CRC */
    LEAD = 1,  /* byte that is under way when the antenna gets power: it is on the air in part */
    /* of local time: power is on before the first byte counts and while the last registers are written */
    POWER_CYCLES = 4,

    STEP_SYNC = CC1000_CONF_PREAMBLE,
    STEP_FRAME = STEP_SYNC + 2,

    BACKOFF_FIRST = 8, /* bytes' time, a power of two: before the first look at the channel */
    BACKOFF_BUSY = 16, /* before each further look */
    LOOKS = 5,         /* RSSI samples of one look: noise shows a quiet one among them, a signal does not */
    TURN_CYCLES = 16,  /* of local time: from the last look to power on the antenna, 0.45 ms */

    /* cycles before a send's time at which the loop is woken: a byte's time, the loop's delay, the look */
    NEAR_CYCLES = 28,
    LOOK_CYCLES = 8,    /* before its time the look begins: a conversion takes 217 us */
    LATE_CYCLES = 8,    /* after its time it may end: another conversion may come before */
    AHEAD_MOST = 16384, /* cycles that its time may be ahead */
};

typedef enum {
    IDLE,
    BACKOFF,   /* waiting `backoff` bytes' time */
    LOOKING,   /* sampling the channel */
    CLEAR,     /* the loop may send; sampling goes on until it does */
    GOING,     /* on its way out */
    DONE,      /* `result` waits for radio_service() */
    APPOINTED, /* only with a schedule: waiting for its time, which is the deadline */
} cc1000_send_t;

#define LAST_SEND (CAUSEWAY_SCHEDULED ? APPOINTED : DONE)

volatile uint8_t cc1000_outgoing;

static uint16_t random_state;

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

void cc1000_send_seed(uint16_t seed)
{
    random_state = seed;
}

/** 0..range-1, range a power of two up to 256. */
static uint8_t random_below(uint16_t range)
{
    return (uint8_t)(cw_random_next(&random_state) & (range - 1));
}

bool cc1000_send_idle(void)
{
    return tx.state == IDLE;
}

static void end(radio_result_t result)
{
    tx.result = result;
    tx.state = DONE;
    events_post(EVENT_RADIO);
}

void cc1000_send_fails(void)
{
    if (tx.state != IDLE && tx.state != DONE)
        end(RADIO_FAILED);
}

/* ---- Channel access ---- */

/** A send waits for the channel. */
static bool waits(void)
{
    uint8_t state = tx.state;
    return state >= BACKOFF && state <= CLEAR;
}

void cc1000_back_off(void)
{
    if (waits()) {
        tx.backoff = (uint8_t)(random_below(BACKOFF_BUSY) + 1);
        tx.state = BACKOFF;
    }
}

/** Less than `cycles` are left until the deadline. */
static __attribute__((noinline)) bool due_in(uint8_t cycles)
{
    uint32_t then = tx.deadline - cycles;
    return clock_before(then, clock_now());
}

/** It can no longer start in time. */
static bool overdue(void)
{
    return waits() && due_in(TURN_CYCLES);
}

/** The time of a send is so near that the loop should be there. */
static bool is_near(void)
{
    return tx.state == APPOINTED && due_in(TURN_CYCLES + LATE_CYCLES + NEAR_CYCLES);
}

void cc1000_send_watch(void)
{
    if (overdue())
        end(RADIO_BUSY);
    if (CAUSEWAY_SCHEDULED && is_near())
        events_post(EVENT_RADIO);
}

void cc1000_send_silence(void)
{
    if (tx.state == BACKOFF && --tx.backoff == 0) {
        tx.backoff = 1;
        if (cc1000_noise_known()) {
            tx.looks = 0;
            tx.state = LOOKING;
        }
    }
    if (tx.state == LOOKING || tx.state == CLEAR) {
        /* with a schedule a second sample would make a look take too long */
        if (!CAUSEWAY_SCHEDULED || !cc1000_samples(SAMPLE_CHANNEL))
            cc1000_sample(SAMPLE_CHANNEL);
    } else {
        cc1000_noise_silence();
    }
}

void cc1000_send_look(uint16_t value)
{
    bool quiet = cc1000_noise_only(value);
    if (tx.state == LOOKING && quiet) {
        tx.state = CLEAR;
        events_post(EVENT_RADIO);
    } else if ((tx.state == LOOKING && ++tx.looks >= LOOKS) || (tx.state == CLEAR && !quiet)) {
        cc1000_back_off();
    }
}

/* ---- A frame's bytes ---- */

/** Number `step` of the bytes to send; each is asked for once, in turn. */
static uint8_t byte_to_send(uint8_t step)
{
    uint8_t place = (uint8_t)(step - STEP_FRAME);
    if (step < STEP_SYNC)
        return PREAMBLE_BYTE;
    if (step < STEP_FRAME)
        return step == STEP_SYNC ? SYNC_FIRST : SYNC_SECOND;
    if (place < tx.length) {
        tx.crc = cw_crc16_add(tx.crc, tx.frame[place]);
        return tx.frame[place];
    }
    place = (uint8_t)(place - tx.length);
    if (place < CW_AIR_CRC)
        return (uint8_t)(place == 0 ? tx.crc : tx.crc >> 8);
    return FLUSH_BYTE;
}

/** The sync word is out: that is the frame's time, early enough for bytes that go out later. */
static void sync_is_out(uint16_t count)
{
    tx.time = clock_of_capture(count);
    if (tx.stamp_at <= sizeof tx.frame - 4) /* RADIO_NO_STAMP is not */
        cw_put32(&tx.frame[tx.stamp_at], radio_stamp(tx.time));
}

/* Byte number tx.step went into the SPI just now, the one before it ended at `count`. */
void cc1000_send_byte(uint16_t count)
{
    uint8_t step = tx.step++;
    if (step == STEP_FRAME)
        sync_is_out(count);
    if (step == (uint8_t)(STEP_FRAME + tx.length + CW_AIR_CRC + FLUSH)) {
        cc1000_board_drive(false);
        cc1000_control_receive();
        cc1000_settle();
        end(RADIO_SENT);
        return;
    }
    cc1000_outgoing = byte_to_send((uint8_t)(step + 1));
}

/* ---- The loop's side ---- */

/** Load a message that waits for its deadline in this state. */
static bool load(const radio_message_t *message, uint32_t deadline, uint8_t stamp_at, uint8_t state)
{
    const cw_am_t am = {
        .dest = message->dest,
        .source = message->source,
        .type = message->type,
        .group = message->group,
        .length = message->length,
    };
    uint8_t was;
    if (cc1000_mode == OFF || (CAUSEWAY_SCHEDULED && cc1000_mode >= ASLEEP) || tx.state != IDLE)
        return false;
    if (stamp_at != RADIO_NO_STAMP && (uint16_t)stamp_at + 4 > message->length)
        return false;
    if (!cw_air_build(&am, 0, tx.frame))
        return false;
    memcpy(&tx.frame[CW_AIR_HEADER], message->data, message->length);
    tx.length = (uint8_t)(CW_AIR_HEADER + message->length);
    tx.stamp_at = stamp_at == RADIO_NO_STAMP ? RADIO_NO_STAMP : (uint8_t)(CW_AIR_HEADER + stamp_at);
    tx.deadline = deadline;
    was = cc1000_lock();
    tx.backoff = (uint8_t)(random_below(BACKOFF_FIRST) + 1);
    tx.state = state;
    cc1000_unlock(was);
    return true;
}

bool radio_send(const radio_message_t *message, uint32_t deadline, uint8_t stamp_at)
{
    return load(message, deadline, stamp_at, BACKOFF);
}

#if CAUSEWAY_SCHEDULED

bool radio_send_at(const radio_message_t *message, uint32_t when, uint8_t stamp_at)
{
    uint32_t soon = clock_now() + NEAR_CYCLES; /* the loop must come by again */
    uint32_t ahead = clock_before(when, soon) ? 0 : when - soon;
    return ahead <= AHEAD_MOST &&
           load(message, soon + ahead + TURN_CYCLES + LATE_CYCLES, stamp_at, APPOINTED);
}

#endif

/** The channel is clear: take it, unless something changed meanwhile. */
static bool take_channel(void)
{
    uint8_t was = cc1000_lock();
    bool taken = tx.state == CLEAR && cc1000_is_quiet() && !overdue();
    if (taken) {
        cc1000_mode = TURNING;
        tx.state = GOING;
    }
    cc1000_unlock(was);
    return taken;
}

/** Turn to sending, if the channel is clear. */
static void start_sending(void)
{
    uint8_t was;
    if (!take_channel())
        return;
    cc1000_control_prepare();
    cc1000_board_drive(true);
    cc1000_control_transmit();
    was = cc1000_lock();
    tx.step = 0;
    tx.crc = 0;
    cc1000_mode = SENDING;
    cc1000_unlock(was);
}

/** Look at the channel once. */
static void look(void)
{
    uint8_t was = cc1000_lock();
    tx.looks = LOOKS - 1;
    tx.state = LOOKING;
    cc1000_sample(SAMPLE_CHANNEL);
    cc1000_unlock(was);
    while (tx.state == LOOKING && !overdue()) {
    }
}

/** Send at its time or not at all. */
static void keep_appointment(void)
{
    uint8_t was;
    if (!is_near())
        return;
    while (!due_in(TURN_CYCLES + LATE_CYCLES + LOOK_CYCLES + 1)) {
    }
    look();
    start_sending();
    was = cc1000_lock();
    if (waits())
        end(RADIO_BUSY);
    cc1000_unlock(was);
}

void cc1000_send_start(void)
{
    start_sending();
    if (CAUSEWAY_SCHEDULED)
        keep_appointment();
}

void cc1000_hand_over_result(void)
{
    if (tx.state == DONE) {
        radio_result_t result = tx.result;
        uint32_t time = tx.time;
        tx.state = IDLE;
        radio_on_sent(result, time);
    }
}

uint16_t radio_airtime(uint8_t length)
{
    /* A byte is 8 / 19200 s = 1024 / 75 cycles. */
    uint16_t bytes = (uint16_t)(LEAD + STEP_FRAME + CW_AIR_HEADER + length + CW_AIR_CRC + FLUSH);

    return (uint16_t)((uint16_t)(bytes * 1024U + 74U) / 75U + POWER_CYCLES);
}

/* A frame goes out only in cc1000_mode SENDING. */
bool cc1000_send_sound(void)
{
    return tx.state <= LAST_SEND && (cc1000_mode == SENDING) == (tx.state == GOING);
}
