#include "cc1000.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hearing.h"
#include "meter.h"

#define CRYSTAL_HZ 14745600.0
#define IF_KHZ 150

/* Times of the data sheet. */
#define CRYSTAL_START MS(2)
#define BIAS_START US(200)
#define PLL_SETTLING US(250)
#define CALIBRATION_NS 34e6 /* with a reference of 1 MHz */

enum {
    MAIN = 0x00,
    FREQ_2A = 0x01,
    FREQ_2B = 0x04,
    FSEP1 = 0x07,
    FSEP0 = 0x08,
    CURRENT = 0x09,
    FRONT_END = 0x0A,
    PA_POW = 0x0B,
    PLL = 0x0C,
    LOCK = 0x0D,
    CAL = 0x0E,
    MODEM0 = 0x11,
    REGISTERS = 0x80,
};

enum {
    MAIN_TX = 0x80,
    MAIN_FREQ_B = 0x40,
    MAIN_RX_PD = 0x20,
    MAIN_TX_PD = 0x10,
    MAIN_FS_PD = 0x08,
    MAIN_CORE_PD = 0x04,
    MAIN_BIAS_PD = 0x02,
    MAIN_RESET_N = 0x01,
    MAIN_AT_FIRST = 0x3F, /* the data sheet does not say; all off is what the other registers call for */
    CAL_START = 0x80,
    CAL_DUAL = 0x40,
    CAL_COMPLETE = 0x08,
    LOCK_BITS = 0x03,
    RSSI_MASK = 0x06,
    RSSI_ON = 0x02,
    FORMAT_NRZ = 0,
    FORMAT_MANCHESTER = 1,
};

/* What LOCK puts out at CHP_OUT. */
enum { SHOW_LOCK_CONTINUOUS = 1, SHOW_LOCK_INSTANT = 2, SHOW_CAL_COMPLETE = 5, SHOW_TX = 8, SHOW_RX = 10 };

typedef enum { MODE_OFF, MODE_RECEIVE, MODE_TRANSMIT } activity_t;

typedef enum {
    FAULT_RESET,
    FAULT_PARTS,
    FAULT_CRYSTAL,
    FAULT_BIAS,
    FAULT_BOTH,
    FAULT_RECEIVE_POWER,
    FAULT_EARLY_POWER,
    FAULT_UNCALIBRATED_SEND,
    FAULT_UNCALIBRATED_RECEIVE,
    FAULT_CAL_OFF,
    FAULT_CAL_POWER,
    FAULT_CAL_ENDED,
    FAULT_CAL_DISTURBED,
    FAULT_UART,
    FAULT_FULL,
    FAULT_LONG,
} cc1000_fault_t;

static const char *const faults[] = {
    [FAULT_RESET] = "cc1000: a register was written while RESET_N was 0",
    [FAULT_PARTS] = "cc1000: a part was switched on while crystal, bias or synthesizer were off",
    [FAULT_CRYSTAL] = "cc1000: the synthesizer was switched on before the crystal had started (2 ms)",
    [FAULT_BIAS] = "cc1000: the synthesizer was switched on before the bias had settled (200 us)",
    [FAULT_BOTH] = "cc1000: receiver and transmitter were on at once",
    [FAULT_RECEIVE_POWER] = "cc1000: PA_POW was not 0 while receiving",
    [FAULT_EARLY_POWER] = "cc1000: power was on the antenna before the PLL had settled (250 us)",
    [FAULT_UNCALIBRATED_SEND] = "cc1000: power was on the antenna on a frequency that was not calibrated",
    [FAULT_UNCALIBRATED_RECEIVE] = "cc1000: data were taken on a frequency that was not calibrated",
    [FAULT_CAL_OFF] = "cc1000: a calibration was started with the synthesizer off",
    [FAULT_CAL_POWER] = "cc1000: a calibration was started with power on the antenna",
    [FAULT_CAL_ENDED] = "cc1000: a calibration was ended before it was complete",
    [FAULT_CAL_DISTURBED] = "cc1000: mode, frequency or current was changed during a calibration",
    [FAULT_UART] = "cc1000: data in UART format, which the testbed does not know",
    [FAULT_FULL] = "cc1000: too many signals at once for the testbed",
    [FAULT_LONG] = "cc1000: a signal of more bytes than the testbed keeps",
};

