/** What falling asleep must know of the clock on timer 0. */
#ifndef MICA_CLOCK_SLEEP_H
#define MICA_CLOCK_SLEEP_H

/** Make timer 0 fit for power-save: no register write under way, and a whole crystal cycle since the last
 * wake. Takes up to three crystal cycles. With interrupts off, right before clock_sleeps(). */
void clock_settle(void);

/** Power-save begins: TCNT0 is not to be believed after it until the next crystal edge. With interrupts off.
 */
void clock_sleeps(void);

#endif
