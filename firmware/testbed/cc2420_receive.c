#include <math.h>
#include <string.h>

#include "cc2420_private.h"
#include "ieee802154.h"

#define RSSI_WINDOW (8 * SYMBOL)

/* two zeros of the preamble and the delimiter: SYNCWORD's F is not required, a zero before it is */
#define SYNC_NEEDED (4 * SYMBOL)
/* of the demodulator against the ideal one: puts sensitivity at -95 dBm, co-channel rejection at 3 dB */
#define LOSS_DB 3.0
enum { SYNC_SYMBOLS = 10 }; /* that must correlate for a frame to be found: preamble and delimiter */

/* --- strength, and the channel --- */

bool cc2420_rssi_valid(const cc2420_t *chip)
{
    return cc2420_is_receiving(chip) && chip->state != STATE_RX_CALIBRATE &&
           chip->now >= chip->listening + cc2420_lasts(chip, RSSI_WINDOW);
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

int8_t cc2420_rssi(const cc2420_t *chip)
{
    return rssi_of(power_until(chip, chip->now));
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
        if (dbm >= busy || dbm < quiet)
            return dbm < quiet;
        ns_t enters = change_before(chip, at), leaves = change_before(chip, at - RSSI_WINDOW) + RSSI_WINDOW;
        at = enters > leaves || leaves >= at ? enters : leaves;
    }
    return false;
}

bool cc2420_is_clear(const cc2420_t *chip)
{
    int mode = chip->registers[MDMCTRL0] >> 6 & 3;
    if (!cc2420_rssi_valid(chip))
        return false;
    return ((mode & 1) == 0 || is_quiet(chip)) && ((mode & 2) == 0 || !cc2420_is_in_frame(chip));
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
    if (at >= signal->count || signal->to < end)
        return (uint8_t)random_below(chance, 256);
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
    for (int i = 1; i <= length - 2; i++)
        fcs = ieee_fcs_add(fcs, chip->frame[i]);
    return length >= 2 && chip->frame[length - 1] == (fcs & 0xFF) && chip->frame[length] == fcs >> 8;
}

/* What goes into the FIFO in place of the byte at rx_at. */
static uint8_t stored(const cc2420_t *chip, bool good)
{
    int length = chip->rx_length, at = chip->rx_at;
    if (!cc2420_is_set(chip, AUTOCRC) || length < 2 || at < length - 1)
        return chip->frame[at];
    return at == length ? (uint8_t)((good ? 0x80 : 0) | frame_correlation(chip)) : frame_rssi(chip);
}

static address_t recognize(const cc2420_t *chip)
{
    ieee_identity_t identity = {
        .pan = chip->ram + RAM_PAN,
        .short_address = chip->ram + RAM_SHORT,
        .long_address = chip->ram + RAM_IEEE,
        .is_coordinator = cc2420_is_set(chip, PAN_COORDINATOR),
        .takes_reserved = cc2420_is_set(chip, RESERVED_FRAMES),
        .takes_beacons = (chip->registers[IOCFG0] & IOCFG0_BCN_ACCEPT) != 0,
    };
    return ieee_recognize(chip->frame + 1, chip->rx_at - 1, &identity);
}

static void overflow(cc2420_t *chip)
{
    cc2420_outcome(chip, chip->incoming, OUTCOME_OVERFLOW);
    chip->incoming = NULL;
    chip->overflown = true;
    cc2420_enter(chip, STATE_RX_OVERFLOW, NEVER);
}

/* The frame's bytes leave the FIFO; the search goes on when it has passed. */
static void refuse(cc2420_t *chip)
{
    const signal_t *signal = chip->incoming;
    cc2420_outcome(chip, signal, OUTCOME_REFUSED);
    chip->rx_count -= chip->rx_mine;
    chip->incoming = NULL;
    cc2420_enter(chip, STATE_RX_REFUSED, signal->data + (ns_t)(chip->rx_length + 1) * signal->byte_ns);
}

static void end_frame(cc2420_t *chip)
{
    if (!chip->accepted) {
        refuse(chip);
        return;
    }
    cc2420_outcome(chip, chip->incoming, chip->crc_good ? OUTCOME_RECEIVED : OUTCOME_DAMAGED);
    chip->incoming = NULL;
    chip->frame_latch = true;
    chip->whole_frames++;
    bool automatic = cc2420_is_set(chip, AUTOACK) && cc2420_is_set(chip, ADR_DECODE) &&
                     cc2420_is_set(chip, AUTOCRC) && (chip->frame[1] & 0x20);
    if (chip->crc_good && chip->rx_length >= ACK_LENGTH && (automatic || chip->ack_wanted))
        cc2420_start_ack(chip);
    else
        cc2420_search(chip);
}

