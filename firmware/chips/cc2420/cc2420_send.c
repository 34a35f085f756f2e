/* Sending: waits for a clear channel, the frame into the chip, its time into the frame while it is on the
 * air, and the result. One send at a time: its state is only here. */
#include "cc2420.h"
#include "cc2420_const.h"
#include "cc2420_parts.h"
#include "causeway/air.h"
#include "causeway/bytes.h"
#include "causeway/random.h"
#include "hal/clock.h"
#include "hal/events.h"

enum {
    WAIT_LEAST = 2, /* cycles: the timer takes no less than 32 counts, */
    TIMER_LEAST = 32,
    STARTING = 7,           /* cycles from the strobe to the first preamble bit: 192 us */
    DELIMITER_CYCLES = 12,  /* from the strobe to SFD: 352 us */
    DELIMITER_DUE = 325,    /* the same in counts of the counter, */
    DELIMITER_COUNTS = 400, /* and with time for the interrupt */
    COUNTS_PER_BYTE = 29,   /* on the air, rounded down */
    AT_LEAD = 20,           /* cycles that the loop gets to come round to a send at its time */
    AT_LATE = 4,            /* cycles after its time within which it may begin */
    AT_MOST = 16384,        /* cycles that it may be ahead */
};

typedef enum { SEND_NONE, SEND_WAITS, SEND_ON_AIR, SEND_ENDED } send_t;
typedef enum { EDGE_NONE, EDGE_BEGIN, EDGE_END } edge_t;

static uint16_t random_state;
static uint8_t frame_number;

/* The send in progress. */
static volatile uint8_t sending;   /* a send_t; the capture's interrupt reads it */
static volatile uint8_t sent_edge; /* an edge_t: what the interrupt has seen of the frame on the air */
static volatile uint16_t sent_capture;
static volatile uint32_t sent_time; /* steady from EDGE_BEGIN on; before that, estimated from the strobe */
static radio_result_t sent_result;
static uint32_t send_deadline;
static uint8_t send_stamp_at;
static uint8_t send_length; /* of the frame, as its length byte says */
static cw_flag_t send_once; /* at its time, which is the deadline, or not at all */

void cc2420_send_seed(uint16_t seed)
{
    random_state = seed;
}

bool cc2420_send_idle(void)
{
    return sending == SEND_NONE;
}

bool cc2420_send_on_air(void)
{
    return sending == SEND_ON_AIR;
}

bool cc2420_send_sound(void)
{
    return sending <= SEND_ENDED;
}

void cc2420_end_send(radio_result_t result)
{
    sending = SEND_ENDED;
    sent_result = result;
}

/* --- interrupts --- */

static void see_edge(uint16_t capture, uint8_t before)
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

bool cc2420_on_sent_edge(uint16_t capture)
{
    uint8_t edge = sent_edge;
    if (sending != SEND_ON_AIR || edge == EDGE_END)
        return false;
    see_edge(capture, edge);
    return true;
}

/* --- a new send --- */

static uint16_t random_between(uint16_t least, uint16_t most)
{
    return (uint16_t)(least + cw_random_below(&random_state, (uint16_t)(most - least + 1)));
}

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
    cc2420_set_timer((uint16_t)(cycles * 28U + (cycles >> 3)), 0);
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
    if (!cw_air_build(&am, frame_number++, header))
        return false;
    send_length = header[0];
    cc2420_strobe(CC2420_SFLUSHTX); /* a frame that never found a clear channel may be in there */
    cc2420_board_select(true);
    uint8_t status = cc2420_board_exchange(CC2420_TXFIFO);
    for (uint8_t i = 0; i < CW_AIR_HEADER; i++)
        cc2420_board_exchange(header[i]);
    for (uint8_t i = 0; i < message->length; i++)
        cc2420_board_exchange(message->data[i]);
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
    for (; counts > LAP + TIMER_LEAST; counts -= LAP)
        laps++;
    cc2420_set_timer((uint16_t)counts, laps);
}

#endif

static bool is_away(void)
{
    return cc2420_mode == CHIP_OFF || (CAUSEWAY_SCHEDULED && cc2420_mode > CHIP_ON);
}

