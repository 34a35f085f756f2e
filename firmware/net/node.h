/** A node: what all apps have in common. It starts the board and the layers, calls each in turn, and checks
 * that memory has kept their state; if not, it restarts the node. The app defines the functions at the end.
 */
#ifndef NET_NODE_H
#define NET_NODE_H

#include <stdbool.h>
#include <stdint.h>

/** The id of this node, unless EEPROM holds one (net/store.h). Tools set it in the finished image through
 * this symbol. */
extern volatile uint16_t TOS_NODE_ID;

/** Start everything, then the app. Interrupts are on. Under an id that the app refuses, only board_refuse()
 * runs; while the radio does not answer, the red LED blinks. */
void node_start(void);

/** Do all pending work. Then call events_wait(), and this again. It sets the clock's one alarm, at most a
 * second ahead, and pats the watchdog. LEDs: red while out of sync, yellow at a root that has heard another
 * one, and the app's. */
void node_step(void);

/* What the app defines. */

/** Whether the app may run under this id. */
bool app_accepts(uint16_t id);

/** Start. All layers run; nothing was heard yet. `now` is the local time at which time sync was started. */
void app_start(uint32_t now);

/** The app's turn: after the radio's, before the outbox's. */
void app_step(uint8_t events);

/** The local time by which app_step() must be called; at most a second ahead. */
uint32_t app_next(uint32_t now);

/** Whether the app's own state is possible. */
bool app_sound(uint32_t now);

/** The LEDs that the app lights. */
uint8_t app_leds(void);

/** A new epoch has begun: all older stamps are void. A root has stored the epoch. */
void app_on_epoch(uint8_t epoch);

#endif
