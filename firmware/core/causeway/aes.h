/** AES-128 (FIPS 197), encryption of one block: all that a MIC needs.
 *
 * Small: round keys are made while they are used, so a block needs 16 bytes besides its own, not 176.
 *
 * Constant time: no branch depends on the key or the block. Nor does an address, but for the S-box on the
 * AVR, a table in flash: that processor has no cache, so each of its bytes takes as long as any other. On all
 * other processors the S-box is computed: slower, but without leaks through a cache.
 */
#ifndef CW_AES_H
#define CW_AES_H

#include "types.h"

CW_C_BEGIN

#define CW_AES_BYTES 16 /* of a block and of a key */

/** Encrypt a block in place. The key is overwritten: by the last round's key. */
void cw_aes_encrypt(uint8_t key[CW_AES_BYTES], uint8_t block[CW_AES_BYTES]);

CW_C_END

#endif
