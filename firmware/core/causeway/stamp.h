/** The stamp program of the deployment's scheme. The layout header selects one of
 *
 *     stamp_kn.c             kn and dpc2: the largest clock known, and how many events are known at and
 *                            below it
 *     stamp_hlc.c            hlc and shlc: a hybrid logical clock
 *     stamp_dpc1.c           dpc1: only the clock
 *     stamp_named.c          sequence: nothing; last-sender: the name of the last message received
 *     stamp_vector.c         vector: how many messages of each other mote are known
 *     stamp_delta_vector.c   delta-vector: the clock, and how long ago each mote last sent
 *     stamp_barrier.c        barrier: a hybrid logical clock, and the names of the immediate causes
 *
 * docs/evidence/algorithms.md explains the first three and barrier, docs/evidence/schemes.md the others. The
 * state holds only what the stamp needs.
 *
 *     cw_stamp_start(&stamp, tick);                    at boot and at each new epoch of the time root
 *     cw_stamp_in_sync(&stamp, tick, in_sync)          before each event: whether a message may say "in sync"
 *     if (cw_stamp_send(&stamp, tick, payload))        for each message sent: true sets its saturated flag
 *     cw_stamp_receive(&stamp, tick, payload, items)   for each message received from a peer that is in sync
 *
 * `tick` is the mote's tick at the event; for a reception, when the frame came in, not when it is processed.
 * Ticks must not run backwards from event to event. Two events more than 18 hours apart look like a fault to
 * the bound. That is harmless: it clears what is too old to matter, and counts. Stamps without a clock
 * (CAUSEWAY_STAMP_NAMED) ignore ticks.
 *
 * Self-stabilization: no time in a stamp is more than LEAD ahead of a clock, so one beyond that must be a
 * fault. In our own state it is cleared; in a received stamp c and the entries (an HLC: everything) are
 * ignored. `bounded` counts both. Wrong names and numbers are replaced by those of new messages; a wrong
 * counter after at most 128 messages of its mote.
 */
#ifndef CW_STAMP_H
#define CW_STAMP_H

#include "causeway_layout.h"
#include "stamp_items.h"
#include "types.h"

CW_C_BEGIN

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

#elif CAUSEWAY_SCHEME_BARRIER

/* Nothing older than this many ticks can matter to any event: see stamp_barrier.c. */
#define CW_BARRIER_CLOSE (2UL * CAUSEWAY_DELTA + 2UL * CAUSEWAY_EPSILON + 1)
#define CW_BARRIER_SPAN (CW_BARRIER_CLOSE > CAUSEWAY_MODULUS ? CW_BARRIER_CLOSE : CAUSEWAY_MODULUS)

#if CW_BARRIER_SPAN + CAUSEWAY_LEAD < 16383
typedef uint16_t cw_past_t; /* the low bits of a tick */
#else
typedef uint32_t cw_past_t;
#endif

/* The newest message of a source. */
typedef struct {
    cw_past_t top; /* its l */
    uint8_t sequence;
    uint8_t marks;
} cw_cause_t;

typedef struct {
    uint32_t tick;      /* of the last event; all times below are recent, by it */
    cw_past_t top;      /* l: the largest time known */
    cw_past_t quiet;    /* up to this tick messages go out of sync */
    cw_past_t previous; /* l of our last message */
    cw_past_t sent[16]; /* l of our last message of each residue of sequence numbers */
    cw_cause_t heard[CAUSEWAY_MOTES];
    uint8_t counter; /* messages known at l */
    uint8_t names;   /* in the stamp written last */
    uint8_t marks;
    uint16_t bounded; /* as above */
} cw_stamp_t;

#else

typedef struct {
    uint16_t bounded; /* 0: there is nothing to cut */
} cw_stamp_t;

#endif

typedef enum {
    CW_STAMP_OK,
    CW_STAMP_BOUNDED, /* the event was taken, but the bound cut: our own state, the received stamp, or
                         both */
    /* not a stamp of this layout, or not from a mote where the scheme needs that. No event was taken */
    CW_STAMP_REFUSED,
} cw_stamp_result_t;

/** Start at this tick and forget all times of an older epoch; names of messages stay, but not a
 * barrier's. At boot the state must be all zero (a static state is). `bounded` is kept. */
void cw_stamp_start(cw_stamp_t *state, uint32_t tick);

#if CAUSEWAY_SCHEME_BARRIER
/** Take note, before an event, whether our clock is in sync. Return whether a message sent at this tick
 * may say so: after a start, and after the time was lost, not for LEAD + 1 ticks more. Until then a send
 * writes a stamp that says nothing. */
bool cw_stamp_in_sync(cw_stamp_t *state, uint32_t tick, bool in_sync);

/** Clear times that are too old to matter, without an event. To be called at least once in 18 hours: after
 * the 36 hours in which ticks wrap, old times would look like new ones. */
void cw_stamp_tidy(cw_stamp_t *state, uint32_t tick);
#else
static inline bool cw_stamp_in_sync(const cw_stamp_t *state, uint32_t tick, bool in_sync)
{
    (void)state;
    (void)tick;
    return in_sync;
}

static inline void cw_stamp_tidy(const cw_stamp_t *state, uint32_t tick)
{
    (void)state;
    (void)tick;
}
#endif

/** Take a send event and write the stamp into the message, which already has its source (a mote) and its
 * sequence. Return true if a field holds its top code: the message must then be flagged saturated. */
bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t *payload);

/** The bytes of the stamp that was written last. */
static inline uint8_t cw_stamp_size(const cw_stamp_t *state)
{
#if CAUSEWAY_STAMP_VARIABLE
    return cw_stamp_bytes(state->names);
#else
    (void)state;
    return CAUSEWAY_STAMP_BYTES;
#endif
}

/** Take the receive event of this message, whose stamp has this many items: cw_stamp_items(). */
cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t *payload, uint8_t items);

/** Why these bytes are not a stamp of this layout. */
typedef enum { CW_STAMP_SOUND, CW_STAMP_PADDING, CW_STAMP_RANGE } cw_stamp_fault_t;

/** Check that padding is zero, every value is in its field's range and every name is a mote's. (A barrier's
 * name of no mote is ignored.) */
cw_stamp_fault_t cw_stamp_check(const uint8_t *stamp, uint8_t items);

#if CAUSEWAY_CLOCK_WIDTH
/** The tick that the stamp's clock field means if the message was received at tick `now`: the sender's
 * clock at the send or, with CAUSEWAY_CARRY_SUM, l, which is up to EPSILON later. A message older than B
 * ticks reads as a younger one. */
uint32_t cw_stamp_clock(const uint8_t *stamp, uint32_t now);
#endif

CW_C_END

#endif
