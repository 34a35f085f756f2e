#include "cc2420.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ieee802154.h"
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
#define REGULATOR US(600)
#define OSCILLATOR US(860)
#define TURNAROUND (12 * SYMBOL)
#define RSSI_WINDOW (8 * SYMBOL)
/* two zeros of the preamble and the delimiter: SYNCWORD's F is not required, a zero before it is */
#define SYNC_NEEDED (4 * SYMBOL)
/* of the demodulator against the ideal one: puts sensitivity at -95 dBm, co-channel rejection at 3 dB */
#define LOSS_DB 3.0
enum { SYNC_SYMBOLS = 10 }; /* that must correlate for a frame to be found: preamble and delimiter */

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
enum { COMMAND_RAM = 0x80, COMMAND_READ = 0x40, RAM_READ_ONLY = 0x20 };
enum {
    STATUS_XOSC = 0x40,
    STATUS_UNDERFLOW = 0x20,
    STATUS_TX_ACTIVE = 0x08,
    STATUS_LOCK = 0x04,
    STATUS_RSSI = 0x02
};

typedef enum {
    STATE_DOWN, /* the oscillator does not run */
    STATE_IDLE,
    STATE_TUNED, /* the synthesizer alone */
    STATE_RX_CALIBRATE,
    STATE_RX_SEARCH,
    STATE_RX_FRAME,
    STATE_RX_REFUSED, /* until the end of a frame for somebody else */
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

static const char *const fault_words[FAULTS] = {
    [FAULT_SUPPLY] = "CC2420: SPI access without supply",
    [FAULT_REGULATOR] = "CC2420: SPI access before the regulator is steady",
    [FAULT_HELD] = "CC2420: SPI access while held in reset",
    [FAULT_NO_RESET] = "CC2420: started without a reset after VREG_EN",
    [FAULT_DESELECTED] = "CC2420: SPI byte while CSn is high",
    [FAULT_OSCILLATOR] = "CC2420: strobe without a stable oscillator",
    [FAULT_MEMORY] = "CC2420: FIFO or RAM access without a stable oscillator",
    [FAULT_RESERVED] = "CC2420: access to a reserved address",
    [FAULT_READ_ONLY] = "CC2420: write to a register that can only be read",
    [FAULT_BROKEN_WRITE] = "CC2420: register write broken off",
    [FAULT_MODEL] = "CC2420: use of what is not modelled: encryption, a test mode, a test output",
    [FAULT_SENDING] = "CC2420: STXON or STXONCCA while sending",
    [FAULT_DEAF] = "CC2420: STXONCCA while the receiver is off",
    [FAULT_EMPTY_TX] = "CC2420: sent with an empty TX FIFO",
    [FAULT_UNDERFLOW] = "CC2420: TX underflow",
    [FAULT_UNFLUSHED] = "CC2420: TX FIFO written or sent after an underflow, without SFLUSHTX",
    [FAULT_FULL_TX] = "CC2420: more bytes than the TX FIFO holds",
    [FAULT_LENGTH] = "CC2420: sent a frame with an impossible length",
    [FAULT_RAM_FIFO] = "CC2420: RAM write into the TX FIFO where no byte is",
    [FAULT_EMPTY_RX] = "CC2420: read from an empty RX FIFO",
    [FAULT_FLUSH] = "CC2420: SFLUSHRX without a byte read before",
    [FAULT_SIGNALS] = "CC2420: the ether has no room for another signal",
};

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

static void fault(cc2420_t *chip, fault_t kind)
{
    if (!chip->told[kind]) {
        chip->told[kind] = true;
        chip->host.on_fault(chip->host.owner, fault_words[kind]);
    }
}

static ns_t lasts(const cc2420_t *chip, ns_t nominal)
{
    return (ns_t)((double)nominal * chip->stretch + 0.5);
}

static bool is_set(const cc2420_t *chip, uint16_t mdmctrl0)
{
    return (chip->registers[MDMCTRL0] & mdmctrl0) != 0;
}

static bool is_sending(const cc2420_t *chip)
{
    return chip->state >= STATE_TX_CALIBRATE && chip->state <= STATE_TX_FRAME;
}

static bool is_receiving(const cc2420_t *chip)
{
    return chip->state >= STATE_RX_CALIBRATE && chip->state <= STATE_RX_OVERFLOW;
}

/* --- pins --- */

static bool fifop_active(const cc2420_t *chip)
{
    int undecided = chip->state == STATE_RX_FRAME && !chip->accepted ? chip->rx_mine : 0;
    bool holds = chip->hold_fifop &&
                 (chip->whole_frames > 1 || (chip->whole_frames == 1 && chip->unread == 0));
    return chip->overflown || chip->frame_latch || holds ||
           chip->rx_count - undecided > (chip->registers[IOCFG0] & IOCFG0_THRESHOLD);
}

static bool sfd_active(const cc2420_t *chip)
{
    return chip->state == STATE_RX_FRAME || chip->state == STATE_TX_FRAME;
}

static void show(cc2420_t *chip, cc2420_pin_t pin, bool active)
{
    static const uint16_t polarity[CC2420_PINS] = {
        [CC2420_FIFO] = 0x0400, [CC2420_FIFOP] = 0x0200, [CC2420_SFD] = 0x0100};
    bool level = chip->vreg && chip->supply && active != ((chip->registers[IOCFG0] & polarity[pin]) != 0);
    if (level != chip->level[pin]) {
        chip->level[pin] = level;
        chip->host.on_pin(chip->host.owner, pin, level);
    }
}

static void show_pins(cc2420_t *chip)
{
    show(chip, CC2420_FIFO, chip->rx_count > 0 && !chip->overflown);
    show(chip, CC2420_FIFOP, fifop_active(chip));
    show(chip, CC2420_SFD, sfd_active(chip));
}

/* --- strength, and the channel --- */

static bool rssi_valid(const cc2420_t *chip)
{
    return is_receiving(chip) && chip->state != STATE_RX_CALIBRATE &&
           chip->now >= chip->listening + lasts(chip, RSSI_WINDOW);
}

static int8_t rssi_of(double dbm)
{
    double value = round(dbm + RSSI_OFFSET);
    return (int8_t)fmax(-128, fmin(127, value));
}

static double power_until(const cc2420_t *chip, ns_t at)
{
    return ether_mean_power(chip->ether, chip->node, chip->khz, at > RSSI_WINDOW ? at - RSSI_WINDOW : 0, at);
}

static ns_t change_before(const cc2420_t *chip, ns_t at)
{
    return ether_last_change(chip->ether, chip->node, chip->khz, at);
}

/* Power below the threshold, with its hysteresis: between the two levels what counts is the side from which
 * it came. The mean is linear between moments at which something enters or leaves its window, so only those
 * need to be looked at. */
static bool is_quiet(const cc2420_t *chip)
{
    double busy = (int8_t)(chip->registers[RSSI] >> 8) - RSSI_OFFSET;
    double quiet = busy - (chip->registers[MDMCTRL0] >> 8 & 7);
    ns_t first = chip->listening + RSSI_WINDOW;
    for (ns_t at = chip->now; at >= first;) {
        double dbm = power_until(chip, at);
        if (dbm >= busy || dbm < quiet) {
            return dbm < quiet;
        }
        ns_t enters = change_before(chip, at), leaves = change_before(chip, at - RSSI_WINDOW) + RSSI_WINDOW;
        at = enters > leaves || leaves >= at ? enters : leaves;
    }
    return false;
}

static bool is_in_frame(const cc2420_t *chip)
{
    return chip->state == STATE_RX_FRAME || chip->state == STATE_RX_REFUSED;
}

static bool is_clear(const cc2420_t *chip)
{
    int mode = chip->registers[MDMCTRL0] >> 6 & 3;
    if (!rssi_valid(chip)) {
        return false;
    }
    return ((mode & 1) == 0 || is_quiet(chip)) && ((mode & 2) == 0 || !is_in_frame(chip));
}

/* --- changes of state --- */

static void outcome(const cc2420_t *chip, const signal_t *signal, outcome_t what)
{
    ether_outcome(chip->ether, signal, chip->node, what);
}

/* Leave whatever is on the air, either way. */
static void leave(cc2420_t *chip, outcome_t why)
{
    if (chip->incoming != NULL) {
        outcome(chip, chip->incoming, why);
        chip->incoming = NULL;
    }
    if (chip->signal != NULL) {
        ether_end(chip->ether, chip->signal, chip->now, true);
        chip->signal = NULL;
    }
    chip->acking = false;
}

static radio_state_t activity(const cc2420_t *chip)
{
    static const radio_state_t activities[] = {
        [STATE_IDLE] = RADIO_IDLE,
        [STATE_TUNED] = RADIO_CALIBRATING,
        [STATE_RX_CALIBRATE] = RADIO_CALIBRATING,
        [STATE_RX_SEARCH] = RADIO_RECEIVING,
        [STATE_RX_FRAME] = RADIO_RECEIVING,
        [STATE_RX_REFUSED] = RADIO_RECEIVING,
        [STATE_RX_OVERFLOW] = RADIO_RECEIVING,
        [STATE_TX_CALIBRATE] = RADIO_CALIBRATING,
        [STATE_TX_PREAMBLE] = RADIO_SENDING,
        [STATE_TX_FRAME] = RADIO_SENDING,
        [STATE_TX_UNDERFLOW] = RADIO_SENDING,
    };
    if (!chip->supply || !chip->vreg) {
        return RADIO_OFF;
    }
    if (chip->state == STATE_DOWN) {
        return chip->oscillator_at == NEVER ? RADIO_DOWN : RADIO_STARTING;
    }
    return activities[chip->state];
}

static void account(cc2420_t *chip)
{
    meter_enter(&chip->meter, (int)activity(chip), chip->now);
}

ns_t cc2420_spent(const cc2420_t *chip, radio_state_t state, ns_t now)
{
    return meter_spent(&chip->meter, (int)state, now);
}

uint64_t cc2420_starts(const cc2420_t *chip)
{
    return chip->meter.entries[RADIO_STARTING];
}

static void enter(cc2420_t *chip, state_t state, ns_t at)
{
    chip->state = state;
    chip->state_at = at;
    account(chip);
}

static void search(cc2420_t *chip)
{
    chip->listening = chip->now;
    enter(chip, chip->overflown ? STATE_RX_OVERFLOW : STATE_RX_SEARCH, NEVER);
}

static void calibrate(cc2420_t *chip, state_t state, ns_t takes)
{
    chip->khz = (2048U + (chip->registers[FSCTRL] & FSCTRL_FREQ)) * 1000U;
    enter(chip, state, chip->now + lasts(chip, takes));
}

static void start_receiving(cc2420_t *chip)
{
    calibrate(chip, STATE_RX_CALIBRATE, TURNAROUND);
}

/* --- sending --- */

/* The data sheet gives every fourth level. */
static double power_dbm(const cc2420_t *chip)
{
    /* for -1, 3, 7 .. 31; the first by drawing the curve on */
    static const double dbm[] = {-32.5, -25, -15, -10, -7, -5, -3, -1, 0};
    int level = (chip->registers[TXCTRL] & 31) + 1;
    int below = level / 4;
    return below == 8 ? 0 : dbm[below] + (dbm[below + 1] - dbm[below]) * (level % 4) / 4;
}

static void start_sending(cc2420_t *chip, bool ack)
{
    leave(chip, OUTCOME_SENDING);
    chip->acking = ack;
    chip->tx_at = 0;
    bool slow = ack || (chip->registers[TXCTRL] & TXCTRL_TURNAROUND);
    calibrate(chip, STATE_TX_CALIBRATE, slow ? TURNAROUND : 8 * SYMBOL);
    /* preamble, and the two bytes of SYNCWORD */
    ns_t sync = ((chip->registers[MDMCTRL0] & 15U) + 3) * chip->byte_ns;
    chip->tx_data = chip->state_at + sync;
    chip->signal = ether_begin(chip->ether, chip->node, chip->state_at, chip->khz, power_dbm(chip),
                               chip->tx_data, chip->byte_ns);
    if (chip->signal == NULL) {
        fault(chip, FAULT_SIGNALS);
    } else {
        chip->signal->sync = chip->registers[SYNCWORD] ^ STANDARD_SYNCWORD;
    }
}

static void end_sending(cc2420_t *chip)
{
    if (chip->signal != NULL) {
        ether_end(chip->ether, chip->signal, chip->now, false);
        chip->signal = NULL;
    }
    chip->tx_sent = chip->tx_sent || !chip->acking;
    chip->acking = false;
    start_receiving(chip);
}

static void run_dry(cc2420_t *chip)
{
    fault(chip, chip->tx_at == 0 ? FAULT_EMPTY_TX : FAULT_UNDERFLOW);
    leave(chip, OUTCOME_SENDING);
    chip->underflow = true;
    enter(chip, STATE_TX_UNDERFLOW, NEVER);
}

/* The byte whose turn it is, or -1. What is in RAM now counts. */
static int fetch(const cc2420_t *chip)
{
    bool crc = chip->acking || is_set(chip, AUTOCRC);
    if (crc && chip->tx_at > 0 && chip->tx_at > chip->tx_length - 2) {
        return chip->tx_fcs >> (chip->tx_at == chip->tx_length ? 8 : 0) & 0xFF;
    }
    if (chip->acking) {
        return chip->ack[chip->tx_at];
    }
    return chip->tx_at < chip->tx_count ? chip->ram[chip->tx_at] : -1;
}

static void check_length(cc2420_t *chip, int byte)
{
    if (byte > 127 || byte < (is_set(chip, AUTOCRC) ? 2 : 0)) {
        fault(chip, FAULT_LENGTH);
    }
}

static void send_byte(cc2420_t *chip)
{
    if (chip->tx_at > 0 && chip->tx_at > chip->tx_length) {
        end_sending(chip);
        return;
    }
    int byte = fetch(chip);
    if (byte < 0) {
        run_dry(chip);
        return;
    }
    if (chip->tx_at == 0) {
        check_length(chip, byte);
        chip->tx_length = byte & 0x7F;
        chip->tx_fcs = 0;
    } else if (chip->tx_at <= chip->tx_length - 2) {
        chip->tx_fcs = ieee_fcs_add(chip->tx_fcs, (uint8_t)byte);
    }
    if (chip->signal != NULL) {
        ether_append(chip->signal, (uint8_t)byte);
    }
    chip->tx_at++;
    chip->state_at = chip->tx_data + (ns_t)chip->tx_at * chip->byte_ns;
}

static void start_ack(cc2420_t *chip)
{
    const uint8_t ack[ACK_BYTES] = {ACK_LENGTH, chip->ack_pending ? 0x12 : 0x02, 0, chip->frame[3]};
    memcpy(chip->ack, ack, sizeof ack);
    start_sending(chip, true);
}

/* --- receiving --- */

static double sinr(const cc2420_t *chip, const signal_t *signal, ns_t from, ns_t to)
{
    return ether_sinr(chip->ether, signal, chip->node, from, to);
}

/* A byte of the signal as it comes out of the demodulator: noise once the sender is silent. */
static uint8_t demodulate(const cc2420_t *chip, int at)
{
    const signal_t *signal = chip->incoming;
    random_t *chance = ether_chance(chip->ether, chip->node);
    ns_t begin = signal->data + (ns_t)at * signal->byte_ns, end = begin + signal->byte_ns;
    if (at >= signal->count || signal->to < end) {
        return (uint8_t)random_below(chance, 256);
    }
    return ieee_damage(chance, signal->bytes[at],
                       ieee_symbol_error(-LOSS_DB + sinr(chip, signal, begin, end)));
}

/* What the first eight symbols after the delimiter were like. */
static uint8_t frame_rssi(const cc2420_t *chip)
{
    ns_t data = chip->incoming->data;
    return (uint8_t)rssi_of(ether_mean_power(chip->ether, chip->node, chip->khz, data, data + RSSI_WINDOW));
}

static uint8_t frame_correlation(const cc2420_t *chip)
{
    ns_t data = chip->incoming->data;
    double db = sinr(chip, chip->incoming, data, data + RSSI_WINDOW);
    return (uint8_t)(50 + 6 * fmax(0, fmin(10, db)) + 0.5); /* 110 is the best there is, 50 the worst */
}

static bool frame_is_good(const cc2420_t *chip)
{
    uint16_t fcs = 0;
    int length = chip->rx_length;
    for (int i = 1; i <= length - 2; i++) {
        fcs = ieee_fcs_add(fcs, chip->frame[i]);
    }
    return length >= 2 && chip->frame[length - 1] == (fcs & 0xFF) && chip->frame[length] == fcs >> 8;
}

/* What goes into the FIFO in place of the byte at rx_at. */
static uint8_t stored(const cc2420_t *chip, bool good)
{
    int length = chip->rx_length, at = chip->rx_at;
    if (!is_set(chip, AUTOCRC) || length < 2 || at < length - 1) {
        return chip->frame[at];
    }
    return at == length ? (uint8_t)((good ? 0x80 : 0) | frame_correlation(chip)) : frame_rssi(chip);
}

static address_t recognize(const cc2420_t *chip)
{
    ieee_identity_t identity = {
        .pan = chip->ram + RAM_PAN,
        .short_address = chip->ram + RAM_SHORT,
        .long_address = chip->ram + RAM_IEEE,
        .is_coordinator = is_set(chip, PAN_COORDINATOR),
        .takes_reserved = is_set(chip, RESERVED_FRAMES),
        .takes_beacons = (chip->registers[IOCFG0] & IOCFG0_BCN_ACCEPT) != 0,
    };
    return ieee_recognize(chip->frame + 1, chip->rx_at - 1, &identity);
}

static void overflow(cc2420_t *chip)
{
    outcome(chip, chip->incoming, OUTCOME_OVERFLOW);
    chip->incoming = NULL;
    chip->overflown = true;
    enter(chip, STATE_RX_OVERFLOW, NEVER);
}

/* The frame's bytes leave the FIFO; the search goes on when it has passed. */
static void refuse(cc2420_t *chip)
{
    const signal_t *signal = chip->incoming;
    outcome(chip, signal, OUTCOME_REFUSED);
    chip->rx_count -= chip->rx_mine;
    chip->incoming = NULL;
    enter(chip, STATE_RX_REFUSED, signal->data + (ns_t)(chip->rx_length + 1) * signal->byte_ns);
}

static void end_frame(cc2420_t *chip)
{
    if (!chip->accepted) {
        refuse(chip);
        return;
    }
    outcome(chip, chip->incoming, chip->crc_good ? OUTCOME_RECEIVED : OUTCOME_DAMAGED);
    chip->incoming = NULL;
    chip->frame_latch = true;
    chip->whole_frames++;
    bool automatic = is_set(chip, AUTOACK) && is_set(chip, ADR_DECODE) && is_set(chip, AUTOCRC) &&
                     (chip->frame[1] & 0x20);
    if (chip->crc_good && chip->rx_length >= ACK_LENGTH && (automatic || chip->ack_wanted)) {
        start_ack(chip);
    } else {
        search(chip);
    }
}

static void put(cc2420_t *chip, uint8_t byte)
{
    chip->ram[RAM_RXFIFO + (chip->rx_first + chip->rx_count) % FIFO_SIZE] = byte;
    chip->rx_count++;
    chip->rx_mine++;
}

static void take_byte(cc2420_t *chip)
{
    int at = chip->rx_at;
    chip->frame[at] = demodulate(chip, at);
    if (at == 0) {
        chip->rx_length = chip->frame[0] & 0x7F;
    }
    if (chip->rx_count == FIFO_SIZE) {
        overflow(chip);
        return;
    }
    chip->crc_good = at == chip->rx_length && frame_is_good(chip);
    put(chip, stored(chip, chip->crc_good));
    chip->rx_at++;
    address_t address = chip->accepted ? ADDRESS_GOOD : recognize(chip);
    chip->accepted = address == ADDRESS_GOOD;
    if (address == ADDRESS_BAD) {
        refuse(chip);
    } else if (chip->rx_at > chip->rx_length) {
        end_frame(chip);
    } else {
        chip->state_at += chip->incoming->byte_ns;
    }
}

/* When the next byte comes that changes a pin, those before it being in no hurry. */
static ns_t visible_byte(const cc2420_t *chip)
{
    int threshold = (chip->registers[IOCFG0] & IOCFG0_THRESHOLD) + 1;
    int skip = chip->rx_length - chip->rx_at;
    if (chip->rx_at == 0 || chip->rx_count == 0 || !chip->accepted) {
        return chip->state_at;
    }
    if (chip->rx_count < threshold && threshold - chip->rx_count - 1 < skip) {
        skip = threshold - chip->rx_count - 1;
    }
    if (FIFO_SIZE - chip->rx_count < skip) {
        skip = FIFO_SIZE - chip->rx_count;
    }
    return chip->state_at + (ns_t)skip * chip->incoming->byte_ns;
}

static bool is_synchronized(const cc2420_t *chip, const signal_t *signal)
{
    if (signal->sync != (chip->registers[SYNCWORD] ^ STANDARD_SYNCWORD)) {
        return false;
    }
    double error = ieee_symbol_error(-LOSS_DB + sinr(chip, signal, signal->data - SYNC_NEEDED, signal->data));
    return error <= 0 || random_unit(ether_chance(chip->ether, chip->node)) < pow(1 - error, SYNC_SYMBOLS);
}

static void lock_on(cc2420_t *chip, const signal_t *signal)
{
    chip->incoming = signal;
    chip->rx_at = chip->rx_length = chip->rx_mine = 0;
    chip->accepted = !is_set(chip, ADR_DECODE);
    chip->ack_wanted = chip->crc_good = false;
    enter(chip, STATE_RX_FRAME, signal->data + signal->byte_ns);
}

static void search_found(cc2420_t *chip, const signal_t *signal)
{
    if (!ether_near(signal->khz, chip->khz) || chip->listening + SYNC_NEEDED > signal->data) {
        outcome(chip, signal, OUTCOME_DEAF);
    } else if (signal->to < signal->data) {
        outcome(chip, signal, OUTCOME_DAMAGED);
    } else if (!ether_delivers(chip->ether, signal, chip->node)) {
        outcome(chip, signal, OUTCOME_LOST);
    } else if (!is_synchronized(chip, signal)) {
        outcome(chip, signal, OUTCOME_WEAK);
    } else {
        lock_on(chip, signal);
    }
}

/* The delimiter of an announced signal has ended. */
static void hear(cc2420_t *chip)
{
    const signal_t *signal = chip->heard[0];
    chip->heard_count--;
    memmove(chip->heard, chip->heard + 1, (size_t)chip->heard_count * sizeof *chip->heard);
    bool near = ether_near(signal->khz, chip->khz);
    if (chip->state == STATE_RX_SEARCH) {
        search_found(chip, signal);
    } else if (is_sending(chip) && near) {
        outcome(chip, signal, OUTCOME_SENDING);
    } else if (chip->state == STATE_RX_OVERFLOW && near) {
        outcome(chip, signal, OUTCOME_OVERFLOW);
    } else if (is_in_frame(chip) && near) {
        outcome(chip, signal, OUTCOME_BUSY);
    } else {
        outcome(chip, signal, OUTCOME_DEAF);
    }
}

/* --- time --- */

static ns_t sooner(ns_t a, ns_t b)
{
    return a < b ? a : b;
}

static ns_t hear_at(const cc2420_t *chip)
{
    return chip->heard_count > 0 ? chip->heard[0]->data : NEVER;
}

static void step(cc2420_t *chip)
{
    switch (chip->state) {
    case STATE_RX_CALIBRATE:
    case STATE_RX_REFUSED:
        search(chip);
        break;
    case STATE_RX_FRAME:
        take_byte(chip);
        break;
    case STATE_TX_CALIBRATE:
        enter(chip, STATE_TX_PREAMBLE, chip->tx_data);
        break;
    case STATE_TX_PREAMBLE:
        enter(chip, STATE_TX_FRAME, NEVER);
        send_byte(chip);
        break;
    case STATE_TX_FRAME:
        send_byte(chip);
        break;
    default:
        chip->state_at = NEVER;
        break;
    }
}

static void happen(cc2420_t *chip)
{
    if (chip->oscillator_at <= chip->now) {
        chip->oscillator_at = NEVER;
        chip->stable = true;
        enter(chip, STATE_IDLE, NEVER);
    } else if (chip->state_at <= chip->now) {
        step(chip);
    } else {
        hear(chip);
    }
}

/* Let happen what has been due up to now, each thing at its own time. */
static void catch_up(cc2420_t *chip, ns_t now)
{
    while (true) {
        ns_t next = sooner(chip->oscillator_at, sooner(chip->state_at, hear_at(chip)));
        if (next > now) {
            break;
        }
        chip->now = next > chip->now ? next : chip->now;
        happen(chip);
        show_pins(chip);
    }
    chip->now = now > chip->now ? now : chip->now;
}

/* After anything that may have given it something to do. */
static void settle(cc2420_t *chip)
{
    show_pins(chip);
    ns_t next = chip->state == STATE_RX_FRAME ? visible_byte(chip) : chip->state_at;
    next = sooner(next, sooner(chip->oscillator_at, hear_at(chip)));
    if (next != chip->asked) {
        chip->asked = next;
        chip->host.at(chip->host.owner, next);
    }
}

void cc2420_due(cc2420_t *chip, ns_t now)
{
    chip->asked = NEVER;
    catch_up(chip, now);
    settle(chip);
}

/* A signal has been announced. What is deaf for longer than it takes to start listening need not know. */
static void on_heard(void *radio, const signal_t *signal)
{
    cc2420_t *chip = radio;
    if (!chip->stable || signal->data == NEVER || chip->heard_count == HEARD) {
        return;
    }
    int at = chip->heard_count++;
    for (; at > 0 && chip->heard[at - 1]->data > signal->data; at--) {
        chip->heard[at] = chip->heard[at - 1];
    }
    chip->heard[at] = signal;
    settle(chip);
}

/* --- supply and reset --- */

static void flush_rx(cc2420_t *chip)
{
    chip->rx_first = chip->rx_count = chip->rx_mine = chip->whole_frames = chip->unread = 0;
    chip->frame_latch = chip->overflown = false;
}

static void set_defaults(cc2420_t *chip)
{
    static const uint16_t defaults[64] = {
        [MAIN] = 0xF800,     [MDMCTRL0] = 0x0AE2, [RSSI] = 0xE080,    [SYNCWORD] = STANDARD_SYNCWORD,
        [TXCTRL] = 0xA0FF,   [RXCTRL0] = 0x12E5,  [RXCTRL1] = 0x0A56, [FSCTRL] = 0x4165,
        [SECCTRL0] = 0x03C4, [IOCFG0] = 0x0040,   [MANFIDL] = 0x233D, [MANFIDH] = 0x3000,
        [FSMTC] = 0x7A94,    [MANAND] = 0xFFFF,   [AGCCTRL] = 0x07F0,
    };
    memcpy(chip->registers, defaults, sizeof defaults);
}

static void stop_oscillator(cc2420_t *chip)
{
    leave(chip, OUTCOME_DEAF);
    chip->stable = false;
    chip->oscillator_at = NEVER;
    chip->heard_count = 0;
    enter(chip, STATE_DOWN, NEVER);
}

static void reset(cc2420_t *chip)
{
    stop_oscillator(chip);
    set_defaults(chip);
    flush_rx(chip);
    chip->tx_count = 0;
    chip->tx_sent = chip->underflow = chip->ack_pending = chip->read_since_flush = chip->crc_good = false;
    chip->position = chip->hungry = 0;
}

static void power(cc2420_t *chip, bool was, ns_t now)
{
    bool is = chip->supply && chip->vreg;
    if (is == was) {
        return;
    }
    reset(chip);
    memset(chip->ram, 0, sizeof chip->ram);
    chip->was_reset = false;
    chip->steady_at = now + REGULATOR;
}

void cc2420_supply(cc2420_t *chip, bool on, ns_t now)
{
    catch_up(chip, now);
    bool was = chip->supply && chip->vreg;
    chip->supply = on;
    power(chip, was, now);
    settle(chip);
}

void cc2420_vreg(cc2420_t *chip, bool level, ns_t now)
{
    catch_up(chip, now);
    bool was = chip->supply && chip->vreg;
    chip->vreg = level;
    power(chip, was, now);
    settle(chip);
}

void cc2420_resetn(cc2420_t *chip, bool level, ns_t now)
{
    catch_up(chip, now);
    if (!level) {
        reset(chip);
    }
    if (!level || chip->held) {
        chip->was_reset = chip->supply && chip->vreg;
    }
    chip->held = !level;
    settle(chip);
}

cc2420_t *cc2420_make(ether_t *ether, int node, double ppm, cc2420_host_t host)
{
    cc2420_t *chip = calloc(1, sizeof *chip);
    if (chip == NULL) {
        abort();
    }
    chip->ether = ether;
    chip->node = node;
    chip->stretch = 1 / (1 + ppm * 1e-6);
    chip->byte_ns = lasts(chip, 2 * SYMBOL);
    chip->host = host;
    chip->asked = NEVER;
    reset(chip);
    ether_join(ether, node, on_heard, chip);
    return chip;
}

void cc2420_hold_fifop(cc2420_t *chip, bool hold)
{
    chip->hold_fifop = hold;
}

bool cc2420_cca(cc2420_t *chip, ns_t now)
{
    catch_up(chip, now);
    settle(chip);
    bool active = (chip->registers[IOCFG1] & MUX_MASK) == CCAMUX_XOSC ? chip->stable : is_clear(chip);
    bool inverted = (chip->registers[IOCFG0] & 0x0080) != 0;
    return chip->supply && chip->vreg && active != inverted;
}

/* --- strobes --- */

static void strobe_txon(cc2420_t *chip, bool only_if_clear)
{
    if (chip->underflow) {
        fault(chip, FAULT_UNFLUSHED);
    } else if (is_sending(chip)) {
        if (!chip->acking) {
            fault(chip, FAULT_SENDING);
        }
    } else if (!only_if_clear) {
        start_sending(chip, false);
    } else if (!is_receiving(chip)) {
        fault(chip, FAULT_DEAF);
    } else if (is_clear(chip)) {
        start_sending(chip, false);
    }
}

static void strobe_flush_rx(cc2420_t *chip)
{
    if (chip->rx_count > 0 && !chip->read_since_flush) {
        fault(chip, FAULT_FLUSH);
    }
    chip->read_since_flush = false;
    flush_rx(chip);
    if (chip->state == STATE_RX_FRAME || chip->state == STATE_RX_OVERFLOW) {
        leave(chip, OUTCOME_DEAF);
        search(chip);
    }
}

static void strobe_flush_tx(cc2420_t *chip)
{
    chip->tx_count = 0;
    chip->tx_sent = chip->underflow = false;
    if (chip->state == STATE_TX_UNDERFLOW) {
        start_receiving(chip);
    }
}

static void strobe_ack(cc2420_t *chip, bool pending)
{
    chip->ack_pending = pending;
    if (chip->state == STATE_RX_FRAME) {
        chip->ack_wanted = true;
    } else if (chip->state == STATE_RX_SEARCH && chip->crc_good) {
        start_ack(chip);
    }
}

static void strobe_running(cc2420_t *chip, int strobe)
{
    switch (strobe) {
    case STXCAL:
        leave(chip, OUTCOME_DEAF);
        calibrate(chip, STATE_TUNED, TURNAROUND);
        break;
    case SRXON:
        if (!is_receiving(chip)) {
            leave(chip, OUTCOME_DEAF);
            start_receiving(chip);
        }
        break;
    case STXON:
    case STXONCCA:
        strobe_txon(chip, strobe == STXONCCA);
        break;
    case SRFOFF:
        leave(chip, OUTCOME_DEAF);
        enter(chip, STATE_IDLE, NEVER);
        break;
    case SFLUSHRX:
        strobe_flush_rx(chip);
        break;
    case SFLUSHTX:
        strobe_flush_tx(chip);
        break;
    case SACK:
    case SACKPEND:
        strobe_ack(chip, strobe == SACKPEND);
        break;
    default:
        fault(chip, FAULT_MODEL);
        break;
    }
}

static void obey(cc2420_t *chip, int strobe)
{
    if (strobe == SXOSCON) {
        if (!chip->was_reset) {
            fault(chip, FAULT_NO_RESET);
        }
        if (!chip->stable && chip->oscillator_at == NEVER) {
            chip->oscillator_at = chip->now + OSCILLATOR;
            account(chip);
        }
    } else if (strobe == SXOSCOFF) {
        stop_oscillator(chip);
    } else if (strobe != SNOP && !chip->stable) {
        fault(chip, FAULT_OSCILLATOR);
    } else if (strobe != SNOP) {
        strobe_running(chip, strobe);
    }
}

/* --- registers, FIFOs, RAM --- */

static bool is_locked(const cc2420_t *chip)
{
    bool tuned = chip->state == STATE_TUNED && chip->state_at == NEVER;
    return tuned || (is_receiving(chip) && chip->state != STATE_RX_CALIBRATE) ||
           chip->state == STATE_TX_PREAMBLE || chip->state == STATE_TX_FRAME;
}

static uint8_t status(const cc2420_t *chip)
{
    return (uint8_t)((chip->stable ? STATUS_XOSC : 0) | (chip->underflow ? STATUS_UNDERFLOW : 0) |
                     (is_sending(chip) ? STATUS_TX_ACTIVE : 0) | (is_locked(chip) ? STATUS_LOCK : 0) |
                     (rssi_valid(chip) ? STATUS_RSSI : 0));
}

static uint16_t fsm_state(const cc2420_t *chip)
{
    static const uint8_t numbers[] = {
        [STATE_DOWN] = 0,         [STATE_IDLE] = 1,         [STATE_TUNED] = 1,
        [STATE_RX_CALIBRATE] = 2, [STATE_RX_SEARCH] = 3,    [STATE_RX_FRAME] = 16,
        [STATE_RX_REFUSED] = 16,  [STATE_RX_OVERFLOW] = 17, [STATE_TX_CALIBRATE] = 32,
        [STATE_TX_PREAMBLE] = 34, [STATE_TX_FRAME] = 37,    [STATE_TX_UNDERFLOW] = 56,
    };
    static const uint8_t acking[] = {
        [STATE_TX_CALIBRATE] = 48, [STATE_TX_PREAMBLE] = 49, [STATE_TX_FRAME] = 52};
    return chip->acking ? acking[chip->state] : numbers[chip->state];
}

static uint16_t read_register(const cc2420_t *chip, int address)
{
    if (address == RSSI) {
        uint8_t value = rssi_valid(chip) ? (uint8_t)rssi_of(power_until(chip, chip->now)) : 0x80;
        return (uint16_t)((chip->registers[RSSI] & 0xFF00) | value);
    }
    return address == FSMSTATE ? fsm_state(chip) : chip->registers[address];
}

static bool is_modelled(int address, uint16_t value)
{
    switch (address) {
    case MDMCTRL1:
        return (value & TEST_MODES) == 0;
    case IOCFG1:
        return (value & MUX_MASK) == 0 || (value & MUX_MASK) == CCAMUX_XOSC;
    default:
        return true;
    }
}

static void write_register(cc2420_t *chip, int address, uint16_t value)
{
    if (address == MANFIDL || address == MANFIDH || address == FSMSTATE) {
        fault(chip, FAULT_READ_ONLY);
        return;
    }
    if (!is_modelled(address, value)) {
        fault(chip, FAULT_MODEL);
    }
    if (address == MAIN && !(value & MAIN_RESETN)) {
        reset(chip);
        chip->was_reset = true;
    }
    chip->registers[address] = value;
}

static uint8_t exchange_register(cc2420_t *chip, uint8_t byte)
{
    int address = chip->command & 0x3F;
    bool first = chip->position == 1;
    chip->position = first ? 2 : 0; /* another access may follow at once */
    if (chip->command & COMMAND_READ) {
        return (uint8_t)(read_register(chip, address) >> (first ? 8 : 0));
    }
    uint8_t answer = status(chip);
    if (first) {
        chip->high = byte;
    } else {
        write_register(chip, address, (uint16_t)(chip->high << 8 | byte));
    }
    return answer;
}

static uint8_t write_tx(cc2420_t *chip, uint8_t byte)
{
    uint8_t answer = status(chip);
    if (chip->underflow) {
        fault(chip, FAULT_UNFLUSHED);
        return answer;
    }
    if (chip->tx_sent) {
        chip->tx_sent = false;
        chip->tx_count = 0;
    }
    if (chip->tx_count == FIFO_SIZE) {
        fault(chip, FAULT_FULL_TX);
    } else {
        chip->ram[chip->tx_count++] = byte;
    }
    return answer;
}

static void count_frames(cc2420_t *chip, uint8_t byte)
{
    if (chip->unread == 0) {
        chip->unread = byte & 0x7F;
    } else {
        chip->unread--;
    }
    if (chip->unread == 0 && chip->whole_frames > 0) {
        chip->whole_frames--;
    }
}

static uint8_t read_rx(cc2420_t *chip)
{
    chip->read_since_flush = true;
    chip->frame_latch = false;
    if (chip->rx_count == 0) {
        if (++chip->hungry > 1) {
            fault(chip, FAULT_EMPTY_RX);
        }
        return 0;
    }
    uint8_t byte = chip->ram[RAM_RXFIFO + chip->rx_first];
    chip->rx_first = (chip->rx_first + 1) % FIFO_SIZE;
    chip->rx_count--;
    chip->rx_mine = chip->rx_mine < chip->rx_count ? chip->rx_mine : chip->rx_count;
    count_frames(chip, byte);
    return byte;
}

static uint8_t exchange_ram(cc2420_t *chip, uint8_t byte)
{
    if (chip->position == 1) {
        chip->second = byte;
        chip->position = 2;
        return 0;
    }
    int address = (((chip->second >> 6) * 128) + (chip->command & 0x7F) + chip->position - 2) % 512;
    chip->position++;
    if (address >= RAM_SIZE) {
        fault(chip, FAULT_RESERVED);
        return 0;
    }
    uint8_t old = chip->ram[address];
    if (!(chip->second & RAM_READ_ONLY)) {
        if (address >= chip->tx_count && address < FIFO_SIZE) {
            fault(chip, FAULT_RAM_FIFO);
        }
        chip->ram[address] = byte;
    }
    return old;
}

static uint8_t exchange_data(cc2420_t *chip, uint8_t byte)
{
    int address = chip->command & 0x3F;
    bool memory = (chip->command & COMMAND_RAM) || address >= TXFIFO;
    if (memory && !chip->stable) {
        fault(chip, FAULT_MEMORY);
        return 0;
    }
    if (chip->command & COMMAND_RAM) {
        return exchange_ram(chip, byte);
    }
    if (!memory) {
        return exchange_register(chip, byte);
    }
    if (address == RXFIFO) {
        return read_rx(chip);
    }
    return write_tx(chip, byte);
}

/* A byte read from an empty FIFO is right before SFLUSHRX, where the data sheet asks for it, and wrong
 * elsewhere. */
static void judge_hunger(cc2420_t *chip, uint8_t command)
{
    if (chip->hungry > 0 && command != SFLUSHRX) {
        fault(chip, FAULT_EMPTY_RX);
    }
    chip->hungry = 0;
}

static uint8_t exchange_command(cc2420_t *chip, uint8_t byte)
{
    uint8_t answer = status(chip);
    int address = byte & 0x3F;
    judge_hunger(chip, byte);
    chip->command = byte;
    if ((byte & COMMAND_RAM) || address >= MAIN) {
        if (!(byte & COMMAND_RAM) && address > LAST_REGISTER && address < TXFIFO) {
            fault(chip, FAULT_RESERVED);
        }
        chip->position = 1;
    } else {
        obey(chip, address);
    }
    return answer;
}

/* Whether the SPI works at all. */
static bool answers(cc2420_t *chip)
{
    if (!chip->supply || !chip->vreg) {
        fault(chip, FAULT_SUPPLY);
    } else if (chip->now < chip->steady_at) {
        fault(chip, FAULT_REGULATOR);
    } else if (chip->held) {
        fault(chip, FAULT_HELD);
    } else if (!chip->selected) {
        fault(chip, FAULT_DESELECTED);
    } else {
        return true;
    }
    return false;
}

uint8_t cc2420_exchange(cc2420_t *chip, uint8_t out, ns_t now)
{
    catch_up(chip, now);
    if (!answers(chip)) {
        return 0;
    }
    uint8_t in = chip->position == 0 ? exchange_command(chip, out) : exchange_data(chip, out);
    settle(chip);
    return in;
}

void cc2420_csn(cc2420_t *chip, bool level, ns_t now)
{
    catch_up(chip, now);
    bool is_register = !(chip->command & COMMAND_RAM) && (chip->command & 0x3F) < TXFIFO;
    if (chip->position > 0 && is_register && !(chip->command & COMMAND_READ)) {
        fault(chip, FAULT_BROKEN_WRITE);
    }
    chip->selected = !level;
    chip->position = 0;
    settle(chip);
}
