#include "causeway/aes.h"

#include "causeway/flash.h"

#ifdef __AVR__

static const uint8_t S_BOX[256] CW_IN_FLASH = {
    /* clang-format off */
    0x63, 0x7C, 0x77, 0x7B, 0xF2, 0x6B, 0x6F, 0xC5, 0x30, 0x01, 0x67, 0x2B, 0xFE, 0xD7, 0xAB, 0x76,
    0xCA, 0x82, 0xC9, 0x7D, 0xFA, 0x59, 0x47, 0xF0, 0xAD, 0xD4, 0xA2, 0xAF, 0x9C, 0xA4, 0x72, 0xC0,
    0xB7, 0xFD, 0x93, 0x26, 0x36, 0x3F, 0xF7, 0xCC, 0x34, 0xA5, 0xE5, 0xF1, 0x71, 0xD8, 0x31, 0x15,
    0x04, 0xC7, 0x23, 0xC3, 0x18, 0x96, 0x05, 0x9A, 0x07, 0x12, 0x80, 0xE2, 0xEB, 0x27, 0xB2, 0x75,
    0x09, 0x83, 0x2C, 0x1A, 0x1B, 0x6E, 0x5A, 0xA0, 0x52, 0x3B, 0xD6, 0xB3, 0x29, 0xE3, 0x2F, 0x84,
    0x53, 0xD1, 0x00, 0xED, 0x20, 0xFC, 0xB1, 0x5B, 0x6A, 0xCB, 0xBE, 0x39, 0x4A, 0x4C, 0x58, 0xCF,
    0xD0, 0xEF, 0xAA, 0xFB, 0x43, 0x4D, 0x33, 0x85, 0x45, 0xF9, 0x02, 0x7F, 0x50, 0x3C, 0x9F, 0xA8,
    0x51, 0xA3, 0x40, 0x8F, 0x92, 0x9D, 0x38, 0xF5, 0xBC, 0xB6, 0xDA, 0x21, 0x10, 0xFF, 0xF3, 0xD2,
    0xCD, 0x0C, 0x13, 0xEC, 0x5F, 0x97, 0x44, 0x17, 0xC4, 0xA7, 0x7E, 0x3D, 0x64, 0x5D, 0x19, 0x73,
    0x60, 0x81, 0x4F, 0xDC, 0x22, 0x2A, 0x90, 0x88, 0x46, 0xEE, 0xB8, 0x14, 0xDE, 0x5E, 0x0B, 0xDB,
    0xE0, 0x32, 0x3A, 0x0A, 0x49, 0x06, 0x24, 0x5C, 0xC2, 0xD3, 0xAC, 0x62, 0x91, 0x95, 0xE4, 0x79,
    0xE7, 0xC8, 0x37, 0x6D, 0x8D, 0xD5, 0x4E, 0xA9, 0x6C, 0x56, 0xF4, 0xEA, 0x65, 0x7A, 0xAE, 0x08,
    0xBA, 0x78, 0x25, 0x2E, 0x1C, 0xA6, 0xB4, 0xC6, 0xE8, 0xDD, 0x74, 0x1F, 0x4B, 0xBD, 0x8B, 0x8A,
    0x70, 0x3E, 0xB5, 0x66, 0x48, 0x03, 0xF6, 0x0E, 0x61, 0x35, 0x57, 0xB9, 0x86, 0xC1, 0x1D, 0x9E,
    0xE1, 0xF8, 0x98, 0x11, 0x69, 0xD9, 0x8E, 0x94, 0x9B, 0x1E, 0x87, 0xE9, 0xCE, 0x55, 0x28, 0xDF,
    0x8C, 0xA1, 0x89, 0x0D, 0xBF, 0xE6, 0x42, 0x68, 0x41, 0x99, 0x2D, 0x0F, 0xB0, 0x54, 0xBB, 0x16,
    /* clang-format on */
};

/* By hand, since a mote does three blocks for each message that it hears, with its receiver on: 3,787 cycles
 * a block, of which the compiler made 8,354. The block is in r2 to r17, the key behind Y; r19 is the
 * polynomial, r20 and r21 say where the S-box is, r24 counts rounds, r25 is the round's constant. Branches
 * depend on a bit of the block, but either way takes two cycles. */
