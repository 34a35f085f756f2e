/** The order of a received message against a message of our own. */
#ifndef CW_KNOWS_H
#define CW_KNOWS_H

#include <stdint.h>

#include "data.h"

CW_C_BEGIN

/** Whether its sender knew our message when it sent this one: whether ours happened before it. */
typedef enum {
    CW_KNOWS_MAYBE, /* the stamp does not show it */
    CW_KNOWS,
    CW_KNOWS_NOT,
} cw_knows_t;

/** Our own last message. */
typedef struct {
    uint16_t source;
    uint8_t sequence;
    uint32_t tick; /* of its send event */
} cw_own_t;

/** Compare a payload that cw_data_check() took, received at tick `now`, against our last message of this
 * boot.
 *
 * A receipt that names ours means CW_KNOWS, whatever the scheme. Beside it:
 *   kn, dpc2, hlc, shlc, barrier   the largest clock value that the sender knew of: less than our tick is NOT
 *   dpc1                           its clock: more than EPSILON less is NOT
 *   barrier, last-sender           ours among the named causes: KNOWS
 *   vector                         whether ours is the last of us that it knew: KNOWS or NOT
 *   delta-vector                   the same, while ours is not older than DELTA + 2 EPSILON
 *   sequence                       nothing
 * The order is not known for a sender out of sync. Names and counters wrap after 256 messages (a barrier's
 * name is of the last few): one of an earlier boot may be taken for ours. */
cw_knows_t cw_knows(const uint8_t *payload, uint8_t length, uint32_t now, const cw_own_t *ours);

CW_C_END

#endif
