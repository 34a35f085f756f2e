#include "cc1000_board.h"
#include "cc1000_parts.h"
#include "causeway/air.h"
#include "causeway/crc.h"
#include "hal/clock.h"
#include "hal/events.h"

/** What the two modems delay a frame by, in counts of timer 1 (1.085 us). */
#ifndef CC1000_CONF_DELAY
#define CC1000_CONF_DELAY 0
#endif

/** The supply, which is the ADC's reference: two fresh cells. It scales the dBm that are reported, not the
 * channel access. */
#ifndef CC1000_CONF_SUPPLY_MV
#define CC1000_CONF_SUPPLY_MV 3000UL
#endif

enum {
    SYNC_WORD = SYNC_FIRST << 8 | SYNC_SECOND,
    BIT_COUNTS = 48, /* timer 1 counts of a bit: 921600 / 19200 */

    PREAMBLE_SEEN = 2, /* bytes of preamble that open the search for the sync word */
    /* bytes other than preamble until the search is given up; the sync word ends in the third */
    SEARCH_BYTES = 4,
    SETTLE_BYTES = 2, /* not looked at after a change to receiving: 416 us at least, the PLL needs 250 */

    SLOTS = 2, /* received frames, a power of two: one being handled, one coming in */
};

#define STRENGTH_UNKNOWN 0xFFFF

/* A frame that comes in or waits. */
typedef struct {
    radio_heard_t heard;
    uint16_t strength; /* RSSI sample */
} slot_t;

/* `recent` holds the last 16 bits as they came; a frame's bytes end `lag` bits before ours do. */
static struct {
    uint16_t recent;
    uint8_t lag;
    /* 0xFF: received bits are the complement of those sent, as with the oscillator above the channel */
    uint8_t invert;
    /* preamble bytes seen; search bytes left; bytes of header or data there; bytes to settle */
    uint8_t count;
    uint16_t crc;
    uint8_t crc_low;
    uint8_t header[CW_AIR_HEADER];
    slot_t slots[SLOTS];
    uint8_t filling;       /* slot of the frame that comes in */
    volatile uint8_t full; /* slots that wait for radio_service(), the oldest first: those before `filling` */
} rx;

/* Whatever memory may hold, a byte that comes in is never written outside its frame. Inlined, the address
 * would be computed at each use. */
static __attribute__((noinline)) slot_t *slot(uint8_t number)
{
    return &rx.slots[number & (SLOTS - 1)];
}

static void listen(void)
{
    rx.count = 0;
    cc1000_mode = LISTENING;
}

static bool is_preamble(uint8_t byte)
{
    return byte == PREAMBLE_BYTE || byte == (uint8_t)~PREAMBLE_BYTE;
}

static void look_for_preamble(uint8_t byte)
{
    if (!is_preamble(byte)) {
        rx.count = 0;
        cc1000_send_silence();
    } else {
        cc1000_back_off();
        if (++rx.count >= PREAMBLE_SEEN) {
            rx.count = SEARCH_BYTES;
            cc1000_mode = SEARCHING;
        }
    }
}

/** The sync word has ended `lag` bits before the byte whose end was at `count`. */
static void frame_begins(uint8_t lag, uint16_t count)
{
    uint16_t late = (uint16_t)(lag * BIT_COUNTS + CC1000_CONF_DELAY);
    if (rx.full >= SLOTS) {
        cc1000_counters.overrun++;
        listen();
        return;
    }
    rx.lag = lag;
    rx.count = 0;
    rx.crc = 0;
    slot_t *coming = slot(rx.filling);
    coming->heard.time = clock_of_capture((uint16_t)(count - late));
    coming->strength = STRENGTH_UNKNOWN;
    cc1000_mode = HEADER;
    cc1000_sample(SAMPLE_FRAME);
}

/** Look for the sync word, or its complement, at each of the eight places where it can have ended in this
 * byte, which came after `word`. The earliest first: before the right one, preamble bits keep either word
 * from matching. */
static void look_for_sync(uint16_t word, uint8_t byte, uint16_t count)
{
    uint8_t newest = byte;
    for (uint8_t lag = 8; lag-- > 0;) {
        word = (uint16_t)(word << 1 | newest >> 7);
        newest = (uint8_t)(newest << 1);
        if (word == SYNC_WORD || word == (uint16_t)~SYNC_WORD) {
            rx.invert = word == SYNC_WORD ? 0 : 0xFF;
            frame_begins(lag, count);
            return;
        }
    }
    if (is_preamble(byte))
        rx.count = SEARCH_BYTES;
    else if (--rx.count == 0)
        listen();
}

