/* A MICAz on libsimavr (GPLv3, and so is every program that includes this): an ATmega128 wired to cc2420_chip.h.
 *
 * libsimavr 1.6 is put right from outside: SPI bytes take their time, writing to EIFR or TIFR clears the flags that are written
 * as 1 and no others, interrupts that were raised while masked come when unmasked. Time is emulated time only.
 */
#ifndef MICAZ_SIM_H
#define MICAZ_SIM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <simavr/avr_extint.h>
#include <simavr/avr_ioport.h>
#include <simavr/avr_spi.h>
#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>
#include <simavr/sim_interrupts.h>
#include <simavr/sim_io.h>

#include "cc2420_chip.h"

/* The library gives a character eleven bits, and stumbles if the next one comes before the last has been read: so 14 bits. */
enum { HZ = 7372800, UART_CYCLES = 14 * HZ / 57600 };
enum { REG_SPCR = 0x2D, REG_SPSR = 0x2E, REG_SPDR = 0x2F, REG_TIFR = 0x56, REG_TIMSK = 0x57, REG_EIFR = 0x58, REG_EIMSK = 0x59 };

typedef struct micaz micaz_t;
struct micaz {
    chip_t chip; /* its owner is this */
    avr_t *avr;
    avr_irq_t *pin_fifo, *pin_fifop, *pin_sfd, *pin_cca, *spi_in, *uart_in;
    uint8_t to_uart[1024];
    int to_uart_count, to_uart_at;
    /* what the user sets, or leaves NULL */
    void (*on_uart)(micaz_t *mote, uint8_t byte);
    void (*on_delimiter)(micaz_t *mote); /* SFD has risen */
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
    avr_raise_irq(mote->pin_sfd, mote->chip.sfd);
}

/* Bring the chip up to the processor's time. */
static void micaz_catch_up(micaz_t *mote)
{
    chip_t *chip = &mote->chip;
    uint64_t now = ns_of(mote->avr->cycle);
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
    avr_t *avr = mote->avr;
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

/* --- interrupt flags --- */

static void micaz_flags_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)param;
    uint8_t before = avr->data[address];
    for (int i = 0; i < avr->interrupts.vector_count; i++) {
        avr_int_vector_t *vector = avr->interrupts.vector[i];
        if (vector->raised.reg == address && (value >> vector->raised.bit & 1) && vector->pending) {
            avr_clear_interrupt(avr, vector);
        }
    }
    avr->data[address] = before & (uint8_t)~value;
}

static void micaz_mask_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)param;
    avr->data[address] = value;
    for (int i = 0; i < avr->interrupts.vector_count; i++) {
        avr_int_vector_t *vector = avr->interrupts.vector[i];
        if (vector->enable.reg == address && (value >> vector->enable.bit & 1) && vector->raised.reg &&
            avr_regbit_get(avr, vector->raised) && !vector->pending) {
            avr_raise_interrupt(avr, vector);
        }
    }
}

/* --- UART 0 --- */

static void micaz_on_uart(avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq;
    micaz_t *mote = param;
    if (mote->on_uart != NULL) {
        mote->on_uart(mote, (uint8_t)value);
    }
}

static avr_cycle_count_t micaz_uart_feed(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)avr;
    micaz_t *mote = param;
    if (mote->to_uart_at == mote->to_uart_count) {
        mote->to_uart_at = mote->to_uart_count = 0;
        return 0;
    }
    avr_raise_irq(mote->uart_in, mote->to_uart[mote->to_uart_at++]);
    return when + UART_CYCLES;
}

static int unhex(const char *text, uint8_t *bytes, int most)
{
    int count = 0;
    unsigned byte;
    for (; count < most && sscanf(text, "%2x", &byte) == 1; text += 2) {
        bytes[count++] = (uint8_t)byte;
    }
    return count;
}

/* Bytes to the mote, as hexadecimal text. */
static void micaz_uart_hex(micaz_t *mote, const char *hex)
{
    int room = (int)sizeof mote->to_uart - mote->to_uart_count;
    bool idle = mote->to_uart_count == 0;
    mote->to_uart_count += unhex(hex, mote->to_uart + mote->to_uart_count, room);
    if (idle) {
        avr_cycle_timer_register(mote->avr, UART_CYCLES, micaz_uart_feed, mote);
    }
}

