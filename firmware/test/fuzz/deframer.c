/* Coverage-guided fuzzing of all that reads bytes from outside: deframer, packets, data payloads, fixed
 * messages, air headers.
 *
 * tests/firmware/test_core_fuzz.py builds it and searches for some seconds; for longer, with clang and
 * -fsanitize=fuzzer,address,undefined from the core's sources and this one:
 *
 *     ./deframer -max_len=600 -max_total_time=600 firmware/test/fuzz/corpus
 *
 * The input is a serial line. The same bytes are also taken as an air frame, a payload and a stamp.
 */
#include <stdlib.h>
#include <string.h>

#include "causeway/air.h"
#include "causeway/am.h"
#include "causeway/crc.h"
#include "causeway/data.h"
#include "causeway/frame.h"
#include "causeway/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* A copy of exactly that size, so that the address sanitizer sees every byte read beyond. */
static uint8_t *copy(const uint8_t *bytes, size_t size)
{
    uint8_t *own = malloc(size ? size : 1);

    must(own != NULL);
    memcpy(own, bytes, size);
    return own;
}

static void read_data(const uint8_t *payload, uint8_t length)
{
    static cw_stamp_t stamp;
    static cw_receipts_t receipts;
    static uint32_t tick;
    cw_data_counters_t counters = {{0}};
    uint8_t *own = copy(payload, length), ours[CAUSEWAY_PAYLOAD_BYTES] = {0};

    if (cw_data_check(own, length, &counters) == CW_DATA_OK && cw_data_source(own) < CAUSEWAY_MOTES) {
        tick += own[length - 1];
        must(cw_stamp_receive(&stamp, tick, own, (uint8_t)cw_stamp_items(length)) != CW_STAMP_REFUSED);
        cw_receipts_add(&receipts, cw_data_source(own), cw_data_boot(own), cw_data_sequence(own));
        uint8_t hops = cw_data_hops(own);
        must(cw_data_relay(own) == (hops > 0));
        must(cw_data_hops(own) == (hops == 0 || hops == CW_DATA_HOPS_TOP ? hops : hops - 1));
        memcpy(ours, own, CAUSEWAY_STAMP_AT);
        uint8_t sent = cw_data_put_stamp(ours, &stamp, tick);
        cw_data_put_receipts(ours, sent, &receipts);
        must(cw_data_check(ours, sent, &counters) == CW_DATA_OK);
    }
    free(own);
}

/* What can be read must come out the same when written again; a tail (a beacon's list, a health's duty) is no
 * part of the record. */
#define ROUND(lower, UPPER)                                    \
    if (am->type == CAUSEWAY_AM_##UPPER) {                     \
        cw_##lower##_t record;                                 \
        uint8_t again[CAUSEWAY_##UPPER##_BYTES];               \
        if (cw_##lower##_get(am->data, am->length, &record)) { \
            memcpy(again, am->data, sizeof(again));            \
            cw_##lower##_put(again, &record);                  \
            must(memcmp(again, am->data, sizeof(again)) == 0); \
        }                                                      \
    }

static void read_message(const cw_am_t *am)
{
    ROUND(beacon, BEACON)
    ROUND(heard, HEARD)
    ROUND(health, HEALTH)
    ROUND(status, STATUS)
    ROUND(downlink, DOWNLINK)
    ROUND(arrived, ARRIVED)
    ROUND(taken, TAKEN)
    ROUND(idle, IDLE)
    if (am->type == CAUSEWAY_AM_DATA)
        read_data(am->data, am->length);
}

static void read_packet(const uint8_t *packet, uint8_t length)
{
    uint8_t kept = length < CW_DEFRAMER_ROOM ? length : CW_DEFRAMER_ROOM;
    uint8_t *own = copy(packet, kept);
    uint8_t again[CW_PACKET_LIMIT];
    cw_packet_t read;
    cw_packet_kind_t kind = cw_am_parse(own, length, &read);

    if (kind == CW_PACKET_IS_DATA || kind == CW_PACKET_IS_DATA_ACK) {
        must(length <= CW_PACKET_LIMIT && read.am.data + read.am.length == own + length);
        read_message(&read.am);
    }
    if (kind == CW_PACKET_IS_DATA) {
        must(cw_am_build(&read.am, again) == length);
        must(memcmp(again, own, length) == 0);
    }
    free(own);
}

static void read_air(const uint8_t *bytes, size_t size)
{
    cw_am_t am;

    if (size < CW_AIR_HEADER)
        return;
    uint8_t *own = copy(bytes, CW_AIR_HEADER);
    if (cw_air_parse(own, &am) == CW_AIR_OK)
        must(am.length <= CAUSEWAY_PAYLOAD_LIMIT);
    free(own);
}

/* Frame the packet again: the line must give it back. */
static void frame_again(const uint8_t *packet, uint8_t length)
{
    cw_framer_t framer;
    cw_deframer_t second = {.in_sync = false};
    uint8_t found = 0;
    int16_t byte;

    cw_framer_start(&framer, packet, length);
    while ((byte = cw_framer_next(&framer)) >= 0)
        found = cw_deframer_put(&second, (uint8_t)byte);
    must(found == length && memcmp(second.packet, packet, length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    cw_deframer_t *deframer = malloc(sizeof(*deframer));

    must(deframer != NULL);
    cw_deframer_start(deframer);
    for (size_t i = 0; i < size; i++) {
        uint8_t length = cw_deframer_put(deframer, bytes[i]);
        if (length) {
            read_packet(deframer->packet, length);
            if (length <= CW_DEFRAMER_ROOM)
                frame_again(deframer->packet, length);
        }
    }
    free(deframer);
    /* Past the CRC, which a fuzzer seldom guesses. */
    if (size <= CW_FRAME_MAX - 2) {
        read_packet(bytes, (uint8_t)size);
        read_data(bytes, (uint8_t)size);
    }
    read_air(bytes, size);
    return 0;
}
