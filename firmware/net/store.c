#include "store.h"

#include "hal/board.h"

static uint16_t get16(uint16_t at)
{
    return (uint16_t)(eeprom_get(at) | (uint16_t)eeprom_get((uint16_t)(at + 1)) << 8);
}

uint16_t store_id(uint16_t built_in)
{
    return eeprom_get(STORE_ID_MARK) == STORE_MARK ? get16(STORE_ID) : built_in;
}

uint16_t store_count_boot(void)
{
    uint16_t boots = (uint16_t)(get16(STORE_BOOTS) + 1);
    eeprom_put(STORE_BOOTS, (uint8_t)boots);
    eeprom_put(STORE_BOOTS + 1, (uint8_t)(boots >> 8));
    return boots;
}

uint8_t store_epoch(void)
{
    return eeprom_get(STORE_EPOCH);
}

void store_keep_epoch(uint8_t epoch)
{
    eeprom_put(STORE_EPOCH, epoch);
}
