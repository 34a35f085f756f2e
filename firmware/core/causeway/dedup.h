/** Duplicate filter: remembers the newest CW_DEDUP_ROOM messages by source and number.
 *
 * For data the number is cw_data_number(): boot and sequence. Beacons and downlink commands have their own
 * numbers; give each a filter, or sources that no data message has. A new entry replaces the oldest. A
 * message heard again does not become newer: its copies die out before its entry does.
 */
#ifndef CW_DEDUP_H
#define CW_DEDUP_H

#include "types.h"

CW_C_BEGIN

#ifndef CW_DEDUP_ROOM
#define CW_DEDUP_ROOM 32 /* at most 255 */
#endif

/* A copy that took a longer way is at most delta late, and a mote sends fewer messages than this within
 * delta: a sequence number that is further behind is a new one. */
#define CW_OLD_SPAN 16

typedef struct {
    uint16_t source[CW_DEDUP_ROOM];
    uint16_t number[CW_DEDUP_ROOM];
    uint8_t next; /* where the next one goes */
    uint8_t used;
} cw_dedup_t;

/** Forget all. A static filter is ready without it. */
void cw_dedup_start(cw_dedup_t *filter);

/** Whether this message was seen before. */
bool cw_dedup_knows(const cw_dedup_t *filter, uint16_t source, uint16_t number);

/** The same; if not, remember it. */
bool cw_dedup_seen(cw_dedup_t *filter, uint16_t source, uint16_t number);

CW_C_END

#endif
