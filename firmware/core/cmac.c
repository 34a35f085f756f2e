#include "causeway/cmac.h"

#include <string.h>

#include "causeway/flash.h"

#define CMAC_POLYNOMIAL 0x87U /* of RFC 4493's field of 128 bits */

static void encrypt(cw_cmac_t *cmac)
{
    uint8_t key[CW_AES_BYTES];
    CW_FLASH_COPY(key, cmac->key, CW_AES_BYTES);
    cw_aes_encrypt(key, cmac->block);
    cmac->filled = 0;
}

/* Add a number's double: a shift by one bit over all bytes. */
static void add_double(uint8_t *block, const uint8_t *number)
{
    uint8_t carry = (uint8_t)((uint8_t) - (number[0] >> 7) & CMAC_POLYNOMIAL);
    for (uint8_t i = 0; i < CW_AES_BYTES - 1; i++)
        block[i] = (uint8_t)(block[i] ^ number[i] << 1 ^ number[i + 1] >> 7);
    block[CW_AES_BYTES - 1] = (uint8_t)(block[CW_AES_BYTES - 1] ^ number[CW_AES_BYTES - 1] << 1 ^ carry);
}

void cw_cmac_start(cw_cmac_t *cmac, const uint8_t *key)
{
    cmac->key = key;
    cw_cmac_begin(cmac);
    encrypt(cmac);
    memset(cmac->subkey, 0, CW_AES_BYTES);
    add_double(cmac->subkey, cmac->block);
}

void cw_cmac_begin(cw_cmac_t *cmac)
{
    memset(cmac->block, 0, CW_AES_BYTES);
    cmac->filled = 0;
}

/* The last block, which is treated otherwise, is not known until the end. */
void cw_cmac_put(cw_cmac_t *cmac, uint8_t byte)
{
    if (cmac->filled >= CW_AES_BYTES)
        encrypt(cmac);
    cmac->block[cmac->filled++] ^= byte;
}

const uint8_t *cw_cmac_end(cw_cmac_t *cmac)
{
    if (cmac->filled >= CW_AES_BYTES) {
        for (uint8_t i = 0; i < CW_AES_BYTES; i++)
            cmac->block[i] ^= cmac->subkey[i];
    } else { /* padded with a 1 and zeros, and under the other subkey */
        cmac->block[cmac->filled] ^= 0x80;
        add_double(cmac->block, cmac->subkey);
    }
    encrypt(cmac);
    return cmac->block;
}
