/* A MICAz: an ATmega128 (atmega_sim.h) wired to a CC2420 (cc2420_chip.h). */
#ifndef MICAZ_SIM_H
#define MICAZ_SIM_H

#include <simavr/avr_spi.h>

#include "atmega_sim.h"
#include "cc2420_chip.h"

enum { REG_SPCR = 0x2D, REG_SPSR = 0x2E, REG_SPDR = 0x2F };

typedef struct micaz micaz_t;
struct micaz {
    atmega_t mcu;
    chip_t chip; /* its owner is this */
    avr_irq_t *pin_fifo, *pin_fifop, *pin_sfd, *pin_cca, *spi_in;
    bool blind;                          /* SFD's wire is broken */
    void (*on_delimiter)(micaz_t *mote); /* or NULL: SFD has risen */
};

static uint64_t ns_of(avr_cycle_count_t cycle)
{
    return (uint64_t)((unsigned __int128)cycle * 1000000000 / HZ);
}

static avr_cycle_count_t cycle_of(uint64_t ns)
{
    return (avr_cycle_count_t)((unsigned __int128)ns * HZ / 1000000000) + 1;
}

/* --- the chip --- */

static void micaz_show_pins(micaz_t *mote)
{
    chip_set_pins(&mote->chip);
    avr_raise_irq(mote->pin_fifo, mote->chip.fifo);
    avr_raise_irq(mote->pin_fifop, mote->chip.fifop);
    avr_raise_irq(mote->pin_cca, mote->chip.cca);
    avr_raise_irq(mote->pin_sfd, mote->chip.sfd && !mote->blind);
}

/* Bring the chip up to the processor's time. */
static void micaz_catch_up(micaz_t *mote)
{
    chip_t *chip = &mote->chip;
    uint64_t now = ns_of(mote->mcu.avr->cycle);
    for (uint64_t next = chip_next(chip); next <= now; next = chip_next(chip)) {
        chip->now = next > chip->now ? next : chip->now;
        bool sfd = chip->sfd;
        chip_happen(chip);
        if (chip->sfd && !sfd && mote->on_delimiter != NULL) {
            mote->on_delimiter(mote);
        }
        micaz_show_pins(mote);
    }
    chip->now = now > chip->now ? now : chip->now;
}

static avr_cycle_count_t micaz_chip_due(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)when;
    micaz_t *mote = param;
    micaz_catch_up(mote);
    uint64_t next = chip_next(&mote->chip);
    if (next == NEVER) {
        return 0;
    }
    avr_cycle_count_t at = cycle_of(next);
    return at > avr->cycle ? at : avr->cycle + 1;
}

/* After anything from outside that gives the chip something to do. */
static void micaz_schedule(micaz_t *mote)
{
    avr_t *avr = mote->mcu.avr;
    avr_cycle_timer_cancel(avr, micaz_chip_due, mote);
    uint64_t next = chip_next(&mote->chip);
    if (next != NEVER) {
        avr_cycle_count_t at = cycle_of(next);
        avr_cycle_timer_register(avr, at > avr->cycle ? at - avr->cycle : 1, micaz_chip_due, mote);
    }
}

/* A byte has been shifted: the library's own SPI would take 100 us for it. */
static avr_cycle_count_t micaz_spi_shifted(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)when;
    micaz_t *mote = param;
    micaz_catch_up(mote);
    uint8_t answer = chip_spi(&mote->chip, avr->data[REG_SPDR]);
    micaz_show_pins(mote);
    micaz_schedule(mote);
    avr_raise_irq(mote->spi_in, answer);
    return 0;
}

static void micaz_spi_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    static const uint8_t dividers[] = {4, 16, 64, 128};
    avr->data[address] = value;
    avr->data[REG_SPSR] &= 0x7F;
    int divider = dividers[avr->data[REG_SPCR] & 3] / (avr->data[REG_SPSR] & 1 ? 2 : 1);
    avr_cycle_timer_register(avr, (avr_cycle_count_t)(8 * divider), micaz_spi_shifted, param);
}

static void micaz_on_csn(avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq;
    chip_select(&((micaz_t *)param)->chip, !value);
}

static void micaz_on_power(avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq;
    micaz_t *mote = param;
    micaz_catch_up(mote);
    chip_supply(&mote->chip, value);
    micaz_schedule(mote);
}

static void micaz_on_reset(avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq;
    micaz_t *mote = param;
    micaz_catch_up(mote);
    chip_reset(&mote->chip, !value);
    micaz_schedule(mote);
}

static void micaz_wire_up(micaz_t *mote)
{
    avr_t *avr = mote->mcu.avr;
    mote->pin_fifo = atmega_pin(&mote->mcu, 'B', 7);
    mote->pin_fifop = atmega_pin(&mote->mcu, 'E', 6);
    mote->pin_sfd = atmega_pin(&mote->mcu, 'D', 4);
    mote->pin_cca = atmega_pin(&mote->mcu, 'D', 6);
    mote->spi_in = avr_io_getirq(avr, AVR_IOCTL_SPI_GETIRQ(0), SPI_IRQ_INPUT);
    avr_irq_register_notify(atmega_pin(&mote->mcu, 'B', 0), micaz_on_csn, mote);
    avr_irq_register_notify(atmega_pin(&mote->mcu, 'A', 5), micaz_on_power, mote);
    avr_irq_register_notify(atmega_pin(&mote->mcu, 'A', 6), micaz_on_reset, mote);
    avr->io[AVR_DATA_TO_IO(REG_SPDR)].w.c = micaz_spi_written;
    avr->io[AVR_DATA_TO_IO(REG_SPDR)].w.param = mote;
}

/* A mote with a program in its flash, just switched on. False when the file is none. */
static bool micaz_make(micaz_t *mote, const char *path)
{
    memset(mote, 0, sizeof *mote);
    if (!atmega_make(&mote->mcu, path)) {
        return false;
    }
    chip_init(&mote->chip);
    mote->chip.owner = mote;
    micaz_wire_up(mote);
    return true;
}

#endif
