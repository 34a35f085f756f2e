/* The core against the golden vectors of one layout (core_vectors.h, made by tests/firmware/core_vectors.py).
 */
#include <string.h>

#include "causeway/air.h"
#include "causeway/am.h"
#include "check.h"
#include "causeway/crc.h"
#include "causeway/data.h"
#include "causeway/dedup.h"
#include "causeway/frame.h"
#include "causeway/mote.h"
#include "causeway/receipts.h"
#include "causeway/records.h"
#include "causeway/stamp.h"
#include "causeway/ticks.h"

#ifndef __AVR__
#define PROGMEM
#define memcpy_P memcpy
#endif

#define FRAME_LIMIT (2 + 2 * (CW_PACKET_LIMIT + 2))

/* A message: what it says, its payload, its frame on the serial line. */
typedef struct {
    uint16_t source;
    uint8_t sequence;
    uint8_t flags;
    uint8_t length;
    uint8_t frame_length;
    uint8_t payload[CAUSEWAY_PAYLOAD_BYTES];
    uint8_t frame[FRAME_LIMIT];
} message_t;

/* An event of one mote, and how it must come out: of a send the stamp and whether it is saturated, of a
 * receive the result. `head` is the message's source, sequence and flags. */
enum { START, SEND, RECEIVE };
typedef struct {
    uint8_t kind;
    uint8_t result;
    uint32_t tick;
    uint8_t items;
    uint8_t head[CAUSEWAY_STAMP_AT];
    uint8_t stamp[CAUSEWAY_STAMP_BYTES];
} event_t;

/* A fixed message. */
typedef struct {
    uint8_t type;
    uint8_t length;
    uint8_t payload[29];
} record_t;

#include "core_vectors.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* One at a time out of flash: the tables would not fit into RAM. */
static message_t message;
static cw_deframer_t deframer;
static cw_mote_t mote; /* a large one leaves no room for a second stamp */

static uint8_t deframe(void)
{
    uint8_t length = 0;

    for (uint8_t i = 0; i < message.frame_length; i++) {
        uint8_t found = cw_deframer_put(&deframer, message.frame[i]);
        if (found)
            length = found;
    }
    return length;
}

static void frames_are_read(void)
{
    static cw_packet_t packet;
    static cw_data_counters_t counters;

    for (uint8_t i = 0; i < COUNT(MESSAGES); i++) {
        memcpy_P(&message, &MESSAGES[i], sizeof(message));
        uint8_t length = deframe();
        CHECK_EQUAL(1 + CW_AM_HEADER + message.length, length);
        CHECK_EQUAL(CW_PACKET_IS_DATA, cw_am_parse(deframer.packet, length, &packet));
        CHECK_EQUAL(CW_AM_BROADCAST, packet.am.dest);
        CHECK_EQUAL(CAUSEWAY_AM_DATA, packet.am.type);
        CHECK_EQUAL(CAUSEWAY_GROUP, packet.am.group);
        CHECK_EQUAL(CW_DATA_OK, cw_data_check(packet.am.data, packet.am.length, &counters));
        CHECK_BYTES(message.payload, packet.am.data, message.length);
        CHECK_EQUAL(message.source, cw_data_source(packet.am.data));
        CHECK_EQUAL(message.sequence, cw_data_sequence(packet.am.data));
    }
    CHECK_EQUAL(COUNT(MESSAGES), counters.count[CW_DATA_OK]);
    CHECK_EQUAL(COUNT(MESSAGES), deframer.counters.frames);
    CHECK_EQUAL(0, deframer.counters.crc);
}

static void frames_are_written(void)
{
    static uint8_t packet[CW_PACKET_LIMIT];
    cw_framer_t framer;

    for (uint8_t i = 0; i < COUNT(MESSAGES); i++) {
        memcpy_P(&message, &MESSAGES[i], sizeof(message));
        cw_am_t am = {
            .dest = CW_AM_BROADCAST,
            .source = message.source,
            .type = CAUSEWAY_AM_DATA,
            .group = CAUSEWAY_GROUP,
            .length = message.length,
            .data = message.payload,
        };
        cw_framer_start(&framer, packet, cw_am_build(&am, packet));
        int16_t byte;
        uint8_t at = 0;
        while ((byte = cw_framer_next(&framer)) >= 0 && at < message.frame_length) {
            if (byte != message.frame[at])
                CHECK_EQUAL(message.frame[at], byte);
            at++;
        }
        CHECK_EQUAL(message.frame_length, at);
        CHECK_EQUAL(-1, byte);
    }
}

