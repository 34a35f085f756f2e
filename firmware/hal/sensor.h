/** Sensors: their names, and how to power one on its sensor board. net/mote/readings.h reads them.
 *
 * One file of a board's folder implements this for each sensor board; the deployment's sensor_board chooses
 * it.
 */
#pragma once

#include <stdint.h>

#include "causeway_layout.h"

/** A deployment names them in lower case, without SENSOR_. */
enum sensor {
    SENSOR_NONE,
    SENSOR_LIGHT,
    SENSOR_TEMPERATURE,
    SENSOR_MICROPHONE,
    SENSOR_ACCEL_X,
    SENSOR_ACCEL_Y,
    SENSOR_MAG_X,
    SENSOR_MAG_Y,
    SENSOR_BATTERY, /* the mote's own, on no sensor board: the reading of a 1.223 V reference (hal/board.h) */
    SENSORS
};

#define SENSOR_MISSING UINT16_MAX

#if CW_SENSOR_BOARD

/** Power exactly this sensor's supply. Return how many cycles it then needs before it is read: 0 if it was on
 * already, SENSOR_MISSING if the board has no such sensor (then all are off). From the loop. */
uint16_t sensor_on(uint8_t sensor);

/** Power none. From the loop. */
void sensor_off(void);

/** The ADC's channel of a sensor that the board has. */
uint8_t sensor_channel(uint8_t sensor);

#else

static inline uint16_t sensor_on(uint8_t sensor)
{
    (void)sensor;
    return SENSOR_MISSING;
}

static inline void sensor_off(void) {}

static inline uint8_t sensor_channel(uint8_t sensor)
{
    return sensor;
}

#endif
