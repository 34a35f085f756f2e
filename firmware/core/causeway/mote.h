/** Stamps the messages that an application sends, and takes in those that it hears, in three calls.
 *
 *     cw_mote_start(&mote, id, boots, tick);                              at boot
 *     length = cw_mote_send(&mote, tick, in_sync, hops, data, payload);   then hand the payload to the radio
 *     what = cw_mote_receive(&mote, tick, in_sync, payload, length);      for every payload that the radio
 * hears
 *
 * `tick` is cw_tick() of the network's time: of the moment at which a message is handed over, or at which its
 * frame came in. `in_sync` says whether our clock follows the network's. A stamp without a clock
 * (CAUSEWAY_STAMP_NAMED) needs neither: any tick, and true.
 *
 * The network's time, relays and the radio are the application's. There must be an event at least once in 18
 * hours, or a call of cw_stamp_tidy().
 *
 * These calls make and check no MIC. In a network with a key (CAUSEWAY_MIC_BYTES) everybody would refuse what
 * they send, and they would believe forged messages. So they are there only if you say, by
 * CW_SEALED_BY_CALLER, that you make and check MICs yourself: docs/reference/library.md, "In a network with a
 * key".
 */
#ifndef CW_MOTE_H
#define CW_MOTE_H

#include "causeway_layout.h"

#if defined(CAUSEWAY_MIC_BYTES) && !defined(CW_SEALED_BY_CALLER)
#error "cw_mote_*() makes no MICs, which this layout has: docs/reference/library.md, In a network with a key"
#endif

#include "data.h"
#include "dedup.h"
#include "flag.h"
#include "receipts.h"
#include "stamp.h"
#include "ticks.h"
#include "types.h"

CW_C_BEGIN

typedef struct {
    uint16_t id;
    uint8_t boots;
    uint8_t sequence; /* of our last message */
    cw_flag_t sent;   /* one in `tick` */
    uint32_t tick;    /* of the last event: events do not run backwards */
    cw_stamp_t stamp;
    cw_receipts_t receipts;
    cw_dedup_t seen;
    cw_data_counters_t checks; /* payloads heard, by whether they are ours */
} cw_mote_t;

/** What a payload was. */
typedef enum {
    CW_MOTE_NEW,     /* a peer's message, heard for the first time: read it, forward it */
    CW_MOTE_KNOWN,   /* a copy of one heard before */
    CW_MOTE_OWN,     /* our own, forwarded by others */
    CW_MOTE_FOREIGN, /* no data message of this layout */
} cw_mote_heard_t;

/** Start as mote `id`, below CAUSEWAY_MOTES. `boots` counts our starts; its last three bits must outlive
 * a reset, or others take new messages for old ones. `mote` must be all zero (a static one is). */
void cw_mote_start(cw_mote_t *mote, uint16_t id, uint8_t boots, uint32_t tick);

/** The network's time jumped: its root started anew, or we joined. Forget what was known by the old time.
 */
void cw_mote_restart(cw_mote_t *mote, uint32_t tick);

/** Make a message of the application's CAUSEWAY_DATA_BYTES bytes, to be forwarded up to `hops` times. Return
 * the payload's length; 0 if it must wait for the next tick, since this one has had its message
 * (CAUSEWAY_ONE_SEND_A_TICK). */
uint8_t cw_mote_send(cw_mote_t *mote, uint32_t tick, bool in_sync, uint8_t hops, const uint8_t *data,
                     uint8_t payload[CAUSEWAY_PAYLOAD_BYTES]);

/** Take in a payload of `length` bytes, whatever it holds. */
cw_mote_heard_t cw_mote_receive(cw_mote_t *mote, uint32_t tick, bool in_sync, const uint8_t *payload,
                                uint8_t length);

CW_C_END

#endif
