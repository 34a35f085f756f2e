/** What falling asleep must know of the clock on timer 0. */
#pragma once

#include <stdbool.h>

/** Make timer 0 fit for power-save: no register write under way, and a whole crystal cycle since the last
 * wake. Takes up to three crystal cycles. With interrupts off, right before clock_sleeps(). */
void clock_settle(void);

/** Power-save begins: TCNT0 is not to be believed after it until the next crystal edge. With interrupts off.
 */
void clock_sleeps(void);

/* The same with a schedule. */

/** Make timer 0 fit for power-save: it counts ticks of 128 cycles from now on, and wakes in time for the
 * alarm, or within a second. False if the alarm is too near for that. With interrupts off. */
bool clock_slows(void);

/** Power-save has ended. If the alarm is near, timer 0 counts single cycles again; else EVENT_ALARM comes
 * early, and until clock_quickens() the time is that of the last tick, up to 127 cycles ago. With interrupts
 * off. */
void clock_wakes(void);

/** Count single cycles again, so that the time is exact. Takes up to 3.9 ms. With interrupts off. */
void clock_quickens(void);
