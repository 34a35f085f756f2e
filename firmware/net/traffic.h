/** The counters of a mote's messaging. Its modules (messaging, stamping, admission, forwarding, suppression,
 * health, commands) count in them.
 */
#pragma once

#include "causeway_layout.h"
#include "mic.h"
#include "small.h"
#include "outbox.h"

/** Since start; they wrap. Each frame heard and each message sent is counted in one of them. */
typedef struct {
    uint16_t sent;       /* own messages that went out */
    uint16_t received;   /* peers' messages merged */
    uint16_t unmerged;   /* peers' messages not merged: the sender is out of sync */
    uint16_t relayed;    /* frames forwarded: data, health, downlink */
    uint16_t late;       /* frames dropped: could no longer make delta */
    uint16_t duplicates; /* frames dropped: heard before */
    uint16_t echoes;     /* frames dropped: our own, forwarded by others */
    uint16_t spent;    /* messages heard and not forwarded: too few hops left, or (schedule) no free place */
    uint16_t full;     /* frames dropped: outbox full */
    uint16_t failed;   /* frames dropped: the radio misbehaved */
    uint16_t expired;  /* health and commands dropped: the channel was never clear */
    uint16_t foreign;  /* frames ignored: another group, type, length, or not for us */
    uint16_t beacons;  /* beacons heard */
    uint16_t repeated; /* data sent once more: no nearer mote was heard forwarding it */
    uint16_t suppressed; /* data not sent (again): others have forwarded it */
    uint16_t repaired;   /* of those sent: sent before, and missed by the gateway */
    uint16_t forged;     /* with a key. Frames ignored: a wrong MIC, or a proof of no beacon that waits */
} traffic_t;

extern traffic_t traffic;

/** Count a forged frame, in a network with a key. */
static inline void traffic_forged(void)
{
    if (MIC_BYTES)
        count(&traffic.forged);
}

/** outbox_new(); NULL, and counted, when no place is free. */
outbox_frame_t *traffic_frame(outbox_kind_t kind, uint8_t type, uint8_t length, uint32_t not_before,
                              uint32_t deadline);
