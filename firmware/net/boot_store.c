#include "boot_store.h"

#include <stdbool.h>

#include "hal/board.h"

enum { EPOCH = 2, CHECK = 3 }; /* places in an entry */

static uint16_t get16(uint16_t at)
{
    return (uint16_t)(eeprom_get(at) | (uint16_t)eeprom_get((uint16_t)(at + 1)) << 8);
}

static uint16_t entry_of(uint16_t boots)
{
    return (uint16_t)(BOOT_STORE_RING + boots % BOOT_STORE_ENTRIES * BOOT_STORE_ENTRY_BYTES);
}

enum { NO_CHECK = 0xFF };

static uint8_t check_of(uint16_t boots)
{
    return (uint8_t)((boots ^ boots >> 8) & 0x7FU); /* never NO_CHECK */
}

static bool is_valid(uint16_t entry, uint16_t boots)
{
    return entry_of(boots) == entry && eeprom_get((uint16_t)(entry + CHECK)) == check_of(boots);
}

/* The newest entry's address, or 0; its boot count, else that of older firmware. */
static __attribute__((noinline)) uint16_t newest(uint16_t *boots)
{
    uint16_t found = 0;
    *boots = get16(BOOT_STORE_OLD_BOOTS);
    for (uint16_t entry = BOOT_STORE_RING; entry < BOOT_STORE_RING_END; entry += BOOT_STORE_ENTRY_BYTES) {
        uint16_t count = get16(entry);
        if (is_valid(entry, count) && (found == 0 || (int16_t)(count - *boots) > 0)) {
            found = entry;
            *boots = count;
        }
    }
    return found;
}

uint16_t boot_store_id(uint16_t built_in)
{
    return eeprom_get(BOOT_STORE_ID_MARK) == BOOT_STORE_MARK ? get16(BOOT_STORE_ID) : built_in;
}

static __attribute__((noinline)) uint16_t epoch_at(void)
{
    uint16_t boots;
    uint16_t entry = newest(&boots);
    return entry != 0 ? (uint16_t)(entry + EPOCH) : BOOT_STORE_OLD_EPOCH;
}

uint16_t boot_store_count_boot(void)
{
    uint16_t boots;
    newest(&boots);
    boots++;
    uint16_t entry = entry_of(boots);
    uint32_t bytes = boots | (uint32_t)boot_store_epoch() << 8 * EPOCH |
                     (uint32_t)check_of(boots) << 8 * CHECK;
    eeprom_put((uint16_t)(entry + CHECK), NO_CHECK);
    for (uint8_t i = 0; i < BOOT_STORE_ENTRY_BYTES; i++, bytes >>= 8)
        eeprom_put((uint16_t)(entry + i), (uint8_t)bytes);
    return boots;
}

uint8_t boot_store_epoch(void)
{
    return eeprom_get(epoch_at());
}

void boot_store_keep_epoch(uint8_t epoch)
{
    eeprom_put(epoch_at(), epoch);
}

uint8_t boot_store_round(void)
{
    uint8_t round = eeprom_get(BOOT_STORE_ROUND);
    return round == 0xFF ? 0 : round;
}

void boot_store_keep_round(uint8_t round)
{
    eeprom_put(BOOT_STORE_ROUND, round);
}
