/* One emulated ATmega128 on a bench: atmega_bench IMAGE MAIN_PPM CRYSTAL_PPM
 *
 * Commands come on standard input, times in nanoseconds of true time:
 *
 *     on T SEED           power on
 *     recover T           power comes back after a brown-out
 *     off
 *     reset CAUSE         0 power-on, 1 button, 2 brown-out, 3 watchdog
 *     run T               until then
 *     jump T              the same as the testbed does it: nothing is run while the processor says it has
 * nothing to do slices T STEP       the same in steps uart HEX            bytes to UART 0 at T a call then
 *     supply MV
 *     adc CHANNEL MV
 *     crystal 0 or 1      stops, runs
 *     clock HEX           SPI as slave: bytes from outside, one each 3072 cycles
 *     pin PORT BIT LEVEL
 *     poke AT HEX         data memory
 *     peek AT COUNT
 *     eeprom AT HEX       put there
 *     byte AT             of the EEPROM
 *     cycles              cycles since power on and crystal cycles * 65536
 *     idle                until when it has nothing to do
 *     measure             from now on
 *     use                 stack, cycles, cycles awake, longest time with interrupts off, longest handler of
 * timer 1, longest wait of the SPI speed               processor cycles and real seconds of all runs so far
 *
 * What happens goes to standard output, each line with its cycle since power on and its true time.
 * Links libsimavr (GPLv3), so this program is under the GPL, too; it is a test tool.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <simavr/avr_ioport.h>

#include "../../../firmware/testbed/atmega_private.h"
#include "unhex.h"

enum { BYTE_CYCLES = 3072, HALF_BIT_CYCLES = 192 };

static atmega_t *mcu;
static random_t chance;
static uint32_t millivolts[ADC_CHANNELS];
static uint8_t to_slave[256];
static int to_slave_count, to_slave_at;
static double seconds;
static avr_cycle_count_t cycles;

static void say(const char *what)
{
    printf("%llu %llu %s", (unsigned long long)(mcu->avr->cycle - mcu->base_cycle),
           (unsigned long long)atmega_now(mcu), what);
}

/* --- what it does --- */

static void on_fault(void *owner, const char *what)
{
    (void)owner;
    say("fault ");
    printf("%s\n", what);
}

static void on_uart(void *owner, uint8_t byte)
{
    (void)owner;
    say("uart ");
    printf("%02x\n", byte);
}

static void on_leds(void *owner, uint8_t lit)
{
    (void)owner;
    say("leds ");
    printf("%d\n", lit);
}

static void on_reset(void *owner, reset_cause_t cause)
{
    (void)owner;
    say("reset ");
    printf("%d\n", (int)cause);
}

static void on_mark(avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq, (void)param;
    say("mark ");
    printf("%u\n", value);
}

static void on_call(void *param, ns_t now)
{
    (void)param;
    say("call ");
    printf("%llu\n", (unsigned long long)now);
}

/* --- what is around it --- */

static uint8_t exchange(void *param, uint8_t out)
{
    (void)param;
    say("spi ");
    printf("%02x\n", out);
    return (uint8_t)~out;
}

static uint32_t voltage(void *param)
{
    say("sample\n");
    return *(uint32_t *)param;
}

static void take_byte(void *param, ns_t now)
{
    (void)param, (void)now;
    say("taken ");
    printf("%02x\n", atmega_spi_taken(mcu));
}

static void clock_byte(void *param, ns_t now)
{
    (void)param;
    if (to_slave_at == to_slave_count)
        return;
    bool heard = atmega_spi_shifted(mcu, to_slave[to_slave_at++]);
    say("shifted ");
    printf("%d\n", heard);
    atmega_at(mcu, now + HALF_BIT_CYCLES * SECOND / ATMEGA_HZ, take_byte, NULL);
    atmega_at(mcu, now + BYTE_CYCLES * SECOND / ATMEGA_HZ, clock_byte, NULL);
}

/* --- commands --- */

