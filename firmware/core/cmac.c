#include "causeway/cmac.h"

#include <string.h>

#include "causeway/flash.h"

#define POLYNOMIAL 0x87U /* of RFC 4493's field of 128 bits */

static void encrypt(const cw_cmac_t *cmac, uint8_t *block)
{
    uint8_t key[CW_AES_BYTES];

    CW_FLASH_COPY(key, cmac->key, CW_AES_BYTES);
    cw_aes_encrypt(key, block);
}

static void add(uint8_t *block, const uint8_t *bytes, uint8_t count)
{
    for (uint8_t i = 0; i < count; i++)
        block[i] ^= bytes[i];
}

/* Add a number's double: a shift by one bit over all bytes. */
static void add_double(uint8_t *block, const uint8_t *number)
{
    uint8_t carry = (uint8_t)((uint8_t)-(number[0] >> 7) & POLYNOMIAL);

    for (uint8_t i = 0; i < CW_AES_BYTES - 1; i++)
        block[i] = (uint8_t)(block[i] ^ number[i] << 1 ^ number[i + 1] >> 7);
    block[CW_AES_BYTES - 1] = (uint8_t)(block[CW_AES_BYTES - 1] ^ number[CW_AES_BYTES - 1] << 1 ^ carry);
}

void cw_cmac_start(cw_cmac_t *cmac, const uint8_t *key)
{
    uint8_t block[CW_AES_BYTES] = {0};

    cmac->key = key;
    memset(cmac->subkey, 0, CW_AES_BYTES);
    encrypt(cmac, block);
    add_double(cmac->subkey, block);
}

void cw_cmac(const cw_cmac_t *cmac, const uint8_t *message, uint8_t length, uint8_t tag[CW_AES_BYTES])
{
    memset(tag, 0, CW_AES_BYTES);
    for (; length > CW_AES_BYTES; length = (uint8_t)(length - CW_AES_BYTES), message += CW_AES_BYTES) {
        add(tag, message, CW_AES_BYTES);
        encrypt(cmac, tag);
    }
    add(tag, message, length);
    if (length == CW_AES_BYTES) {
        add(tag, cmac->subkey, CW_AES_BYTES);
    } else { /* padded with a 1 and zeros, and under the other subkey */
        tag[length] ^= 0x80;
        add_double(tag, cmac->subkey);
    }
    encrypt(cmac, tag);
}
