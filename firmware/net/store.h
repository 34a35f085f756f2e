/** What a node keeps in EEPROM, and where. All addresses of the firmware are here.
 *
 * An erased EEPROM (all FF) is a node that never started: boot count 0 at its first start, no id of its own,
 * first epoch 0. To give a node its id in EEPROM, write mark, id low, id high to addresses 0, 1, 2; it goes
 * before TOS_NODE_ID of the image.
 */
#ifndef NET_STORE_H
#define NET_STORE_H

#include <stdint.h>

enum {
    STORE_ID_MARK = 0, /* STORE_MARK: the id that follows counts */
    STORE_ID = 1,      /* 2 bytes, low first */
    STORE_BOOTS = 4,   /* 2 bytes, low first: starts before this one, modulo 65536 */
    STORE_EPOCH = 8,   /* root: the last epoch it opened or took over */
};

#define STORE_MARK 0xC5

/** The node's id: from EEPROM if one is there, else `built_in`. */
uint16_t store_id(uint16_t built_in);

/** Count this start; the number of starts before it. Once, at boot. */
uint16_t store_count_boot(void);

/** The last epoch this root knew, and keeping it. */
uint8_t store_epoch(void);
void store_keep_epoch(uint8_t epoch);

#endif