__attribute__((naked, noinline, noclone)) void cw_aes_encrypt(uint8_t key[CW_AES_BYTES],
                                                              uint8_t block[CW_AES_BYTES])
{
    (void)key;   /* r24 and r25 */
    (void)block; /* r22 and r23 */
    __asm__ volatile(
        ".macro cw_substitute to from\n"
        "movw r30, r20\n"
        "add r30, \\from\n"
        "adc r31, r1\n"
        "lpm \\to, Z\n"
        ".endm\n"
        ".macro cw_twice value\n"
        "lsl \\value\n"
        "brcc .+2\n"
        "eor \\value, r19\n"
        ".endm\n"
        /* a becomes a + all + 2 (a + b) */
        ".macro cw_mix_byte a b\n"
        "mov r23, \\a\n"
        "eor r23, \\b\n"
        "cw_twice r23\n"
        "eor r23, r18\n"
        "eor \\a, r23\n"
        ".endm\n"
        ".macro cw_mix_column a b c d\n"
        "mov r22, \\a\n"
        "mov r18, \\a\n"
        "eor r18, \\b\n"
        "eor r18, \\c\n"
        "eor r18, \\d\n"
        "cw_mix_byte \\a \\b\n"
        "cw_mix_byte \\b \\c\n"
        "cw_mix_byte \\c \\d\n"
        "cw_mix_byte \\d r22\n"
        ".endm\n"
        /* the next byte of a row of the round's key, to which r22 is added, and which is added to the block
         */
        ".macro cw_add_key at to\n"
        "ldd r18, Y+\\at\n"
        "eor r22, r18\n"
        "std Y+\\at, r22\n"
        "eor \\to, r22\n"
        ".endm\n"
        ".macro cw_add_row row a b c d\n"
        "cw_add_key \\row \\a\n"
        "cw_add_key \\row+4 \\b\n"
        "cw_add_key \\row+8 \\c\n"
        "cw_add_key \\row+12 \\d\n"
        ".endm\n"
        ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,28,29\n"
        "push r\\r\n"
        ".endr\n"
        "movw r28, r24\n"
        "movw r26, r22\n"
        ".irp r, 2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\n"
        "ld r\\r, X+\n"
        "ldd r18, Y+\\r-2\n"
        "eor r\\r, r18\n"
        ".endr\n"
        "ldi r19, 0x1B\n"
        "ldi r20, lo8(%[box])\n"
        "ldi r21, hi8(%[box])\n"
        "ldi r24, 10\n"
        "ldi r25, 1\n"
        "1:\n" /* SubBytes and ShiftRows: byte `row` of each column comes from `row` columns further */
        "cw_substitute r2 r2\n"
        "cw_substitute r6 r6\n"
        "cw_substitute r10 r10\n"
        "cw_substitute r14 r14\n"
        "cw_substitute r18 r3\n"
        "cw_substitute r3 r7\n"
        "cw_substitute r7 r11\n"
        "cw_substitute r11 r15\n"
        "mov r15, r18\n"
        "cw_substitute r18 r4\n"
        "cw_substitute r4 r12\n"
        "mov r12, r18\n"
        "cw_substitute r18 r8\n"
        "cw_substitute r8 r16\n"
        "mov r16, r18\n"
        "cw_substitute r18 r17\n"
        "cw_substitute r17 r13\n"
        "cw_substitute r13 r9\n"
        "cw_substitute r9 r5\n"
        "mov r5, r18\n"
        "cpi r24, 1\n"
        "brne 2f\n"
        "rjmp 3f\n"
        "2:\n"
        "cw_mix_column r2 r3 r4 r5\n"
        "cw_mix_column r6 r7 r8 r9\n"
        "cw_mix_column r10 r11 r12 r13\n"
        "cw_mix_column r14 r15 r16 r17\n"
        "3:\n" /* the next round's key, and AddRoundKey */
        "ldd r23, Y+12\n"
        "ldd r18, Y+13\n"
        "cw_substitute r22 r18\n"
        "eor r22, r25\n"
        "cw_add_row 0 r2 r6 r10 r14\n"
        "ldd r18, Y+14\n"
        "cw_substitute r22 r18\n"
        "cw_add_row 1 r3 r7 r11 r15\n"
        "ldd r18, Y+15\n"
        "cw_substitute r22 r18\n"
        "cw_add_row 2 r4 r8 r12 r16\n"
        "cw_substitute r22 r23\n"
        "cw_add_row 3 r5 r9 r13 r17\n"
        "cw_twice r25\n"
        "dec r24\n"
        "breq 4f\n"
        "rjmp 1b\n"
        "4:\n"
        ".irp r, 17,16,15,14,13,12,11,10,9,8,7,6,5,4,3,2\n"
        "st -X, r\\r\n"
        ".endr\n"
        ".irp r, 29,28,17,16,15,14,13,12,11,10,9,8,7,6,5,4,3,2\n"
        "pop r\\r\n"
        ".endr\n"
        "ret\n"
        ".irp name, substitute,twice,mix_byte,mix_column,add_key,add_row\n"
        ".purgem cw_\\name\n"
        ".endr\n" ::[box] "i"(S_BOX));
}