static void put(cc2420_t *chip, uint8_t byte)
{
    chip->ram[RAM_RXFIFO + (chip->rx_first + chip->rx_count) % FIFO_SIZE] = byte;
    chip->rx_count++;
    chip->rx_mine++;
}

void cc2420_take_byte(cc2420_t *chip)
{
    int at = chip->rx_at;
    chip->frame[at] = demodulate(chip, at);
    if (at == 0)
        chip->rx_length = chip->frame[0] & 0x7F;
    if (chip->rx_count == FIFO_SIZE) {
        overflow(chip);
        return;
    }
    chip->crc_good = at == chip->rx_length && frame_is_good(chip);
    put(chip, stored(chip, chip->crc_good));
    chip->rx_at++;
    address_t address = chip->accepted ? ADDRESS_GOOD : recognize(chip);
    chip->accepted = address == ADDRESS_GOOD;
    if (address == ADDRESS_BAD)
        refuse(chip);
    else if (chip->rx_at > chip->rx_length)
        end_frame(chip);
    else
        chip->state_at += chip->incoming->byte_ns;
}

ns_t cc2420_visible_byte(const cc2420_t *chip)
{
    int threshold = (chip->registers[IOCFG0] & IOCFG0_THRESHOLD) + 1;
    int skip = chip->rx_length - chip->rx_at;
    if (chip->rx_at == 0 || chip->rx_count == 0 || !chip->accepted)
        return chip->state_at;
    if (chip->rx_count < threshold && threshold - chip->rx_count - 1 < skip)
        skip = threshold - chip->rx_count - 1;
    if (FIFO_SIZE - chip->rx_count < skip)
        skip = FIFO_SIZE - chip->rx_count;
    return chip->state_at + (ns_t)skip * chip->incoming->byte_ns;
}

static bool is_synchronized(const cc2420_t *chip, const signal_t *signal)
{
    if (signal->sync != (chip->registers[SYNCWORD] ^ STANDARD_SYNCWORD))
        return false;
    double error = ieee_symbol_error(-LOSS_DB + sinr(chip, signal, signal->data - SYNC_NEEDED, signal->data));
    return error <= 0 || random_unit(ether_chance(chip->ether, chip->node)) < pow(1 - error, SYNC_SYMBOLS);
}

static void lock_on(cc2420_t *chip, const signal_t *signal)
{
    chip->incoming = signal;
    chip->rx_at = chip->rx_length = chip->rx_mine = 0;
    chip->accepted = !cc2420_is_set(chip, ADR_DECODE);
    chip->ack_wanted = chip->crc_good = false;
    cc2420_enter(chip, STATE_RX_FRAME, signal->data + signal->byte_ns);
}

static void search_found(cc2420_t *chip, const signal_t *signal)
{
    if (!ether_near(signal->khz, chip->khz) || chip->listening + SYNC_NEEDED > signal->data)
        cc2420_outcome(chip, signal, OUTCOME_DEAF);
    else if (signal->to < signal->data)
        cc2420_outcome(chip, signal, OUTCOME_DAMAGED);
    else if (!ether_delivers(chip->ether, signal, chip->node))
        cc2420_outcome(chip, signal, OUTCOME_LOST);
    else if (!is_synchronized(chip, signal))
        cc2420_outcome(chip, signal, OUTCOME_WEAK);
    else
        lock_on(chip, signal);
}

void cc2420_hear(cc2420_t *chip)
{
    const signal_t *signal = chip->heard[0];
    chip->heard_count--;
    memmove(chip->heard, chip->heard + 1, (size_t)chip->heard_count * sizeof *chip->heard);
    bool near = ether_near(signal->khz, chip->khz);
    if (chip->state == STATE_RX_SEARCH)
        search_found(chip, signal);
    else if (cc2420_is_sending(chip) && near)
        cc2420_outcome(chip, signal, OUTCOME_SENDING);
    else if (chip->state == STATE_RX_OVERFLOW && near)
        cc2420_outcome(chip, signal, OUTCOME_OVERFLOW);
    else if (cc2420_is_in_frame(chip) && near)
        cc2420_outcome(chip, signal, OUTCOME_BUSY);
    else
        cc2420_outcome(chip, signal, OUTCOME_DEAF);
}
