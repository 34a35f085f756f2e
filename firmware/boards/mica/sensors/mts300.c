/* MTS300 and MTS310; only the latter has an accelerometer and a magnetometer.
 *
 * Pins, channels and times are those of TinyOS's drivers (tinyos/tinyos-main, tos/sensorboards/mts300:
 * PhotoTempDeviceC, PhotoTempControlP, MicDeviceP, MicP, AccelConfigP, AccelP, MagConfigP, MagP). The
 * thermistor of the first boards (CA) is on INT2, which is the radio's FIFOP on a MICAz: for that reason
 * later boards (CB) have it on PW0. A MICA2 powers both, so that it reads either. The gains of the microphone
 * and of the magnetometer, which TinyOS sets over I2C, stay in the middle, where they are at power on.
 */
#include "boards/mica/sensor_part.h"

#if CW_SENSOR_BOARD_MTS300 || CW_SENSOR_BOARD_MTS310

const __flash sensor_part_t sensor_parts[SENSORS] = {
    [SENSOR_LIGHT] = {PIN_INT1, 0, 1, SENSOR_MS(10)},
    [SENSOR_TEMPERATURE] = {PIN_INT2_IF_FREE, PIN_PW0, 1, SENSOR_MS(10)},
    [SENSOR_MICROPHONE] = {0, PIN_PW3 | PIN_PW6, 2,
                           SENSOR_MS(1200)}, /* PW6: its own output, not the tone's */
#if CW_SENSOR_BOARD_MTS310
    [SENSOR_ACCEL_X] = {0, PIN_PW4, 3, SENSOR_MS(17)},
    [SENSOR_ACCEL_Y] = {0, PIN_PW4, 4, SENSOR_MS(17)},
    [SENSOR_MAG_X] = {0, PIN_PW5, 6, SENSOR_MS(100)},
    [SENSOR_MAG_Y] = {0, PIN_PW5, 5, SENSOR_MS(100)},
#endif
};

const uint8_t sensor_pins_e = PIN_INT1 | PIN_INT2_IF_FREE;
const uint8_t sensor_pins_c = PIN_PW0 | PIN_PW3 | PIN_PW4 | PIN_PW5 | PIN_PW6;

#endif