struct cc1000 {
    ether_t *ether;
    int node;
    double ppm;
    cc1000_wires_t wires;
    hearing_t *hearing;
    uint32_t reported;
    bool powered;

    bool pale, pclk, pdata, chp_out;
    int bits; /* of the register access under way */
    uint16_t shift;
    uint8_t registers[REGISTERS];

    ns_t crystal_at; /* from then on: the oscillator runs, ... */
    ns_t bias_at;
    ns_t settled_at;    /* ... the PLL has settled */
    ns_t lock_at;       /* that is still to come; else NEVER */
    ns_t calibrated_at; /* likewise the end of a calibration */
    bool complete, calibrated[2];

    meter_t meter; /* of what it does, in radio_state_t */
    activity_t mode;
    ns_t byte_ns;
    ns_t byte_at, byte_end; /* the byte that is going in or out */
    ns_t take_at;           /* when the processor must have given it; NEVER: it has */
    uint8_t out;
    signal_t *signal; /* what it has on the air */
};

static void report(cc1000_t *chip, cc1000_fault_t fault)
{
    if ((chip->reported >> fault & 1) == 0) {
        chip->reported |= UINT32_C(1) << fault;
        chip->wires.fault(chip->wires.board, faults[fault]);
    }
}

/* --- what the registers say --- */

static bool has(const cc1000_t *chip, uint8_t part)
{
    return (chip->registers[MAIN] & part) != 0;
}

static bool synthesizes(const cc1000_t *chip)
{
    return chip->powered && has(chip, MAIN_RESET_N) && !has(chip, MAIN_FS_PD | MAIN_CORE_PD | MAIN_BIAS_PD);
}

static activity_t mode_of(const cc1000_t *chip)
{
    if (!synthesizes(chip) || has(chip, has(chip, MAIN_TX) ? MAIN_TX_PD : MAIN_RX_PD))
        return MODE_OFF;
    return has(chip, MAIN_TX) ? MODE_TRANSMIT : MODE_RECEIVE;
}

static bool locked(const cc1000_t *chip, ns_t now)
{
    return synthesizes(chip) && chip->calibrated[has(chip, MAIN_FREQ_B)] && now >= chip->settled_at;
}

static radio_state_t activity(const cc1000_t *chip, ns_t now)
{
    if (!chip->powered || has(chip, MAIN_CORE_PD))
        return chip->powered ? RADIO_DOWN : RADIO_OFF;
    if (!synthesizes(chip))
        return has(chip, MAIN_BIAS_PD) ? RADIO_STARTING : RADIO_IDLE;
    if (chip->calibrated_at != NEVER || now < chip->settled_at)
        return RADIO_CALIBRATING;
    switch (mode_of(chip)) {
    case MODE_RECEIVE:
        return RADIO_RECEIVING;
    case MODE_TRANSMIT:
        return chip->registers[PA_POW] != 0 ? RADIO_SENDING : RADIO_CALIBRATING;
    default:
        return RADIO_CALIBRATING;
    }
}

static void account(cc1000_t *chip, ns_t now)
{
    meter_enter(&chip->meter, (int)activity(chip, now), now);
}

ns_t cc1000_spent(const cc1000_t *chip, radio_state_t state, ns_t now)
{
    return meter_spent(&chip->meter, (int)state, now);
}

uint64_t cc1000_starts(const cc1000_t *chip)
{
    return chip->meter.entries[RADIO_STARTING];
}

static double reference_hz(const cc1000_t *chip)
{
    int divider = chip->registers[PLL] >> 3 & 0x0F;
    return CRYSTAL_HZ / (divider != 0 ? divider : 1);
}

/* The oscillator's frequency with half of FSEP and without: the middle of what is sent, and what a receiver
 * mixes with. */
