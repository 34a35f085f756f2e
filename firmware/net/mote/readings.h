/** Readings of sensors, one after the other: power the sensor, wait until it is warm, convert, switch it off.
 * No function waits. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Read the battery for a health message; readings_on_battery() follows. */
void readings_battery(void);

/** Go on. Call it with each step's events. */
void readings_step(uint8_t events, uint32_t now);

/** Whether the state is possible. */
bool readings_sound(void);

/* What the user of this module defines. */

/** The reading for the health message: as adc_value() after adc_start_supply(), 0 if there is none. */
void readings_on_battery(uint16_t reading);
