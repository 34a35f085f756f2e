/* What an emulated program takes of stack and time, beside any of the emulators here: link this file in with
 *
 *     -Wl,--wrap=avr_run -Wl,--wrap=avr_load_firmware
 *
 * and at the end standard error has `stack N`, the most bytes that the stack has had; `awake N`, the CPU cycles not asleep; `cycles N`,
 * all of them.
 *
 * Free RAM is painted before the start. A byte that was on the stack and never written does not show; return addresses and pushes
 * do. Links libsimavr (GPL): a test tool, no part of the firmware.
 */
#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAINT = 0xA5, RAM_BEGIN = 0x100 };

static const avr_t *watched;
static unsigned first_free;
static avr_cycle_count_t asleep;
static void (*their_sleep)(avr_t *avr, avr_cycle_count_t cycles);

int __real_avr_run(avr_t *avr);
int __wrap_avr_run(avr_t *avr);
void __real_avr_load_firmware(avr_t *avr, elf_firmware_t *firmware);
void __wrap_avr_load_firmware(avr_t *avr, elf_firmware_t *firmware);

static void report(void)
{
    unsigned at = first_free;

    while (at <= watched->ramend && watched->data[at] == PAINT) {
        at++;
    }
    fprintf(stderr, "stack %u\nawake %llu\ncycles %llu\n", watched->ramend + 1U - at,
            (unsigned long long)(watched->cycle - asleep), (unsigned long long)watched->cycle);
}

void __wrap_avr_load_firmware(avr_t *avr, elf_firmware_t *firmware)
{
    __real_avr_load_firmware(avr, firmware);
    watched = avr;
    first_free = RAM_BEGIN + firmware->datasize + firmware->bsssize;
    memset(avr->data + first_free, PAINT, avr->ramend + 1U - first_free);
    atexit(report);
}

static void note_sleep(avr_t *avr, avr_cycle_count_t cycles)
{
    asleep += cycles + 1;    /* what the library then adds to its count */
    their_sleep(avr, cycles);
}

int __wrap_avr_run(avr_t *avr)
{
    if (avr->sleep != note_sleep) {
        their_sleep = avr->sleep;
        avr->sleep = note_sleep;
    }
    return __real_avr_run(avr);
}