static uint32_t synthesizer_khz(const cc1000_t *chip, bool sending)
{
    const uint8_t *word = &chip->registers[has(chip, MAIN_FREQ_B) ? FREQ_2B : FREQ_2A];
    double steps = (double)(word[0] << 16 | word[1] << 8 | word[2]) + 8192;
    if (sending)
        steps += ((chip->registers[FSEP1] & 0x0F) << 8 | chip->registers[FSEP0]) / 2.0;
    return (uint32_t)lround(reference_hz(chip) * steps / 16384 / 1000);
}

static tuning_t tuning_of(const cc1000_t *chip)
{
    uint32_t khz = synthesizer_khz(chip, false);
    return (tuning_t){khz - IF_KHZ, khz + IF_KHZ};
}

static int format_of(const cc1000_t *chip)
{
    return chip->registers[MODEM0] >> 2 & 3;
}

/* The crystal's nominal frequency in MODEM0 scales a table of 600 baud and its doubles. */
static ns_t byte_time(const cc1000_t *chip)
{
    uint8_t modem = chip->registers[MODEM0];
    double nominal = 3686400.0 * ((modem & 3) + 1);
    double baud = 600.0 * (1 << (modem >> 4 & 7)) * CRYSTAL_HZ / nominal;
    double bit_rate = format_of(chip) == FORMAT_NRZ ? baud : baud / 2;
    return (ns_t)llround(8e9 / bit_rate / (1 + chip->ppm * 1e-6));
}

/* The data sheet has tables and lines for 433 MHz and for 868 MHz: the nearer one counts. */
static bool is_high(const cc1000_t *chip)
{
    return synthesizer_khz(chip, false) > 500000;
}

/* Output power. */
static double power_dbm(const cc1000_t *chip)
{
    typedef struct {
        uint8_t pa_pow;
        int8_t dbm;
    } power_t;
    static const power_t high[] = {
        {0x01, -21}, {0x02, -19}, {0x03, -17}, {0x04, -16}, {0x05, -14}, {0x06, -13},
        {0x07, -12}, {0x08, -11}, {0x09, -10}, {0x0B, -9},  {0x0C, -8},  {0x0D, -7},
        {0x0F, -6},  {0x40, -5},  {0x50, -3},  {0x60, -2},  {0x70, -1},  {0x80, 0},
        {0x90, 1},   {0xB0, 2},   {0xC0, 3},   {0xF0, 4},   {0xFF, 5},
    };
    static const power_t low[] = {
        {0x01, -20}, {0x02, -17}, {0x03, -14}, {0x04, -12}, {0x05, -10}, {0x06, -8}, {0x07, -7}, {0x08, -6},
        {0x09, -5},  {0x0A, -4},  {0x0B, -3},  {0x0C, -2},  {0x0E, -1},  {0x0F, 0},  {0x40, 1},  {0x50, 2},
        {0x60, 4},   {0x70, 5},   {0x80, 6},   {0x90, 7},   {0xC0, 8},   {0xE0, 9},  {0xFF, 10},
    };
    _Static_assert(sizeof high == sizeof low, "both have as many rows");
    const power_t *table = is_high(chip) ? high : low;
    int i = (int)(sizeof low / sizeof *low) - 1;
    while (i > 0 && table[i].pa_pow > chip->registers[PA_POW])
        i--;
    return table[i].dbm;
}

static void reset_registers(cc1000_t *chip)
{
    static const uint8_t values[] = {
        0x75, 0xA0, 0xCB, 0x75, 0xA5, 0x4E, 0x00, 0x59, 0xCA, 0x08,
        0x0F, 0x10, 0x00, 0x05, 0x96, 0x67, 0x24, 0x00, 0x01,
    };
    memset(chip->registers + 1, 0, REGISTERS - 1);
    memcpy(chip->registers + 1, values, sizeof values);
    memcpy(chip->registers + 0x40, (const uint8_t[]){0x10, 0x08, 0x25, 0x04}, 4); /* TEST6 .. TEST3 */
    chip->complete = chip->calibrated[0] = chip->calibrated[1] = false;
    chip->calibrated_at = NEVER;
    chip->byte_ns = byte_time(chip);
}

/* --- CHP_OUT and time --- */

