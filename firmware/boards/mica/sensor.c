/* A sensor board's supplies. Pins of port E are inputs while they are off, as the boards' TinyOS drivers
 * leave them; those of port C stay outputs from board_start() on. No interrupt writes either port. */
#include "boards/mica/sensor_part.h"

#include <stdbool.h>

#if CW_SENSOR_BOARD

/* Exactly these pins high; a pin that is high already stays high all the time. */
static void power(uint8_t e, uint8_t c)
{
    PORTE &= (uint8_t) ~(sensor_pins_e & ~e);
    PORTC = (uint8_t)((PORTC & ~sensor_pins_c) | c);
    DDRE = (uint8_t)((DDRE & ~sensor_pins_e) | e);
    PORTE |= e;
}

uint16_t sensor_on(uint8_t sensor)
{
    uint8_t e = sensor_parts[sensor].port_e, c = sensor_parts[sensor].port_c;
    uint16_t warm_up = sensor_parts[sensor].warm_up;
    bool was_on = (DDRE & PORTE & e) == e && (PORTC & c) == c;
    power(e, c);
    if (warm_up == 0)
        return SENSOR_MISSING;
    return was_on ? 0 : warm_up;
}

void sensor_off(void)
{
    power(0, 0);
}

uint8_t sensor_channel(uint8_t sensor)
{
    return sensor_parts[sensor].channel;
}

#endif
