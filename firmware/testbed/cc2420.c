#include <stdlib.h>
#include <string.h>

#include "cc2420_private.h"

#define REGULATOR US(600)

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
    [FAULT_MODEL] = "CC2420: use of a part that is not modelled: encryption, a test mode, a test output",
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

void cc2420_fault(cc2420_t *chip, fault_t kind)
{
    if (!chip->told[kind]) {
        chip->told[kind] = true;
        chip->host.on_fault(chip->host.owner, fault_words[kind]);
    }
}

ns_t cc2420_lasts(const cc2420_t *chip, ns_t nominal)
{
    return (ns_t)((double)nominal * chip->stretch + 0.5);
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

/* --- changes of state --- */

void cc2420_outcome(const cc2420_t *chip, const signal_t *signal, outcome_t what)
{
    ether_outcome(chip->ether, signal, chip->node, what);
}

void cc2420_leave(cc2420_t *chip, outcome_t why)
{
    if (chip->incoming != NULL) {
        cc2420_outcome(chip, chip->incoming, why);
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
    if (!chip->supply || !chip->vreg)
        return RADIO_OFF;
    if (chip->state == STATE_DOWN)
        return chip->oscillator_at == NEVER ? RADIO_DOWN : RADIO_STARTING;
    return activities[chip->state];
}

void cc2420_account(cc2420_t *chip)
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

void cc2420_enter(cc2420_t *chip, state_t state, ns_t at)
{
    chip->state = state;
    chip->state_at = at;
    cc2420_account(chip);
}

void cc2420_search(cc2420_t *chip)
{
    chip->listening = chip->now;
    cc2420_enter(chip, chip->overflown ? STATE_RX_OVERFLOW : STATE_RX_SEARCH, NEVER);
}

void cc2420_calibrate(cc2420_t *chip, state_t state, ns_t takes)
{
    chip->khz = (2048U + (chip->registers[FSCTRL] & FSCTRL_FREQ)) * 1000U;
    cc2420_enter(chip, state, chip->now + cc2420_lasts(chip, takes));
}

void cc2420_start_receiving(cc2420_t *chip)
{
    cc2420_calibrate(chip, STATE_RX_CALIBRATE, TURNAROUND);
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
        cc2420_search(chip);
        break;
    case STATE_RX_FRAME:
        cc2420_take_byte(chip);
        break;
    case STATE_TX_CALIBRATE:
        cc2420_enter(chip, STATE_TX_PREAMBLE, chip->tx_data);
        break;
    case STATE_TX_PREAMBLE:
        cc2420_enter(chip, STATE_TX_FRAME, NEVER);
        cc2420_send_byte(chip);
        break;
    case STATE_TX_FRAME:
        cc2420_send_byte(chip);
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
        cc2420_enter(chip, STATE_IDLE, NEVER);
    } else if (chip->state_at <= chip->now) {
        step(chip);
    } else {
        cc2420_hear(chip);
    }
}

void cc2420_catch_up(cc2420_t *chip, ns_t now)
{
    while (true) {
        ns_t next = sooner(chip->oscillator_at, sooner(chip->state_at, hear_at(chip)));
        if (next > now)
            break;
        chip->now = next > chip->now ? next : chip->now;
        happen(chip);
        show_pins(chip);
    }
    chip->now = now > chip->now ? now : chip->now;
}

void cc2420_settle(cc2420_t *chip)
{
    show_pins(chip);
    ns_t next = chip->state == STATE_RX_FRAME ? cc2420_visible_byte(chip) : chip->state_at;
    next = sooner(next, sooner(chip->oscillator_at, hear_at(chip)));
    if (next != chip->asked) {
        chip->asked = next;
        chip->host.at(chip->host.owner, next);
    }
}

void cc2420_due(cc2420_t *chip, ns_t now)
{
    chip->asked = NEVER;
    cc2420_catch_up(chip, now);
    cc2420_settle(chip);
}

/* A signal has been announced. What is deaf for longer than it takes to start listening need not know. */
static void on_heard(void *radio, const signal_t *signal)
{
    cc2420_t *chip = radio;
    if (!chip->stable || signal->data == NEVER || chip->heard_count == HEARD)
        return;
    int at = chip->heard_count++;
    for (; at > 0 && chip->heard[at - 1]->data > signal->data; at--)
        chip->heard[at] = chip->heard[at - 1];
    chip->heard[at] = signal;
    cc2420_settle(chip);
}

/* --- supply and reset --- */

void cc2420_flush_rx(cc2420_t *chip)
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

void cc2420_stop_oscillator(cc2420_t *chip)
{
    cc2420_leave(chip, OUTCOME_DEAF);
    chip->stable = false;
    chip->oscillator_at = NEVER;
    chip->heard_count = 0;
    cc2420_enter(chip, STATE_DOWN, NEVER);
}

void cc2420_reset(cc2420_t *chip)
{
    cc2420_stop_oscillator(chip);
    set_defaults(chip);
    cc2420_flush_rx(chip);
    chip->tx_count = 0;
    chip->tx_sent = chip->underflow = chip->ack_pending = chip->read_since_flush = chip->crc_good = false;
    chip->position = chip->hungry = 0;
}

static void power(cc2420_t *chip, bool was, ns_t now)
{
    bool is = chip->supply && chip->vreg;
    if (is == was)
        return;
    cc2420_reset(chip);
    memset(chip->ram, 0, sizeof chip->ram);
    chip->was_reset = false;
    chip->steady_at = now + REGULATOR;
}

void cc2420_supply(cc2420_t *chip, bool on, ns_t now)
{
    cc2420_catch_up(chip, now);
    bool was = chip->supply && chip->vreg;
    chip->supply = on;
    power(chip, was, now);
    cc2420_settle(chip);
}

void cc2420_vreg(cc2420_t *chip, bool level, ns_t now)
{
    cc2420_catch_up(chip, now);
    bool was = chip->supply && chip->vreg;
    chip->vreg = level;
    power(chip, was, now);
    cc2420_settle(chip);
}

void cc2420_resetn(cc2420_t *chip, bool level, ns_t now)
{
    cc2420_catch_up(chip, now);
    if (!level)
        cc2420_reset(chip);
    if (!level || chip->held)
        chip->was_reset = chip->supply && chip->vreg;
    chip->held = !level;
    cc2420_settle(chip);
}

cc2420_t *cc2420_make(ether_t *ether, int node, double ppm, cc2420_host_t host)
{
    cc2420_t *chip = calloc(1, sizeof *chip);
    if (chip == NULL)
        abort();
    chip->ether = ether;
    chip->node = node;
    chip->stretch = 1 / (1 + ppm * 1e-6);
    chip->byte_ns = cc2420_lasts(chip, 2 * SYMBOL);
    chip->host = host;
    chip->asked = NEVER;
    cc2420_reset(chip);
    ether_join(ether, node, on_heard, chip);
    return chip;
}

void cc2420_hold_fifop(cc2420_t *chip, bool hold)
{
    chip->hold_fifop = hold;
}

bool cc2420_cca(cc2420_t *chip, ns_t now)
{
    cc2420_catch_up(chip, now);
    cc2420_settle(chip);
    bool active = (chip->registers[IOCFG1] & MUX_MASK) == CCAMUX_XOSC ? chip->stable : cc2420_is_clear(chip);
    bool inverted = (chip->registers[IOCFG0] & 0x0080) != 0;
    return chip->supply && chip->vreg && active != inverted;
}
