/* Cycles of an AES block and of CMACs on the ATmega128, on timer 1 at the CPU's own clock; interrupts are
 * off. Many keys and blocks: constant time shows as least = most. */
#include "check.h"
#include "causeway/cmac.h"
#include "causeway/flash.h"

#define RUNS 60

static const uint8_t KEY[16] CW_IN_FLASH = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static cw_cmac_t cmac;
static uint8_t key[16], message[64];

static void stir(void)
{
    static uint32_t chance = 1;

    for (uint8_t i = 0; i < sizeof(message); i++) {
        chance ^= chance << 13;
        chance ^= chance >> 17;
        chance ^= chance << 5;
        message[i] = (uint8_t)chance;
        key[i % 16] = (uint8_t)(chance >> 8);
    }
}

static void aes(uint8_t length)
{
    (void)length;
    cw_aes_encrypt(key, message);
}

static void mac(uint8_t length)
{
    cw_cmac_begin(&cmac);
    for (uint8_t i = 0; i < length; i++)
        cw_cmac_put(&cmac, message[i]);
    cw_cmac_end(&cmac);
}

static void measure(const char *name, void (*call)(uint8_t), uint8_t length)
{
    uint16_t least = UINT16_MAX, most = 0;

    for (uint8_t run = 0; run < RUNS; run++) {
        stir();
        __asm__ volatile("" ::: "memory");
        uint16_t before = TCNT1;
        __asm__ volatile("" ::: "memory");
        call(length);
        __asm__ volatile("" ::: "memory");
        uint16_t cycles = (uint16_t)(TCNT1 - before);
        least = cycles < least ? cycles : least;
        most = cycles > most ? cycles : most;
    }
    CHECK_SAY(CHECK_TEXT("cycles: " CHECK_STRING " %u %u\n"), name, least, most);
}

int main(void)
{
    check_start();
    TCCR1B = 1 << CS10;
    cw_cmac_start(&cmac, KEY);
    measure(CHECK_TEXT("block"), aes, 0);
    measure(CHECK_TEXT("mac16"), mac, 16);
    measure(CHECK_TEXT("mac30"), mac, 30);
    measure(CHECK_TEXT("mac40"), mac, 40);
    return check_end();
}
