#include "cc2420.h"

#include <stddef.h>
#include <string.h>

#include "cc2420_board.h"
#include "cc2420_const.h"
#include "causeway/air.h"
#include "causeway/bytes.h"
#include "causeway/flag.h"
#include "causeway/random.h"
#include "hal/clock.h"
#include "hal/events.h"
#include "hal/power.h"
#include "hal/radio.h"

enum {
    REGULATOR_US = 600,       /* from VREG_EN to a steady supply */
    OSCILLATOR_STEP_US = 100, /* how often the oscillator is looked at ... */
    OSCILLATOR_STEPS = 100,   /* ... and how many times: it takes 1 ms, is given 10 */
    SYNC_BYTES = 5,           /* preamble and start-of-frame delimiter */
    SHORTEST = 5,             /* frame of any kind: an acknowledgement */
    WAIT_LEAST = 2,           /* cycles: the timer takes no less than 32 counts, */
    TIMER_LEAST = 32,
    STARTING = 7,           /* cycles from the strobe to the first preamble bit: 192 us */
    DELIMITER_CYCLES = 12,  /* from the strobe to SFD: 352 us */
    DELIMITER_DUE = 325,    /* the same in counts of the counter, */
    DELIMITER_COUNTS = 400, /* and with time for the interrupt */
    FIFOP_ERROR = 16,       /* cycles that a frame's end, as FIFOP tells it, may be off: 0.5 ms */
    COUNTS_PER_BYTE = 29,   /* on the air, rounded down */
    CHECK_LAPS = 16,        /* the chip is looked at once a second */
    FRAMES_AT_ONCE = 8,     /* then others have their turn */
    REGULATOR_COUNTS = 554, /* the first two in counts of the counter, */
    OSCILLATOR_FIRST = 830, /* 0.9 ms to the first look at the oscillator */
    OSCILLATOR_COUNTS = 93,
    TUNING_COUNTS = 296, /* from SRXON to a look at the channel: 320 us */
    AT_LEAD = 20,        /* cycles that the loop gets to come round to a send at its time */
    AT_LATE = 4,         /* cycles after its time by which it may begin */
    AT_MOST = 16384,     /* cycles that it may be ahead */
    FRAME_BYTES = CW_AIR_HEADER + CAUSEWAY_PAYLOAD_LIMIT,
};

#define LAP (60U * CC2420_COUNTS_PER_MS) /* of the timer, which reaches 71 ms */

/* Those after CHIP_ON: only with a schedule. */
typedef enum {
    CHIP_OFF,
    CHIP_FAULTY,
    CHIP_ON,
    CHIP_ASLEEP,
    CHIP_SUPPLIED, /* the regulator starts, */
    CHIP_STARTING, /* the oscillator starts, */
    CHIP_TUNING,   /* the receiver starts: the timer's interrupt goes on */
} chip_t;
typedef enum { SEND_NONE, SEND_WAITS, SEND_ON_AIR, SEND_ENDED } send_t;
typedef enum { EDGE_NONE, EDGE_BEGIN, EDGE_END } edge_t;

static chip_t chip;
static radio_counters_t counters;
static uint16_t random_state;
static uint8_t frame_number;

/* The send in progress. */
static volatile uint8_t sending;   /* a send_t; the capture's interrupt reads it */
static volatile uint8_t sent_edge; /* an edge_t: what the interrupt has seen of the frame on the air */
static volatile uint16_t sent_capture;
static volatile uint32_t sent_time; /* steady from EDGE_BEGIN on; before that, as the strobe tells */
static radio_result_t sent_result;
static uint32_t send_deadline;
static uint8_t send_stamp_at;
static uint8_t send_length;            /* of the frame, as its length byte says */
static cw_flag_t send_once;            /* at its time, which the deadline tells, or not at all */
static volatile cw_flag_t heard_since; /* the loop looked last, before it was handed over: a delimiter */

