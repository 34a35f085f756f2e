/* One mote on libsimavr (GPLv3, and so is this program), its CC2420 being cc2420_chip.h. Commands come on standard input:
 *
 *     uart HEX        bytes to UART0
 *     run MS          so many milliseconds
 *     frame HEX       a frame on the air, its delimiter 1 ms from now
 *     pins            what drives the LEDs: port A, low three bits
 *     adc N MV        voltage at an ADC channel
 *     masked          the longest time in CPU cycles with interrupts off since this was last asked, and where it ended
 *
 * What happens goes to standard output, with its time in CPU cycles: `uart HEX`, `air SFD HEX`, `sfd`, `pins`, `masked`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <simavr/avr_adc.h>
#include <simavr/avr_ioport.h>
#include <simavr/avr_spi.h>
#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>
#include <simavr/sim_interrupts.h>
#include <simavr/sim_io.h>

#include "cc2420_chip.h"

enum { HZ = 7372800, BYTE_CYCLES = 14 * HZ / 57600 };
enum { REG_SPCR = 0x2D, REG_SPSR = 0x2E, REG_SPDR = 0x2F, REG_TIMSK = 0x57, REG_EIFR = 0x58, REG_EIMSK = 0x59 };

static avr_t *avr;
static chip_t chip;
static avr_irq_t *pin_fifo, *pin_fifop, *pin_sfd, *pin_cca, *spi_in, *uart_in;
static uint8_t to_uart[512];
static int to_uart_count, to_uart_at;
static char from_uart[2 * 4096];
static int from_uart_count;
static avr_cycle_count_t from_uart_since;

static uint64_t ns_of(avr_cycle_count_t cycle)
{
    return (uint64_t)((unsigned __int128)cycle * 1000000000 / HZ);
}

static avr_cycle_count_t cycle_of(uint64_t ns)
{
    return (avr_cycle_count_t)((unsigned __int128)ns * HZ / 1000000000) + 1;
}

/* --- the chip --- */

static void show_pins(void)
{
    chip_set_pins(&chip);
    avr_raise_irq(pin_fifo, chip.fifo);
    avr_raise_irq(pin_fifop, chip.fifop);
    avr_raise_irq(pin_cca, chip.cca);
    avr_raise_irq(pin_sfd, chip.sfd);
}

static avr_cycle_count_t chip_due(avr_t *a, avr_cycle_count_t when, void *param);

static void schedule(void)
{
    avr_cycle_timer_cancel(avr, chip_due, NULL);
    uint64_t next = chip_next(&chip);
    if (next != NEVER) {
        avr_cycle_count_t at = cycle_of(next);
        avr_cycle_timer_register(avr, at > avr->cycle ? at - avr->cycle : 1, chip_due, NULL);
    }
}

static void catch_up(void)
{
    uint64_t now = ns_of(avr->cycle);
    for (uint64_t next = chip_next(&chip); next <= now; next = chip_next(&chip)) {
        chip.now = next > chip.now ? next : chip.now;
        bool sfd = chip.sfd;
        chip_happen(&chip);
        if (chip.sfd && !sfd) {
            printf("%llu sfd\n", (unsigned long long)avr->cycle);
        }
        show_pins();
    }
    chip.now = now > chip.now ? now : chip.now;
}

static avr_cycle_count_t chip_due(avr_t *a, avr_cycle_count_t when, void *param)
{
    (void)a, (void)when, (void)param;
    catch_up();
    uint64_t next = chip_next(&chip);
    if (next == NEVER) {
        return 0;
    }
    avr_cycle_count_t at = cycle_of(next);
    return at > avr->cycle ? at : avr->cycle + 1;
}

/* A byte has been shifted: the library's own SPI would take 100 us for it. */
static avr_cycle_count_t spi_shifted(avr_t *a, avr_cycle_count_t when, void *param)
{
    (void)when, (void)param;
    catch_up();
    uint8_t answer = chip_spi(&chip, a->data[REG_SPDR]);
    show_pins();
    schedule();
    avr_raise_irq(spi_in, answer);
    return 0;
}

