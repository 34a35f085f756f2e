/** Local time: 32-bit cycles of the 32768 Hz crystal on timer 0. It wraps every 36 hours.
 *
 * Compare times with clock_before(), never with <.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_SECOND UINT32_C(32768)

/** Start the crystal and wait until it runs (up to a second on a cold crystal). Interrupts must be on. */
void clock_start(void);

/** The local time now; from anywhere, interrupts included. Never runs backwards. With a schedule, after a
 * power-save that ended before its alarm, it may be up to 127 cycles old until a driver needs the I/O clock
 * (power.h); at an alarm it is exact. */
uint32_t clock_now(void);

/** The local time at which timer 1 (main clock / 8) showed `capture`: for the radio's start-of-frame capture.
 * Right only for captures less than 65536 timer counts (71 ms) old. From anywhere. */
uint32_t clock_of_capture(uint16_t capture);

/** Post EVENT_ALARM when the local time reaches `when` (at once if it has passed). It is at most a second
 * ahead, or may come too early; with a schedule it may also come early after a second of sleep. One alarm;
 * setting it again replaces it. */
void clock_alarm(uint32_t when);

/** Forget the alarm. */
void clock_alarm_off(void);

/** Whether memory has kept the time. If not, all earlier times mean nothing. */
bool clock_sound(void);

/** Whether a is before b, for times less than 2^31 cycles (18 hours) apart. */
static inline bool clock_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}
