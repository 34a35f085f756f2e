/** What a node keeps in EEPROM, and where. All EEPROM addresses of the firmware are here.
 *
 * An erased EEPROM (all FF) means that the node never started: boot count 0 at its first start, no id, first
 * epoch 0. To give a node its id in EEPROM, write mark, id low, id high to addresses 0, 1, 2; it overrides
 * TOS_NODE_ID of the image.
 *
 * A cell of the EEPROM bears 100,000 writes. What each start writes goes round a ring, so no cell is written
 * more than twice in BOOT_STORE_ENTRIES starts. The newest entry counts. While one is written its check is
 * FF, so an entry that a reset has broken off is not believed.
 */
#pragma once

#include <stdint.h>

enum {
    BOOT_STORE_ID_MARK = 0,     /* BOOT_STORE_MARK: the id that follows is valid */
    BOOT_STORE_ID = 1,          /* 2 bytes, low first */
    BOOT_STORE_OLD_BOOTS = 4,   /* of older firmware, without a ring: read while the ring is empty */
    BOOT_STORE_OLD_EPOCH = 8,   /* the same */
    BOOT_STORE_ROUND = 9,       /* of a root with a key, in its epoch; FF: none */
    BOOT_STORE_RING = 16,       /* entry number boots % BOOT_STORE_ENTRIES is the start's */
    BOOT_STORE_ENTRIES = 64,    /* a power of two */
    BOOT_STORE_ENTRY_BYTES = 4, /* boot count, low byte first; epoch; check of the boot count */
    BOOT_STORE_RING_END = BOOT_STORE_RING + BOOT_STORE_ENTRIES * BOOT_STORE_ENTRY_BYTES,
};

#define BOOT_STORE_MARK 0xC5

/** The node's id: from EEPROM if one is there, else `built_in`. */
uint16_t boot_store_id(uint16_t built_in);

/** Count this start and return the number of starts before it, modulo 65536. To be called once, at boot. */
uint16_t boot_store_count_boot(void);

/** Read and store the last epoch that this root opened or took over. */
uint8_t boot_store_epoch(void);
void boot_store_keep_epoch(uint8_t epoch);

/** The same for the round of its time, in networks with a key: it changes each 36 hours. */
uint8_t boot_store_round(void);
void boot_store_keep_round(uint8_t round);