/* --- the whole --- */

static void micaz_no_sleep(avr_t *avr, avr_cycle_count_t cycles)
{
    (void)avr, (void)cycles;
}

static avr_cycle_count_t micaz_stop_here(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)avr, (void)when, (void)param;
    return 0;
}

/* Before running to `end`, or a sleeping core runs past it. */
static void micaz_stop_at(micaz_t *mote, avr_cycle_count_t end)
{
    avr_cycle_timer_register(mote->avr, end - mote->avr->cycle, micaz_stop_here, NULL);
}

/* avr_run(), ending the program when the core has stopped. */
static void micaz_run(micaz_t *mote)
{
    int state = avr_run(mote->avr);
    if (state == cpu_Done || state == cpu_Crashed) {
        fprintf(stderr, "the core has stopped at %llu\n", (unsigned long long)mote->avr->cycle);
        exit(1);
    }
}

static avr_irq_t *micaz_pin(micaz_t *mote, char port, int bit)
{
    return avr_io_getirq(mote->avr, AVR_IOCTL_IOPORT_GETIRQ(port), bit);
}

static void micaz_wire_up(micaz_t *mote)
{
    avr_t *avr = mote->avr;
    mote->pin_fifo = micaz_pin(mote, 'B', 7);
    mote->pin_fifop = micaz_pin(mote, 'E', 6);
    mote->pin_sfd = micaz_pin(mote, 'D', 4);
    mote->pin_cca = micaz_pin(mote, 'D', 6);
    mote->spi_in = avr_io_getirq(avr, AVR_IOCTL_SPI_GETIRQ(0), SPI_IRQ_INPUT);
    mote->uart_in = avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT);
    avr_irq_register_notify(micaz_pin(mote, 'B', 0), micaz_on_csn, mote);
    avr_irq_register_notify(micaz_pin(mote, 'A', 5), micaz_on_power, mote);
    avr_irq_register_notify(micaz_pin(mote, 'A', 6), micaz_on_reset, mote);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT), micaz_on_uart, mote);
    avr->io[AVR_DATA_TO_IO(REG_SPDR)].w.c = micaz_spi_written;
    avr->io[AVR_DATA_TO_IO(REG_SPDR)].w.param = mote;
    avr_register_io_write(avr, REG_EIFR, micaz_flags_written, NULL);
    avr->io[AVR_DATA_TO_IO(REG_TIFR)].w.c = micaz_flags_written; /* the library's own clears flags that were written as 0, too */
    avr_register_io_write(avr, REG_EIMSK, micaz_mask_written, NULL);
    avr_register_io_write(avr, REG_TIMSK, micaz_mask_written, NULL);
    for (uint8_t i = 0; i < 8; i++) {
        avr_extint_set_strict_lvl_trig(avr, i, 0); /* else pins that are low are polled each cycle, enabled or not */
    }
    uint32_t flags = 0;
    avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
}

/* A mote with a program in its flash, just switched on. False when the file is none. */
static bool micaz_make(micaz_t *mote, const char *path)
{
    elf_firmware_t firmware;
    memset(&firmware, 0, sizeof firmware);
    memset(mote, 0, sizeof *mote);
    if (elf_read_firmware(path, &firmware) != 0) {
        return false;
    }
    mote->avr = avr_make_mcu_by_name("atmega128");
    if (mote->avr == NULL || avr_init(mote->avr) != 0) {
        return false;
    }
    avr_load_firmware(mote->avr, &firmware);
    mote->avr->frequency = HZ;
    mote->avr->vcc = mote->avr->avcc = mote->avr->aref = 3000;
    mote->avr->sleep = micaz_no_sleep;
    mote->avr->log = LOG_ERROR;
    chip_init(&mote->chip);
    mote->chip.owner = mote;
    micaz_wire_up(mote);
    return true;
}

#endif