static void spi_written(avr_t *a, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)param;
    static const uint8_t dividers[] = {4, 16, 64, 128};
    a->data[address] = value;
    a->data[REG_SPSR] &= 0x7F;
    int divider = dividers[a->data[REG_SPCR] & 3] / (a->data[REG_SPSR] & 1 ? 2 : 1);
    avr_cycle_timer_register(a, (avr_cycle_count_t)(8 * divider), spi_shifted, NULL);
}

static void on_csn(avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq, (void)param;
    chip_select(&chip, !value);
}

static void on_power(avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq, (void)param;
    catch_up();
    chip_supply(&chip, value);
    schedule();
}

static void on_reset(avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq, (void)param;
    catch_up();
    chip_reset(&chip, !value);
    schedule();
}

static void on_sent(chip_t *which, uint64_t sfd, const uint8_t *bytes, int count)
{
    (void)which;
    printf("%llu air %llu ", (unsigned long long)avr->cycle, (unsigned long long)cycle_of(sfd));
    for (int i = 0; i < count; i++) {
        printf("%02x", bytes[i]);
    }
    printf("\n");
}

/* --- libsimavr 1.6's interrupt flags, put right from outside --- */

static void flags_written(avr_t *a, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)param;
    uint8_t before = a->data[address];
    for (int i = 0; i < a->interrupts.vector_count; i++) {
        avr_int_vector_t *vector = a->interrupts.vector[i];
        if (vector->raised.reg == address && (value >> vector->raised.bit & 1) && vector->pending) {
            avr_clear_interrupt(a, vector);
        }
    }
    a->data[address] = before & (uint8_t)~value;
}

static void mask_written(avr_t *a, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)param;
    a->data[address] = value;
    for (int i = 0; i < a->interrupts.vector_count; i++) {
        avr_int_vector_t *vector = a->interrupts.vector[i];
        if (vector->enable.reg == address && (value >> vector->enable.bit & 1) && vector->raised.reg &&
            avr_regbit_get(a, vector->raised) && !vector->pending) {
            avr_raise_interrupt(a, vector);
        }
    }
}

/* --- UART --- */

/* The library gives a character eleven bits, and stumbles if the next one comes before the last has been read: so 14 bits. */

static void on_uart(avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq, (void)param;
    if (from_uart_count == 0) {
        from_uart_since = avr->cycle;
    }
    from_uart_count += sprintf(from_uart + from_uart_count, "%02x", (uint8_t)value);
    if (from_uart_count > 8000 || value == '\n') {
        printf("%llu uart %s\n", (unsigned long long)from_uart_since, from_uart);
        from_uart_count = 0;
    }
}

static avr_cycle_count_t uart_feed(avr_t *a, avr_cycle_count_t when, void *param)
{
    (void)a, (void)param;
    if (to_uart_at == to_uart_count) {
        to_uart_at = to_uart_count = 0;
        return 0;
    }
    avr_raise_irq(uart_in, to_uart[to_uart_at++]);
    return when + BYTE_CYCLES;
}

/* --- running --- */

static void no_sleep(avr_t *a, avr_cycle_count_t cycles)
{
    (void)a, (void)cycles; /* emulated time only */
}

static avr_cycle_count_t stop_here(avr_t *a, avr_cycle_count_t when, void *param)
{
    (void)a, (void)when, (void)param;
    return 0;
}

static avr_cycle_count_t masked_since, masked_longest;
static uint32_t masked_where;

static void watch_mask(void)
{
    if (avr->sreg[S_I]) {
        if (avr->cycle - masked_since > masked_longest) {
            masked_longest = avr->cycle - masked_since;
            masked_where = (uint32_t)avr->pc;
        }
        masked_since = avr->cycle;
    }
}