static bool chp_out(const cc1000_t *chip, ns_t now)
{
    switch (chip->registers[LOCK] >> 4) {
    case SHOW_LOCK_CONTINUOUS:
    case SHOW_LOCK_INSTANT:
        return locked(chip, now);
    case SHOW_CAL_COMPLETE:
        return chip->complete;
    case SHOW_TX:
        return chip->mode == MODE_TRANSMIT;
    case SHOW_RX:
        return chip->mode == MODE_RECEIVE;
    default:
        return false;
    }
}

static void show(cc1000_t *chip, ns_t now)
{
    bool high = chp_out(chip, now);
    if (high != chip->chp_out) {
        chip->chp_out = high;
        chip->wires.chp_out(chip->wires.board, high);
    }
}

static ns_t sooner(ns_t a, ns_t b)
{
    return a < b ? a : b;
}

static ns_t next_event(const cc1000_t *chip)
{
    ns_t modem = chip->mode == MODE_OFF ? NEVER : sooner(chip->byte_end, chip->take_at);
    return sooner(modem, sooner(chip->lock_at, chip->calibrated_at));
}

static void plan(cc1000_t *chip)
{
    chip->wires.wake(chip->wires.board, next_event(chip));
}

/* --- sending --- */

static void begin_signal(cc1000_t *chip, ns_t now)
{
    if (now < chip->settled_at)
        report(chip, FAULT_EARLY_POWER);
    if (!chip->calibrated[has(chip, MAIN_FREQ_B)]) {
        report(chip, FAULT_UNCALIBRATED_SEND);
        return;
    }
    ns_t from = (now < chip->settled_at ? chip->settled_at : now) + ETHER_AHEAD;
    ns_t data = chip->byte_end - chip->byte_ns + chip->byte_ns / 8;
    chip->signal = ether_begin(chip->ether, chip->node, from, synthesizer_khz(chip, true), power_dbm(chip),
                               data, chip->byte_ns);
    if (chip->signal == NULL)
        report(chip, FAULT_FULL);
    else if (chip->take_at == NEVER)
        ether_append(chip->signal, chip->out);
}

static void end_signal(cc1000_t *chip, ns_t now, bool broken)
{
    if (chip->signal != NULL) {
        ether_end(chip->ether, chip->signal, now, broken);
        chip->signal = NULL;
    }
}

/* Mode or output power may have changed. */
static void drive_antenna(cc1000_t *chip, ns_t now)
{
    bool powered = chip->registers[PA_POW] != 0;
    if (chip->mode == MODE_RECEIVE && powered)
        report(chip, FAULT_RECEIVE_POWER);
    if (chip->mode != MODE_TRANSMIT || !powered)
        end_signal(chip, now, false);
    else if (chip->signal == NULL)
        begin_signal(chip, now);
}

static void take(cc1000_t *chip)
{
    chip->take_at = NEVER;
    chip->out = chip->wires.byte_out(chip->wires.board);
    if (chip->signal != NULL) {
        if (chip->signal->count == SIGNAL_BYTES)
            report(chip, FAULT_LONG);
        ether_append(chip->signal, chip->out);
    }
}

/* --- the byte clock --- */

/* What the demodulator gives at a moment was on the air a bit earlier. */
static uint8_t received_byte(cc1000_t *chip)
{
    if (hearing_is_idle(chip->hearing))
        return (uint8_t)random_bits(ether_chance(chip->ether, chip->node));
    tuning_t tuning = tuning_of(chip);
    uint8_t byte = 0;
    for (ns_t i = 0; i < 8; i++) {
        ns_t from = chip->byte_end - (9 - i) * chip->byte_ns / 8;
        ns_t to = chip->byte_end - (8 - i) * chip->byte_ns / 8;
        bool hears = locked(chip, from);
        bool bit = hears ? hearing_bit(chip->hearing, tuning, from, to)
                         : random_bits(ether_chance(chip->ether, chip->node)) & 1;
        byte = (uint8_t)(byte << 1 | bit);
    }
    return byte;
}

