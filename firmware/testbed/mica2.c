/* MICA2's wires between the processor and its CC1000, and its battery monitor. The chip's one data pin is on
 * MOSI and, while the program drives it, on MISO. */
#include <simavr/avr_ioport.h>
#include <simavr/sim_irq.h>
#include <stdlib.h>

#include "boards.h"
#include "cc1000.h"

enum {
    PALE = 4,
    PCLK = 6,
    PDATA = 7,
    CHP_OUT = 6,
    BAT_MON = 5,
    RSSI_CHANNEL = 0,
    BATTERY_CHANNEL = 7,
    REFERENCE_MV = 1223
};
enum {
    DATA_DDRA = 0x3A,
    DATA_PORTA = 0x3B,
    DATA_DDRD = 0x31,
    DATA_DDRB = 0x37,
    DATA_SPCR = 0x2D,
    MISO = 1 << 3,
    SPE = 1 << 6
};

typedef struct {
    cc1000_t *chip;
    atmega_t *mcu;
    avr_irq_t *pdata, *chp_out;
    board_fault_t *fault;
    void *owner;
    bool floats; /* the data pin was not driven when the last byte was to be sent */
    bool fought, floated, clashed;
} mica2_t;

static void report(mica2_t *board, bool *reported, const char *what)
{
    if (!*reported) {
        *reported = true;
        board->fault(board->owner, what);
    }
}

/* --- from the chip --- */

static void on_due(void *param, ns_t now)
{
    cc1000_due(((mica2_t *)param)->chip, now);
}

static void wake(void *param, ns_t when)
{
    mica2_t *board = param;
    atmega_at(board->mcu, when, on_due, board);
}

static bool drives_data(const mica2_t *board)
{
    return (atmega_data(board->mcu)[DATA_DDRB] & MISO) != 0;
}

static bool spi_is_on(const mica2_t *board)
{
    return (atmega_data(board->mcu)[DATA_SPCR] & SPE) != 0;
}

static bool byte_in(void *param, uint8_t byte, bool driven)
{
    mica2_t *board = param;
    if (driven && drives_data(board) && spi_is_on(board))
        report(board, &board->fought, "mica2: the data pin was driven while the radio drove it");
    return atmega_spi_shifted(board->mcu, byte);
}

/* With the SPI off, as after a reset, the program did not mean to send; nor does one that releases the pin
 * just before it ends a signal. */
static uint8_t byte_out(void *param)
{
    mica2_t *board = param;
    uint8_t byte = atmega_spi_taken(board->mcu);
    bool floats = cc1000_is_sending(board->chip) && spi_is_on(board) && !drives_data(board);
    if (floats && board->floats)
        report(board, &board->floated, "mica2: the data pin was not driven while the radio sent");
    board->floats = floats;
    return drives_data(board) ? byte : 0xFF;
}

static void drive_pdata(void *param, bool high)
{
    mica2_t *board = param;
    if ((atmega_data(board->mcu)[DATA_DDRD] & 1 << PDATA) != 0)
        report(board, &board->clashed, "mica2: PDATA was driven while the radio drove it");
    else
        avr_raise_irq(board->pdata, high);
}

static void drive_chp_out(void *param, bool high)
{
    avr_raise_irq(((mica2_t *)param)->chp_out, high);
}

static void on_fault(void *param, const char *what)
{
    mica2_t *board = param;
    board->fault(board->owner, what);
}

/* --- from the processor --- */

static void on_pale(avr_irq_t *irq, uint32_t high, void *param)
{
    (void)irq;
    cc1000_pale(((mica2_t *)param)->chip, high != 0);
}

static void on_pclk(avr_irq_t *irq, uint32_t high, void *param)
{
    (void)irq;
    mica2_t *board = param;
    cc1000_pclk(board->chip, atmega_now(board->mcu), high != 0);
}

static void on_pdata(avr_irq_t *irq, uint32_t high, void *param)
{
    (void)irq;
    cc1000_pdata(((mica2_t *)param)->chip, high != 0);
}

static uint32_t rssi(void *param)
{
    mica2_t *board = param;
    return cc1000_rssi_millivolts(board->chip, atmega_now(board->mcu));
}

/* By which a program measures its supply; PA5 switches it on. */
static uint32_t battery_reference(void *param)
{
    const uint8_t *data = atmega_data(((mica2_t *)param)->mcu);
    return (data[DATA_DDRA] & data[DATA_PORTA] & 1 << BAT_MON) != 0 ? REFERENCE_MV : 0;
}

/* --- the whole --- */

static void *make(atmega_t *mcu, ether_t *ether, int node, double radio_ppm, board_fault_t *fault,
                  void *owner)
{
    mica2_t *board = calloc(1, sizeof *board);
    if (board == NULL)
        abort();
    cc1000_wires_t wires = {board, wake, byte_in, byte_out, drive_pdata, drive_chp_out, on_fault};
    board->mcu = mcu;
    board->fault = fault;
    board->owner = owner;
    board->pdata = atmega_pin(mcu, 'D', PDATA);
    board->chp_out = atmega_pin(mcu, 'A', CHP_OUT);
    board->chip = cc1000_make(ether, node, radio_ppm, wires);
    avr_irq_register_notify(atmega_pin(mcu, 'D', PALE), on_pale, board);
    avr_irq_register_notify(atmega_pin(mcu, 'D', PCLK), on_pclk, board);
    avr_irq_register_notify(board->pdata, on_pdata, board);
    atmega_adc(mcu, RSSI_CHANNEL, rssi, board);
    atmega_adc(mcu, BATTERY_CHANNEL, battery_reference, board);
    return board;
}

static void power(void *radio, bool on)
{
    mica2_t *board = radio;
    cc1000_power(board->chip, atmega_now(board->mcu), on);
}

static bool unwire(void *radio, const char *pin)
{
    (void)radio, (void)pin;
    return false;
}

static ns_t spent(const void *radio, radio_state_t state, ns_t now)
{
    return cc1000_spent(((const mica2_t *)radio)->chip, state, now);
}

static uint64_t starts(const void *radio)
{
    return cc1000_starts(((const mica2_t *)radio)->chip);
}

/* What a CC1000 sends is all there. */
extern const board_t board_mica2;
const board_t board_mica2 = {"mica2", 0, 416667, make, power, unwire, spent, starts};
