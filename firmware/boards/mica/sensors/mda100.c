/* MDA100: as TinyOS's drivers have it (tinyos/tinyos-main, tos/sensorboards/mda100: PhotoImplP, ca/TempImplP,
 * cb/TempImplP, PhotoTempConfigC). sensors/mts300.c says why the thermistor has two pins. */
#include "boards/mica/sensor_part.h"

#if CW_SENSOR_BOARD_MDA100

const __flash sensor_part_t sensor_parts[SENSORS] = {
    [SENSOR_LIGHT] = {PIN_INT1, 0, 1, SENSOR_MS(10)},
    [SENSOR_TEMPERATURE] = {PIN_INT2_IF_FREE, PIN_PW0, 1, SENSOR_MS(10)},
};

const uint8_t sensor_pins_e = PIN_INT1 | PIN_INT2_IF_FREE;
const uint8_t sensor_pins_c = PIN_PW0;

#endif
