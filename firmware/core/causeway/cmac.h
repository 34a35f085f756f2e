/** AES-128-CMAC (RFC 4493): a keyed check sum that cannot be made or matched without the key.
 *
 *     cw_cmac_start(&cmac, KEY);            once
 *     cw_cmac_begin(&cmac);                 for each message
 *     cw_cmac_put(&cmac, byte);             its bytes, in order
 *     tag = cw_cmac_end(&cmac);             16 bytes, there until the next begin
 *
 * A message takes one AES block for each 16 bytes begun, an empty one takes one too.
 */
#ifndef CW_CMAC_H
#define CW_CMAC_H

#include "aes.h"
#include "types.h"

CW_C_BEGIN

typedef struct {
    const uint8_t *key;           /* 16 bytes, on an AVR in flash (CW_IN_FLASH): memory cannot change them */
    uint8_t subkey[CW_AES_BYTES]; /* RFC 4493's K1, made of the key */
    uint8_t block[CW_AES_BYTES];
    uint8_t filled; /* bytes of the message that are in the block */
} cw_cmac_t;

/** Take a key. Takes one AES block. */
void cw_cmac_start(cw_cmac_t *cmac, const uint8_t *key);

void cw_cmac_begin(cw_cmac_t *cmac);
void cw_cmac_put(cw_cmac_t *cmac, uint8_t byte);
const uint8_t *cw_cmac_end(cw_cmac_t *cmac);

CW_C_END

#endif
