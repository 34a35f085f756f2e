/** What the files of the emulated CC2420 share: cc2420.c (pins, states, time, supply), cc2420_send.c,
 * cc2420_receive.c (the channel, too), cc2420_spi.c (strobes, registers, FIFOs, RAM).
 */
#pragma once

#include "cc2420.h"
#include "meter.h"

enum {
    FIFO_SIZE = 128,
    RAM_SIZE = 0x170,
    RAM_RXFIFO = 0x80,
    RAM_IEEE = 0x160,
    RAM_PAN = 0x168,
    RAM_SHORT = 0x16A
};
enum { HEARD = 32, RSSI_OFFSET = 45, ACK_BYTES = 4, ACK_LENGTH = 5 };

#define SYMBOL US(16)
#define TURNAROUND (12 * SYMBOL)

enum {
    /* clang-format off */
    SNOP, SXOSCON, STXCAL, SRXON, STXON, STXONCCA, SRFOFF, SXOSCOFF, SFLUSHRX, SFLUSHTX, SACK, SACKPEND,
    STROBES,
    MAIN = 0x10, MDMCTRL0, MDMCTRL1, RSSI, SYNCWORD, TXCTRL, RXCTRL0, RXCTRL1, FSCTRL, SECCTRL0, SECCTRL1,
    BATTMON, IOCFG0, IOCFG1, MANFIDL, MANFIDH, FSMTC, MANAND, MANOR, AGCCTRL, FSMSTATE = 0x2C,
    LAST_REGISTER = 0x30, TXFIFO = 0x3E, RXFIFO = 0x3F,
    /* clang-format on */
};

enum {
    MAIN_RESETN = 0x8000,
    TXCTRL_TURNAROUND = 0x2000,
    FSCTRL_FREQ = 0x03FF,
    IOCFG0_BCN_ACCEPT = 0x0800,
    IOCFG0_THRESHOLD = 0x7F
};
/* MDMCTRL0 */
enum {
    RESERVED_FRAMES = 0x2000,
    PAN_COORDINATOR = 0x1000,
    ADR_DECODE = 0x0800,
    AUTOCRC = 0x0020,
    AUTOACK = 0x0010
};
enum { MUX_MASK = 0x03FF, CCAMUX_XOSC = 24, STANDARD_SYNCWORD = 0xA70F, TEST_MODES = 0x000F };

typedef enum {
    STATE_DOWN, /* the oscillator does not run */
    STATE_IDLE,
    STATE_TUNED, /* only the synthesizer runs */
    STATE_RX_CALIBRATE,
    STATE_RX_SEARCH,
    STATE_RX_FRAME,
    STATE_RX_REFUSED, /* until the end of a frame for another node */
    STATE_RX_OVERFLOW,
    STATE_TX_CALIBRATE,
    STATE_TX_PREAMBLE,
    STATE_TX_FRAME,
    STATE_TX_UNDERFLOW,
} state_t;

typedef enum {
    FAULT_SUPPLY,
    FAULT_REGULATOR,
    FAULT_HELD,
    FAULT_NO_RESET,
    FAULT_DESELECTED,
    FAULT_OSCILLATOR,
    FAULT_MEMORY,
    FAULT_RESERVED,
    FAULT_READ_ONLY,
    FAULT_BROKEN_WRITE,
    FAULT_MODEL,
    FAULT_SENDING,
    FAULT_DEAF,
    FAULT_EMPTY_TX,
    FAULT_UNDERFLOW,
    FAULT_UNFLUSHED,
    FAULT_FULL_TX,
    FAULT_LENGTH,
    FAULT_RAM_FIFO,
    FAULT_EMPTY_RX,
    FAULT_FLUSH,
    FAULT_SIGNALS,
    FAULTS,
} fault_t;

struct cc2420 {
    ether_t *ether;
    int node;
    double stretch; /* true time in its own */
    ns_t byte_ns;
    cc2420_host_t host;
    ns_t now, asked;
    bool told[FAULTS];

    bool supply, vreg, held, was_reset, stable, level[CC2420_PINS];
    ns_t steady_at, oscillator_at;
    uint16_t registers[64];
    uint8_t ram[RAM_SIZE]; /* the FIFOs are its first 256 bytes */
    state_t state;
    meter_t meter;  /* of what it does, in radio_state_t */
    ns_t state_at;  /* when something happens in it by itself */
    ns_t listening; /* searching since then */
    uint32_t khz;   /* as of the last calibration */

