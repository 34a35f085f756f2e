#include "causeway/crc.h"

uint16_t cw_crc16_add(uint16_t crc, uint8_t byte)
{
    /* Eight steps of the bitwise division at once. In single bytes, which is how an AVR shifts well. */
    uint8_t low = (uint8_t)crc;
    uint8_t x = (uint8_t)((crc >> 8) ^ byte);

    x ^= x >> 4;
    uint8_t new_high = (uint8_t)(low ^ (uint8_t)(x << 4) ^ (x >> 3));
    uint8_t new_low = (uint8_t)(x ^ (uint8_t)(x << 5));
    return (uint16_t)((uint16_t)new_high << 8 | new_low);
}

uint16_t cw_crc16(const uint8_t *bytes, uint8_t length)
{
    uint16_t crc = 0;
    while (length--)
        crc = cw_crc16_add(crc, *bytes++);
    return crc;
}
