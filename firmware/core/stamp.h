/** The stamp program of the deployment's scheme. The layout header selects it when this is compiled; the
 * programs are in
 *
 *     stamp_kn.c             kn and dpc2: the largest clock value known, and how many events are known at it
 * and below stamp_hlc.c            hlc and shlc: a hybrid logical clock stamp_dpc1.c           dpc1: the
 * clock alone stamp_named.c          sequence: nothing, and last-sender: the name of the last message
 * received stamp_vector.c         vector: how many messages of each other mote are known of
 *     stamp_delta_vector.c   delta-vector: the clock, and how long ago each mote last sent
 *
 * docs/algorithms.md has the first three, docs/schemes.md the others. The state is what the stamp needs and
 * no more.
 *
 *     cw_stamp_start(&stamp, tick);                    at boot and at each new epoch of the time root
 *     if (cw_stamp_send(&stamp, tick, payload))        for each message sent: true sets its saturated flag
 *     cw_stamp_receive(&stamp, tick, payload)          for each message received from a peer that is in sync
 *
 * `tick` is the mote's tick at the event (of a reception: when the frame came in, not when it is looked at).
 * Ticks must not run backwards from event to event. Two events more than 18 hours apart look like a fault to
 * the bound, which is harmless: it clears what was too old to matter and counts. Stamps without a clock
 * (CAUSEWAY_STAMP_NAMED) do not look at ticks.
 *
 * Self-stabilization: no clock is more than EPSILON ahead of another, so a time beyond that can only be a
 * fault. In our own state it is cleared; in a received stamp c and the entries (an HLC: all) are ignored.
 * Both are counted in `bounded`. Names and numbers that are wrong are overtaken by those of new messages: a
 * counter after 128 of its mote's at the latest.
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
    uint32_t top; /* the largest clock value known of: L = r + c, or an HLC's l. A tick; see ticks.h */
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
    uint8_t known[CAUSEWAY_MOTES]; /* messages known of, modulo 256: the newest one's sequence + 1 */
    uint8_t started;               /* something was received */
    uint16_t bounded;              /* 0: there is nothing to cut */
} cw_stamp_t;

#elif CAUSEWAY_SCHEME_DELTA_VECTOR

typedef struct {
    uint32_t tick; /* of the last event */
    /* how long before it each mote last sent, plus EPSILON; more than matters: or never */
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
    /* no stamp of this layout, or of no mote (where the stamp is about motes). No event was taken */
    CW_STAMP_REFUSED,
} cw_stamp_result_t;

/** Start at this tick, with nothing known of others that was told by an older clock; what messages are called
 * outlasts it. At boot the state must be all zero (a static state is): `bounded` goes on. */
void cw_stamp_start(cw_stamp_t *state, uint32_t tick);

/** Take a send event and write the stamp into the message, whose source (a mote) and sequence are there
 * already. True when a field holds its top code: the message must then say that it is saturated. */
bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t *payload);

/** Take a receive event that brings this message. */
cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t *payload);

/** Why these bytes are no stamp of this layout. */
typedef enum { CW_STAMP_SOUND, CW_STAMP_PADDING, CW_STAMP_RANGE } cw_stamp_fault_t;

/** Whether padding is zero, every value within its field's range and every name a mote's; changes nothing. */
cw_stamp_fault_t cw_stamp_check(const uint8_t stamp[CAUSEWAY_STAMP_BYTES]);

#if CAUSEWAY_CLOCK_WIDTH
/** The tick that the stamp's clock field means to one who received the message at tick `now`: the sender's
 * clock at the send; with CAUSEWAY_CARRY_SUM l, which is up to EPSILON later. A message older than B ticks
 * reads as a younger one. */
uint32_t cw_stamp_clock(const uint8_t stamp[CAUSEWAY_STAMP_BYTES], uint32_t now);
#endif

#endif