/* By how much the next byte must be shorter to end with a bit of the sender's. */
static int64_t pull(const cc1000_t *chip)
{
    ns_t on_air = chip->byte_at - chip->byte_ns / 8;
    return hearing_is_idle(chip->hearing) || !locked(chip, on_air)
               ? 0
               : hearing_phase(chip->hearing, tuning_of(chip), on_air);
}

static void end_byte(cc1000_t *chip)
{
    bool receives = chip->mode == MODE_RECEIVE;
    uint8_t byte = receives ? received_byte(chip) : chip->out;
    if (!receives && !hearing_is_idle(chip->hearing))
        hearing_sent(chip->hearing, chip->byte_at - chip->byte_ns / 8, chip->byte_end - chip->byte_ns / 8);
    hearing_judge(chip->hearing, chip->byte_end - chip->byte_ns / 8);
    chip->byte_at = chip->byte_end;
    chip->byte_end = chip->byte_at + chip->byte_ns - (receives ? (ns_t)pull(chip) : 0);
    chip->take_at = receives ? NEVER : chip->byte_at + chip->byte_ns / 16;
    if (chip->wires.byte_in(chip->wires.board, byte, receives) && receives &&
        !chip->calibrated[has(chip, MAIN_FREQ_B)])
        report(chip, FAULT_UNCALIBRATED_RECEIVE);
}

static void start_clock(cc1000_t *chip, ns_t now)
{
    if (format_of(chip) > FORMAT_MANCHESTER)
        report(chip, FAULT_UART);
    chip->byte_at = now;
    chip->byte_end = now + chip->byte_ns;
}

static void change_mode(cc1000_t *chip, ns_t now)
{
    activity_t before = chip->mode;
    chip->mode = mode_of(chip);
    if (chip->mode == before)
        return;
    chip->take_at = NEVER;
    if (before == MODE_OFF)
        start_clock(chip, now);
    else if (chip->mode == MODE_OFF)
        hearing_stop(chip->hearing);
    if (chip->mode == MODE_TRANSMIT) {
        ns_t due = chip->byte_at + chip->byte_ns / 16;
        chip->take_at = due > now ? due : now;
    }
}

/* --- registers --- */

static void settle(cc1000_t *chip, ns_t now)
{
    chip->settled_at = chip->lock_at = now + PLL_SETTLING;
}

static void check_parts(cc1000_t *chip, ns_t now)
{
    if (!has(chip, MAIN_RX_PD) && !has(chip, MAIN_TX_PD))
        report(chip, FAULT_BOTH);
    if (!has(chip, MAIN_FS_PD) && has(chip, MAIN_CORE_PD | MAIN_BIAS_PD))
        report(chip, FAULT_PARTS);
    if ((!has(chip, MAIN_RX_PD) || !has(chip, MAIN_TX_PD)) && has(chip, MAIN_FS_PD))
        report(chip, FAULT_PARTS);
    if (synthesizes(chip) && now < chip->crystal_at)
        report(chip, FAULT_CRYSTAL);
    if (synthesizes(chip) && now < chip->bias_at)
        report(chip, FAULT_BIAS);
}

/* Going off ends a calibration, which is not a fault: the processor may have been reset. */
static void disturb_calibration(cc1000_t *chip)
{
    if (chip->calibrated_at != NEVER) {
        chip->calibrated_at = NEVER;
        if (synthesizes(chip))
            report(chip, FAULT_CAL_DISTURBED);
    }
}

static void write_main(cc1000_t *chip, ns_t now, uint8_t value)
{
    uint8_t changed = chip->registers[MAIN] ^ value;
    chip->registers[MAIN] = value;
    if (!has(chip, MAIN_RESET_N))
        reset_registers(chip);
    if (changed & MAIN_CORE_PD)
        chip->crystal_at = now + CRYSTAL_START;
    if (changed & MAIN_BIAS_PD)
        chip->bias_at = now + BIAS_START;
    if (changed & (MAIN_TX | MAIN_FREQ_B | MAIN_FS_PD))
        settle(chip, now);
    if (changed != 0)
        disturb_calibration(chip);
    check_parts(chip, now);
    change_mode(chip, now);
    drive_antenna(chip, now);
}

