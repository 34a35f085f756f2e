/* An emulated MICA2 with a CC1000: cc1000_sim firmware.elf stream...
 *
 * Each `stream` is hexadecimal: what the radio receives, whole SPI bytes as they come. The first begins 30 ms after the radio listens,
 * each further one 60 ms after the last. Printed, in CPU cycles:
 *
 *     stream C     a stream's first bit came at C
 *     sent C HEX   the bytes that were shifted out while the antenna had power, the first beginning at C
 *     spdr N       the longest time from a byte's end to the handler's write of the next
 *     receive N    the longest SPI interrupt while receiving; likewise `send`, and `turn`: the one that ends a send
 *     calibrations N
 *
 * Links libsimavr (GPL): a test tool, no part of the firmware.
 */
#include <simavr/avr_adc.h>
#include <simavr/avr_ioport.h>
#include <simavr/avr_spi.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_cycle_timers.h>
#include <simavr/sim_elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HZ = 7372800,
    MS = HZ / 1000,
    BYTE_CYCLES = 3072,
    SPDR = 0x2F,
    SPI_VECTOR = 17 * 4,
    PALE = 4,
    PCLK = 6,
    PDATA = 7,
    MAIN = 0x00,
    PA_POW = 0x0B,
    CAL = 0x0E,
    RSSI_MV = 1100,
};

static avr_t *avr;
static uint8_t registers[128];
static bool pale = true, pdata = true;
static uint8_t bits, address, data, shown;
static bool writing;
static avr_cycle_count_t calibrated;
static int calibrations;
static avr_irq_t *pdata_in, *spi_in, *rssi_in;

static uint8_t streams[8][512];
static size_t lengths[8], stream, stream_count, place;
static avr_cycle_count_t stream_at;

static uint8_t out[512];
static size_t out_length;
static avr_cycle_count_t out_at, byte_at, spdr_slowest;
static bool spdr_waits;
static uint8_t spdr;

static void chip_write(void)
{
    registers[address] = data;
    if (address == CAL && (data & 0x80) != 0) {
        calibrations++;
        calibrated = avr->cycle + 26 * MS;
    }
}

static void show_bit(void)
{
    avr_raise_irq(pdata_in, (shown & 0x80) != 0);
    shown = (uint8_t)(shown << 1);
}

static void on_pclk(struct avr_irq_t *irq, uint32_t high, void *param)
{
    (void)irq;
    (void)param;
    if (high) {
        return;
    }
    bits++;
    if (!pale && bits < 8) {
        address = (uint8_t)((address << 1 | pdata) & 0x7F);
    } else if (!pale) {
        writing = pdata;
        shown = registers[address];
        if (address == CAL && avr->cycle >= calibrated) {
            shown = (uint8_t)((shown & 0x7F) | 0x08);
        }
        if (address == 0x0D) {
            shown |= 3;
        }
    } else if (writing) {
        data = (uint8_t)(data << 1 | pdata);
        if (bits == 8) {
            chip_write();
        }
    } else {
        show_bit();
    }
}

static void on_pale(struct avr_irq_t *irq, uint32_t high, void *param)
{
    (void)irq;
    (void)param;
    pale = high != 0;
    bits = 0;
}

static void on_pdata(struct avr_irq_t *irq, uint32_t high, void *param)
{
    (void)irq;
    (void)param;
    pdata = high != 0;
}

static void on_spdr(avr_t *mcu, avr_io_addr_t at, uint8_t value, void *param)
{
    (void)param;
    mcu->data[at] = value;
    spdr = value;
    if (spdr_waits && mcu->cycle - byte_at > spdr_slowest) {
        spdr_slowest = mcu->cycle - byte_at;
    }
    spdr_waits = false;
}

static void on_adc(struct avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq;
    (void)value;
    (void)param;
    avr_raise_irq(rssi_in, RSSI_MV);
}

static bool listens(void)
{
    return registers[MAIN] == 0x11;
}

static uint8_t next_in(void)
{
    if (stream >= stream_count || !listens() || avr->cycle < stream_at) {
        return 0x00;
    }
    if (place == 0) {
        printf("stream %llu\n", (unsigned long long)avr->cycle);
    }
    return streams[stream][place++];
}

static void end_stream(void)
{
    if (stream < stream_count && place == lengths[stream]) {
        place = 0;
        stream++;
        stream_at = avr->cycle + 60 * MS;
    }
}

