/* The CC2420 over its SPI: strobes, registers, and the steps of its start. What the driver does with a chip
 * that listens is in the other files, so all that the data sheet asks of a start stands here together. */
#include "cc2420.h"
#include "cc2420_const.h"
#include "cc2420_parts.h"

enum {
    REGULATOR_US = 600,       /* from VREG_EN to a steady supply */
    OSCILLATOR_STEP_US = 100, /* how often the oscillator is looked at ... */
    OSCILLATOR_STEPS = 100,   /* ... and how many times: it takes 1 ms, is given 10 */
};

uint8_t cc2420_strobe(uint8_t address)
{
    cc2420_board_select(true);
    uint8_t status = cc2420_board_exchange(address);
    cc2420_board_select(false);
    return status;
}

static void write_register(uint8_t address, uint16_t value)
{
    cc2420_board_select(true);
    cc2420_board_exchange(address);
    cc2420_board_exchange((uint8_t)(value >> 8));
    cc2420_board_exchange((uint8_t)value);
    cc2420_board_select(false);
}

uint16_t cc2420_read_register(uint8_t address)
{
    cc2420_board_select(true);
    cc2420_board_exchange(address | CC2420_READ);
    uint8_t high = cc2420_board_exchange(0);
    uint8_t low = cc2420_board_exchange(0);
    cc2420_board_select(false);
    return (uint16_t)((uint16_t)high << 8 | low);
}

static bool wait_for_oscillator(void)
{
    for (uint8_t i = 0; i < OSCILLATOR_STEPS; i++) {
        if (cc2420_strobe(CC2420_SNOP) & CC2420_STATUS_XOSC)
            return true;
        cc2420_board_wait(OSCILLATOR_STEP_US);
    }
    return false;
}

bool cc2420_is_sane(void)
{
    return (cc2420_strobe(CC2420_SNOP) & CC2420_STATUS_XOSC) &&
           cc2420_read_register(CC2420_MDMCTRL0) == CC2420_MDMCTRL0_VALUE;
}

void cc2420_start_oscillator(void)
{
    cc2420_board_reset(true);
    cc2420_board_wait(1);
    cc2420_board_reset(false);
    cc2420_board_wait(1);
    cc2420_strobe(CC2420_SXOSCON);
}

bool cc2420_listen(void)
{
    write_register(CC2420_MDMCTRL0, CC2420_MDMCTRL0_VALUE);
    write_register(CC2420_MDMCTRL1, CC2420_MDMCTRL1_VALUE);
    write_register(CC2420_RXCTRL1, CC2420_RXCTRL1_VALUE);
    write_register(CC2420_SECCTRL0, CC2420_SECCTRL0_VALUE);
    write_register(CC2420_IOCFG0, CC2420_IOCFG0_VALUE);
    write_register(CC2420_FSCTRL, CC2420_FSCTRL_VALUE + 5 * (CAUSEWAY_CHANNEL - 11));
    write_register(CC2420_TXCTRL, CC2420_TXCTRL_VALUE | CC2420_POWER);
    if (!cc2420_is_sane())
        return false; /* with no chip at all, too: whatever the bus reads then */
    cc2420_flush_receiver();
    cc2420_board_listen(true);
    cc2420_strobe(CC2420_SRXON);
    return true;
}

bool cc2420_start_chip(void)
{
    cc2420_board_start();
    cc2420_board_power(true);
    cc2420_board_wait(REGULATOR_US);
    cc2420_start_oscillator();
    if (!wait_for_oscillator())
        return false;
    return cc2420_listen();
}
