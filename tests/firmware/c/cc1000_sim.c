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
#include "mica2_sim.h"

enum { MS = HZ / 1000, SPI_VECTOR = 17 * 4, RSSI_MV = 1100, BYTES = 512 };

static mica2_t mote;

static uint8_t streams[8][BYTES];
static int lengths[8], stream, stream_count, place;
static avr_cycle_count_t stream_at;

static uint8_t out[BYTES];
static int out_length;
static avr_cycle_count_t out_at;

static uint32_t rssi(mica2_t *which)
{
    (void)which;
    return RSSI_MV;
}

static uint8_t next_in(void)
{
    if (stream >= stream_count || !mica2_receives(&mote) || mote.mcu.avr->cycle < stream_at) {
        return 0x00;
    }
    if (place == 0) {
        printf("stream %llu\n", (unsigned long long)mote.mcu.avr->cycle);
    }
    return streams[stream][place++];
}

static void end_stream(void)
{
    if (stream < stream_count && place == lengths[stream]) {
        place = 0;
        stream++;
        stream_at = mote.mcu.avr->cycle + 60 * MS;
    }
}

/* What came in, and begin with the next. */
static uint8_t receive(mica2_t *which)
{
    (void)which;
    static uint8_t coming;
    uint8_t came = coming;
    coming = next_in();
    end_stream();
    return came;
}

static void on_byte(mica2_t *which, bool runs)
{
    if (!runs) {
        stream_at = which->mcu.avr->cycle + 30 * MS;
    } else if (which->registers[CC1000_PA_POW] != 0 && out_length < BYTES) {
        if (out_length == 0) {
            out_at = which->mcu.avr->cycle - BYTE_CYCLES;
        }
        out[out_length++] = which->gone;
    }
}

static void report_sent(void)
{
    if (out_length > 0 && mote.registers[CC1000_PA_POW] == 0) {
        printf("sent %llu ", (unsigned long long)out_at);
        for (int i = 0; i < out_length; i++) {
            printf("%02x", out[i]);
        }
        printf("\n");
        out_length = 0;
    }
}

static uint16_t stack(void)
{
    return (uint16_t)(mote.mcu.avr->data[R_SPL] | mote.mcu.avr->data[R_SPH] << 8);
}

static void run(avr_cycle_count_t until)
{
    avr_t *avr = mote.mcu.avr;
    avr_cycle_count_t longest[3] = {0}, entered = 0;
    uint16_t left = 0;
    uint8_t was = 0;

    while (avr->cycle < until) {
        atmega_run(&mote.mcu);
        if (entered == 0 && avr->pc == SPI_VECTOR) {
            entered = avr->cycle;
            left = (uint16_t)(stack() + 2);
            was = mote.registers[CC1000_MAIN];
        } else if (entered != 0 && stack() == left) {
            int kind = was == 0x11 ? 0 : mote.registers[CC1000_MAIN] == was ? 1 : 2;

            if (avr->cycle - entered > longest[kind]) {
                longest[kind] = avr->cycle - entered;
            }
            entered = 0;
        }
        report_sent();
    }
    printf("spdr %llu\nreceive %llu\nsend %llu\nturn %llu\ncalibrations %d\n", (unsigned long long)mote.spdr_slowest,
           (unsigned long long)longest[0], (unsigned long long)longest[1], (unsigned long long)longest[2], mote.calibrations);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 10 || !mica2_make(&mote, argv[1])) {
        return 2;
    }
    mica2_clock(&mote, 0);
    mote.receive = receive;
    mote.on_byte = on_byte;
    mote.rssi = rssi;
    for (int i = 2; i < argc; i++) {
        lengths[i - 2] = unhex(argv[i], streams[i - 2], BYTES);
    }
    stream_count = argc - 2;
    run((avr_cycle_count_t)(400 + 150 * stream_count) * MS);
    return 0;
}