/* When FIFOP rose last, for frames whose delimiter is not seen: the end of the frame that was alone in the
 * chip then. */
static volatile uint32_t fifop_time;
static volatile cw_flag_t fifop_rose; /* since a frame was read */
static cw_flag_t frame_behind; /* there were bytes of the next one by then: FIFOP does not tell its end */

/* The timer. */
static volatile uint8_t timer_laps;
static volatile cw_flag_t timer_up;

/* Times of start-of-frame delimiters whose frames have not been read, oldest first. */
static volatile uint32_t times[CC2420_TIMES];
static volatile uint8_t times_first;
static volatile uint8_t times_count;
static volatile cw_flag_t times_lost; /* there was no room: no telling which time is whose */

static uint16_t random_between(uint16_t least, uint16_t most)
{
    return (uint16_t)(least + cw_random_below(&random_state, (uint16_t)(most - least + 1)));
}

/* Cycles of local time for bytes on the air, 32 us each, rounded up. */
static uint16_t air_cycles(uint8_t bytes)
{
    return (uint16_t)(bytes + ((bytes * 25U + 511U) >> 9));
}

uint16_t radio_airtime(uint8_t length)
{
    return air_cycles((uint8_t)(SYNC_BYTES + CW_AIR_HEADER + length + CW_AIR_CRC));
}

const radio_counters_t *radio_counters(void)
{
    return &counters;
}

/* --- the chip's interface --- */

/* Returns the status byte. */
static uint8_t strobe(uint8_t address)
{
    cc2420_board_select(true);
    uint8_t status = cc2420_board_exchange(address);
    cc2420_board_select(false);
    return status;
}

static void write_register(uint8_t address, uint16_t value)
{
    cc2420_board_select(true);
    cc2420_board_exchange(address);
    cc2420_board_exchange((uint8_t)(value >> 8));
    cc2420_board_exchange((uint8_t)value);
    cc2420_board_select(false);
}

static uint16_t read_register(uint8_t address)
{
    cc2420_board_select(true);
    cc2420_board_exchange(address | CC2420_READ);
    uint8_t high = cc2420_board_exchange(0);
    uint8_t low = cc2420_board_exchange(0);
    cc2420_board_select(false);
    return (uint16_t)((uint16_t)high << 8 | low);
}

/* Empty the receive FIFO. A byte is read first, or FIFOP might stay high; strobed twice, or SFD might. */
static void flush_receiver(void)
{
    uint8_t was = cc2420_board_lock();
    cc2420_board_select(true);
    cc2420_board_exchange(CC2420_RXFIFO | CC2420_READ);
    cc2420_board_exchange(0);
    cc2420_board_select(false);
    strobe(CC2420_SFLUSHRX);
    strobe(CC2420_SFLUSHRX);
    times_count = 0;
    times_lost = false;
    fifop_rose = false;
    frame_behind = false;
    cc2420_board_unlock(was);
}

/* --- the timer --- */

static void set_timer(uint16_t counts, uint8_t laps)
{
    cc2420_board_timer_off();
    timer_laps = laps;
    timer_up = false;
    cc2420_board_timer(counts);
}

#if CAUSEWAY_SCHEDULED
static void wake_on(void);
#endif

void cc2420_on_timer(void)
{
#if CAUSEWAY_SCHEDULED
    if (chip > CHIP_ASLEEP) {
        wake_on();
        return;
    }
#endif
    if (timer_laps > 0) {
        timer_laps--;
        cc2420_board_timer(LAP);
        return;
    }
    timer_up = true;
    events_post(EVENT_RADIO);
}

/* --- starting and stopping --- */

static bool wait_for_oscillator(void)
{
    for (uint8_t i = 0; i < OSCILLATOR_STEPS; i++) {
        if (strobe(CC2420_SNOP) & CC2420_STATUS_XOSC) {
            return true;
        }
        cc2420_board_wait(OSCILLATOR_STEP_US);
    }
    return false;
}

