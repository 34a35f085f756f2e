/* A CC2420 seen from its pins and its SPI, as far as emulated motes that talk to each other need it. The whole one is the testbed's,
 * firmware/testbed/cc2420.h.
 *
 * Time is in nanoseconds. The air is a list of frames to come, each with the time at which its start-of-frame delimiter ends.
 */
#ifndef CC2420_CHIP_H
#define CC2420_CHIP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NEVER UINT64_MAX
#define US(x) ((uint64_t)(x) * 1000)

enum { BYTE_US = 32, TURNAROUND_US = 192, SYNC_US = 160, OSCILLATOR_US = 860, FIFO_SIZE = 128, AIR_SIZE = 64 };

typedef struct {
    uint64_t sfd;        /* when the delimiter ends */
    uint8_t bytes[130];  /* length byte, then the frame with its FCS */
    uint8_t count;       /* of bytes that really come: less than the length byte says if the sender breaks off */
    int8_t rssi;         /* as the chip gives it: dBm + 45 */
    uint8_t lqi;
} heard_frame_t;

typedef enum { MODE_OFF, MODE_IDLE, MODE_RECEIVE, MODE_SEND } chip_mode_t;

typedef struct chip chip_t;
struct chip {
    uint64_t now;
    bool power, reset, selected;
    bool fifo, fifop, cca, sfd;  /* the pins */
    chip_mode_t mode;
    bool stable;
    uint64_t oscillator_at;
    uint16_t registers[64];
    /* the access under way */
    int position;
    uint8_t command, second;
    uint8_t high;
    /* transmit */
    uint8_t tx[FIFO_SIZE];
    int tx_count;
    bool tx_used, underflow;
    uint64_t tx_sfd_at, tx_byte_at, tx_sfd;
    int tx_at;
    uint8_t tx_out[130];
    /* receive */
    uint8_t rx[FIFO_SIZE];
    int rx_count;
    bool overflow;
    heard_frame_t air[AIR_SIZE];
    int air_count, air_next;
    heard_frame_t *incoming;
    int incoming_at;
    uint64_t rx_byte_at;
    void (*on_sent)(chip_t *chip, uint64_t sfd, const uint8_t *bytes, int count);
    /* for an ether: a frame begins, its delimiter to end at tx_sfd_at; byte number `at` goes out; it breaks off after tx_at bytes */
    void (*on_begin)(chip_t *chip);
    void (*on_byte)(chip_t *chip, int at, uint8_t byte);
    void (*on_break)(chip_t *chip);
    void *owner;
};

static uint16_t chip_fcs(const uint8_t *bytes, int count)
{
    uint16_t fcs = 0;
    for (int i = 0; i < count; i++) {
        fcs = (uint16_t)(fcs ^ bytes[i]);
        for (int bit = 0; bit < 8; bit++) {
            fcs = (uint16_t)(fcs & 1 ? (fcs >> 1) ^ 0x8408 : fcs >> 1);
        }
    }
    return fcs;
}

static bool chip_channel_busy(const chip_t *chip)
{
    for (int i = 0; i < chip->air_count; i++) {
        const heard_frame_t *frame = &chip->air[i];
        if (frame->sfd - US(SYNC_US) <= chip->now && chip->now < frame->sfd + US(BYTE_US) * frame->count) {
            return true;
        }
    }
    return false;
}

static void chip_set_pins(chip_t *chip)
{
    chip->fifo = chip->rx_count > 0 && !chip->overflow;
    chip->cca = chip->mode == MODE_RECEIVE && !chip_channel_busy(chip) && chip->incoming == NULL;
    if (chip->overflow) {
        chip->fifop = true;
    }
}

/* Before the transmitter leaves a frame unfinished. */
static void chip_break_off(chip_t *chip)
{
    if (chip->mode == MODE_SEND && chip->on_break != NULL) {
        chip->on_break(chip);
    }
}

