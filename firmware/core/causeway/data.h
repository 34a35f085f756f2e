/** The payload of a data message: source, sequence, flags, stamp, receipts, application data.
 *
 * A payload stays in wire form; it is built in place and read in place. To build one, when it is handed to
 * the radio:
 *
 *     memcpy(cw_data_application(payload, CAUSEWAY_PAYLOAD_BYTES), readings, CAUSEWAY_DATA_BYTES);
 *     cw_data_head(payload, own_id, sequence, boots, hops, in_sync);
 *     length = cw_data_put_stamp(payload, &stamp, tick);
 *     cw_data_put_receipts(payload, length, &receipts);
 *
 * A stamp may be shorter than CAUSEWAY_STAMP_BYTES; receipts and application data follow it at once, so where
 * they are depends on the payload's length.
 *
 * To read a received one, call cw_data_check(); only if it returns CW_DATA_OK use the accessors below.
 */
#ifndef CW_DATA_H
#define CW_DATA_H

#include "bytes.h"
#include "causeway_layout.h"
#include "receipts.h"
#include "stamp.h"
#include "types.h"

CW_C_BEGIN

#define CW_DATA_BOOT_MASK 7
#define CW_DATA_HOPS_TOP 3 /* "3 or more": not counted down */

/** Why a payload is not read. */
typedef enum {
    CW_DATA_OK,
    CW_DATA_LENGTH, /* no stamp of ours gives it */
    CW_DATA_SPARE,  /* padding bits after the stamp are set */
    CW_DATA_VALUE,  /* a stamp value over its field's range (bytes packing) */
    CW_DATA_REASONS,
} cw_data_reason_t;

/** Payloads looked at, by outcome; each wraps. count[CW_DATA_OK] counts the good ones. */
typedef struct {
    uint16_t count[CW_DATA_REASONS];
} cw_data_counters_t;

/** Check a received payload of our data type and count the outcome. Nothing beyond `length` is read. */
cw_data_reason_t cw_data_check(const uint8_t *payload, uint8_t length, cw_data_counters_t *counters);

/** Write source, sequence and flags: the last 3 bits of `boot`, `hops` but at most 3, saturated and
 * complete clear. */
void cw_data_head(uint8_t *payload, uint16_t source, uint8_t sequence, uint8_t boot, uint8_t hops,
                  bool in_sync);

/** Take a send event and write its stamp and the saturated flag; the application's data moves up to the
 * end of a shorter one. Return the payload's length. */
uint8_t cw_data_put_stamp(uint8_t *payload, cw_stamp_t *stamp, uint32_t tick);

/** Fill the receipt slots and write the complete flag. */
void cw_data_put_receipts(uint8_t *payload, uint8_t length, cw_receipts_t *receipts);

/** Count a received payload's hops down in place, so that it can be forwarded. If it has none left, return
 * false and change nothing. "3 or more" stays: the duplicate filter and delta end such a message.
 */
bool cw_data_relay(uint8_t *payload);

static inline uint16_t cw_data_source(const uint8_t *payload)
{
    return cw_get_source(payload + CAUSEWAY_SOURCE_AT);
}

static inline uint8_t cw_data_sequence(const uint8_t *payload)
{
    return payload[CAUSEWAY_SEQUENCE_AT];
}

static inline bool cw_data_flag(const uint8_t *payload, uint8_t bit)
{
    return (payload[CAUSEWAY_FLAGS_AT] & (1U << bit)) != 0;
}

static inline bool cw_data_in_sync(const uint8_t *payload)
{
    return cw_data_flag(payload, CAUSEWAY_FLAG_IN_SYNC);
}

static inline bool cw_data_saturated(const uint8_t *payload)
{
    return cw_data_flag(payload, CAUSEWAY_FLAG_SATURATED);
}

static inline bool cw_data_complete(const uint8_t *payload)
{
    return cw_data_flag(payload, CAUSEWAY_FLAG_COMPLETE);
}

/** Boot count modulo 8. */
static inline uint8_t cw_data_boot(const uint8_t *payload)
{
    return payload[CAUSEWAY_FLAGS_AT] >> CAUSEWAY_FLAG_BOOT & CW_DATA_BOOT_MASK;
}

/** How many more times it may be forwarded; 3: three or more. */
static inline uint8_t cw_data_hops(const uint8_t *payload)
{
    return payload[CAUSEWAY_FLAGS_AT] >> CAUSEWAY_FLAG_HOPS;
}

/** Boot and sequence in one number, which names a message of its source. For the duplicate filter. */
static inline uint16_t cw_data_number(const uint8_t *payload)
{
    return (uint16_t)((uint16_t)cw_data_boot(payload) << 8 | cw_data_sequence(payload));
}

/** That number as an Arrived carries it, and back: above its 11 bits are the low 5 of the layout's hash, so
 * that a gateway of another deployment names no message of ours. */
static inline uint16_t cw_data_arrived(uint16_t number)
{
    return (uint16_t)(number ^ (uint16_t)((uint16_t)CAUSEWAY_LAYOUT_HASH << 11));
}

static inline const uint8_t *cw_data_stamp(const uint8_t *payload)
{
    return payload + CAUSEWAY_STAMP_AT;
}

/** The tick at which it was sent, by its stamp, if received at `tick`; `tick` itself if the stamp has no
 * clock.
 */
static inline uint32_t cw_data_sent(const uint8_t *payload, uint32_t tick)
{
#if CAUSEWAY_CLOCK_WIDTH
    return cw_data_in_sync(payload) ? cw_stamp_clock(cw_data_stamp(payload), tick) : tick;
#else
    (void)payload;
    return tick;
#endif
}

/* Where something stands that is at `place` in the longest payload. */
static inline uint8_t cw_data_place(uint8_t place, uint8_t length)
{
#if CAUSEWAY_STAMP_VARIABLE
    return (uint8_t)(place + length - CAUSEWAY_PAYLOAD_BYTES);
#else
    (void)length;
    return place;
#endif
}

/** The CAUSEWAY_DATA_BYTES bytes of the application, in a payload of this length. */
static inline uint8_t *cw_data_application(uint8_t *payload, uint8_t length)
{
    return payload + cw_data_place(CAUSEWAY_DATA_AT, length);
}

CW_C_END

#endif
