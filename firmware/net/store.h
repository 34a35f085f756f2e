/** What a node keeps in EEPROM, and where. All addresses of the firmware are here.
 *
 * An erased EEPROM (all FF) means that the node never started: boot count 0 at its first start, no id, first
 * epoch 0. To give a node its id in EEPROM, write mark, id low, id high to addresses 0, 1, 2; it overrides
 * TOS_NODE_ID of the image.
 */
#ifndef NET_STORE_H
#define NET_STORE_H

#include <stdint.h>

enum {
    STORE_ID_MARK = 0, /* STORE_MARK: the id that follows is valid */
    STORE_ID = 1,      /* 2 bytes, low first */
    STORE_BOOTS = 4,   /* 2 bytes, low first: starts before this one, modulo 65536 */
    STORE_EPOCH = 8,   /* root: the last epoch it opened or took over */
};

#define STORE_MARK 0xC5

/** The node's id: from EEPROM if one is there, else `built_in`. */
uint16_t store_id(uint16_t built_in);

/** Count this start and return the number of starts before it. To be called once, at boot. */
uint16_t store_count_boot(void);

/** Read and store the last epoch that this root knew. */
uint8_t store_epoch(void);
void store_keep_epoch(uint8_t epoch);

#endif