bool radio_send(const radio_message_t *message, uint32_t deadline, uint8_t stamp_at)
{
    if (is_away() || sending != SEND_NONE || message->length > CAUSEWAY_PAYLOAD_LIMIT)
        return false;
    if (stamp_at != RADIO_NO_STAMP && stamp_at + 4 > message->length)
        return false;
    send_deadline = deadline;
    send_stamp_at = stamp_at;
    sending = SEND_WAITS;
    if (cc2420_mode == CHIP_FAULTY) {
        cc2420_end_send(RADIO_FAILED);
        events_post(EVENT_RADIO);
    } else if (!load(message)) {
        cc2420_restart();
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
    if (sending != SEND_NONE || clock_before(clock_now() + AT_MOST, when))
        return false;
    send_once = true;
    send_once = radio_send(message, when, stamp_at);
    return send_once;
}

#endif

/* --- the send in progress --- */

/* Send if the chip, too, finds the channel clear. In one go, so that the next capture is surely this frame's.
 */
static bool start_sending(void)
{
    uint8_t was = cc2420_board_lock();
    sent_edge = EDGE_NONE;
    sent_time = clock_now() + DELIMITER_CYCLES; /* until the delimiter is seen */
    sent_capture = (uint16_t)(cc2420_board_counter() + DELIMITER_DUE);
    sending = SEND_ON_AIR;
    cc2420_strobe(CC2420_STXONCCA);
    bool active = (cc2420_strobe(CC2420_SNOP) & CC2420_STATUS_TX_ACTIVE) != 0;
    if (!active)
        sending = SEND_WAITS;
    cc2420_board_unlock(was);
    return active;
}

/* Break the frame off: its receivers find no good CRC. */
static void abort_sending(void)
{
    uint8_t was = cc2420_board_lock();
    cc2420_strobe(CC2420_SRFOFF);
    cc2420_strobe(CC2420_SFLUSHTX);
    cc2420_end_send(RADIO_BUSY);
    cc2420_board_capture_rising(true);
    cc2420_board_unlock(was);
    cc2420_strobe(CC2420_SRXON);
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
        for (uint8_t i = 0; i < sizeof stamp; i++)
            cc2420_board_exchange(stamp[i]);
        cc2420_board_select(false);
    }
    cc2420_board_unlock(was);
    if (late)
        abort_sending();
}

/* The loop was called a little before its time. */
static void await_its_time(void)
{
    while (clock_before(clock_now(), send_deadline - (AT_LATE + STARTING))) {
    }
}

static void try_sending(void)
{
    if (CAUSEWAY_SCHEDULED && send_once)
        await_its_time();
    if (clock_before(send_deadline, clock_now() + STARTING)) {
        cc2420_end_send(RADIO_BUSY);
        return;
    }
    /* a sender that was heard may go on at once, even if the channel is quiet now */
    if ((CAUSEWAY_SCHEDULED && send_once && cc2420_heard_since) || !cc2420_board_cca() || !start_sending()) {
        if (CAUSEWAY_SCHEDULED && send_once) {
            cc2420_end_send(RADIO_BUSY);
            return;
        }
        back_off(CC2420_AGAIN_MIN, CC2420_AGAIN_MAX);
        return;
    }
    /* By then it is over: strobe to delimiter, the frame at 29.5 counts a byte, a millisecond to spare. */
    cc2420_set_timer(
        (uint16_t)(DELIMITER_COUNTS + (send_length + 1) * (COUNTS_PER_BYTE + 1) + CC2420_COUNTS_PER_MS), 0);
    if (send_stamp_at != RADIO_NO_STAMP)
        write_stamp();
}

static void finish_sending(void)
{
    uint8_t status = cc2420_strobe(CC2420_SNOP);
    if (!(status & CC2420_STATUS_XOSC) || (status & CC2420_STATUS_UNDERFLOW))
        cc2420_restart();
    else
        cc2420_end_send(RADIO_SENT);
}

/* Neither begun nor ended when it must have been: on a board that does not see SFD it has. */
static void end_unseen(void)
{
    if (sent_edge != EDGE_NONE || (cc2420_strobe(CC2420_SNOP) & CC2420_STATUS_TX_ACTIVE))
        cc2420_restart();
    else
        finish_sending();
}

void cc2420_send_service(bool up)
{
    if (sending == SEND_WAITS && up)
        try_sending();
    else if (sending == SEND_ON_AIR && sent_edge == EDGE_END)
        finish_sending();
    else if (sending == SEND_ON_AIR && up)
        end_unseen();
}

void cc2420_hand_over_result(void)
{
    if (sending == SEND_ENDED) {
        sending = SEND_NONE;
        send_once = false;
        if (cc2420_mode == CHIP_ON)
            cc2420_look_later();
        radio_on_sent(sent_result, sent_time);
    }
}

uint16_t radio_airtime(uint8_t length)
{
    return cc2420_air_cycles((uint8_t)(SYNC_BYTES + CW_AIR_HEADER + length + CW_AIR_CRC));
}
