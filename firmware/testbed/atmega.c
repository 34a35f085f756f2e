/* The processor as a whole: time, power, reset, pins. */
#include "atmega.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <simavr/avr_extint.h>
#include <simavr/avr_ioport.h>
#include <simavr/avr_uart.h>
#include <simavr/sim_elf.h>

#include "atmega_private.h"

__extension__ typedef unsigned __int128 wide_t;

enum { DATA_BYTES = 0x10000, REGISTERS = 32, LED_PINS = 3 };
enum { START_CYCLES = 16384 }; /* a crystal's, with the fuses as MICA motes have them */
enum { MCUCSR_PORF = 1, MCUCSR_EXTRF = 2, MCUCSR_BORF = 4, MCUCSR_WDRF = 8, MCUCSR_FLAGS = 0x1F };

static const char ports[] = "ABCDEFG";
static const uint8_t pin_registers[] = {REG_PINA, REG_PINB, REG_PINC, REG_PIND, REG_PINE, REG_PINF, REG_PING};
static const uint8_t direction_registers[] = {REG_DDRA, REG_DDRB, REG_DDRC, REG_DDRD,
                                              REG_DDRE, REG_DDRF, REG_DDRG};

void atmega_fault(atmega_t *mcu, const char *format, ...)
{
    char what[160];
    va_list values;
    va_start(values, format);
    vsnprintf(what, sizeof what, format, values);
    va_end(values);
    for (int i = 0; i < mcu->fault_count; i++)
        if (strcmp(mcu->faults[i], what) == 0)
            return;
    if (mcu->fault_count < FAULTS) {
        mcu->faults[mcu->fault_count++] = strdup(what);
        if (mcu->watch.on_fault != NULL)
            mcu->watch.on_fault(mcu->watch.owner, what);
    }
}

/* --- time --- */

ns_t atmega_time_of(const atmega_t *mcu, avr_cycle_count_t cycle)
{
    return mcu->base_time + (ns_t)((wide_t)(cycle - mcu->base_cycle) * 1000000000000000 / mcu->uhz);
}

avr_cycle_count_t atmega_cycle_at(const atmega_t *mcu, ns_t time)
{
    if (time <= mcu->base_time)
        return mcu->base_cycle;
    wide_t product = (wide_t)(time - mcu->base_time) * mcu->uhz;
    return mcu->base_cycle + (avr_cycle_count_t)((product + 999999999999999) / 1000000000000000);
}

ns_t atmega_now(const atmega_t *mcu)
{
    return mcu->on ? atmega_time_of(mcu, mcu->avr->cycle) : mcu->off_time;
}

ns_t atmega_spent(const atmega_t *mcu, processor_state_t state)
{
    if (state == PROCESSOR_OFF)
        return mcu->off_before + (mcu->on ? 0 : mcu->off_time - mcu->off_since);
    return (ns_t)((wide_t)meter_spent(&mcu->states, state, mcu->avr->cycle) * 1000000000000000 / mcu->uhz);
}

uint64_t atmega_starts(const atmega_t *mcu)
{
    return mcu->states.entries[PROCESSOR_STARTING];
}

/* Crystal and main clock are compared without a detour over nanoseconds, so that edges do not jitter. Where
 * rates are multiplied they are in 10^-9 Hz. */
uint64_t atmega_crystal_cycles(const atmega_t *mcu)
{
    const crystal_t *crystal = &mcu->crystal;
    if (!crystal->runs)
        return crystal->done;
    wide_t rate = (wide_t)crystal->nhz << 16;
    return crystal->done + (uint64_t)((mcu->avr->cycle - crystal->since) * rate / ((wide_t)mcu->uhz * 1000));
}

avr_cycle_count_t atmega_edge_cycle(const atmega_t *mcu, uint64_t edge)
{
    const crystal_t *crystal = &mcu->crystal;
    if (!crystal->runs)
        return UINT64_MAX;
    if (edge << 16 <= crystal->done)
        return crystal->since;
    wide_t rate = (wide_t)crystal->nhz << 16;
    wide_t left = (edge << 16) - crystal->done;
    return crystal->since + (avr_cycle_count_t)((left * mcu->uhz * 1000 + rate - 1) / rate);
}