static void chip_forget(chip_t *chip)
{
    static const struct {
        uint8_t at;
        uint16_t value;
    } defaults[] = {{0x11, 0x0AE2}, {0x12, 0x0000}, {0x14, 0xA70F}, {0x15, 0xA0FF}, {0x16, 0x12E5}, {0x17, 0x0A56},
                    {0x18, 0x4165}, {0x19, 0x03C4}, {0x1C, 0x0040}, {0x1E, 0x233D}, {0x1F, 0x3000}};
    memset(chip->registers, 0, sizeof chip->registers);
    for (unsigned i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        chip->registers[defaults[i].at] = defaults[i].value;
    }
    chip_break_off(chip);
    chip->mode = MODE_OFF;
    chip->stable = chip->underflow = chip->overflow = chip->sfd = chip->fifop = false;
    chip->oscillator_at = chip->tx_sfd_at = chip->tx_byte_at = chip->rx_byte_at = NEVER;
    chip->tx_count = chip->rx_count = 0;
    chip->incoming = NULL;
    chip_set_pins(chip);
}

static void chip_init(chip_t *chip)
{
    memset(chip, 0, sizeof *chip);
    chip_forget(chip);
}

/* --- what time brings --- */

static void chip_put_rx(chip_t *chip, uint8_t byte)
{
    if (chip->overflow) {
        return;
    }
    if (chip->rx_count == FIFO_SIZE) {
        chip->overflow = true;
        chip->incoming = NULL;
        chip->rx_byte_at = NEVER;
        return;
    }
    chip->rx[chip->rx_count++] = byte;
}

static void chip_rx_byte(chip_t *chip)
{
    heard_frame_t *frame = chip->incoming;
    int length = frame->bytes[0] & 0x7F;
    int at = chip->incoming_at++;
    uint8_t byte = at < frame->count ? frame->bytes[at] : (uint8_t)(0x5A ^ at); /* noise where the sender broke off */
    if (length >= 2 && at == length - 1) {
        byte = (uint8_t)frame->rssi;
    } else if (length >= 2 && at == length) {
        uint16_t fcs = chip_fcs(frame->bytes + 1, length - 2);
        bool good = frame->count > length && frame->bytes[length - 1] == (fcs & 0xFF) && frame->bytes[length] == fcs >> 8;
        byte = (uint8_t)((good ? 0x80 : 0) | (frame->lqi & 0x7F));
    }
    chip->rx_byte_at += US(BYTE_US);
    chip_put_rx(chip, byte);
    if (chip->incoming != NULL && chip->incoming_at > length) {
        chip->incoming = NULL;
        chip->rx_byte_at = NEVER;
        chip->sfd = false;
        chip->fifop = true;
    }
}

static void chip_rx_sfd(chip_t *chip)
{
    heard_frame_t *frame = &chip->air[chip->air_next++];
    if (chip->mode == MODE_RECEIVE && chip->incoming == NULL && !chip->overflow) {
        chip->incoming = frame;
        chip->incoming_at = 0;
        chip->rx_byte_at = chip->now + US(BYTE_US);
        chip->sfd = true;
    }
}

static void chip_tx_end(chip_t *chip)
{
    int length = chip->tx_out[0] & 0x7F;
    chip->mode = MODE_RECEIVE;
    chip->sfd = false;
    chip->tx_byte_at = NEVER;
    chip->tx_used = true;
    if (chip->on_sent != NULL) {
        chip->on_sent(chip, chip->tx_sfd, chip->tx_out, length + 1);
    }
}

static void chip_tx_byte(chip_t *chip)
{
    int length = chip->tx_out[0] & 0x7F;
    if (chip->tx_at > 0 && chip->tx_at > length) {
        chip_tx_end(chip);
        return;
    }
    bool crc = chip->tx_at > 0 && chip->tx_at > length - 2;
    if (!crc && chip->tx_at >= chip->tx_count) {
        chip_break_off(chip);
        chip->underflow = true;
        chip->mode = MODE_RECEIVE;
        chip->sfd = false;
        chip->tx_byte_at = NEVER;
        return;
    }
    uint8_t byte = chip->tx[chip->tx_at % FIFO_SIZE]; /* taken when its turn comes: RAM writes before that count */
    if (crc) {
        byte = (uint8_t)(chip_fcs(chip->tx_out + 1, length - 2) >> (chip->tx_at == length ? 8 : 0));
    }
    chip->tx_out[chip->tx_at] = byte;
    if (chip->on_byte != NULL) {
        chip->on_byte(chip, chip->tx_at, byte);
    }
    chip->tx_at++;
    chip->tx_byte_at += US(BYTE_US);
}

