/** The stamp program of the deployment's scheme. The layout header selects one of
 *
 *     stamp_kn.c             kn and dpc2: the largest clock known, and how many events are known at and
 *                            below it
 *     stamp_hlc.c            hlc and shlc: a hybrid logical clock
 *     stamp_dpc1.c           dpc1: the clock alone
 *     stamp_named.c          sequence: nothing; last-sender: the name of the last message received
 *     stamp_vector.c         vector: how many messages of each other mote are known
 *     stamp_delta_vector.c   delta-vector: the clock, and how long ago each mote last sent
 *
 * docs/algorithms.md explains the first three, docs/schemes.md the others. The state holds only what the
 * stamp needs.
 *
 *     cw_stamp_start(&stamp, tick);                    at boot and at each new epoch of the time root
 *     if (cw_stamp_send(&stamp, tick, payload))        for each message sent: true sets its saturated flag
 *     cw_stamp_receive(&stamp, tick, payload)          for each message received from a peer that is in sync
 *
 * `tick` is the mote's tick at the event; for a reception, when the frame came in, not when it is processed.
 * Ticks must not run backwards from event to event. Two events more than 18 hours apart look like a fault to
 * the bound. That is harmless: it clears what is too old to matter, and counts. Stamps without a clock
 * (CAUSEWAY_STAMP_NAMED) ignore ticks.
 *
 * Self-stabilization: no clock is more than EPSILON ahead of another, and a carry runs ahead by less than
 * that again: a time more than LEAD ahead must be a fault.
 * In our own state it is cleared; in a received stamp c and the entries (an HLC: everything) are ignored.
 * `bounded` counts both. Wrong names and numbers are replaced by those of new messages; a wrong counter after
 * at most 128 messages of its mote.
 */
#ifndef CW_STAMP_H
#define CW_STAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"

#if CAUSEWAY_ENTRY_TOP <= 255
typedef uint8_t cw_entry_t;
#else
typedef uint16_t cw_entry_t;
#endif

#if CAUSEWAY_SCHEME_KN || CAUSEWAY_SCHEME_DPC2 || CAUSEWAY_SCHEME_HLC || CAUSEWAY_SCHEME_SHLC

/* r need not be kept, since every event sets it to the clock. */
typedef struct {
    uint32_t top; /* the largest clock known: L = r + c, or an HLC's l. A tick; see ticks.h */
#if CAUSEWAY_ENTRIES
    /* kn[i]: events known at clock value top - i; an HLC's counter. At most ENTRY_TOP */
    cw_entry_t kn[CAUSEWAY_ENTRIES];
#endif
    uint16_t bounded; /* how often the bound had to cut, since boot; wraps */
} cw_stamp_t;

#elif CAUSEWAY_SCHEME_LAST_SENDER

typedef struct {
    cw_entry_t source; /* of the last message received */
    uint8_t sequence;
    uint8_t known;    /* there was one */
    uint16_t bounded; /* as above: how often `source` was no mote */
} cw_stamp_t;

#elif CAUSEWAY_SCHEME_VECTOR

typedef struct {
    uint8_t known[CAUSEWAY_MOTES]; /* messages known, modulo 256: the newest one's sequence + 1 */
    uint8_t started;               /* something was received */
    uint16_t bounded;              /* 0: there is nothing to cut */
} cw_stamp_t;

#elif CAUSEWAY_SCHEME_DELTA_VECTOR

typedef struct {
    uint32_t tick; /* of the last event */
    /* how long before it each mote last sent, plus EPSILON; more than matters: too long ago, or never */
    cw_entry_t ages[CAUSEWAY_MOTES];
    uint16_t bounded; /* as above */
} cw_stamp_t;

#else

typedef struct {
    uint16_t bounded; /* 0: there is nothing to cut */
} cw_stamp_t;

#endif

typedef enum {
    CW_STAMP_OK,
    CW_STAMP_BOUNDED, /* the event was taken, but the bound cut: our own state, the received stamp, or both */
    /* not a stamp of this layout, or not from a mote where the scheme needs that. No event was taken */
    CW_STAMP_REFUSED,
} cw_stamp_result_t;

/** Start at this tick and forget all times of an older epoch; names of messages stay. At boot the state must
 * be all zero (a static state is). `bounded` is kept. */
void cw_stamp_start(cw_stamp_t *state, uint32_t tick);

/** Take a send event and write the stamp into the message, which already has its source (a mote) and its
 * sequence. Return true if a field holds its top code: the message must then be flagged saturated. */
bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t *payload);

/** Take the receive event of this message. */
cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t *payload);

/** Why these bytes are not a stamp of this layout. */
typedef enum { CW_STAMP_SOUND, CW_STAMP_PADDING, CW_STAMP_RANGE } cw_stamp_fault_t;

/** Check that padding is zero, every value is in its field's range and every name is a mote's. */
cw_stamp_fault_t cw_stamp_check(const uint8_t stamp[CAUSEWAY_STAMP_BYTES]);

#if CAUSEWAY_CLOCK_WIDTH
/** The tick that the stamp's clock field means if the message was received at tick `now`: the sender's clock
 * at the send or, with CAUSEWAY_CARRY_SUM, l, which is up to EPSILON later. A message older than B ticks
 * reads as a younger one. */
uint32_t cw_stamp_clock(const uint8_t stamp[CAUSEWAY_STAMP_BYTES], uint32_t now);
#endif

#endif