void atmega_crystal(atmega_t *mcu, bool runs)
{
    atmega_timer0_catch_up(mcu);
    mcu->crystal.done = atmega_crystal_cycles(mcu);
    mcu->crystal.since = mcu->avr->cycle;
    mcu->crystal.runs = runs;
    if (mcu->on)
        atmega_timer0_plan(mcu);
}

void atmega_timer(atmega_t *mcu, avr_cycle_count_t when, avr_cycle_timer_t timer, void *param)
{
    avr_t *avr = mcu->avr;
    avr_cycle_timer_register(avr, when > avr->cycle ? when - avr->cycle : 1, timer, param);
}

/* --- calls --- */

static avr_cycle_count_t call(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)when;
    call_t *one = param;
    atmega_due_t *due = one->due;
    if (due != NULL && one->mcu->on) {
        one->due = NULL;
        due(one->param, atmega_time_of(one->mcu, avr->cycle));
    }
    return 0;
}

static void plan_call(call_t *one)
{
    atmega_timer(one->mcu, atmega_cycle_at(one->mcu, one->when), call, one);
}

/* The call for `due` and `param`, or else a free one. */
/* cppcheck-suppress constParameter ; `due` is a function */
static call_t *find_call(atmega_t *mcu, atmega_due_t *due, const void *param)
{
    call_t *free_one = NULL;
    for (int i = 0; i < CALLS; i++) {
        call_t *one = &mcu->calls[i];
        if (one->due == due && one->param == param)
            return one;
        if (one->due == NULL && free_one == NULL)
            free_one = one;
    }
    return free_one;
}

void atmega_at(atmega_t *mcu, ns_t when, atmega_due_t *due, void *param)
{
    call_t *one = find_call(mcu, due, param);
    if (one == NULL) {
        fprintf(stderr, "more than %d calls wait on a processor\n", CALLS);
        abort();
    }
    if (when == NEVER) {
        one->due = NULL;
        avr_cycle_timer_cancel(mcu->avr, call, one);
        return;
    }
    *one = (call_t){.mcu = mcu, .due = due, .param = param, .when = when};
    if (mcu->on)
        plan_call(one);
}

/* --- pins --- */

avr_irq_t *atmega_pin(atmega_t *mcu, char port, int bit)
{
    return avr_io_getirq(mcu->avr, (uint32_t)AVR_IOCTL_IOPORT_GETIRQ(port), bit);
}

static void show_leds(atmega_t *mcu)
{
    /* PA0 yellow, PA1 green, PA2 red: lit when driven low */
    static const uint8_t colours[LED_PINS] = {4, 2, 1};
    uint8_t lit = 0;
    for (int i = 0; i < LED_PINS; i++)
        if ((mcu->led_direction & ~mcu->led_port) >> i & 1)
            lit |= colours[i];
    if (lit != mcu->lit) {
        mcu->lit = lit;
        if (mcu->watch.on_leds != NULL)
            mcu->watch.on_leds(mcu->watch.owner, lit);
    }
}

static void on_led_port(avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq;
    atmega_t *mcu = param;
    mcu->led_port = (uint8_t)value;
    show_leds(mcu);
}

static void on_led_direction(avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq;
    atmega_t *mcu = param;
    mcu->led_direction = (uint8_t)value;
    show_leds(mcu);
}

/* All pins are inputs again; what drives them from outside still does. */
static void release_pins(atmega_t *mcu)
{
    for (int i = 0; ports[i] != 0; i++) {
        avr_raise_irq(atmega_pin(mcu, ports[i], IOPORT_IRQ_DIRECTION_ALL), 0);
        avr_raise_irq(atmega_pin(mcu, ports[i], IOPORT_IRQ_REG_PORT), 0);
        uint8_t levels = 0;
        for (int bit = 0; bit < 8; bit++)
            levels = (uint8_t)(levels | (atmega_pin(mcu, ports[i], bit)->value ? 1 << bit : 0));
        mcu->avr->data[pin_registers[i]] = levels;
    }
}

/* Without power nothing holds up what it drove. */
static void drop_pins(atmega_t *mcu)
{
    for (int i = 0; ports[i] != 0; i++) {
        for (int bit = 0; bit < 8; bit++)
            if ((mcu->avr->data[direction_registers[i]] >> bit & 1) != 0)
                avr_raise_irq(atmega_pin(mcu, ports[i], bit), 0);
    }
}