static void start_calibration(cc1000_t *chip, ns_t now)
{
    if (!synthesizes(chip)) {
        report(chip, FAULT_CAL_OFF);
        return;
    }
    if (chip->mode == MODE_TRANSMIT && chip->registers[PA_POW] != 0)
        report(chip, FAULT_CAL_POWER);
    chip->complete = false;
    chip->calibrated_at = now + (ns_t)(CALIBRATION_NS * 1e6 / reference_hz(chip));
}

static void write_cal(cc1000_t *chip, ns_t now, uint8_t value)
{
    uint8_t before = chip->registers[CAL];
    chip->registers[CAL] = value & (uint8_t)~CAL_COMPLETE;
    if ((value & CAL_START) == 0 && chip->calibrated_at != NEVER) {
        chip->calibrated_at = NEVER;
        report(chip, FAULT_CAL_ENDED);
    } else if ((value & CAL_START) != 0 && (before & CAL_START) == 0) {
        start_calibration(chip, now);
    }
}

static void end_calibration(cc1000_t *chip)
{
    bool both = (chip->registers[CAL] & CAL_DUAL) != 0;
    chip->calibrated_at = NEVER;
    chip->complete = true;
    chip->calibrated[0] |= both || !has(chip, MAIN_FREQ_B);
    chip->calibrated[1] |= both || has(chip, MAIN_FREQ_B);
}

/* A frequency that has changed wants to be calibrated, and the PLL to settle. */
static void write_frequency(cc1000_t *chip, ns_t now, uint8_t address, uint8_t value)
{
    if (chip->registers[address] == value)
        return;
    chip->registers[address] = value;
    if (address < FREQ_2B || address == PLL)
        chip->calibrated[0] = false;
    if (address >= FREQ_2B)
        chip->calibrated[1] = false;
    disturb_calibration(chip);
    settle(chip, now);
}

static void write_register(cc1000_t *chip, ns_t now, uint8_t address, uint8_t value)
{
    if (address != MAIN && !has(chip, MAIN_RESET_N)) {
        report(chip, FAULT_RESET);
        return;
    }
    if (address == MAIN) {
        write_main(chip, now, value);
    } else if (address == CAL) {
        write_cal(chip, now, value);
    } else if (address < FSEP1 || address == PLL) {
        write_frequency(chip, now, address, value);
    } else if (address == CURRENT && chip->registers[CURRENT] != value) {
        chip->registers[CURRENT] = value;
        disturb_calibration(chip);
    } else {
        chip->registers[address] = value;
    }
    if (address == PA_POW)
        drive_antenna(chip, now);
    else if (address == MODEM0)
        chip->byte_ns = byte_time(chip);
    account(chip, now);
    show(chip, now);
    plan(chip);
}

static uint8_t read_register(const cc1000_t *chip, ns_t now, uint8_t address)
{
    uint8_t value = chip->registers[address];
    if (address == CAL)
        return value | (chip->complete ? CAL_COMPLETE : 0);
    if (address == LOCK)
        return (uint8_t)((value & ~LOCK_BITS) | (locked(chip, now) ? LOCK_BITS : 0));
    return value;
}

/* --- pins --- */

void cc1000_pale(cc1000_t *chip, bool high)
{
    if (high != chip->pale) {
        chip->pale = high;
        chip->bits = high ? 8 : 0; /* data follow an address */
    }
}

void cc1000_pdata(cc1000_t *chip, bool high)
{
    chip->pdata = high;
}

/* An address and its direction fill the low byte of `shift`, then data follow. */
static void shift_in(cc1000_t *chip, ns_t now)
{
    bool writes = chip->bits < 8 || (chip->shift >> (chip->bits - 8) & 1) != 0;
    if (writes) {
        chip->shift = (uint16_t)(chip->shift << 1 | chip->pdata);
    } else {
        uint8_t value = read_register(chip, now, chip->shift >> (chip->bits - 8 + 1) & 0x7F);
        chip->shift = (uint16_t)(chip->shift << 1);
        chip->wires.pdata(chip->wires.board, value >> (15 - chip->bits) & 1);
    }
    if (++chip->bits == 16 && writes)
        write_register(chip, now, chip->shift >> 9 & 0x7F, (uint8_t)chip->shift);
}