static void chip_tx_sfd(chip_t *chip)
{
    chip->tx_sfd_at = NEVER;
    chip->sfd = true;
    chip->tx_sfd = chip->now;
    chip->tx_at = 0;
    chip->tx_byte_at = chip->now;
}

static void chip_sooner(const chip_t *chip, uint64_t at, uint64_t *next)
{
    if (at > chip->now && at < *next) {
        *next = at;
    }
}

/* When the channel becomes busy or clear next. */
static uint64_t chip_edge(const chip_t *chip)
{
    uint64_t next = NEVER;
    for (int i = 0; i < chip->air_count; i++) {
        const heard_frame_t *frame = &chip->air[i];
        chip_sooner(chip, frame->sfd - US(SYNC_US), &next);
        chip_sooner(chip, frame->sfd + US(BYTE_US) * frame->count, &next);
    }
    return next;
}

/* When something happens next of itself. */
static uint64_t chip_next(const chip_t *chip)
{
    uint64_t next = chip_edge(chip);
    uint64_t others[] = {chip->oscillator_at, chip->tx_sfd_at, chip->tx_byte_at, chip->rx_byte_at,
                         chip->air_next < chip->air_count ? chip->air[chip->air_next].sfd : NEVER};
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        next = others[i] < next ? others[i] : next;
    }
    return next;
}

/* The one thing that is due at chip->now, or nothing. */
static void chip_happen(chip_t *chip)
{
    if (chip->oscillator_at <= chip->now) {
        chip->oscillator_at = NEVER;
        chip->stable = true;
        chip->mode = MODE_IDLE;
    } else if (chip->rx_byte_at <= chip->now) {
        chip_rx_byte(chip);
    } else if (chip->tx_byte_at <= chip->now) {
        chip_tx_byte(chip);
    } else if (chip->tx_sfd_at <= chip->now) {
        chip_tx_sfd(chip);
    } else if (chip->air_next < chip->air_count && chip->air[chip->air_next].sfd <= chip->now) {
        chip_rx_sfd(chip);
    }
    chip_set_pins(chip);
}

/* --- SPI --- */

static void chip_send(chip_t *chip)
{
    chip_break_off(chip);
    chip->mode = MODE_SEND;
    chip->underflow = false;
    chip->incoming = NULL;
    chip->rx_byte_at = NEVER;
    chip->sfd = false;
    chip->tx_at = 0;
    chip->tx_byte_at = NEVER;
    chip->tx_sfd_at = chip->now + US(TURNAROUND_US + SYNC_US);
    if (chip->on_begin != NULL) {
        chip->on_begin(chip);
    }
}

static void chip_strobe(chip_t *chip, uint8_t strobe)
{
    switch (strobe) {
    case 0x01:
        chip->oscillator_at = chip->stable ? NEVER : chip->now + US(OSCILLATOR_US);
        break;
    case 0x03:
        if (chip->stable && chip->mode != MODE_RECEIVE) {
            chip_break_off(chip);
            chip->mode = MODE_RECEIVE;
            chip->tx_sfd_at = chip->tx_byte_at = NEVER;
            chip->sfd = false;
        }
        break;
    case 0x04:
        if (chip->stable) {
            chip_send(chip);
        }
        break;
    case 0x05:
        chip_set_pins(chip);
        if (chip->stable && chip->cca) {
            chip_send(chip);
        }
        break;
    case 0x06:
        chip_break_off(chip);
        chip->mode = MODE_IDLE;
        chip->tx_sfd_at = chip->tx_byte_at = chip->rx_byte_at = NEVER;
        chip->incoming = NULL;
        chip->sfd = false;
        break;
    case 0x08:
        chip->rx_count = 0;
        chip->overflow = chip->fifop = chip->sfd = false;
        chip->incoming = NULL;
        chip->rx_byte_at = NEVER;
        break;
    case 0x09:
        chip->tx_count = 0;
        chip->underflow = false;
        break;
    default:
        break;
    }
}

