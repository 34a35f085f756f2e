#include "cc2420_private.h"

enum { COMMAND_RAM = 0x80, COMMAND_READ = 0x40, RAM_READ_ONLY = 0x20 };

enum {
    STATUS_XOSC = 0x40,
    STATUS_UNDERFLOW = 0x20,
    STATUS_TX_ACTIVE = 0x08,
    STATUS_LOCK = 0x04,
    STATUS_RSSI = 0x02
};

#define OSCILLATOR US(860)

/* --- strobes --- */

static void strobe_txon(cc2420_t *chip, bool only_if_clear)
{
    if (chip->underflow) {
        cc2420_fault(chip, FAULT_UNFLUSHED);
    } else if (cc2420_is_sending(chip)) {
        if (!chip->acking)
            cc2420_fault(chip, FAULT_SENDING);
    } else if (!only_if_clear) {
        cc2420_start_sending(chip, false);
    } else if (!cc2420_is_receiving(chip)) {
        cc2420_fault(chip, FAULT_DEAF);
    } else if (cc2420_is_clear(chip)) {
        cc2420_start_sending(chip, false);
    }
}

static void strobe_flush_rx(cc2420_t *chip)
{
    if (chip->rx_count > 0 && !chip->read_since_flush)
        cc2420_fault(chip, FAULT_FLUSH);
    chip->read_since_flush = false;
    cc2420_flush_rx(chip);
    if (chip->state == STATE_RX_FRAME || chip->state == STATE_RX_OVERFLOW) {
        cc2420_leave(chip, OUTCOME_DEAF);
        cc2420_search(chip);
    }
}

static void strobe_flush_tx(cc2420_t *chip)
{
    chip->tx_count = 0;
    chip->tx_sent = chip->underflow = false;
    if (chip->state == STATE_TX_UNDERFLOW)
        cc2420_start_receiving(chip);
}

static void strobe_ack(cc2420_t *chip, bool pending)
{
    chip->ack_pending = pending;
    if (chip->state == STATE_RX_FRAME)
        chip->ack_wanted = true;
    else if (chip->state == STATE_RX_SEARCH && chip->crc_good)
        cc2420_start_ack(chip);
}

static void strobe_running(cc2420_t *chip, int strobe)
{
    switch (strobe) {
    case STXCAL:
        cc2420_leave(chip, OUTCOME_DEAF);
        cc2420_calibrate(chip, STATE_TUNED, TURNAROUND);
        break;
    case SRXON:
        if (!cc2420_is_receiving(chip)) {
            cc2420_leave(chip, OUTCOME_DEAF);
            cc2420_start_receiving(chip);
        }
        break;
    case STXON:
    case STXONCCA:
        strobe_txon(chip, strobe == STXONCCA);
        break;
    case SRFOFF:
        cc2420_leave(chip, OUTCOME_DEAF);
        cc2420_enter(chip, STATE_IDLE, NEVER);
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
        cc2420_fault(chip, FAULT_MODEL);
        break;
    }
}

static void obey(cc2420_t *chip, int strobe)
{
    if (strobe == SXOSCON) {
        if (!chip->was_reset)
            cc2420_fault(chip, FAULT_NO_RESET);
        if (!chip->stable && chip->oscillator_at == NEVER) {
            chip->oscillator_at = chip->now + OSCILLATOR;
            cc2420_account(chip);
        }
    } else if (strobe == SXOSCOFF) {
        cc2420_stop_oscillator(chip);
    } else if (strobe != SNOP && !chip->stable) {
        cc2420_fault(chip, FAULT_OSCILLATOR);
    } else if (strobe != SNOP) {
        strobe_running(chip, strobe);
    }
}

/* --- registers, FIFOs, RAM --- */

static bool is_locked(const cc2420_t *chip)
{
    bool tuned = chip->state == STATE_TUNED && chip->state_at == NEVER;
    return tuned || (cc2420_is_receiving(chip) && chip->state != STATE_RX_CALIBRATE) ||
           chip->state == STATE_TX_PREAMBLE || chip->state == STATE_TX_FRAME;
}

static uint8_t status(const cc2420_t *chip)
{
    return (uint8_t)((chip->stable ? STATUS_XOSC : 0) | (chip->underflow ? STATUS_UNDERFLOW : 0) |
                     (cc2420_is_sending(chip) ? STATUS_TX_ACTIVE : 0) | (is_locked(chip) ? STATUS_LOCK : 0) |
                     (cc2420_rssi_valid(chip) ? STATUS_RSSI : 0));
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
        uint8_t value = cc2420_rssi_valid(chip) ? (uint8_t)cc2420_rssi(chip) : 0x80;
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
        cc2420_fault(chip, FAULT_READ_ONLY);
        return;
    }
    if (!is_modelled(address, value))
        cc2420_fault(chip, FAULT_MODEL);
    if (address == MAIN && !(value & MAIN_RESETN)) {
        cc2420_reset(chip);
        chip->was_reset = true;
    }
    chip->registers[address] = value;
}