/* PDATA is taken, or given, at falling edges. */
void cc1000_pclk(cc1000_t *chip, ns_t now, bool high)
{
    bool fell = chip->pclk && !high;
    chip->pclk = high;
    if (fell && chip->powered && chip->bits < 16 && chip->pale == (chip->bits >= 8))
        shift_in(chip, now);
}

/* The pin follows the signal through a low pass, here its mean over the last fifth of a millisecond. */
uint32_t cc1000_rssi_millivolts(const cc1000_t *chip, ns_t now)
{
    double sum = 0;
    if (chip->mode != MODE_RECEIVE || (chip->registers[FRONT_END] & RSSI_MASK) != RSSI_ON)
        return 0;
    tuning_t tuning = tuning_of(chip);
    for (ns_t i = 0; i < 4; i++) {
        ns_t ago = US(25) + i * US(50);
        ns_t at = now > ago ? now - ago : 0;
        if (locked(chip, at)) {
            double dbm = fmax(ether_power(chip->ether, chip->node, tuning.below_khz, at),
                              ether_power(chip->ether, chip->node, tuning.above_khz, at));
            double volts = is_high(chip) ? (-45.5 - dbm) / 50.0 : (-49.2 - dbm) / 51.3;
            sum += fmin(fmax(volts, 0), 1.2);
        }
    }
    return (uint32_t)lround(sum / 4 * 1000);
}

/* --- the whole --- */

static void do_event(cc1000_t *chip, ns_t at)
{
    if (chip->lock_at == at) {
        chip->lock_at = NEVER;
        account(chip, at);
    } else if (chip->calibrated_at == at) {
        end_calibration(chip);
        account(chip, at);
    } else if (chip->take_at == at) {
        take(chip);
    } else {
        end_byte(chip);
    }
    show(chip, at);
}

void cc1000_due(cc1000_t *chip, ns_t now)
{
    for (ns_t at = next_event(chip); at <= now; at = next_event(chip))
        do_event(chip, at);
    plan(chip);
}

/* In reach of a chip that is off, or on another frequency: nothing comes of it. */
static void on_heard(void *radio, const signal_t *signal)
{
    cc1000_t *chip = radio;
    tuning_t tuning = tuning_of(chip);
    bool sends = chip->mode == MODE_TRANSMIT && ether_near(signal->khz, synthesizer_khz(chip, true));
    bool receives = chip->mode == MODE_RECEIVE &&
                    (ether_near(signal->khz, tuning.below_khz) || ether_near(signal->khz, tuning.above_khz));
    if (sends || receives)
        hearing_add(chip->hearing, signal);
    else if (signal->data != NEVER)
        ether_outcome(chip->ether, signal, chip->node, OUTCOME_DEAF);
}

cc1000_t *cc1000_make(ether_t *ether, int node, double ppm, cc1000_wires_t wires)
{
    cc1000_t *chip = calloc(1, sizeof *chip);
    if (chip == NULL)
        abort();
    chip->ether = ether;
    chip->node = node;
    chip->ppm = ppm;
    chip->wires = wires;
    chip->hearing = hearing_make(ether, node);
    chip->pale = chip->pclk = chip->pdata = true;
    chip->bits = 16;
    chip->lock_at = NEVER;
    chip->registers[MAIN] = MAIN_AT_FIRST;
    reset_registers(chip);
    ether_join(ether, node, on_heard, chip);
    return chip;
}

void cc1000_power(cc1000_t *chip, ns_t now, bool on)
{
    if (!on) {
        end_signal(chip, now, true);
        chip->powered = false;
        change_mode(chip, now);
    }
    chip->powered = on;
    chip->lock_at = NEVER;
    chip->registers[MAIN] = MAIN_AT_FIRST;
    reset_registers(chip);
    account(chip, now);
    show(chip, now);
    plan(chip);
}

bool cc1000_is_sending(const cc1000_t *chip)
{
    return chip->signal != NULL;
}