static uint8_t chip_status(const chip_t *chip)
{
    return (uint8_t)((chip->stable ? 0x40 : 0) | (chip->underflow ? 0x20 : 0) | (chip->mode == MODE_SEND ? 0x08 : 0) |
                     (chip->mode == MODE_RECEIVE ? 0x02 : 0));
}

static uint8_t chip_take_rx(chip_t *chip)
{
    if (chip->rx_count == 0) {
        return 0;
    }
    uint8_t byte = chip->rx[0];
    memmove(chip->rx, chip->rx + 1, (size_t)--chip->rx_count);
    chip->fifop = chip->overflow;
    return byte;
}

static void chip_put_tx(chip_t *chip, uint8_t byte)
{
    if (chip->tx_used) {
        chip->tx_used = false;
        chip->tx_count = 0;
    }
    if (chip->tx_count < FIFO_SIZE) {
        chip->tx[chip->tx_count++] = byte;
    }
}

static uint8_t chip_ram(chip_t *chip, int at, uint8_t byte)
{
    int bank = chip->second >> 6;
    int address = ((chip->command & 0x7F) + at) & 0x7F;
    if (bank != 0 || (chip->second & 0x20)) {
        return 0;
    }
    uint8_t old = chip->tx[address];
    chip->tx[address] = byte;
    return old;
}

static uint8_t chip_data(chip_t *chip, int at, uint8_t byte)
{
    int address = chip->command & 0x3F;
    if (chip->command & 0x80) {
        if (at == 0) {
            chip->second = byte;
            return 0;
        }
        return chip_ram(chip, at - 1, byte);
    }
    if (address == 0x3E) {
        chip_put_tx(chip, byte);
        return chip_status(chip);
    }
    if (address == 0x3F) {
        return chip_take_rx(chip);
    }
    if (chip->command & 0x40) {
        return (uint8_t)(at == 0 ? chip->registers[address] >> 8 : chip->registers[address]);
    }
    if (at == 0) {
        chip->high = byte;
    } else {
        chip->registers[address] = (uint16_t)(chip->high << 8 | byte);
    }
    return chip_status(chip);
}

/* A byte to the chip; the one it gives back meanwhile. */
static uint8_t chip_spi(chip_t *chip, uint8_t byte)
{
    if (!chip->power || chip->reset || !chip->selected) {
        return 0;
    }
    uint8_t answer;
    int address = byte & 0x3F;
    if (chip->position == 0) {
        answer = chip_status(chip);
        chip->command = byte;
        if (!(byte & 0x80) && address < 0x10) {
            chip_strobe(chip, (uint8_t)address);
        } else {
            chip->position = 1;
        }
    } else {
        answer = chip_data(chip, chip->position - 1, byte);
        chip->position++;
    }
    chip_set_pins(chip);
    return answer;
}

static void chip_select(chip_t *chip, bool selected)
{
    chip->selected = selected;
    chip->position = 0;
}

static void chip_supply(chip_t *chip, bool power)
{
    if (power != chip->power) {
        chip_forget(chip);
    }
    chip->power = power;
}

static void chip_reset(chip_t *chip, bool hold)
{
    if (hold) {
        chip_forget(chip);
    }
    chip->reset = hold;
}

/* --- the air --- */

/* Frames must be added in the order of their times. The frame, for its bytes to be filled in as they come; NULL without room. */
static heard_frame_t *chip_add_frame(chip_t *chip, uint64_t sfd, const uint8_t *bytes, int count, int8_t rssi, uint8_t lqi)
{
    if (chip->air_next == chip->air_count && chip->incoming == NULL) {
        chip->air_next = chip->air_count = 0;
    }
    if (chip->air_count == AIR_SIZE || count > 130) {
        return NULL;
    }
    heard_frame_t *frame = &chip->air[chip->air_count++];
    frame->sfd = sfd;
    memcpy(frame->bytes, bytes, (size_t)count);
    frame->count = (uint8_t)count;
    frame->rssi = rssi;
    frame->lqi = lqi;
    return frame;
}

#endif
