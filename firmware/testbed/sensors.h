/** A sensor board on a mote: what its sensors show the ADC, and only while the program powers them. */
#pragma once

#include "atmega.h"
#include "meter.h"

typedef struct sensors sensors_t;

/** A sensor's supply was switched on or off. */
typedef void sensors_on_supply_t(void *owner, const char *name, bool on);

/** A board of this name on the processor's connector; NULL: there is none. `sensor_board_names` says which
 * there are. A sensor that is off leaves its channel open, so that a reading is any number (from `random`);
 * one that was just switched on rises to its reading within its warm-up; two on one channel give any number
 * too. */
sensors_t *sensors_make(atmega_t *mcu, const char *board, random_t random, sensors_on_supply_t *on_supply,
                        void *owner);
extern const char *const sensor_board_names;

/** Pins or power may have changed without an edge that the board sees: after a reset, and when power goes
 * off. */
void sensors_look(sensors_t *sensors);

/** The names of its sensors from 0 on, NULL after the last; the time since 0 for which one had its supply. */
const char *sensors_name(const sensors_t *sensors, int sensor);
ns_t sensors_powered(const sensors_t *sensors, int sensor);

/** What a sensor shows from now on, 0 to 1023; 0 until then. False: the board has no such sensor. */
bool sensors_feed(sensors_t *sensors, const char *name, uint16_t reading);
bool sensors_has(const sensors_t *sensors, const char *name);
