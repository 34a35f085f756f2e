/* What the tests of the core need beyond its public functions: sizes, inline functions, structs as flat
 * arrays. */
#include <stddef.h>
#include <string.h>

#include "causeway/air.h"
#include "causeway/am.h"
#include "causeway/bytes.h"
#include "causeway/crc.h"
#include "causeway/data.h"
#include "causeway/dedup.h"
#include "causeway/frame.h"
#include "causeway/knows.h"
#include "causeway/receipts.h"
#include "causeway/records.h"
#include "causeway/stamp.h"
#include "causeway/ticks.h"

const uint32_t bridge_sizes[] = {
    sizeof(cw_stamp_t),  sizeof(cw_receipts_t), sizeof(cw_dedup_t),
    sizeof(cw_framer_t), sizeof(cw_deframer_t), sizeof(cw_data_counters_t),
    CW_RECEIPTS_ROOM,    CW_DEDUP_ROOM,         CW_DEFRAMER_ROOM,
    CW_PACKET_LIMIT,     CW_AIR_HEADER,
};

int32_t bridge_tick_diff(uint32_t a, uint32_t b)
{
    return cw_tick_diff(a, b);
}

int32_t bridge_clock_ahead(uint16_t field, uint32_t now)
{
    return cw_clock_ahead(field, now);
}

uint32_t bridge_tick(uint32_t time)
{
    return cw_tick(time);
}

uint16_t bridge_bounded(const cw_stamp_t *state)
{
    return state->bounded;
}

uint8_t bridge_stamp_size(const cw_stamp_t *state)
{
    return cw_stamp_size(state);
}

int bridge_knows(const uint8_t *payload, uint8_t length, uint32_t now, uint16_t own, uint8_t sequence,
                 uint32_t tick)
{
    cw_own_t ours = {own, sequence, tick};

    return (int)cw_knows(payload, length, now, &ours);
}

/* Overwrite the state of an ordered stamp, as a fault in memory would. */
void bridge_corrupt(cw_stamp_t *state, uint32_t top, const uint16_t *kn)
{
    (void)state;
    (void)top;
    (void)kn;
#if CAUSEWAY_SCHEME_KN || CAUSEWAY_SCHEME_DPC2 || CAUSEWAY_SCHEME_HLC || CAUSEWAY_SCHEME_SHLC
    state->top = top;
#if CAUSEWAY_ENTRIES
    for (int i = 0; i < CAUSEWAY_ENTRIES; i++)
        state->kn[i] = (cw_entry_t)kn[i];
#endif
#endif
}

/* source, sequence, in sync, saturated, complete, boot, hops, number */
void bridge_data_read(const uint8_t *payload, uint16_t *values)
{
    values[0] = cw_data_source(payload);
    values[1] = cw_data_sequence(payload);
    values[2] = cw_data_in_sync(payload);
    values[3] = cw_data_saturated(payload);
    values[4] = cw_data_complete(payload);
    values[5] = cw_data_boot(payload);
    values[6] = cw_data_hops(payload);
    values[7] = cw_data_number(payload);
}

const uint8_t *bridge_packet(const cw_deframer_t *deframer)
{
    return deframer->packet;
}

/* frames, noise, short, crc, escape, long */
void bridge_deframer_counters(const cw_deframer_t *deframer, uint16_t *values)
{
    const cw_deframer_counters_t *c = &deframer->counters;
    const uint16_t found[] = {c->frames, c->noise, c->brief, c->crc, c->escape, c->overlong};

    memcpy(values, found, sizeof(found));
}

/* All of a chunk at once; packets end to end in `out`, their lengths in `lengths`; how many there were. */
int bridge_deframe(cw_deframer_t *deframer, const uint8_t *bytes, uint32_t count, uint8_t *out,
                   uint8_t *lengths)
{
    int found = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint8_t length = cw_deframer_put(deframer, bytes[i]);
        if (!length)
            continue;
        uint8_t kept = length < CW_DEFRAMER_ROOM ? length : CW_DEFRAMER_ROOM;
        memcpy(out, deframer->packet, kept);
        out += kept;
        lengths[found++] = length;
    }
    return found;
}

static cw_am_t am_of(const uint16_t *fields, const uint8_t *data)
{
    return (cw_am_t){
        .dest = fields[0],
        .source = fields[1],
        .type = (uint8_t)fields[2],
        .group = (uint8_t)fields[3],
        .length = (uint8_t)fields[4],
        .data = data,
    };
}

/* dest, source, type, group, length, where the data starts */
static void fields_of(const cw_am_t *am, const uint8_t *start, uint16_t *fields)
{
    fields[0] = am->dest;
    fields[1] = am->source;
    fields[2] = am->type;
    fields[3] = am->group;
    fields[4] = am->length;
    fields[5] = (uint16_t)(am->data - start);
}

/* fields[6]: wants an acknowledgement, fields[7]: token */
int bridge_am_parse(const uint8_t *packet, uint8_t length, uint16_t *fields)
{
    cw_packet_t read = {.am = {.data = packet}};
    cw_packet_kind_t kind = cw_am_parse(packet, length, &read);

    fields_of(&read.am, packet, fields);
    fields[6] = read.wants_ack;
    fields[7] = read.token;
    return (int)kind;
}

uint8_t bridge_am_build(const uint16_t *fields, const uint8_t *data, uint8_t *packet)
{
    cw_am_t am = am_of(fields, data);

    return cw_am_build(&am, packet);
}

int bridge_air_parse(const uint8_t *frame, uint16_t *fields)
{
    cw_am_t am = {.data = frame};
    cw_air_t reason = cw_air_parse(frame, &am);

    fields_of(&am, frame, fields);
    return (int)reason;
}

bool bridge_air_build(const uint16_t *fields, const uint8_t *data, uint8_t number, uint8_t *header)
{
    cw_am_t am = am_of(fields, data);

    return cw_air_build(&am, number, header);
}

#define FILL(name, place) record.name = (__typeof__(record.name))values[i++];
#define SHOW(name, place) values[i++] = record.name;
#define RECORD(lower, UPPER)                                                           \
    void bridge_##lower##_put(uint8_t *payload, const int64_t *values)                 \
    {                                                                                  \
        cw_##lower##_t record;                                                         \
        int i = 0;                                                                     \
        CW_##UPPER(FILL, FILL, FILL, FILL) cw_##lower##_put(payload, &record);         \
    }                                                                                  \
    bool bridge_##lower##_get(const uint8_t *payload, uint8_t length, int64_t *values) \
    {                                                                                  \
        cw_##lower##_t record;                                                         \
        int i = 0;                                                                     \
        if (!cw_##lower##_get(payload, length, &record))                               \
            return false;                                                              \
        CW_##UPPER(SHOW, SHOW, SHOW, SHOW) return true;                                \
    }

RECORD(beacon, BEACON)
RECORD(heard, HEARD)
RECORD(health, HEALTH)
RECORD(status, STATUS)
RECORD(downlink, DOWNLINK)
RECORD(arrived, ARRIVED)
RECORD(taken, TAKEN)
RECORD(idle, IDLE)