static bool is_sane(void)
{
    return (strobe(CC2420_SNOP) & CC2420_STATUS_XOSC) &&
           read_register(CC2420_MDMCTRL0) == CC2420_MDMCTRL0_VALUE;
}

static void start_oscillator(void)
{
    cc2420_board_reset(true);
    cc2420_board_wait(1);
    cc2420_board_reset(false);
    cc2420_board_wait(1);
    strobe(CC2420_SXOSCON);
}

/* From a steady oscillator to listening. */
static bool listen(void)
{
    write_register(CC2420_MDMCTRL0, CC2420_MDMCTRL0_VALUE);
    write_register(CC2420_MDMCTRL1, CC2420_MDMCTRL1_VALUE);
    write_register(CC2420_RXCTRL1, CC2420_RXCTRL1_VALUE);
    write_register(CC2420_SECCTRL0, CC2420_SECCTRL0_VALUE);
    write_register(CC2420_IOCFG0, CC2420_IOCFG0_VALUE);
    write_register(CC2420_FSCTRL, CC2420_FSCTRL_VALUE + 5 * (CAUSEWAY_CHANNEL - 11));
    write_register(CC2420_TXCTRL, CC2420_TXCTRL_VALUE | CC2420_POWER);
    if (!is_sane()) {
        return false; /* with no chip at all, too: whatever the bus reads then */
    }
    flush_receiver();
    cc2420_board_listen(true);
    strobe(CC2420_SRXON);
    return true;
}

/* From no supply to listening. */
static bool start_chip(void)
{
    cc2420_board_start();
    cc2420_board_power(true);
    cc2420_board_wait(REGULATOR_US);
    start_oscillator();
    if (!wait_for_oscillator()) {
        return false;
    }
    return listen();
}

static void end_send(radio_result_t result)
{
    sending = SEND_ENDED;
    sent_result = result;
}

static void restart(void)
{
    counters.restarts++;
    if (sending != SEND_NONE) {
        end_send(RADIO_FAILED);
    }
    chip = start_chip() ? CHIP_ON : CHIP_FAULTY;
    set_timer(LAP, CHECK_LAPS);
}

bool radio_start(uint16_t seed)
{
    random_state = seed;
    power_need(POWER_RADIO); /* captures and the timer need the I/O clock */
    if (!start_chip()) {
        radio_stop();
        return false;
    }
    chip = CHIP_ON;
    set_timer(LAP, CHECK_LAPS);
    return true;
}

void radio_stop(void)
{
    cc2420_board_start(); /* takes the supply away */
    chip = CHIP_OFF;
    timer_up = false;
    if (sending != SEND_NONE) {
        end_send(RADIO_FAILED);
        events_post(EVENT_RADIO);
    }
    power_release(POWER_RADIO);
}

/* --- sleeping and waking --- */

#if CAUSEWAY_SCHEDULED

/* Without its regulator the chip draws least, and forgets all; 7 registers are soon written again. */
void radio_sleep(void)
{
    radio_stop();
    chip = CHIP_ASLEEP;
}

bool radio_wake(void)
{
    uint8_t was = cc2420_board_lock();
    if (chip == CHIP_ASLEEP) {
        power_need(POWER_RADIO);
        cc2420_board_power(true);
        chip = CHIP_SUPPLIED;
        set_timer(REGULATOR_COUNTS, 0);
    }
    bool on = chip == CHIP_ON;
    cc2420_board_unlock(was);
    return on;
}

static void wake_next(chip_t next, uint16_t counts, uint8_t laps)
{
    chip = next;
    set_timer(counts, laps);
}

/* The loop restarts it, and is more patient. */
static void wake_fails(void)
{
    chip = CHIP_FAULTY;
    timer_up = true;
    events_post(EVENT_RADIO);
}

