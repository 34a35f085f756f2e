/* A sensor board's supplies. Pins of port E are inputs while they are off, as the boards' TinyOS drivers
 * leave them; those of port C stay outputs from board_start() on. No interrupt writes either port. */
#include "boards/mica/sensor_part.h"

#if CW_SENSOR_BOARD

/* All pins of the board's sensors. */
static sensor_part_t all_pins(void)
{
    sensor_part_t all = {0, 0, 0, 0};
    for (uint8_t i = 0; i < SENSORS; i++) {
        all.port_e |= sensor_parts[i].port_e;
        all.port_c |= sensor_parts[i].port_c;
    }
    return all;
}

static void power(uint8_t port_e, uint8_t port_c)
{
    sensor_part_t all = all_pins();
    PORTE = (uint8_t)((PORTE & ~all.port_e) | port_e);
    DDRE = (uint8_t)((DDRE & ~all.port_e) | port_e);
    PORTC = (uint8_t)((PORTC & ~all.port_c) | port_c);
}

uint16_t sensor_on(uint8_t sensor)
{
    sensor_part_t part = sensor_parts[sensor];
    uint16_t warm_up = (DDRE & PORTE & part.port_e) == part.port_e && (PORTC & part.port_c) == part.port_c
                           ? 0
                           : part.warm_up;
    power(part.port_e, part.port_c);
    return part.warm_up == 0 ? SENSOR_MISSING : warm_up;
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
