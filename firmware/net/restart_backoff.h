/** Restarts in a row. A node that restarts again and again, for whatever reason, waits longer each time
 * before it starts: that spares its EEPROM, its battery (brown-outs mean that it is weak), and the channel.
 *
 * Their number is in memory that no reset clears.
 */
#pragma once

#include <stdint.h>

/** Note this start, and wait: not at all for the first three of a row, then 1 s, 2 s, ... 1024 s. A
 * deliberate start (power, button, debugger, command) begins a new row. To be called once, at boot, with the
 * watchdog on and the radio off. */
void restart_backoff_wait(void);

/** After a minute the next restart is the first of a new row. To be called at each step. */
void restart_backoff_step(uint32_t now);