#else

#define ROUNDS 10
#define AES_POLYNOMIAL 0x1BU /* of the field, less x^8 */

/* Times x, in the field. */
static inline __attribute__((always_inline)) uint8_t twice(uint8_t value)
{
    return (uint8_t)((uint8_t)(value << 1) ^ ((uint8_t) - (value >> 7) & AES_POLYNOMIAL));
}

static uint8_t times(uint8_t a, uint8_t b)
{
    uint8_t product = 0;
    for (uint8_t bit = 0; bit < 8; bit++) {
        product = (uint8_t)(product ^ ((uint8_t) - (b >> bit & 1) & a));
        a = twice(a);
    }
    return product;
}

static inline uint8_t turned(uint8_t value, uint8_t bits)
{
    return (uint8_t)(value << bits | value >> (8 - bits));
}

/* The inverse is the 254th power; of 0 it is 0, as it should be. */
static uint8_t substitute(uint8_t value)
{
    uint8_t square = times(value, value), cube = times(square, value);
    uint8_t power6 = times(cube, cube), power12 = times(power6, power6);
    uint8_t power = times(power12, cube); /* 15 */
    for (uint8_t doubling = 0; doubling < 4; doubling++)
        power = times(power, power);
    uint8_t inverse = times(times(power, power12), square);
    return (uint8_t)(inverse ^ turned(inverse, 1) ^ turned(inverse, 2) ^ turned(inverse, 3) ^
                     turned(inverse, 4) ^ 0x63);
}

static void add_key(uint8_t *block, const uint8_t *key)
{
    for (uint8_t i = 0; i < CW_AES_BYTES; i++)
        block[i] ^= key[i];
}

static void next_round_key(uint8_t *key, uint8_t constant)
{
    key[0] = (uint8_t)(key[0] ^ substitute(key[13]) ^ constant);
    key[1] ^= substitute(key[14]);
    key[2] ^= substitute(key[15]);
    key[3] ^= substitute(key[12]);
    for (uint8_t row = 0; row < 4; row++, key++) {
        key[4] ^= key[0];
        key[8] ^= key[4];
        key[12] ^= key[8];
    }
}

/* SubBytes and ShiftRows: byte `row` of each column comes from `row` columns further. */
static void substitute_and_shift(uint8_t *block)
{
    uint8_t kept = substitute(block[1]);
    block[0] = substitute(block[0]);
    block[4] = substitute(block[4]);
    block[8] = substitute(block[8]);
    block[12] = substitute(block[12]);
    block[1] = substitute(block[5]);
    block[5] = substitute(block[9]);
    block[9] = substitute(block[13]);
    block[13] = kept;
    kept = substitute(block[2]);
    block[2] = substitute(block[10]);
    block[10] = kept;
    kept = substitute(block[6]);
    block[6] = substitute(block[14]);
    block[14] = kept;
    kept = substitute(block[15]);
    block[15] = substitute(block[11]);
    block[11] = substitute(block[7]);
    block[7] = substitute(block[3]);
    block[3] = kept;
}

/* Each byte becomes 2 a + 3 b + c + d of itself and those after it: a + 2 (a + b) + the sum of all. */
static void mix_columns(uint8_t *block)
{
    for (uint8_t column = 0; column < 4; column++, block += 4) {
        uint8_t a = block[0], b = block[1], c = block[2], d = block[3];
        uint8_t all = (uint8_t)(a ^ b ^ c ^ d);
        block[0] = (uint8_t)(a ^ all ^ twice(a ^ b));
        block[1] = (uint8_t)(b ^ all ^ twice(b ^ c));
        block[2] = (uint8_t)(c ^ all ^ twice(c ^ d));
        block[3] = (uint8_t)(d ^ all ^ twice(d ^ a));
    }
}

void cw_aes_encrypt(uint8_t key[CW_AES_BYTES], uint8_t block[CW_AES_BYTES])
{
    uint8_t constant = 1;
    add_key(block, key);
    for (uint8_t round = 1; round <= ROUNDS; round++) {
        substitute_and_shift(block);
        if (round < ROUNDS)
            mix_columns(block);
        next_round_key(key, constant);
        constant = twice(constant);
        add_key(block, key);
    }
}

#endif
