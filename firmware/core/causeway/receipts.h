/** Receipts name the messages that we received, for the observer, in the receipt slots of our own messages.
 *
 * We keep the newest sequence received from each source; earlier ones follow by program order. A message's
 * slots first take receipts not sent yet, then old ones again (a message may get lost), each time those whose
 * source was sent least recently. With CAUSEWAY_RECEIPTS 0 the functions do nothing.
 *
 * A mote that hears more sources than rows forgets a source whose receipt was sent; if all are unsent, the
 * new receipt is dropped and the next message is not complete.
 */
#ifndef CW_RECEIPTS_H
#define CW_RECEIPTS_H

#include "causeway_layout.h"
#include "flag.h"
#include "types.h"

CW_C_BEGIN

#ifndef CW_RECEIPTS_ROOM
#define CW_RECEIPTS_ROOM (CAUSEWAY_MOTES < 32 ? CAUSEWAY_MOTES : 32) /* sources; at most 255 */
#endif

typedef struct {
#if CAUSEWAY_SOURCE_BYTES == 1
    uint8_t source;
#else
    uint16_t source;
#endif
    uint8_t sequence;
    uint8_t state; /* boot count mod 8, and whether it was sent: receipts.c */
} cw_receipt_t;

typedef struct {
#if CAUSEWAY_RECEIPTS
    cw_receipt_t rows[CW_RECEIPTS_ROOM]; /* least recently sent first */
    uint8_t used;
    cw_flag_t overflow; /* one was left out since the last send */
#else
    uint8_t nothing;
#endif
} cw_receipts_t;

/** Forget all. A static state is ready without it. */
void cw_receipts_start(cw_receipts_t *receipts);

/** Note a received message (first copy, merged). `source` must not be our own id. A message older than
 * the newest of that source and boot changes nothing. */
void cw_receipts_add(cw_receipts_t *receipts, uint16_t source, uint8_t boot, uint8_t sequence);

/** Fill the receipt slots of a message that `own` sends with `sequence`; slots not needed repeat these
 * two. `slots` has CAUSEWAY_RECEIPTS * CAUSEWAY_RECEIPT_BYTES bytes. Return true if every message
 * received since the last call is named, or a later one of its source: the message is complete. (Always
 * false without slots.) */
bool cw_receipts_put(cw_receipts_t *receipts, uint16_t own, uint8_t sequence, uint8_t *slots);

CW_C_END

#endif
