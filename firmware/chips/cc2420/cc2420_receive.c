/* Receiving: the times of delimiters, which interrupts queue, and the frames, which the loop takes out of the
 * chip. A frame and its time reach us separately, and each may be lost without the other: this file brings
 * them together. */
#include <string.h>

#include "cc2420.h"
#include "cc2420_const.h"
#include "cc2420_parts.h"
#include "causeway/air.h"
#include "hal/clock.h"
#include "hal/events.h"

enum {
    SHORTEST = 5,       /* frame of any kind: an acknowledgement */
    FIFOP_ERROR = 16,   /* cycles that a frame's end by FIFOP may be off: 0.5 ms */
    FRAMES_AT_ONCE = 8, /* then others have their turn */
    FRAME_BYTES = CW_AIR_HEADER + CAUSEWAY_PAYLOAD_LIMIT,
};

/* When FIFOP rose last, for frames whose delimiter is not seen: the end of the only frame in the
 * chip then. */
static volatile uint32_t fifop_time;
static volatile cw_flag_t fifop_rose; /* since a frame was read */
static cw_flag_t
    frame_behind; /* bytes of the next frame were in the chip by then: FIFOP does not show its end */

/* Times of start-of-frame delimiters whose frames have not been read, oldest first. */
static volatile uint32_t times[CC2420_TIMES];
static volatile uint8_t times_first;
static volatile uint8_t times_count;
static volatile cw_flag_t times_lost; /* the queue was full: which time is whose is not known */

volatile cw_flag_t cc2420_heard_since;

uint16_t cc2420_air_cycles(uint8_t bytes)
{
    return (uint16_t)(bytes + ((bytes * 25U + 511U) >> 9));
}

/* --- interrupts --- */

void cc2420_on_fifop(void)
{
    fifop_time = clock_now();
    fifop_rose = true;
    events_post(EVENT_RADIO);
}

void cc2420_on_received_edge(uint16_t capture)
{
    bool waiting = cc2420_board_fifo() || cc2420_board_fifop(); /* at once: this frame's first byte is near */
    uint32_t time = clock_of_capture(capture);
    cc2420_heard_since = true;
    uint8_t count = waiting ? times_count : 0; /* if nothing was, what came before this was no frame */
    if (count >= CC2420_TIMES) {
        times_lost = true;
        return;
    }
    times[(uint8_t)(times_first + count) % CC2420_TIMES] = time;
    times_count = (uint8_t)(count + 1);
}

/* --- the loop --- */

/* A byte is read first, or FIFOP might stay high; strobed twice, or SFD might. */
void cc2420_flush_receiver(void)
{
    uint8_t was = cc2420_board_lock();
    cc2420_board_select(true);
    cc2420_board_exchange(CC2420_RXFIFO | CC2420_READ);
    cc2420_board_exchange(0);
    cc2420_board_select(false);
    cc2420_strobe(CC2420_SFLUSHRX);
    cc2420_strobe(CC2420_SFLUSHRX);
    times_count = 0;
    times_lost = false;
    fifop_rose = false;
    frame_behind = false;
    cc2420_board_unlock(was);
}

/* Whether a frame is coming in. The chip knows where the board does not see SFD. */
static bool is_receiving(void)
{
    if (cc2420_board_sfd())
        return true;
    uint8_t state = cc2420_read_register(CC2420_FSMSTATE) & CC2420_FSM_MASK;
    return state == CC2420_FSM_RX_FRAME || state == CC2420_FSM_RX_FRAME_TOO;
}

static bool frame_waits(void)
{
    if (cc2420_board_fifop())
        return true;
    /* FIFOP falls with the first byte that is read, even if a second whole frame lies behind: then there are
     * bytes, and none is coming in. */
    return cc2420_board_fifo() && !is_receiving();
}

bool radio_quiet(void)
{
    return !cc2420_board_fifop() && !cc2420_board_fifo() && !is_receiving();
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
    uint16_t lasts = (uint16_t)(cc2420_air_cycles((uint8_t)(length + 1)) - 2);
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
    *time = end - cc2420_air_cycles((uint8_t)(length + 1));
    return known ? FIFOP_ERROR : RADIO_UNTIMED;
}

/* What became of a frame in the chip. */
typedef enum {
    FRAME_HEARD,
    FRAME_CRC,
    FRAME_GARBAGE,
    FRAME_MISTIMED,  /* no time for the frame behind it: the times are off by one */
    FRAME_LOST_STEP, /* the bytes in the chip do not begin with a frame */
} frame_t;

static frame_t fill_heard(const uint8_t *frame, radio_heard_t *heard)
{
    cw_am_t am;
    if (cw_air_parse(frame, &am) != CW_AIR_OK)
        return FRAME_GARBAGE;
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
        if (at < FRAME_BYTES)
            frame[at] = byte;
    }
    uint8_t rssi = cc2420_board_exchange(0);
    bool whole = cc2420_board_fifo(); /* the last byte must be there still */
    uint8_t last = cc2420_board_exchange(0);
    if (!whole)
        return FRAME_LOST_STEP;
    if (!(last & CC2420_CRC_OK))
        return FRAME_CRC;
    if (!cw_air_fits(length))
        return FRAME_GARBAGE;
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
    if (frame[0] >= SHORTEST && frame[0] <= CC2420_LENGTH_LIMIT)
        kind = read_rest(frame, heard);
    cc2420_board_select(false);
    fifop_rose = false;
    frame_behind = cc2420_board_fifo();
    return kind;
}

static void receive_one(void)
{
    if (!cc2420_board_fifo() || times_lost) { /* FIFOP without FIFO: the chip's buffer has overflown */
        cc2420_flush_receiver();
        cc2420_counters.overrun++;
        return;
    }
    radio_heard_t heard;
    switch (read_frame(&heard)) {
    case FRAME_HEARD:
        cc2420_counters.heard++;
        cc2420_counters.untimed = (uint16_t)(cc2420_counters.untimed + (heard.error > 0));
        radio_on_heard(&heard);
        break;
    case FRAME_CRC:
        cc2420_counters.crc++;
        break;
    case FRAME_MISTIMED:
        cc2420_flush_receiver();
        cc2420_counters.overrun++;
        break;
    case FRAME_LOST_STEP:
        cc2420_flush_receiver();
        cc2420_counters.garbage++;
        break;
    default:
        cc2420_counters.garbage++;
        break;
    }
}

void cc2420_receive(void)
{
    for (uint8_t i = 0; i < FRAMES_AT_ONCE; i++) {
        if (cc2420_mode != CHIP_ON || !frame_waits())
            return;
        receive_one();
    }
    events_post(EVENT_RADIO);
}