static void ignore_write(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)avr, (void)address, (void)value, (void)param;
}

static void wire_pins(atmega_t *mcu)
{
    for (size_t i = 0; i < sizeof pin_registers; i++) {
        /* the library would toggle, as later chips do */
        mcu->avr->io[AVR_DATA_TO_IO(pin_registers[i])].w.c = ignore_write;
    }
    avr_irq_register_notify(atmega_pin(mcu, 'A', IOPORT_IRQ_REG_PORT), on_led_port, mcu);
    avr_irq_register_notify(atmega_pin(mcu, 'A', IOPORT_IRQ_DIRECTION_ALL), on_led_direction, mcu);
}

/* --- reset and power --- */

/* Reset flags stay until they are written as 0. */
static void mcucsr_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)param;
    avr->data[address] = (uint8_t)((value & ~MCUCSR_FLAGS) | (value & avr->data[address] & MCUCSR_FLAGS));
}

static uint8_t reset_flags(const atmega_t *mcu, reset_cause_t cause)
{
    static const uint8_t flags[] = {
        [RESET_POWER_ON] = MCUCSR_PORF,
        [RESET_BUTTON] = MCUCSR_EXTRF,
        [RESET_BROWN_OUT] = MCUCSR_BORF,
        [RESET_WATCHDOG] = MCUCSR_WDRF,
    };
    uint8_t before = cause == RESET_POWER_ON ? 0 : mcu->avr->data[REG_MCUCSR] & MCUCSR_FLAGS;
    return before | flags[cause];
}

static void reset_library(atmega_t *mcu)
{
    avr_t *avr = mcu->avr;
    avr_reset(avr);
    avr->run_cycle_limit = 1000000; /* or instructions are run one at a time */
    avr->data[REG_UCSR1B] = 0;      /* the library has the transmitter on, for printing */
    for (uint8_t i = 0; i < 8; i++)
        avr_extint_set_strict_lvl_trig(avr, i, 0); /* or low pins are polled each cycle */
}

void atmega_do_reset(atmega_t *mcu, reset_cause_t cause)
{
    uint8_t flags = reset_flags(mcu, cause);
    mcu->reset_wanted = false;
    atmega_sleep_reset(mcu);
    reset_library(mcu);
    mcu->avr->data[REG_MCUCSR] = flags;
    release_pins(mcu);
    atmega_timer0_reset(mcu);
    atmega_uart_reset(mcu);
    atmega_spi_reset(mcu);
    atmega_adc_reset(mcu);
    atmega_eeprom_reset(mcu);
    atmega_watchdog_reset(mcu);
    atmega_measure_reset(mcu);
    atmega_run_again(mcu);
    for (int i = 0; i < CALLS; i++)
        if (mcu->calls[i].due != NULL)
            plan_call(&mcu->calls[i]);
    if (mcu->watch.on_reset != NULL)
        mcu->watch.on_reset(mcu->watch.owner, cause);
}

void atmega_reset(atmega_t *mcu, reset_cause_t cause)
{
    if (!mcu->on)
        return;
    if (mcu->running) {
        mcu->reset_wanted = true;
        mcu->reset_cause = cause;
        mcu->avr->run_cycle_count = 1;
    } else {
        atmega_do_reset(mcu, cause);
    }
}

static void fill(uint8_t *bytes, int count, random_t *random)
{
    for (int i = 0; i < count; i++)
        bytes[i] = (uint8_t)random_bits(random);
}

void atmega_on(atmega_t *mcu, ns_t at, random_t *random)
{
    mcu->on = true;
    mcu->off_before += at - mcu->off_since;
    mcu->base_time = at;
    mcu->base_cycle = mcu->avr->cycle;
    mcu->crystal.since = mcu->avr->cycle;
    mcu->crystal.done = 0;
    if (random != NULL) {
        fill(mcu->avr->data, REGISTERS, random);
        fill(mcu->avr->data + ATMEGA_RAM, ATMEGA_RAM_END + 1 - ATMEGA_RAM, random);
    }
    atmega_do_reset(mcu, random != NULL ? RESET_POWER_ON : RESET_BROWN_OUT);
}