/* The oscillator has had its time, and `timer_laps` looks are left. */
static void wake_listens(void)
{
    if (!(strobe(CC2420_SNOP) & CC2420_STATUS_XOSC) && timer_laps > 0) {
        wake_next(CHIP_STARTING, OSCILLATOR_COUNTS, (uint8_t)(timer_laps - 1));
    } else if (listen()) {
        wake_next(CHIP_TUNING, TUNING_COUNTS, 0);
    } else {
        wake_fails();
    }
}

/* The next step of waking, from the timer's interrupt: the loop need not wake for it, and nobody else uses
 * the bus. */
static void wake_on(void)
{
    if (chip == CHIP_SUPPLIED) {
        start_oscillator();
        wake_next(CHIP_STARTING, OSCILLATOR_FIRST, CHECK_LAPS);
    } else if (chip == CHIP_STARTING) {
        wake_listens();
    } else {
        wake_next(CHIP_ON, LAP, CHECK_LAPS);
        events_post(EVENT_RADIO);
    }
}

bool radio_busy(void)
{
    return chip == CHIP_ON && (sending == SEND_ON_AIR || !cc2420_board_cca());
}

#endif

/* --- interrupts of the chip's pins --- */

void cc2420_on_fifop(void)
{
    fifop_time = clock_now();
    fifop_rose = true;
    events_post(EVENT_RADIO);
}

static void on_sent_edge(uint16_t capture, uint8_t before)
{
    if (before == EDGE_NONE) {
        sent_capture = capture;
        sent_time = clock_of_capture(capture);
        sent_edge = EDGE_BEGIN;
        cc2420_board_capture_rising(false);
        if (cc2420_board_sfd()) {
            return;
        } /* else this came so late that the frame is over */
    }
    sent_edge = EDGE_END;
    cc2420_board_capture_rising(true);
    events_post(EVENT_RADIO);
}

static void on_received_edge(uint16_t capture)
{
    bool waiting = cc2420_board_fifo() || cc2420_board_fifop(); /* at once: this frame's first byte is near */
    uint32_t time = clock_of_capture(capture);
    heard_since = true;
    uint8_t count = waiting ? times_count : 0; /* if nothing was, what came before this was no frame */
    if (count >= CC2420_TIMES) {
        times_lost = true;
        return;
    }
    times[(uint8_t)(times_first + count) % CC2420_TIMES] = time;
    times_count = (uint8_t)(count + 1);
}

void cc2420_on_capture(uint16_t capture)
{
    uint8_t edge = sent_edge;
    if (sending == SEND_ON_AIR && edge != EDGE_END) {
        on_sent_edge(capture, edge);
    } else {
        on_received_edge(capture);
    }
}

/* --- receiving --- */

/* Whether a frame is coming in. The chip knows where the board does not see SFD. */
static bool is_receiving(void)
{
    if (cc2420_board_sfd()) {
        return true;
    }
    uint8_t state = read_register(CC2420_FSMSTATE) & CC2420_FSM_MASK;
    return state == CC2420_FSM_RX_FRAME || state == CC2420_FSM_RX_FRAME_TOO;
}

static bool frame_waits(void)
{
    if (cc2420_board_fifop()) {
        return true;
    }
    /* FIFOP falls with the first byte that is read, even if a second whole frame lies behind: then there are
     * bytes, and none is coming in. */
    return cc2420_board_fifo() && !is_receiving();
}

static uint32_t oldest_time(void)
{
    return times[times_first % CC2420_TIMES];
}

static uint32_t pop_time(void)
{
    uint32_t time = oldest_time();
    times_first = (uint8_t)(times_first + 1) % CC2420_TIMES;
    times_count--;
    return time;
}

/* The time of the frame whose length byte has just been read: the oldest that is left, unless the next one
 * came before this frame can have ended: then that was not a frame's. Called while the rest of the frame is
 * in the chip, so no interrupt clears the queue. */
