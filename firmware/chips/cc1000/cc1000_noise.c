#include "cc1000_board.h"
#include "cc1000_parts.h"

enum {
    QUIET_MARGIN = 40, /* 6 dB: a sample less than this below the floor is quiet */
    FLOOR_FIRST = 8,   /* samples of the noise floor before anything is sent */
    FLOOR_BYTES = 64,  /* bytes' time between further samples of it: 27 ms */
};

/* The noise floor, in sixteenths of an ADC count; the more the quieter. */
static struct {
    uint16_t floor;
    uint8_t samples;        /* up to FLOOR_FIRST */
    uint8_t wait;           /* bytes' time to the next sample */
    cc1000_sample_t wanted; /* what the conversion under way is for */
} noise;

void cc1000_noise_start(void)
{
    noise.samples = 0;
    noise.wait = 1;
    noise.wanted = SAMPLE_NONE;
}

void cc1000_sample(cc1000_sample_t purpose)
{
    noise.wanted = purpose;
    cc1000_board_rssi();
}

bool cc1000_samples(cc1000_sample_t purpose)
{
    return noise.wanted == purpose;
}

bool cc1000_noise_known(void)
{
    return noise.samples >= FLOOR_FIRST;
}

bool cc1000_noise_only(uint16_t value)
{
    return (uint16_t)(value + QUIET_MARGIN) >= noise.floor >> 4;
}

void cc1000_noise_silence(void)
{
    if (--noise.wait == 0) {
        noise.wait = noise.samples < FLOOR_FIRST ? 1 : FLOOR_BYTES;
        cc1000_sample(SAMPLE_FLOOR);
    }
}

/** Follow the noise: quickly to where it is quieter, slowly to where it is louder, for that may be a signal.
 * Slowly, not never: a strength that stays is noise. */
static void follow_floor(uint16_t value)
{
    int16_t level = (int16_t)noise.floor;
    int16_t off = (int16_t)((int16_t)(value << 4) - level);
    if (noise.samples == 0) {
        noise.floor = (uint16_t)(value << 4);
    } else if (off > 0 || noise.samples < FLOOR_FIRST) {
        noise.floor = (uint16_t)(level + off / 8);
    } else {
        /* unsigned: libsimavr cannot skip `adiw r24, 63` */
        noise.floor = (uint16_t)(level - (int16_t)((uint16_t)-off / 64));
    }
    if (noise.samples < FLOOR_FIRST)
        noise.samples++;
}

void cc1000_on_rssi(uint16_t value)
{
    cc1000_sample_t purpose = noise.wanted;
    noise.wanted = SAMPLE_NONE;
    if (purpose == SAMPLE_FRAME)
        cc1000_receive_strength(value);
    else if (purpose == SAMPLE_FLOOR && cc1000_mode == LISTENING)
        follow_floor(value);
    else if (purpose == SAMPLE_CHANNEL && cc1000_mode == LISTENING)
        cc1000_send_look(value);
}
