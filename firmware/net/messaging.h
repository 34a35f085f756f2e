/** The messaging of a mote: stamped sends, merging of peers' messages, relaying toward the gateway, downlink
 * commands.
 *
 * A message is stamped when it is handed to the radio. Where CAUSEWAY_ONE_SEND_A_TICK is set, a second one in
 * a tick is handed over in the next tick. A message must be at the observer while its sender's clock is
 * at most send tick + CAUSEWAY_DELTA. A relay uses its own clock: all clocks are within epsilon of it, so a
 * frame that makes delta by it arrives everywhere by delta + epsilon, and the observer waits that long. A
 * message that cannot make it (with the time on the air and a short backoff at each hop left) is dropped and
 * counted, never sent late.
 *
 * The first copy of a peer's message, relayed or not, is one receive event, at the tick in which its frame
 * came in. The stamp of a sender that is out of sync is not merged. Passing a message on is no event: only
 * its hops change.
 *
 * Where the gateway is the time root, a mote knows its distance from it: own messages get no more hops than
 * that takes, and a message without enough hops to get there is not passed on. The hops left in a copy tell
 * how far from the gateway it was sent.
 *
 * Who has sent a message sends it again, while there is time, until it is heard from nearer to the gateway,
 * or the gateway says that it arrived. A relay that has not sent it yet leaves it to one as near that was
 * first.
 *
 * In a network with a key every frame is checked before it is believed (net/seal.h). What is known already,
 * by its number or its MIC, is not checked again: it changes nothing.
 */
#ifndef NET_MESSAGING_H
#define NET_MESSAGING_H

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"
#include "causeway/data.h"
#include "causeway/knows.h"
#include "causeway/records.h"
#include "hal/radio.h"
#include "outbox.h"
#include "seal.h"

/** Cycles reserved for channel access, and for checking the message, at each hop still to go. */
#ifndef MESSAGING_BACKOFF
#define MESSAGING_BACKOFF (CAUSEWAY_HOP_BACKOFF + SEAL_HOP_TIME)
#endif

/** Counters since start; they wrap. Every frame heard and every message handed in ends in one of them. */
typedef struct {
    uint16_t sent;       /* own messages that went out */
    uint16_t received;   /* peers' messages merged */
    uint16_t unmerged;   /* peers' messages not merged: the sender is out of sync */
    uint16_t relayed;    /* frames passed on: data, health, downlink */
    uint16_t late;       /* frames dropped: could no longer make delta */
    uint16_t duplicates; /* frames dropped: heard before */
    uint16_t echoes;     /* frames dropped: our own, passed on by others */
    uint16_t spent;      /* messages heard and not passed on: no hops left, or not enough from here */
    uint16_t full;       /* frames dropped: outbox full */
    uint16_t failed;     /* frames dropped: the radio misbehaved */
    uint16_t expired;    /* health and commands dropped: the channel was never clear */
    uint16_t foreign;    /* frames ignored: another group, type, length, or not for us */
    uint16_t beacons;    /* beacons heard */
    uint16_t repeated;   /* data sent once more: nobody nearer was heard passing it on */
    uint16_t hushed;     /* data not sent (again): others have passed it on */
#if CAUSEWAY_MIC_BYTES
    uint16_t forged; /* frames ignored: a wrong MIC, or a proof of no beacon that waits */
#endif
} messaging_counters_t;

/** Start. Time sync must have been started. */
void messaging_start(void);

/** Send the application's CAUSEWAY_DATA_BYTES bytes to all; it is stamped when the radio is free. Return
 * false, and count it, when there is no room. */
bool messaging_send(const uint8_t *application);

/** Send our health; `battery` is as in the record. Return false, and count it, when there is no room. */
bool messaging_send_health(uint8_t battery);

/** To be called from radio_on_heard(), timesync_on_epoch(), outbox_on_ready() and outbox_on_done(). */
void messaging_on_heard(const radio_heard_t *heard);
void messaging_on_epoch(uint8_t epoch);
bool messaging_on_ready(outbox_frame_t *frame, uint32_t now);
void messaging_on_done(const outbox_frame_t *frame, outbox_result_t result);

const messaging_counters_t *messaging_counters(void);

/** The number of stamps that the bound had to cut since start. */
uint16_t messaging_bounds(void);

/** Whether the sender of this message, which messaging_on_data() has just told of, knew our last message of
 * this epoch; not, if there is none. */
cw_knows_t messaging_knows(const radio_message_t *message, uint32_t tick);

/* What the user of this module defines. */

/** A command for this mote came in, for the first time. */
void messaging_on_command(uint8_t command, uint32_t argument);

/** A peer's message came in, for the first time, at this tick. It has been merged, if its sender is in sync,
 * and passed on. */
void messaging_on_data(const radio_message_t *message, uint32_t tick);

/** An own message went out, with this sequence; or it was dropped. */
void messaging_on_sent(bool sent, uint8_t sequence);

#endif