static bool take_time(uint8_t length, uint32_t *time)
{
    uint16_t lasts = (uint16_t)(air_cycles((uint8_t)(length + 1)) - 2);
    uint16_t apart = (uint16_t)(lasts + SYNC_BYTES);
    uint32_t now = clock_now();
    bool found = false;
    uint8_t was = cc2420_board_lock();
    if (times_count > 0 && !clock_before(now, oldest_time() + lasts)) {
        found = true;
        do {
            *time = pop_time();
        } while (times_count > 0 && clock_before(oldest_time(), *time + apart));
    }
    cc2420_board_unlock(was);
    return found && !clock_before(now, *time + lasts);
}

/* The same for a frame whose delimiter was not seen, from its end; how far off it may be. */
static uint8_t guess_time(uint8_t length, uint32_t *time)
{
    uint32_t now = clock_now();
    uint8_t was = cc2420_board_lock();
    bool known = fifop_rose && !frame_behind;
    uint32_t end = known ? fifop_time : now;
    cc2420_board_unlock(was);
    *time = end - air_cycles((uint8_t)(length + 1));
    return known ? FIFOP_ERROR : RADIO_UNTIMED;
}

/* What became of a frame in the chip. */
typedef enum {
    FRAME_HEARD,
    FRAME_CRC,
    FRAME_GARBAGE,
    FRAME_MISTIMED,  /* there is no time for the one behind it: the times are off by one */
    FRAME_LOST_STEP, /* what is in the chip does not begin where a frame does */
} frame_t;

static frame_t fill_heard(const uint8_t *frame, radio_heard_t *heard)
{
    cw_am_t am;
    if (cw_air_parse(frame, &am) != CW_AIR_OK) {
        return FRAME_GARBAGE;
    }
    heard->message.dest = am.dest;
    heard->message.source = am.source;
    heard->message.type = am.type;
    heard->message.group = am.group;
    heard->message.length = am.length;
    memcpy(heard->message.data, am.data, am.length);
    return FRAME_HEARD;
}

/* Whether bytes of a next frame are there and no time for it. A delimiter is captured before its frame's
 * first byte is there, so FIFO is looked at first. */
static bool next_is_untimed(void)
{
    return cc2420_board_fifo() && times_count == 0;
}

/* Read on after the length byte. Bytes that do not fit are read and forgotten. */
static frame_t read_rest(uint8_t *frame, radio_heard_t *heard)
{
    uint8_t length = frame[0];
    heard->error = take_time(length, &heard->time) ? 0 : guess_time(length, &heard->time);
    uint8_t at = 1;
    for (; at <= length - CW_AIR_CRC; at++) {
        uint8_t byte = cc2420_board_exchange(0);
        if (at < FRAME_BYTES) {
            frame[at] = byte;
        }
    }
    uint8_t rssi = cc2420_board_exchange(0);
    bool whole = cc2420_board_fifo(); /* the last byte must be there still */
    uint8_t last = cc2420_board_exchange(0);
    if (!whole) {
        return FRAME_LOST_STEP;
    }
    if (!(last & CC2420_CRC_OK)) {
        return FRAME_CRC;
    }
    if (!cw_air_fits(length)) {
        return FRAME_GARBAGE;
    }
    heard->rssi = (int8_t)((int8_t)rssi < INT8_MIN + 1 - CC2420_RSSI_OFFSET
                               ? INT8_MIN + 1
                               : (int8_t)rssi + CC2420_RSSI_OFFSET);
    heard->lqi = (uint8_t)(last & ~CC2420_CRC_OK);
    return heard->error == 0 && next_is_untimed() ? FRAME_MISTIMED : fill_heard(frame, heard);
}