static void header_ends(void)
{
    radio_message_t *message = &slot(rx.filling)->heard.message;
    cw_am_t am;
    if (cw_air_parse(rx.header, &am) != CW_AIR_OK) {
        cc1000_counters.garbage++;
        listen();
        return;
    }
    message->dest = am.dest;
    message->source = am.source;
    message->type = am.type;
    message->group = am.group;
    message->length = am.length;
    rx.count = 0;
    cc1000_mode = am.length > 0 ? DATA : CRC_LOW;
}

static void frame_ends(uint16_t crc)
{
    if (crc != rx.crc) {
        cc1000_counters.crc++;
    } else {
        cc1000_counters.heard++;
        rx.filling ^= 1;
        rx.full++;
        events_post(EVENT_RADIO);
    }
    listen();
}

static void header_byte(uint8_t byte)
{
    if (rx.count < CW_AIR_HEADER)
        rx.header[rx.count] = byte;
    if (++rx.count >= CW_AIR_HEADER)
        header_ends();
}

static void data_byte(uint8_t byte)
{
    radio_message_t *message = &slot(rx.filling)->heard.message;
    if (rx.count < CAUSEWAY_PAYLOAD_LIMIT)
        message->data[rx.count] = byte;
    if (++rx.count >= message->length)
        cc1000_mode = CRC_LOW;
}

static void frame_byte(uint8_t mode)
{
    uint8_t byte = (uint8_t)(rx.recent >> rx.lag ^ rx.invert);
    if (mode == CRC_LOW) {
        rx.crc_low = byte;
        cc1000_mode = CRC_HIGH;
    } else if (mode == CRC_HIGH) {
        frame_ends((uint16_t)((uint16_t)byte << 8 | rx.crc_low));
    } else {
        rx.crc = cw_crc16_add(rx.crc, byte);
        if (mode == HEADER)
            header_byte(byte);
        else
            data_byte(byte);
    }
}

static void settled(void)
{
    if (CAUSEWAY_SCHEDULED && cc1000_mode == TUNING)
        events_post(EVENT_RADIO); /* radio_wake() is waited for */
    listen();
}

void cc1000_settle(void)
{
    cc1000_outgoing = PREAMBLE_BYTE;
    rx.count = SETTLE_BYTES;
    cc1000_mode = SETTLING;
}

void cc1000_receive(uint8_t byte, uint16_t count)
{
    uint16_t before = rx.recent;
    uint8_t mode = cc1000_mode;
    rx.recent = (uint16_t)(before << 8 | byte);
    if (mode == SETTLING || (CAUSEWAY_SCHEDULED && mode == TUNING)) {
        if (--rx.count == 0)
            settled();
    } else if (mode == LISTENING) {
        look_for_preamble(byte);
    } else if (mode == SEARCHING) {
        look_for_sync(before, byte, count);
    } else if (mode >= HEADER && mode <= CRC_HIGH) {
        frame_byte(mode);
    }
}

void cc1000_receive_strength(uint16_t value)
{
    uint8_t mode = cc1000_mode;
    if (mode >= HEADER && mode <= CRC_HIGH)
        slot(rx.filling)->strength = value;
}

bool cc1000_is_quiet(void)
{
    return cc1000_mode == LISTENING && rx.count == 0;
}

/* ---- The loop's side ---- */

/** A line that falls with the voltage, as the data sheet has it for each band. */
static int8_t dbm(uint16_t value)
{
    uint16_t below =
        (uint16_t)(CAUSEWAY_BAND_RSSI_AT_0 +
                   ((uint32_t)value * (CAUSEWAY_BAND_RSSI_TENTHS * CC1000_CONF_SUPPLY_MV / 10000) >> 10));
    return below < 127 ? (int8_t) - (int16_t)below : -127;
}

void cc1000_hand_over_frames(void)
{
    while (rx.full > 0) {
        uint8_t was = cc1000_lock();
        slot_t *oldest = slot(rx.filling ^ rx.full);
        radio_heard_t *heard = &oldest->heard;
        cc1000_unlock(was);
        if (heard->message.length > CAUSEWAY_PAYLOAD_LIMIT)
            heard->message.length = 0;
        heard->rssi = oldest->strength == STRENGTH_UNKNOWN ? RADIO_RSSI_UNKNOWN : dbm(oldest->strength);
        heard->lqi = 0;
        heard->error = 0;
        radio_on_heard(heard);
        was = cc1000_lock();
        rx.full--;
        cc1000_unlock(was);
    }
}

bool radio_quiet(void)
{
    uint8_t was = cc1000_lock();
    bool quiet = cc1000_is_quiet() && rx.full == 0;
    cc1000_unlock(was);
    return quiet;
}

bool cc1000_receive_sound(void)
{
    return rx.full <= SLOTS && rx.filling < SLOTS;
}
