/** A node: what every app has in common. It starts the board and the layers, gives each its turn, and checks
 * that memory has kept what they rest on; if it has not, a new start puts all of it right. The app adds what
 * the functions at the end ask for.
 */
#ifndef NET_NODE_H
#define NET_NODE_H

#include <stdbool.h>
#include <stdint.h>

/** The id of this node, unless EEPROM holds one (net/store.h). Tools set it in the finished image through
 * this symbol. */
extern volatile uint16_t TOS_NODE_ID;

/** Start everything, then the app. Interrupts are on. Under an id that the app refuses nothing is started but
 * board_refuse(); while the radio does not answer, the red LED blinks. */
void node_start(void);

/** Do all there is to do. Then events_wait(), and again. It sets the clock's one alarm, at most a second
 * ahead, and pats the watchdog. LEDs: red while out of sync, yellow at a root that has heard of another one,
 * and the app's. */
void node_step(void);

/* What the app defines. */

/** Whether the app may run under this id. */
bool app_accepts(uint16_t id);

/** Start. All layers run; nothing was heard yet. `now` is the local time at which time sync was started. */
void app_start(uint32_t now);

/** The app's turn: after the radio's, before the outbox's. */
void app_step(uint8_t events);

/** The local time at which app_step() must come, unless something happens before; anything later than a
 * second counts as that. */
uint32_t app_next(uint32_t now);

/** The app's own state is one that can be. */
bool app_sound(uint32_t now);

/** The LEDs that the app lights. */
uint8_t app_leds(void);

/** Time started afresh, in this epoch: all older stamps are void. A root has kept the epoch. */
void app_on_epoch(uint8_t epoch);

#endif