static __attribute__((noinline)) frame_t read_frame(radio_heard_t *heard)
{
    uint8_t frame[FRAME_BYTES];
    cc2420_board_select(true);
    cc2420_board_exchange(CC2420_RXFIFO | CC2420_READ);
    frame[0] = cc2420_board_exchange(0);
    frame_t kind = FRAME_LOST_STEP;
    if (frame[0] >= SHORTEST && frame[0] <= CC2420_LENGTH_LIMIT) {
        kind = read_rest(frame, heard);
    }
    cc2420_board_select(false);
    fifop_rose = false;
    frame_behind = cc2420_board_fifo();
    return kind;
}

static void receive_one(void)
{
    if (!cc2420_board_fifo() || times_lost) { /* FIFOP without FIFO: the chip's buffer has overflown */
        flush_receiver();
        counters.overrun++;
        return;
    }
    radio_heard_t heard;
    switch (read_frame(&heard)) {
    case FRAME_HEARD:
        counters.heard++;
        counters.untimed = (uint16_t)(counters.untimed + (heard.error > 0));
        radio_on_heard(&heard);
        break;
    case FRAME_CRC:
        counters.crc++;
        break;
    case FRAME_MISTIMED:
        flush_receiver();
        counters.overrun++;
        break;
    case FRAME_LOST_STEP:
        flush_receiver();
        counters.garbage++;
        break;
    default:
        counters.garbage++;
        break;
    }
}

static void receive(void)
{
    for (uint8_t i = 0; i < FRAMES_AT_ONCE; i++) {
        if (chip != CHIP_ON || !frame_waits()) {
            return;
        }
        receive_one();
    }
    events_post(EVENT_RADIO);
}

/* --- sending --- */

/* Wait for a random time, but not beyond the deadline: the last try comes just before it. */
static void back_off(uint16_t least, uint16_t most)
{
    uint16_t cycles = random_between(least, most);
    uint32_t latest = send_deadline - STARTING;
    uint32_t now = clock_now();
    if (clock_before(latest, now + cycles)) {
        uint32_t left = clock_before(now, latest) ? latest - now : 0;
        /* if that is too late, try_sending() will see it */
        cycles = (uint16_t)(left > WAIT_LEAST + 3 ? left - 3 : WAIT_LEAST);
    }
    set_timer((uint16_t)(cycles * 28U + (cycles >> 3)), 0);
}

/* Put the message into the chip. False when the chip does not answer. */
static bool load(const radio_message_t *message)
{
    cw_am_t am = {
        .dest = message->dest,
        .source = message->source,
        .type = message->type,
        .group = message->group,
        .length = message->length,
        .data = message->data,
    };
    uint8_t header[CW_AIR_HEADER];
    if (!cw_air_build(&am, frame_number++, header)) {
        return false;
    }
    send_length = header[0];
    strobe(CC2420_SFLUSHTX); /* one that never had a clear channel may be in there */
    cc2420_board_select(true);
    uint8_t status = cc2420_board_exchange(CC2420_TXFIFO);
    for (uint8_t i = 0; i < CW_AIR_HEADER; i++) {
        cc2420_board_exchange(header[i]);
    }
    for (uint8_t i = 0; i < message->length; i++) {
        cc2420_board_exchange(message->data[i]);
    }
    cc2420_board_select(false);
    return (status & CC2420_STATUS_XOSC) != 0;
}

#if CAUSEWAY_SCHEDULED

static void try_sending(void);

/* Send at `when`, or now if that has passed. If it is not near, the loop is to come round just before it. */
static void wait_for(uint32_t when)
{
    uint32_t now = clock_now();
    uint16_t left = clock_before(now, when) ? (uint16_t)(when - now) : 0;
    send_deadline = now + left + (AT_LATE + STARTING);
    if (left <= AT_LEAD + WAIT_LEAST) {
        try_sending();
        events_post(EVENT_RADIO); /* it may have ended */
        return;
    }
    uint16_t wait = (uint16_t)(left - AT_LEAD);
    uint32_t counts = wait * UINT32_C(28) + (wait >> 3);
    uint8_t laps = 0;
    for (; counts > LAP + TIMER_LEAST; counts -= LAP) {
        laps++;
    }
    set_timer((uint16_t)counts, laps);
}