void atmega_off(atmega_t *mcu)
{
    if (!mcu->on)
        return;
    mcu->off_time = mcu->off_since = atmega_now(mcu);
    mcu->on = false;
    mcu->reset_wanted = false;
    mcu->avr->run_cycle_count = 1;
    drop_pins(mcu);
    release_pins(mcu);
    atmega_uart_off(mcu);
    mcu->eeprom.ready = 0; /* what was being written stays erased */
}

bool atmega_is_on(const atmega_t *mcu)
{
    return mcu->on;
}

void atmega_supply(atmega_t *mcu, uint32_t millivolts)
{
    mcu->avr->vcc = mcu->avr->avcc = mcu->avr->aref = millivolts;
}

uint32_t atmega_supply_now(const atmega_t *mcu)
{
    return mcu->avr->avcc;
}

uint8_t *atmega_data(atmega_t *mcu)
{
    return mcu->avr->data;
}

/* --- making --- */

void atmega_own(atmega_t *mcu, avr_io_addr_t address, avr_io_read_t read, avr_io_write_t write)
{
    avr_io_addr_t io = (avr_io_addr_t)AVR_DATA_TO_IO(address);
    mcu->avr->io[io].r.c = read;
    mcu->avr->io[io].r.param = mcu;
    mcu->avr->io[io].w.c = write;
    mcu->avr->io[io].w.param = mcu;
}

/* The library says on standard output what it does. */
static void log_nothing(avr_t *avr, const int level, const char *format, va_list values)
{
    (void)avr, (void)level, (void)format, (void)values;
}

/* The library takes any other file for a program, too, and falls over it. */
static bool is_avr_program(const char *image)
{
    enum { MACHINE_AT = 18, MACHINE_AVR = 83 };
    uint8_t head[MACHINE_AT + 1] = {0};
    FILE *file = fopen(image, "rb");
    if (file == NULL)
        return false;
    size_t count = fread(head, 1, sizeof head, file);
    fclose(file);
    return count == sizeof head && memcmp(head, "\177ELF", 4) == 0 && head[MACHINE_AT] == MACHINE_AVR;
}

static avr_t *make_library(const char *image)
{
    elf_firmware_t firmware;
    avr_global_logger_set(log_nothing);
    memset(&firmware, 0, sizeof firmware);
    if (!is_avr_program(image) || elf_read_firmware(image, &firmware) != 0 || firmware.flashsize == 0) {
        fprintf(stderr, "%s: no program for an ATmega128\n", image);
        return NULL;
    }
    avr_t *avr = avr_make_mcu_by_name("atmega128");
    if (avr == NULL || avr_init(avr) != 0) {
        fprintf(stderr, "libsimavr has no ATmega128\n");
        return NULL;
    }
    avr_load_firmware(avr, &firmware);
    free(firmware.flash);
    avr->frequency = ATMEGA_HZ;
    /* The library writes wherever a program that runs wild points to. */
    avr->data = realloc(avr->data, DATA_BYTES);
    memset(avr->data + ATMEGA_RAM_END + 1, 0, DATA_BYTES - ATMEGA_RAM_END - 1);
    return avr;
}

static void silence_uarts(avr_t *avr)
{
    uint32_t flags = 0;
    avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
    avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('1'), &flags);
}

atmega_t *atmega_make(const char *image, double main_ppm, double crystal_ppm, atmega_watch_t watch)
{
    avr_t *avr = make_library(image);
    if (avr == NULL)
        return NULL;
    atmega_t *mcu = calloc(1, sizeof *mcu);
    mcu->avr = avr;
    mcu->watch = watch;
    mcu->clocked.mcu = mcu;
    mcu->uhz = (uint64_t)llround(ATMEGA_HZ * (1e6 + main_ppm));
    mcu->crystal.nhz = (uint64_t)llround(32768 * (1e9 + crystal_ppm * 1e3));
    mcu->crystal.runs = true;
    mcu->start_cycles = START_CYCLES;
    avr->custom.data = mcu;
    atmega_supply(mcu, 3000);
    silence_uarts(avr);
    atmega_own(mcu, REG_MCUCSR, NULL, mcucsr_written);
    wire_pins(mcu);
    atmega_interrupts_make(mcu);
    atmega_timer0_make(mcu);
    atmega_uart_make(mcu);
    atmega_spi_make(mcu);
    atmega_adc_make(mcu);
    atmega_eeprom_make(mcu);
    atmega_watchdog_make(mcu);
    return mcu;
}
