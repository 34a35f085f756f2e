/** The stamp program of the deployment's scheme: kn, dpc1, dpc2, hlc or shlc (docs/algorithms.md).
 *
 * The layout header selects the scheme when this is compiled. State is what the stamp needs and no more: `top`, the largest clock
 * value known of (L = r + c, or an HLC's l), and the entries that travel. r need not be kept, since every event sets it to the
 * clock.
 *
 *     cw_stamp_start(&stamp, tick);                                   at boot and at each new epoch of the time root
 *     if (cw_stamp_send(&stamp, tick, payload + CAUSEWAY_STAMP_AT))   for each message sent: true sets its saturated flag
 *     cw_stamp_receive(&stamp, tick, payload + CAUSEWAY_STAMP_AT)     for each message received from a peer that is in sync
 *
 * `tick` is the mote's tick at the event (of a reception: when the frame came in, not when it is looked at). Ticks must not run
 * backwards from event to event. Two events more than 18 hours apart look like a fault to the bound, which is harmless: it
 * clears what was too old to matter and counts.
 *
 * Self-stabilization: no clock is more than EPSILON ahead of another, so a `top` beyond that can only be a fault. In our own
 * state it is cleared; in a received stamp c and the entries (an HLC: all) are ignored. Both are counted in `bounded`.
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

typedef struct {
#if !CAUSEWAY_SCHEME_DPC1
    uint32_t top;                       /* tick; see ticks.h */
#endif
#if CAUSEWAY_ENTRIES
    cw_entry_t kn[CAUSEWAY_ENTRIES];    /* kn[i]: events known at clock value top - i; an HLC's counter. At most ENTRY_TOP */
#endif
    uint16_t bounded;                   /* how often the bound had to cut, since boot; wraps */
} cw_stamp_t;

typedef enum {
    CW_STAMP_OK,
    CW_STAMP_BOUNDED,    /* the event was taken, but the bound cut: our own state, the received stamp, or both */
    CW_STAMP_REFUSED,    /* no stamp of this layout: a value over its field's range, or padding bits set. No event was taken */
} cw_stamp_result_t;

/** Start at this tick, with nothing known of others. `bounded` goes on: set it to 0 at boot (a static state is). */
void cw_stamp_start(cw_stamp_t *state, uint32_t tick);

/** Take a send event and write the stamp that goes into the message.
 *  True when a field holds its top code: the message must then say that it is saturated. */
bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t stamp[CAUSEWAY_STAMP_BYTES]);

/** Take a receive event that brings this stamp. */
cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t stamp[CAUSEWAY_STAMP_BYTES]);

/** Why these bytes are no stamp of this layout. */
typedef enum { CW_STAMP_SOUND, CW_STAMP_PADDING, CW_STAMP_RANGE } cw_stamp_fault_t;

/** Whether padding is zero and every value within its field's range; changes nothing. */
cw_stamp_fault_t cw_stamp_check(const uint8_t stamp[CAUSEWAY_STAMP_BYTES]);

/** The tick that the stamp's clock field means to one who received the message at tick `now`: the sender's clock at the send; with
 *  CAUSEWAY_CARRY_SUM l, which is up to EPSILON later. A message older than B ticks reads as a younger one. */
uint32_t cw_stamp_clock(const uint8_t stamp[CAUSEWAY_STAMP_BYTES], uint32_t now);

#endif