#endif

static bool is_away(void)
{
    return chip == CHIP_OFF || (CAUSEWAY_SCHEDULED && chip > CHIP_ON);
}

bool radio_send(const radio_message_t *message, uint32_t deadline, uint8_t stamp_at)
{
    if (is_away() || sending != SEND_NONE || message->length > CAUSEWAY_PAYLOAD_LIMIT) {
        return false;
    }
    if (stamp_at != RADIO_NO_STAMP && stamp_at + 4 > message->length) {
        return false;
    }
    send_deadline = deadline;
    send_stamp_at = stamp_at;
    sending = SEND_WAITS;
    if (chip == CHIP_FAULTY) {
        end_send(RADIO_FAILED);
        events_post(EVENT_RADIO);
    } else if (!load(message)) {
        restart();
        events_post(EVENT_RADIO);
#if CAUSEWAY_SCHEDULED
    } else if (send_once) {
        wait_for(deadline);
#endif
    } else {
        back_off(CC2420_FIRST_MIN, CC2420_FIRST_MAX);
    }
    return true;
}

#if CAUSEWAY_SCHEDULED

bool radio_send_at(const radio_message_t *message, uint32_t when, uint8_t stamp_at)
{
    if (sending != SEND_NONE || clock_before(clock_now() + AT_MOST, when)) {
        return false;
    }
    send_once = true;
    send_once = radio_send(message, when, stamp_at);
    return send_once;
}

#endif

/* Send if the chip, too, finds the channel clear. In one go, so that the next capture is surely this frame's.
 */
static bool start_sending(void)
{
    uint8_t was = cc2420_board_lock();
    sent_edge = EDGE_NONE;
    sent_time = clock_now() + DELIMITER_CYCLES; /* until the delimiter is seen */
    sent_capture = (uint16_t)(cc2420_board_counter() + DELIMITER_DUE);
    sending = SEND_ON_AIR;
    strobe(CC2420_STXONCCA);
    bool active = (strobe(CC2420_SNOP) & CC2420_STATUS_TX_ACTIVE) != 0;
    if (!active) {
        sending = SEND_WAITS;
    }
    cc2420_board_unlock(was);
    return active;
}

/* Break the frame off: its receivers find no good CRC. */
static void abort_sending(void)
{
    uint8_t was = cc2420_board_lock();
    strobe(CC2420_SRFOFF);
    strobe(CC2420_SFLUSHTX);
    end_send(RADIO_BUSY);
    cc2420_board_capture_rising(true);
    cc2420_board_unlock(was);
    strobe(CC2420_SRXON);
}

/* Write the frame's time into it, in time: the chip reads one byte every 32 us and makes the CRC as it goes.
 */
static void write_stamp(void)
{
    uint16_t begin = cc2420_board_counter();
    while (sent_edge == EDGE_NONE && (uint16_t)(cc2420_board_counter() - begin) <= DELIMITER_COUNTS) {
    }
    uint8_t was = cc2420_board_lock();
    uint32_t time = sent_time;
    cc2420_board_unlock(was);
    uint8_t stamp[4];
    cw_put32(stamp, radio_stamp(time));
    uint8_t at = (uint8_t)(CW_AIR_HEADER + send_stamp_at);
    /* one byte for writing, one read ahead, one to spare */
    uint16_t budget = (uint16_t)((at - 3) * COUNTS_PER_BYTE);
    was = cc2420_board_lock();
    bool late = (uint16_t)(cc2420_board_counter() - sent_capture) > budget;
    if (!late) {
        cc2420_board_select(true);
        cc2420_board_exchange(CC2420_RAM | at);
        cc2420_board_exchange(CC2420_BANK_TXFIFO);
        for (uint8_t i = 0; i < sizeof stamp; i++) {
            cc2420_board_exchange(stamp[i]);
        }
        cc2420_board_select(false);
    }
    cc2420_board_unlock(was);
    if (late) {
        abort_sending();
    }
}