static void heads_are_written(void)
{
    static uint8_t payload[CAUSEWAY_PAYLOAD_BYTES];

    for (uint8_t i = 0; i < COUNT(MESSAGES); i++) {
        memcpy_P(&message, &MESSAGES[i], sizeof(message));
        cw_data_head(payload, message.source, message.sequence, cw_data_boot(message.payload),
                     cw_data_hops(message.payload), cw_data_in_sync(message.payload));
        uint8_t written = (uint8_t)(message.flags &
                                    ~(1U << CAUSEWAY_FLAG_SATURATED | 1U << CAUSEWAY_FLAG_COMPLETE));
        CHECK_EQUAL(written, payload[CAUSEWAY_FLAGS_AT]);
        CHECK_BYTES(message.payload, payload, CAUSEWAY_FLAGS_AT);
    }
}

static void stamps_are_the_base_stations(void)
{
    cw_stamp_t *state = &mote.stamp;
    static event_t event;
    static uint8_t payload[CAUSEWAY_STAMP_AT + CAUSEWAY_STAMP_BYTES];

    for (uint16_t i = 0; i < COUNT(EVENTS); i++) {
        memcpy_P(&event, &EVENTS[i], sizeof(event));
        memcpy(payload, event.head, CAUSEWAY_STAMP_AT);
        if (event.kind == START) {
            cw_stamp_start(state, event.tick);
        } else if (event.kind == SEND) {
            CHECK_EQUAL(event.result, cw_stamp_send(state, event.tick, payload));
            CHECK_EQUAL(event.items, cw_stamp_items((uint8_t)(CW_STAMP_REST + cw_stamp_size(state))));
            CHECK_BYTES(event.stamp, payload + CAUSEWAY_STAMP_AT, cw_stamp_size(state));
        } else {
            memcpy(payload + CAUSEWAY_STAMP_AT, event.stamp, CAUSEWAY_STAMP_BYTES);
            CHECK_EQUAL(event.result, cw_stamp_receive(state, event.tick, payload, event.items));
        }
    }
    CHECK_EQUAL(BOUNDED, state->bounded);
}

