#include <string.h>

#include "cc2420_private.h"
#include "ieee802154.h"

/* The data sheet gives every fourth level. */
static double power_dbm(const cc2420_t *chip)
{
    /* for -1, 3, 7 .. 31; the first by drawing the curve on */
    static const double dbm[] = {-32.5, -25, -15, -10, -7, -5, -3, -1, 0};
    int level = (chip->registers[TXCTRL] & 31) + 1;
    int below = level / 4;
    return below == 8 ? 0 : dbm[below] + (dbm[below + 1] - dbm[below]) * (level % 4) / 4;
}

void cc2420_start_sending(cc2420_t *chip, bool ack)
{
    cc2420_leave(chip, OUTCOME_SENDING);
    chip->acking = ack;
    chip->tx_at = 0;
    bool slow = ack || (chip->registers[TXCTRL] & TXCTRL_TURNAROUND);
    cc2420_calibrate(chip, STATE_TX_CALIBRATE, slow ? TURNAROUND : 8 * SYMBOL);
    /* preamble, and the two bytes of SYNCWORD */
    ns_t sync = ((chip->registers[MDMCTRL0] & 15U) + 3) * chip->byte_ns;
    chip->tx_data = chip->state_at + sync;
    chip->signal = ether_begin(chip->ether, chip->node, chip->state_at, chip->khz, power_dbm(chip),
                               chip->tx_data, chip->byte_ns);
    if (chip->signal == NULL)
        cc2420_fault(chip, FAULT_SIGNALS);
    else
        chip->signal->sync = chip->registers[SYNCWORD] ^ STANDARD_SYNCWORD;
}

static void end_sending(cc2420_t *chip)
{
    if (chip->signal != NULL) {
        ether_end(chip->ether, chip->signal, chip->now, false);
        chip->signal = NULL;
    }
    chip->tx_sent = chip->tx_sent || !chip->acking;
    chip->acking = false;
    cc2420_start_receiving(chip);
}

static void run_dry(cc2420_t *chip)
{
    cc2420_fault(chip, chip->tx_at == 0 ? FAULT_EMPTY_TX : FAULT_UNDERFLOW);
    cc2420_leave(chip, OUTCOME_SENDING);
    chip->underflow = true;
    cc2420_enter(chip, STATE_TX_UNDERFLOW, NEVER);
}

/* The byte whose turn it is, or -1. What is in RAM now counts. */
static int fetch(const cc2420_t *chip)
{
    bool crc = chip->acking || cc2420_is_set(chip, AUTOCRC);
    if (crc && chip->tx_at > 0 && chip->tx_at > chip->tx_length - 2)
        return chip->tx_fcs >> (chip->tx_at == chip->tx_length ? 8 : 0) & 0xFF;
    if (chip->acking)
        return chip->ack[chip->tx_at];
    return chip->tx_at < chip->tx_count ? chip->ram[chip->tx_at] : -1;
}

static void check_length(cc2420_t *chip, int byte)
{
    if (byte > 127 || byte < (cc2420_is_set(chip, AUTOCRC) ? 2 : 0))
        cc2420_fault(chip, FAULT_LENGTH);
}

void cc2420_send_byte(cc2420_t *chip)
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
    if (chip->signal != NULL)
        ether_append(chip->signal, (uint8_t)byte);
    chip->tx_at++;
    chip->state_at = chip->tx_data + (ns_t)chip->tx_at * chip->byte_ns;
}

void cc2420_start_ack(cc2420_t *chip)
{
    const uint8_t ack[ACK_BYTES] = {ACK_LENGTH, chip->ack_pending ? 0x12 : 0x02, 0, chip->frame[3]};
    memcpy(chip->ack, ack, sizeof ack);
    cc2420_start_sending(chip, true);
}
