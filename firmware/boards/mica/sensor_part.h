/** What a file in boards/mica/sensors/ says of a sensor board: a table, and which pins are in it. */
#pragma once

#include <stdint.h>

#include "boards/mica/atmega128.h"
#include "causeway_layout.h"
#include "hal/clock.h"
#include "hal/sensor.h"

/** A sensor: the pins that power it, high while it is on, its channel of the ADC, and how long it then needs.
 */
typedef struct {
    uint8_t port_e, port_c;
    uint8_t channel;
    uint16_t warm_up; /* cycles; 0: the board has no such sensor */
} sensor_part_t;

extern const __flash sensor_part_t sensor_parts[SENSORS];
extern const uint8_t sensor_pins_e, sensor_pins_c;

/** Milliseconds in cycles, rounded up. */
#define SENSOR_MS(ms) ((uint16_t)(((ms)*CLOCK_SECOND + 999) / 1000))

/* The sensor connector's names. */
enum { PIN_INT1 = _BV(PE5), PIN_INT2 = _BV(PE6) };
enum { PIN_PW0 = _BV(PC0), PIN_PW3 = _BV(PC3), PIN_PW4 = _BV(PC4), PIN_PW5 = _BV(PC5), PIN_PW6 = _BV(PC6) };

/* A MICAz's radio has INT2: its FIFOP. */
#define PIN_INT2_IF_FREE (CAUSEWAY_RADIO_CC2420 ? 0 : PIN_INT2)
