/* What a program takes: stack, time awake, time with interrupts off, time in its handlers. */
#include "atmega_private.h"

#include <simavr/sim_core.h>

enum { REG_SPL = 0x5D, REG_SPH = 0x5E };
enum { OUT = 0xB800, OUT_MASK = 0xF800, OUT_SPL = 0x3D, OUT_SPH = 0x3E, RETURN_ADDRESS = 2, MISO = 1 << 3 };

static uint16_t stack_pointer(const avr_t *avr)
{
    return (uint16_t)(avr->data[REG_SPL] | avr->data[REG_SPH] << 8);
}

/* The address of an OUT instruction; else -1. */
static int out_to(const avr_t *avr)
{
    unsigned code = (unsigned)(avr->flash[avr->pc] | avr->flash[avr->pc + 1] << 8);
    return (code & OUT_MASK) == OUT ? (int)((code >> 5 & 0x30) | (code & 0x0F)) : -1;
}

/* The pointer is written in two halves, the upper one first; between them it points nowhere. */
static void look_at_stack(atmega_t *mcu, int written)
{
    measure_t *measure = &mcu->measure;
    measure->half = written == OUT_SPH || (measure->half && written != OUT_SPL);
    uint16_t pointer = stack_pointer(mcu->avr);
    if (measure->half || pointer < ATMEGA_RAM || pointer > ATMEGA_RAM_END)
        return;
    uint16_t used = (uint16_t)(ATMEGA_RAM_END - pointer);
    measure->use.stack = used > measure->use.stack ? used : measure->use.stack;
    if (measure->handler != 0 && pointer == measure->left) {
        uint32_t took = (uint32_t)(mcu->avr->cycle - measure->entered);
        uint32_t *longest = &measure->use.handlers[measure->handler];
        *longest = took > *longest ? took : *longest;
        measure->handler = 0;
    }
}

static void look_at_mask(atmega_t *mcu)
{
    measure_t *measure = &mcu->measure;
    uint32_t masked = (uint32_t)(mcu->avr->cycle - measure->open);
    if (mcu->avr->sreg[S_I])
        measure->open = mcu->avr->cycle;
    measure->use.masked = masked > measure->use.masked ? masked : measure->use.masked;
}

avr_flashaddr_t atmega_measure_instruction(atmega_t *mcu)
{
    avr_t *avr = mcu->avr;
    int written = out_to(avr);
    avr->run_cycle_count = 0; /* one instruction, not as many as there is time for */
    avr_flashaddr_t next = avr_run_one(avr);
    look_at_stack(mcu, written);
    look_at_mask(mcu);
    return next;
}

void atmega_measure_handler(atmega_t *mcu, int vector)
{
    measure_t *measure = &mcu->measure;
    measure->handler = vector;
    measure->entered = mcu->avr->cycle;
    measure->left = (uint16_t)(stack_pointer(mcu->avr) + RETURN_ADDRESS);
}

void atmega_measure_shifted(atmega_t *mcu)
{
    mcu->measure.owed = (mcu->avr->data[REG_DDRB] & MISO) != 0;
    mcu->measure.shifted = mcu->avr->cycle;
}

void atmega_measure_written(atmega_t *mcu)
{
    measure_t *measure = &mcu->measure;
    uint32_t took = (uint32_t)(mcu->avr->cycle - measure->shifted);
    if (measure->owed && took > measure->use.spi)
        measure->use.spi = took;
    measure->owed = false;
}

void atmega_measure_sleep(atmega_t *mcu, avr_cycle_count_t cycles)
{
    mcu->measure.asleep += cycles;
    mcu->measure.open = mcu->avr->cycle;
}

void atmega_measure_reset(atmega_t *mcu)
{
    mcu->measure.handler = 0;
    mcu->measure.half = mcu->measure.owed = false;
    mcu->measure.open = mcu->avr->cycle;
}

void atmega_measure(atmega_t *mcu)
{
    mcu->measure.on = true;
}

atmega_use_t atmega_use(atmega_t *mcu)
{
    measure_t *measure = &mcu->measure;
    atmega_use_t use = measure->use;
    use.cycles = mcu->avr->cycle - measure->since;
    use.awake = use.cycles - measure->asleep;
    measure->use = (atmega_use_t){0};
    measure->since = mcu->avr->cycle;
    measure->asleep = 0;
    return use;
}