/* Reading it and writing it again gives the same bytes. */
#define ROUND(lower, UPPER)                                                             \
    if (record.type == CAUSEWAY_AM_##UPPER) {                                           \
        cw_##lower##_t found;                                                           \
        CHECK(!cw_##lower##_get(record.payload, (uint8_t)(record.length - 1), &found)); \
        if (CHECK(cw_##lower##_get(record.payload, record.length, &found)))             \
            cw_##lower##_put(again, &found);                                            \
    }

static void records_are_read_and_written(void)
{
    static record_t record;
    static uint8_t again[sizeof(record.payload)];

    for (uint8_t i = 0; i < COUNT(RECORDS); i++) {
        memcpy_P(&record, &RECORDS[i], sizeof(record));
        ROUND(beacon, BEACON)
        ROUND(heard, HEARD)
        ROUND(health, HEALTH)
        ROUND(status, STATUS)
        ROUND(downlink, DOWNLINK)
        ROUND(arrived, ARRIVED)
        ROUND(taken, TAKEN)
        ROUND(idle, IDLE)
        CHECK_BYTES(record.payload, again, record.length);
    }
}

static void headers_go_over_the_air(void)
{
    static uint8_t header[CW_AIR_HEADER];
    cw_am_t am = {
        .dest = 0x1234, .source = 0x5678, .type = 0x9A, .group = CAUSEWAY_GROUP, .length = 3, .data = header};
    cw_am_t back;

    CHECK(cw_air_build(&am, 7, header));
    CHECK_EQUAL(CW_AIR_OK, cw_air_parse(header, &back));
    CHECK_EQUAL(am.dest, back.dest);
    CHECK_EQUAL(CAUSEWAY_TINYOS == 2 ? am.source : 0, back.source);
    CHECK_EQUAL(am.type, back.type);
    CHECK_EQUAL(am.group, back.group);
    CHECK_EQUAL(am.length, back.length);
    CHECK(back.data == header + CW_AIR_HEADER);
    am.length = CAUSEWAY_PAYLOAD_LIMIT + 1;
    CHECK(!cw_air_build(&am, 7, header));
}

static void crc_of_digits(void)
{
    CHECK_EQUAL(0x31C3, cw_crc16((const uint8_t *)"123456789", 9));
    CHECK_EQUAL(0, cw_crc16((const uint8_t *)"", 0));
}

static void ticks_wrap(void)
{
    CHECK(cw_tick_diff(3, CW_TICK_MASK) == 4);
    CHECK(cw_tick_diff(CW_TICK_MASK, 3) == -4);
    CHECK(cw_tick_diff(CW_TICK_SIGN - 1, 0) == (int32_t)(CW_TICK_SIGN - 1));
    CHECK(cw_clock_ahead((uint16_t)(5 + CAUSEWAY_LEAD), 5) == CAUSEWAY_LEAD);
    CHECK(cw_clock_ahead((uint16_t)(6 + CAUSEWAY_LEAD), 5) ==
          (int32_t)CAUSEWAY_LEAD + 1 - (int32_t)CAUSEWAY_MODULUS);
}

static void messages_are_known_again(void)
{
    static cw_dedup_t filter;

    for (uint16_t number = 0; number < CW_DEDUP_ROOM; number++)
        CHECK(!cw_dedup_seen(&filter, 0, number));
    CHECK(cw_dedup_seen(&filter, 0, 0));
    CHECK(!cw_dedup_seen(&filter, 1, 0));
    CHECK(!cw_dedup_seen(&filter, 0, 0));
    CHECK(cw_dedup_seen(&filter, 0, CW_DEDUP_ROOM - 1));
}

static void receipts_are_told(void)
{
#if CAUSEWAY_RECEIPTS
    static cw_receipts_t receipts;
    static uint8_t slots[CAUSEWAY_RECEIPTS * CAUSEWAY_RECEIPT_BYTES];

    CHECK(cw_receipts_put(&receipts, 1, 2, slots));
    CHECK_EQUAL(1, cw_get_source(slots));
    CHECK_EQUAL(2, slots[CAUSEWAY_SOURCE_BYTES]);
    cw_receipts_add(&receipts, 7, 3, 99);
    CHECK(cw_receipts_put(&receipts, 1, 3, slots));
    CHECK_EQUAL(7, cw_get_source(slots));
    CHECK_EQUAL(99, slots[CAUSEWAY_SOURCE_BYTES]);
#endif
}

static void a_mote_sends_and_hears(void)
{
    static const uint8_t data[CAUSEWAY_DATA_BYTES + 1];
    uint8_t payload[CAUSEWAY_PAYLOAD_BYTES];

    memset(&mote, 0, sizeof(mote));
    cw_mote_start(&mote, CAUSEWAY_MOTES - 1, 9, 1000);
    uint8_t length = cw_mote_send(&mote, 1001, true, 2, data, payload);
    CHECK_EQUAL(CW_MOTE_OWN, cw_mote_receive(&mote, 1001, true, payload, length));
    CHECK_EQUAL(1, cw_data_sequence(payload));
    CHECK_EQUAL(1, cw_data_boot(payload));
    CHECK_EQUAL(2, cw_data_hops(payload));
    /* A time before the last event's is the last event's. */
    uint8_t again = cw_mote_send(&mote, 1000, true, 2, data, payload);
    CHECK(CAUSEWAY_ONE_SEND_A_TICK ? again == 0 : again == length);
    CHECK_EQUAL(1001, mote.tick);
    CHECK(cw_mote_send(&mote, 1002, true, 2, data, payload));
    uint32_t long_ago = mote.tick - UINT32_C(70000); /* no frame waits that long */
    cw_mote_send(&mote, long_ago, true, 2, data, payload);
    CHECK(mote.tick == long_ago);

    if (CAUSEWAY_MOTES == 1)
        return;
    cw_mote_restart(&mote, 1000);
    length = cw_mote_send(&mote, 1001, true, 2, data, payload);
    mote.id = 0;
    CHECK_EQUAL(CW_MOTE_NEW, cw_mote_receive(&mote, 1001, true, payload, length));
    CHECK_EQUAL(CW_MOTE_KNOWN, cw_mote_receive(&mote, 1002, true, payload, length));
    CHECK_EQUAL(CW_MOTE_FOREIGN, cw_mote_receive(&mote, 1003, true, payload, 0));
    CHECK_EQUAL(1001, mote.tick); /* copies and unknown senders are not events */
    cw_put_source(payload + CAUSEWAY_SOURCE_AT, CAUSEWAY_MOTES);
    CHECK_EQUAL(CW_MOTE_FOREIGN, cw_mote_receive(&mote, 1003, true, payload, length));
}

int main(void)
{
    check_start();
    RUN(frames_are_read);
    RUN(frames_are_written);
    RUN(heads_are_written);
    RUN(stamps_are_the_base_stations);
    RUN(records_are_read_and_written);
    RUN(headers_go_over_the_air);
    RUN(crc_of_digits);
    RUN(ticks_wrap);
    RUN(messages_are_known_again);
    RUN(receipts_are_told);
    RUN(a_mote_sends_and_hears);
    return check_end();
}
