/** AES-128-CMAC (RFC 4493): a keyed check sum that nobody can make or match without the key. */
#ifndef CW_CMAC_H
#define CW_CMAC_H

#include "aes.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A key, and what is made of it once. */
typedef struct {
    const uint8_t *key;           /* 16 bytes, on an AVR in flash (CW_IN_FLASH): memory cannot change them */
    uint8_t subkey[CW_AES_BYTES]; /* RFC 4493's K1 */
} cw_cmac_t;

/** Start with a key. Takes one AES block. */
void cw_cmac_start(cw_cmac_t *cmac, const uint8_t *key);

/** The tag of a message; takes one AES block for each 16 bytes begun, and one for an empty message. */
void cw_cmac(const cw_cmac_t *cmac, const uint8_t *message, uint8_t length, uint8_t tag[CW_AES_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