/* The loop was called a little before its time. */
static void await_its_time(void)
{
    while (clock_before(clock_now(), send_deadline - (AT_LATE + STARTING))) {
    }
}

static void try_sending(void)
{
    if (CAUSEWAY_SCHEDULED && send_once) {
        await_its_time();
    }
    if (clock_before(send_deadline, clock_now() + STARTING)) {
        end_send(RADIO_BUSY);
        return;
    }
    /* somebody who was heard may go on at once, even if it is quiet now */
    if ((CAUSEWAY_SCHEDULED && send_once && heard_since) || !cc2420_board_cca() || !start_sending()) {
        if (CAUSEWAY_SCHEDULED && send_once) {
            end_send(RADIO_BUSY);
            return;
        }
        back_off(CC2420_AGAIN_MIN, CC2420_AGAIN_MAX);
        return;
    }
    /* By then it is over: strobe to delimiter, the frame at 29.5 counts a byte, a millisecond to spare. */
    set_timer((uint16_t)(DELIMITER_COUNTS + (send_length + 1) * (COUNTS_PER_BYTE + 1) + CC2420_COUNTS_PER_MS),
              0);
    if (send_stamp_at != RADIO_NO_STAMP) {
        write_stamp();
    }
}

static void finish_sending(void)
{
    uint8_t status = strobe(CC2420_SNOP);
    if (!(status & CC2420_STATUS_XOSC) || (status & CC2420_STATUS_UNDERFLOW)) {
        restart();
    } else {
        end_send(RADIO_SENT);
    }
}

/* Neither begun nor ended when it must have been: on a board that does not see SFD it has. */
static void end_unseen(void)
{
    if (sent_edge != EDGE_NONE || (strobe(CC2420_SNOP) & CC2420_STATUS_TX_ACTIVE)) {
        restart();
    } else {
        finish_sending();
    }
}

static void service_send(bool up)
{
    if (sending == SEND_WAITS && up) {
        try_sending();
    } else if (sending == SEND_ON_AIR && sent_edge == EDGE_END) {
        finish_sending();
    } else if (sending == SEND_ON_AIR && up) {
        end_unseen();
    }
}

/* Is the chip well? */
static void look_at_chip(void)
{
    if (chip == CHIP_FAULTY || !is_sane()) {
        restart();
    } else {
        set_timer(LAP, CHECK_LAPS);
    }
}

void radio_service(void)
{
    if (CAUSEWAY_SCHEDULED && sending == SEND_NONE) {
        heard_since = false;
        heard_since = (cw_flag_t)(heard_since | cc2420_board_sfd());
    }
    receive();
    bool up = timer_up;
    if (up) { /* else the interrupt may come right now, and must not be overwritten */
        timer_up = false;
    }
    if (chip == CHIP_ON && sending != SEND_NONE) {
        service_send(up);
    } else if (chip != CHIP_OFF && up) {
        look_at_chip();
    }
    if (sending == SEND_ENDED) {
        sending = SEND_NONE;
        send_once = false;
        if (chip == CHIP_ON) {
            set_timer(LAP, CHECK_LAPS);
        }
        radio_on_sent(sent_result, sent_time);
    }
}

/* The timer is always on its way, whether a send waits for it or the next look at the chip. */
bool radio_sound(void)
{
    uint8_t was = cc2420_board_lock();
    bool timed = timer_up || (cc2420_board_timer_runs() && timer_laps <= CHECK_LAPS);
    cc2420_board_unlock(was);
    if (CAUSEWAY_SCHEDULED && chip > CHIP_ON) {
        return (timed || chip == CHIP_ASLEEP) && chip <= CHIP_TUNING && sending <= SEND_ENDED;
    }
    return timed && (chip == CHIP_ON || chip == CHIP_FAULTY) && sending <= SEND_ENDED;
}