static uint8_t exchange_register(cc2420_t *chip, uint8_t byte)
{
    int address = chip->command & 0x3F;
    bool first = chip->position == 1;
    chip->position = first ? 2 : 0; /* another access may follow at once */
    if (chip->command & COMMAND_READ)
        return (uint8_t)(read_register(chip, address) >> (first ? 8 : 0));
    uint8_t answer = status(chip);
    if (first)
        chip->high = byte;
    else
        write_register(chip, address, (uint16_t)(chip->high << 8 | byte));
    return answer;
}

static uint8_t write_tx(cc2420_t *chip, uint8_t byte)
{
    uint8_t answer = status(chip);
    if (chip->underflow) {
        cc2420_fault(chip, FAULT_UNFLUSHED);
        return answer;
    }
    if (chip->tx_sent) {
        chip->tx_sent = false;
        chip->tx_count = 0;
    }
    if (chip->tx_count == FIFO_SIZE)
        cc2420_fault(chip, FAULT_FULL_TX);
    else
        chip->ram[chip->tx_count++] = byte;
    return answer;
}

static void count_frames(cc2420_t *chip, uint8_t byte)
{
    if (chip->unread == 0)
        chip->unread = byte & 0x7F;
    else
        chip->unread--;
    if (chip->unread == 0 && chip->whole_frames > 0)
        chip->whole_frames--;
}

static uint8_t read_rx(cc2420_t *chip)
{
    chip->read_since_flush = true;
    chip->frame_latch = false;
    if (chip->rx_count == 0) {
        if (++chip->hungry > 1)
            cc2420_fault(chip, FAULT_EMPTY_RX);
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
        cc2420_fault(chip, FAULT_RESERVED);
        return 0;
    }
    uint8_t old = chip->ram[address];
    if (!(chip->second & RAM_READ_ONLY)) {
        if (address >= chip->tx_count && address < FIFO_SIZE)
            cc2420_fault(chip, FAULT_RAM_FIFO);
        chip->ram[address] = byte;
    }
    return old;
}

static uint8_t exchange_data(cc2420_t *chip, uint8_t byte)
{
    int address = chip->command & 0x3F;
    bool memory = (chip->command & COMMAND_RAM) || address >= TXFIFO;
    if (memory && !chip->stable) {
        cc2420_fault(chip, FAULT_MEMORY);
        return 0;
    }
    if (chip->command & COMMAND_RAM)
        return exchange_ram(chip, byte);
    if (!memory)
        return exchange_register(chip, byte);
    if (address == RXFIFO)
        return read_rx(chip);
    return write_tx(chip, byte);
}

/* A byte read from an empty FIFO is right before SFLUSHRX, where the data sheet asks for it, and wrong
 * elsewhere. */
static void judge_hunger(cc2420_t *chip, uint8_t command)
{
    if (chip->hungry > 0 && command != SFLUSHRX)
        cc2420_fault(chip, FAULT_EMPTY_RX);
    chip->hungry = 0;
}

static uint8_t exchange_command(cc2420_t *chip, uint8_t byte)
{
    uint8_t answer = status(chip);
    int address = byte & 0x3F;
    judge_hunger(chip, byte);
    chip->command = byte;
    if ((byte & COMMAND_RAM) || address >= MAIN) {
        if (!(byte & COMMAND_RAM) && address > LAST_REGISTER && address < TXFIFO)
            cc2420_fault(chip, FAULT_RESERVED);
        chip->position = 1;
    } else {
        obey(chip, address);
    }
    return answer;
}

/* Whether the SPI works at all. */
static bool answers(cc2420_t *chip)
{
    if (!chip->supply || !chip->vreg)
        cc2420_fault(chip, FAULT_SUPPLY);
    else if (chip->now < chip->steady_at)
        cc2420_fault(chip, FAULT_REGULATOR);
    else if (chip->held)
        cc2420_fault(chip, FAULT_HELD);
    else if (!chip->selected)
        cc2420_fault(chip, FAULT_DESELECTED);
    else
        return true;
    return false;
}

uint8_t cc2420_exchange(cc2420_t *chip, uint8_t out, ns_t now)
{
    cc2420_catch_up(chip, now);
    if (!answers(chip))
        return 0;
    uint8_t in = chip->position == 0 ? exchange_command(chip, out) : exchange_data(chip, out);
    cc2420_settle(chip);
    return in;
}

void cc2420_csn(cc2420_t *chip, bool level, ns_t now)
{
    cc2420_catch_up(chip, now);
    bool is_register = !(chip->command & COMMAND_RAM) && (chip->command & 0x3F) < TXFIFO;
    if (chip->position > 0 && is_register && !(chip->command & COMMAND_READ))
        cc2420_fault(chip, FAULT_BROKEN_WRITE);
    chip->selected = !level;
    chip->position = 0;
    cc2420_settle(chip);
}