static void run(double ms)
{
    avr_cycle_count_t end = avr->cycle + (avr_cycle_count_t)(ms * HZ / 1000);
    avr_cycle_timer_register(avr, end - avr->cycle, stop_here, NULL); /* or a sleeping core runs past it */
    while (avr->cycle < end) {
        if (avr->state == cpu_Sleeping) {
            masked_since = avr->cycle;
        }
        int state = avr_run(avr);
        if (avr->state == cpu_Sleeping) {
            masked_since = avr->cycle;
        }
        watch_mask();
        if (state == cpu_Done || state == cpu_Crashed) {
            fprintf(stderr, "the core has stopped at %llu\n", (unsigned long long)avr->cycle);
            exit(1);
        }
    }
    fflush(stdout);
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

static avr_irq_t *pin(char port, int bit)
{
    return avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ(port), bit);
}

static void wire_up(void)
{
    chip_init(&chip);
    chip.on_sent = on_sent;
    pin_fifo = pin('B', 7);
    pin_fifop = pin('E', 6);
    pin_sfd = pin('D', 4);
    pin_cca = pin('D', 6);
    spi_in = avr_io_getirq(avr, AVR_IOCTL_SPI_GETIRQ(0), SPI_IRQ_INPUT);
    uart_in = avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT);
    avr_irq_register_notify(pin('B', 0), on_csn, NULL);
    avr_irq_register_notify(pin('A', 5), on_power, NULL);
    avr_irq_register_notify(pin('A', 6), on_reset, NULL);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT), on_uart, NULL);
    avr->io[AVR_DATA_TO_IO(REG_SPDR)].w.c = spi_written;
    avr_register_io_write(avr, REG_EIFR, flags_written, NULL);
    avr_register_io_write(avr, REG_EIMSK, mask_written, NULL);
    avr_register_io_write(avr, REG_TIMSK, mask_written, NULL);
    uint32_t flags = 0;
    avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
}

static void obey(const char *line)
{
    char word[20], hex[1100];
    double ms;
    unsigned channel, millivolts;
    if (sscanf(line, "%19s", word) != 1) {
        return;
    }
    if (strcmp(word, "run") == 0 && sscanf(line, "run %lf", &ms) == 1) {
        run(ms);
    } else if (strcmp(word, "uart") == 0 && sscanf(line, "uart %1099s", hex) == 1) {
        to_uart_count += unhex(hex, to_uart + to_uart_count, (int)sizeof to_uart - to_uart_count);
        avr_cycle_timer_register(avr, BYTE_CYCLES, uart_feed, NULL);
    } else if (strcmp(word, "frame") == 0 && sscanf(line, "frame %1099s", hex) == 1) {
        uint8_t bytes[130];
        catch_up();
        chip_add_frame(&chip, chip.now + US(1000), bytes, unhex(hex, bytes, sizeof bytes), 5, 107);
        schedule();
    } else if (strcmp(word, "pins") == 0) {
        printf("%llu pins %d %d\n", (unsigned long long)avr->cycle, avr->data[0x3B] & 7, avr->data[0x3A] & 7);
    } else if (strcmp(word, "masked") == 0) {
        printf("%llu masked %llu %x\n", (unsigned long long)avr->cycle, (unsigned long long)masked_longest, masked_where);
        masked_longest = 0;
    } else if (strcmp(word, "adc") == 0 && sscanf(line, "adc %u %u", &channel, &millivolts) == 2) {
        avr_raise_irq(avr_io_getirq(avr, AVR_IOCTL_ADC_GETIRQ, (int)(ADC_IRQ_ADC0 + channel)), millivolts);
    } else {
        fprintf(stderr, "what is %s\n", line);
        exit(2);
    }
}

int main(int count, char **arguments)
{
    elf_firmware_t firmware;
    memset(&firmware, 0, sizeof firmware);
    if (count != 2 || elf_read_firmware(arguments[1], &firmware) != 0) {
        fprintf(stderr, "usage: board_sim FIRMWARE.elf\n");
        return 2;
    }
    avr = avr_make_mcu_by_name("atmega128");
    if (avr == NULL || avr_init(avr) != 0) {
        return 2;
    }
    avr_load_firmware(avr, &firmware);
    avr->frequency = HZ;
    avr->vcc = avr->avcc = avr->aref = 3000;
    avr->sleep = no_sleep;
    avr->log = LOG_ERROR;
    wire_up();
    char line[1200];
    while (fgets(line, sizeof line, stdin) != NULL) {
        obey(line);
    }
    return 0;
}