static void take_out(void)
{
    if (registers[PA_POW] != 0 && out_length < sizeof out) {
        if (out_length == 0) {
            out_at = avr->cycle - BYTE_CYCLES;
        }
        out[out_length++] = spdr;
    }
}

/* A byte's time is over: one came in, one went out. */
static avr_cycle_count_t on_byte(avr_t *mcu, avr_cycle_count_t when, void *param)
{
    static uint8_t coming;
    static uint32_t turn;

    (void)param;
    if (listens() || registers[MAIN] == 0xE1) {
        take_out();
        byte_at = mcu->cycle;
        spdr_waits = true;
        turn ^= 0x100;          /* libsimavr ignores a value that stays */
        avr_raise_irq(spi_in, coming | turn);
        coming = next_in();
        end_stream();
    } else {
        stream_at = mcu->cycle + 30 * MS;
    }
    return when + BYTE_CYCLES;
}

static void do_not_sleep(avr_t *mcu, avr_cycle_count_t cycles)
{
    (void)mcu;
    (void)cycles;
}

static void report_sent(void)
{
    if (out_length > 0 && registers[PA_POW] == 0) {
        printf("sent %llu ", (unsigned long long)out_at);
        for (size_t i = 0; i < out_length; i++) {
            printf("%02x", out[i]);
        }
        printf("\n");
        out_length = 0;
    }
}

static uint16_t stack(void)
{
    return (uint16_t)(avr->data[R_SPL] | avr->data[R_SPH] << 8);
}

static void run(avr_cycle_count_t until)
{
    avr_cycle_count_t longest[3] = {0}, entered = 0;
    uint16_t left = 0;
    uint8_t was = 0;

    while (avr->cycle < until) {
        int state = avr_run(avr);

        if (state == cpu_Done || state == cpu_Crashed) {
            exit(3);
        }
        if (entered == 0 && avr->pc == SPI_VECTOR) {
            entered = avr->cycle;
            left = (uint16_t)(stack() + 2);
            was = registers[MAIN];
        } else if (entered != 0 && stack() == left) {
            int kind = was == 0x11 ? 0 : registers[MAIN] == was ? 1 : 2;

            if (avr->cycle - entered > longest[kind]) {
                longest[kind] = avr->cycle - entered;
            }
            entered = 0;
        }
        report_sent();
    }
    printf("spdr %llu\nreceive %llu\nsend %llu\nturn %llu\ncalibrations %d\n", (unsigned long long)spdr_slowest,
           (unsigned long long)longest[0], (unsigned long long)longest[1], (unsigned long long)longest[2], calibrations);
}

static size_t parse(const char *text, uint8_t *bytes)
{
    size_t length = 0;
    unsigned int byte;

    for (; sscanf(text, "%2x", &byte) == 1 && length < sizeof streams[0]; text += 2) {
        bytes[length++] = (uint8_t)byte;
    }
    return length;
}

int main(int argc, char **argv)
{
    static elf_firmware_t firmware;

    if (argc < 2 || argc > 10 || elf_read_firmware(argv[1], &firmware) != 0) {
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        lengths[i - 2] = parse(argv[i], streams[i - 2]);
    }
    stream_count = (size_t)(argc - 2);
    avr = avr_make_mcu_by_name("atmega128");
    avr_init(avr);
    avr_load_firmware(avr, &firmware);
    avr->frequency = HZ;
    avr->vcc = avr->avcc = avr->aref = 3000;
    avr->sleep = do_not_sleep;
    avr->log = 1;
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ('D'), PCLK), on_pclk, NULL);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ('D'), PALE), on_pale, NULL);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ('D'), PDATA), on_pdata, NULL);
    pdata_in = avr_io_getirq(avr, AVR_IOCTL_IOPORT_GETIRQ('D'), PDATA);
    spi_in = avr_io_getirq(avr, AVR_IOCTL_SPI_GETIRQ(0), SPI_IRQ_INPUT);
    rssi_in = avr_io_getirq(avr, AVR_IOCTL_ADC_GETIRQ, ADC_IRQ_ADC0);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_ADC_GETIRQ, ADC_IRQ_OUT_TRIGGER), on_adc, NULL);
    avr->io[AVR_DATA_TO_IO(SPDR)].w.c = on_spdr;
    avr_cycle_timer_register(avr, BYTE_CYCLES, on_byte, NULL);
    run((avr_cycle_count_t)(400 + 150 * stream_count) * MS);
    return 0;
}