    bool selected;
    int position; /* in an access: 0 before its first byte */
    uint8_t command, second, high;

    int tx_count, tx_at, tx_length;
    bool tx_sent, underflow;
    uint16_t tx_fcs;
    ns_t tx_data;
    signal_t *signal; /* that it sends, or NULL */
    bool acking;      /* an acknowledgement, not what is in the FIFO */
    uint8_t ack[ACK_BYTES];

    int rx_first, rx_count;
    bool overflown;   /* until SFLUSHRX */
    bool frame_latch; /* FIFOP since the end of a frame */
    bool hold_fifop;
    /* for hold_fifop: frames in the FIFO; bytes left of the one that is being read */
    int whole_frames, unread;
    int hungry; /* bytes that were read from an empty FIFO in this access, or the one before */
    bool read_since_flush;
    const signal_t *incoming;
    uint8_t frame[FIFO_SIZE]; /* as received */
    int rx_at, rx_length;
    int rx_mine; /* of its bytes, in the FIFO */
    bool accepted, ack_wanted, ack_pending, crc_good;

    const signal_t *heard[HEARD]; /* announced, by the time of their delimiters */
    int heard_count;
};

static inline bool cc2420_is_set(const cc2420_t *chip, uint16_t mdmctrl0)
{
    return (chip->registers[MDMCTRL0] & mdmctrl0) != 0;
}

static inline bool cc2420_is_sending(const cc2420_t *chip)
{
    return chip->state >= STATE_TX_CALIBRATE && chip->state <= STATE_TX_FRAME;
}

static inline bool cc2420_is_receiving(const cc2420_t *chip)
{
    return chip->state >= STATE_RX_CALIBRATE && chip->state <= STATE_RX_OVERFLOW;
}

static inline bool cc2420_is_in_frame(const cc2420_t *chip)
{
    return chip->state == STATE_RX_FRAME || chip->state == STATE_RX_REFUSED;
}

/* --- cc2420.c --- */

/** The program used it wrongly: report that, each kind once. */
void cc2420_fault(cc2420_t *chip, fault_t kind);

/** A time of its own clock in true time. */
ns_t cc2420_lasts(const cc2420_t *chip, ns_t nominal);

/** Let happen what has been due up to now, each thing at its own time. */
void cc2420_catch_up(cc2420_t *chip, ns_t now);

/** After anything that may have given it something to do. */
void cc2420_settle(cc2420_t *chip);

/** Be in a state, until `at`, and update the meter; cc2420_account() does so when something else has
 * changed. */
void cc2420_enter(cc2420_t *chip, state_t state, ns_t at);
void cc2420_account(cc2420_t *chip);

/** Tune; search for a frame; first one, then the other. */
void cc2420_calibrate(cc2420_t *chip, state_t state, ns_t takes);
void cc2420_search(cc2420_t *chip);
void cc2420_start_receiving(cc2420_t *chip);

/** What became of a signal here; leave whatever is on the air, either way. */
void cc2420_outcome(const cc2420_t *chip, const signal_t *signal, outcome_t what);
void cc2420_leave(cc2420_t *chip, outcome_t why);

void cc2420_flush_rx(cc2420_t *chip);
void cc2420_stop_oscillator(cc2420_t *chip);
void cc2420_reset(cc2420_t *chip);

/* --- cc2420_send.c --- */

void cc2420_start_sending(cc2420_t *chip, bool ack);
void cc2420_start_ack(cc2420_t *chip);

/** The next byte's time has come. */
void cc2420_send_byte(cc2420_t *chip);

/* --- cc2420_receive.c --- */

/** The strength of the last eight symbols, as its register has it, and whether it is valid. */
bool cc2420_rssi_valid(const cc2420_t *chip);
int8_t cc2420_rssi(const cc2420_t *chip);

/** The channel is clear. */
bool cc2420_is_clear(const cc2420_t *chip);

/** The delimiter of an announced signal has ended. */
void cc2420_hear(cc2420_t *chip);

/** The next byte of a frame has come. */
void cc2420_take_byte(cc2420_t *chip);

/** When the next byte comes that changes a pin, those before it being in no hurry. */
ns_t cc2420_visible_byte(const cc2420_t *chip);
