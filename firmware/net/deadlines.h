/** The last local time at which a message may start on the air.
 *
 * A message must be at the observer while its sender's clock is at most send tick + CAUSEWAY_DELTA. A relay
 * uses its own clock: all clocks are within epsilon of it, so a frame that makes delta by it arrives
 * everywhere by delta + epsilon, and the observer waits that long.
 *
 * With a schedule all messages stamped in a window arrive before its end, which is at most delta after its
 * beginning. Without one, a message leaves time on the air and a short backoff for each hop still to go;
 * where its age is not known, each hop has its share of delta.
 */
#pragma once

#include <stdint.h>

#include "causeway_layout.h"
#include "hal/clock.h"
#include "hal/radio.h"
#include "mic.h"
#include "schedule.h"

/** Cycles reserved for channel access, and for checking the message, at each hop still to go. */
#ifndef MESSAGING_BACKOFF
#define MESSAGING_BACKOFF (CAUSEWAY_HOP_BACKOFF + MIC_HOP_TIME)
#endif

/** A message's time on the air and for channel access: reserved for each hop after this one, and the unit of
 * all waits. */
#define DEADLINES_HOP ((uint16_t)(radio_airtime(CAUSEWAY_PAYLOAD_BYTES) + MESSAGING_BACKOFF))

/** How long health and commands may wait, which have no deadline of their own; a beacon or its proof, for a
 * clear channel; and a message without a stamp, for its window. */
#define DEADLINES_PLAIN (CAUSEWAY_SCHEDULED ? UINT32_C(2) << CAUSEWAY_PERIOD_LOG2 : CLOCK_SECOND)
#define DEADLINES_BEACON (CAUSEWAY_SCHEDULED ? (uint32_t)CAUSEWAY_BEACON_SLOT : CLOCK_SECOND)
#define DEADLINES_UNSTAMPED (CAUSEWAY_SCHEDULED ? UINT32_C(3) << CAUSEWAY_PERIOD_LOG2 : 0)

/** Of an own message, sent in `tick`, with `hops` more hops after this one. */
uint32_t deadlines_own(uint32_t tick, uint8_t hops, uint32_t now);

/** Of a data message of another mote, heard in `tick`, with `hops` more hops after this one. */
uint32_t deadlines_heard(const radio_heard_t *heard, uint8_t hops, uint32_t tick, uint32_t now);
