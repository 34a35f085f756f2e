/* An ATmega128 of a mote on libsimavr (GPLv3, and so is every program that includes this).
 *
 * libsimavr 1.6 is put right from outside: writing to EIFR, TIFR or ETIFR clears the flags that are written as 1 and no others,
 * interrupts that were raised while masked come when unmasked, pins that are low are not polled, the watchdog is off after a
 * reset. It still fires late after being set to a shorter time. Time is emulated time only.
 */
#ifndef ATMEGA_SIM_H
#define ATMEGA_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <simavr/avr_extint.h>
#include <simavr/avr_ioport.h>
#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>
#include <simavr/sim_interrupts.h>
#include <simavr/sim_io.h>

/* The library gives a character eleven bits, and stumbles if the next one comes before the last has been read: so 14 bits. */
enum { HZ = 7372800, UART_CYCLES = 14 * HZ / 57600 };
enum { REG_WDTCR = 0x41, REG_MCUCSR = 0x54 };
enum { REG_TIFR = 0x56, REG_TIMSK = 0x57, REG_EIFR = 0x58, REG_EIMSK = 0x59, REG_ETIFR = 0x7C, REG_ETIMSK = 0x7D };

typedef struct atmega atmega_t;
struct atmega {
    avr_t *avr;
    void (*on_uart)(atmega_t *mcu, uint8_t byte); /* or NULL: a byte has left UART 0 */
    avr_irq_t *uart_in;
    uint8_t to_uart[1024];
    int to_uart_count, to_uart_at;
};

/* --- interrupt flags --- */

static void atmega_flags_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
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

static void atmega_mask_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
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

static void atmega_on_uart(avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq;
    atmega_t *mcu = param;
    if (mcu->on_uart != NULL) {
        mcu->on_uart(mcu, (uint8_t)value);
    }
}

static avr_cycle_count_t atmega_uart_feed(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)avr;
    atmega_t *mcu = param;
    if (mcu->to_uart_at == mcu->to_uart_count) {
        mcu->to_uart_at = mcu->to_uart_count = 0;
        return 0;
    }
    avr_raise_irq(mcu->uart_in, mcu->to_uart[mcu->to_uart_at++]);
    return when + UART_CYCLES;
}

static inline int unhex(const char *text, uint8_t *bytes, int most)
{
    int count = 0;
    unsigned byte;
    for (; count < most && sscanf(text, "%2x", &byte) == 1; text += 2) {
        bytes[count++] = (uint8_t)byte;
    }
    return count;
}

/* Bytes to the mote, as hexadecimal text. */
static inline void atmega_uart_hex(atmega_t *mcu, const char *hex)
{
    int room = (int)sizeof mcu->to_uart - mcu->to_uart_count;
    mcu->to_uart_count += unhex(hex, mcu->to_uart + mcu->to_uart_count, room);
    if (avr_cycle_timer_status(mcu->avr, atmega_uart_feed, mcu) == 0) {
        avr_cycle_timer_register(mcu->avr, UART_CYCLES, atmega_uart_feed, mcu);
    }
}

/* --- the whole --- */

static void atmega_no_sleep(avr_t *avr, avr_cycle_count_t cycles)
{
    (void)avr, (void)cycles;
}

static avr_cycle_count_t atmega_stop_here(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)avr, (void)when, (void)param;
    return 0;
}

/* Before running to `end`, or a sleeping core runs past it. */
static inline void atmega_stop_at(atmega_t *mcu, avr_cycle_count_t end)
{
    avr_cycle_timer_register(mcu->avr, end - mcu->avr->cycle, atmega_stop_here, NULL);
}

/* avr_run(), ending the program when the core has stopped. */
static void atmega_run(atmega_t *mcu)
{
    int state = avr_run(mcu->avr);
    if (state == cpu_Done || state == cpu_Crashed) {
        fprintf(stderr, "the core has stopped at %llu\n", (unsigned long long)mcu->avr->cycle);
        exit(1);
    }
}

static avr_irq_t *atmega_pin(atmega_t *mcu, char port, int bit)
{
    return avr_io_getirq(mcu->avr, AVR_IOCTL_IOPORT_GETIRQ(port), bit);
}

/* After a reset of its own the library has the watchdog on for as long as WDRF is set, as it is in later chips; in this one WDE is
 * cleared as by any reset. So WDRF is not shown. */
static void (*atmega_watchdog_usual)(avr_io_t *io);

static void atmega_watchdog_reset(avr_io_t *io)
{
    atmega_watchdog_usual(io);
    io->avr->data[REG_WDTCR] = 0;
    io->avr->data[REG_MCUCSR] &= (uint8_t)~8;
}

static void atmega_put_right(atmega_t *mcu)
{
    avr_t *avr = mcu->avr;
    avr_register_io_write(avr, REG_EIFR, atmega_flags_written, NULL);
    avr->io[AVR_DATA_TO_IO(REG_TIFR)].w.c = atmega_flags_written; /* in place of the library's own */
    avr->io[AVR_DATA_TO_IO(REG_ETIFR)].w.c = atmega_flags_written;
    avr_register_io_write(avr, REG_EIMSK, atmega_mask_written, NULL);
    avr_register_io_write(avr, REG_TIMSK, atmega_mask_written, NULL);
    avr_register_io_write(avr, REG_ETIMSK, atmega_mask_written, NULL);
    for (uint8_t i = 0; i < 8; i++) {
        avr_extint_set_strict_lvl_trig(avr, i, 0); /* or low pins are polled each cycle, their interrupts enabled or not */
    }
    for (avr_io_t *io = avr->io_port; io != NULL; io = io->next) {
        if (strcmp(io->kind, "watchdog") == 0) {
            atmega_watchdog_usual = io->reset;
            io->reset = atmega_watchdog_reset;
        }
    }
    uint32_t flags = 0;
    avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
}

/* A processor with a program in its flash, just switched on. False when the file is none. */
static bool atmega_make(atmega_t *mcu, const char *path)
{
    elf_firmware_t firmware;
    memset(&firmware, 0, sizeof firmware);
    memset(mcu, 0, sizeof *mcu);
    if (elf_read_firmware(path, &firmware) != 0) {
        return false;
    }
    mcu->avr = avr_make_mcu_by_name("atmega128");
    if (mcu->avr == NULL || avr_init(mcu->avr) != 0) {
        return false;
    }
    avr_load_firmware(mcu->avr, &firmware);
    mcu->avr->frequency = HZ;
    mcu->avr->vcc = mcu->avr->avcc = mcu->avr->aref = 3000;
    mcu->avr->sleep = atmega_no_sleep;
    mcu->avr->log = LOG_ERROR;
    atmega_put_right(mcu);
    mcu->uart_in = avr_io_getirq(mcu->avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT);
    avr_irq_register_notify(avr_io_getirq(mcu->avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT), atmega_on_uart, mcu);
    return true;
}

#endif