static void run(ns_t until)
{
    struct timespec begin, end;
    avr_cycle_count_t from = mcu->avr->cycle;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    atmega_run(mcu, until);
    clock_gettime(CLOCK_MONOTONIC, &end);
    cycles += mcu->avr->cycle - from;
    seconds += (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
}

static void jump(ns_t until)
{
    while (atmega_now(mcu) < until) {
        ns_t idle = atmega_idle_until(mcu);
        ns_t slice = atmega_now(mcu) + US(160);
        ns_t to = idle > slice ? idle : slice;
        run(to < until ? to : until);
    }
}

static void slices(ns_t until, ns_t step)
{
    for (ns_t now = atmega_now(mcu); now < until; now += step)
        run(now + step < until ? now + step : until);
}

static void peek(unsigned at, int count)
{
    say("peek ");
    for (int i = 0; i < count; i++)
        printf("%02x", atmega_data(mcu)[at + (unsigned)i]);
    printf("\n");
}

static void show_use(void)
{
    atmega_use_t use = atmega_use(mcu);
    say("use ");
    printf("%u %llu %llu %u %u %u\n", use.stack, (unsigned long long)use.cycles,
           (unsigned long long)use.awake, use.masked, use.handlers[VECTOR_TIMER1_COMPA], use.spi);
}

static bool obey_world(const char *line)
{
    unsigned long long time, other;
    unsigned number, value;
    char port;
    if (sscanf(line, "on %llu %llu", &time, &other) == 2) {
        chance = random_stream(other, 0);
        atmega_on(mcu, time, &chance);
    } else if (sscanf(line, "recover %llu", &time) == 1) {
        atmega_on(mcu, time, NULL);
    } else if (strncmp(line, "off", 3) == 0) {
        atmega_off(mcu);
    } else if (sscanf(line, "reset %u", &number) == 1) {
        atmega_reset(mcu, (reset_cause_t)number);
    } else if (sscanf(line, "run %llu", &time) == 1) {
        run(time);
    } else if (sscanf(line, "jump %llu", &time) == 1) {
        jump(time);
    } else if (sscanf(line, "slices %llu %llu", &time, &other) == 2) {
        slices(time, other);
    } else if (sscanf(line, "at %llu", &time) == 1) {
        atmega_at(mcu, time, on_call, NULL);
    } else if (sscanf(line, "supply %u", &number) == 1) {
        atmega_supply(mcu, number);
    } else if (sscanf(line, "adc %u %u", &number, &value) == 2) {
        millivolts[number] = value;
    } else if (sscanf(line, "crystal %u", &number) == 1) {
        atmega_crystal(mcu, number != 0);
    } else if (sscanf(line, "pin %c %u %u", &port, &number, &value) == 3) {
        avr_raise_irq(atmega_pin(mcu, port, (int)number), value);
    } else {
        return false;
    }
    return true;
}

static bool obey(const char *line)
{
    char hex[600];
    uint8_t bytes[300];
    unsigned at;
    int count;
    if (sscanf(line, "uart %599s", hex) == 1) {
        count = unhex(hex, bytes, sizeof bytes);
        say(atmega_uart_feed(mcu, bytes, count) ? "fed\n" : "full\n");
    } else if (sscanf(line, "clock %599s", hex) == 1) {
        to_slave_count = unhex(hex, to_slave, sizeof to_slave);
        to_slave_at = 0;
        clock_byte(NULL, atmega_now(mcu));
    } else if (sscanf(line, "poke %x %599s", &at, hex) == 2) {
        unhex(hex, atmega_data(mcu) + at, sizeof bytes);
    } else if (sscanf(line, "peek %x %d", &at, &count) == 2) {
        peek(at, count);
    } else if (sscanf(line, "eeprom %x %599s", &at, hex) == 2) {
        count = unhex(hex, bytes, sizeof bytes);
        atmega_eeprom_write(mcu, (uint16_t)at, bytes, (uint16_t)count);
    } else if (sscanf(line, "byte %x", &at) == 1) {
        atmega_eeprom_read(mcu, (uint16_t)at, bytes, 1);
        say("byte ");
        printf("%02x\n", bytes[0]);
    } else if (strncmp(line, "cycles", 6) == 0) {
        say("cycles ");
        printf("%llu\n", (unsigned long long)atmega_crystal_cycles(mcu));
    } else if (strncmp(line, "idle", 4) == 0) {
        say("idle ");
        printf("%llu\n", (unsigned long long)atmega_idle_until(mcu));
    } else if (strncmp(line, "measure", 7) == 0) {
        atmega_measure(mcu);
    } else if (strncmp(line, "use", 3) == 0) {
        show_use();
    } else if (strncmp(line, "speed", 5) == 0) {
        say("speed ");
        printf("%llu %f\n", (unsigned long long)cycles, seconds);
    } else {
        return obey_world(line);
    }
    return true;
}

int main(int count, char **arguments)
{
    atmega_watch_t watch = {on_fault, on_uart, on_leds, on_reset, NULL};
    mcu = count == 4 ? atmega_make(arguments[1], atof(arguments[2]), atof(arguments[3]), watch) : NULL;
    if (mcu == NULL) {
        fprintf(stderr, "usage: atmega_bench IMAGE MAIN_PPM CRYSTAL_PPM\n");
        return 2;
    }
    avr_irq_register_notify(atmega_pin(mcu, 'C', IOPORT_IRQ_REG_PORT), on_mark, NULL);
    atmega_spi_master(mcu, exchange, NULL);
    for (int i = 0; i < ADC_CHANNELS; i++)
        atmega_adc(mcu, i, voltage, &millivolts[i]);
    char line[700];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (!obey(line)) {
            fprintf(stderr, "what is %s\n", line);
            return 2;
        }
    }
    return 0;
}
