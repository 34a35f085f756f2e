/** Restarts in a row. A node that restarts again and again, for whatever reason, waits longer and longer
 * before it starts: that spares its EEPROM and its battery, which a brown-out says is weak, and the others'
 * channel.
 *
 * Their number is in memory that a reset leaves alone, since a watchdog or a brown-out does so too.
 */
#ifndef NET_RESTART_BACKOFF_H
#define NET_RESTART_BACKOFF_H

#include <stdint.h>

/** Note this start, and wait: not at all for the first three of a row, then 1 s, 2 s, ... 1024 s. A start
 * that somebody wanted (power, button, debugger, command) begins a new row. To be called once, at boot, with
 * the watchdog on and the radio off. */
void restart_backoff_wait(void);

/** A node that has run for a minute is well: its next restart is the first of a row. To be called at each
 * step. */
void restart_backoff_step(uint32_t now);

#endif
