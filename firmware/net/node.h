/** A node: it starts the board and the layers, calls each in turn, and checks that memory has kept their
 * state; if not, it restarts. Mote and gateway share it (net/role.h).
 *
 * An app of a mote is the callbacks at the end of this file, and calls the functions before them. Everything
 * runs in one loop, one callback at a time, to its end: a callback must not wait, and is never called from an
 * interrupt. Times are in cycles of the 32768 Hz crystal: NODE_SECOND. docs/guide/apps.md has an example.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "causeway_layout.h"
#include "causeway/records.h"
#include "hal/board.h"
#include "hal/clock.h"
#include "hal/sensor.h"
#include "identity.h"
#include "jitter.h"

/** The id of this node, unless EEPROM holds one (net/boot_store.h). Tools set it in the finished image
 * through this symbol. */
extern volatile uint16_t TOS_NODE_ID;

/** Start everything, then the app. Interrupts are on. Under an id that the role refuses, only board_refuse()
 * runs; while the radio does not answer, the red LED blinks. */
void node_start(void);

/** Do all pending work. Then call events_wait(), and this again. It sets the clock's one alarm, at most a
 * second ahead, and pats the watchdog. LEDs: red while out of sync, yellow at a root that has heard another
 * root, and the app's. */
void node_step(void);

/* ---- What an app of a mote may call, from its callbacks ---- */

#define NODE_SECOND CLOCK_SECOND

/** An app's timers are 0 .. NODE_TIMERS - 1; at most 4. To set any other does nothing. */
#ifndef NODE_TIMERS
#define NODE_TIMERS 2
#endif

/** The longest pause of node_after(). */
#define NODE_AFTER_MOST (64 * NODE_SECOND)

/** No reading: the board has no such sensor, or the converter did not answer. */
#define NODE_NO_READING UINT16_MAX

/** Our id, 0 .. CAUSEWAY_MOTES - 1. */
static inline uint16_t node_id(void)
{
    return identity_id();
}

/** Send CAUSEWAY_DATA_BYTES bytes to the gateway. The message is sent again and forwarded towards the gateway
 * until delta is over. Peers receive it if they are in range of us or of a mote that forwards it. It is never
 * forwarded away from the gateway, nor sent again for a peer. The message is stamped when the radio takes it;
 * app_on_sent() follows. False, and nothing is sent, when too many are waiting. */
bool node_send(const uint8_t *data);

/** The same for a message that cannot wait for the next window of a schedule: it goes out in the next urgent
 * one, if the deployment has them (docs/reference/power.md, Urgent messages). Motes nearer to the gateway
 * hear it, others may not. */
bool node_send_urgent(const uint8_t *data);

#ifdef CW_VALUES
/** Send the deployment's values. */
static inline bool node_send_values(const struct cw_values *values)
{
    uint8_t packed[CAUSEWAY_DATA_BYTES];
    cw_values_pack(values, packed);
    return node_send(packed);
}

static inline bool node_send_values_urgent(const struct cw_values *values)
{
    uint8_t packed[CAUSEWAY_DATA_BYTES];
    cw_values_pack(values, packed);
    return node_send_urgent(packed);
}
#endif

/** Call app_on_timer(timer) again and again, with pauses of 3/4 to 5/4 of `cycles`, so that motes do not keep
 * in step; 0 stops it. Pauses are 1/128 s to 9 hours long on average. */
void node_every(uint8_t timer, uint32_t cycles);

/** Call app_on_timer(timer) once, after `cycles`, at most NODE_AFTER_MOST. Replaces an earlier call for this
 * timer.
 */
void node_after(uint8_t timer, uint32_t cycles);

/** A random number, 0 .. below - 1: for pauses, not for secrets. */
static inline uint16_t node_random(uint16_t below)
{
    return jitter_below(below);
}

/** Power the sensor, read it, switch it off; app_on_reading() follows. Several are read in turn, in the order
 * of enum sensor. */
void node_read(uint8_t sensor);

/** Light exactly these LEDs, beside the node's own. */
void node_leds(uint8_t leds);

/* ---- What an app of a mote defines; a callback left out does nothing ---- */

/** The order of a message against our own last message, by its stamp and receipts. */
enum node_order {
    NODE_MAY_BE_AFTER_OURS, /* not known */
    NODE_AFTER_OURS,        /* its sender knew ours when it sent this: ours happened before this message */
    NODE_NOT_AFTER_OURS,    /* its sender did not; or we have sent nothing yet */
};

/** A peer's message. */
typedef struct {
    uint16_t source;
    uint8_t sequence;    /* its number among its sender's messages, modulo 256 */
    uint8_t order;       /* enum node_order */
    uint32_t tick;       /* the network's, when we received it: our events are in this order */
    uint32_t sent;       /* the tick when it was sent, by its stamp; `tick` where the stamp has no clock */
    const uint8_t *data; /* CAUSEWAY_DATA_BYTES; gone when the callback returns */
} node_message_t;

/** The mote has started, and has heard nothing yet. */
void app_start(void);

/** The timer's time has come. */
void app_on_timer(uint8_t timer);

/** A peer's message came in, for the first time. It is now in our causal past: each message that we send from
 * here on is after it. */
void app_on_message(const node_message_t *message);

/** A message of node_send() went out, with this number; or it was dropped, since it could not make delta. */
void app_on_sent(bool sent, uint8_t sequence);

/** A reading of node_read(): 0 .. 1023, or NODE_NO_READING. */
void app_on_reading(uint8_t sensor, uint16_t reading);

/** A command of the host (docs/reference/formats.md, downlink) that the node does not obey itself: report,
 * blink and reboot do not come here. An app that leaves this out obeys `rate`: it is node_every(0, argument).
 */
void app_on_command(uint8_t command, uint32_t argument);

/** Whether the app's own state is possible; if not, the node restarts. */
bool app_sound(uint32_t now);
