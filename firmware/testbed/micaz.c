/* MICAz's wires between the processor and its CC2420: CSn PB0, VREG_EN PA5, RESETn PA6, FIFO PB7, FIFOP PE6,
 * CCA PD6, SFD PD4, and the SPI. */
#include <simavr/avr_ioport.h>
#include <simavr/sim_irq.h>
#include <stdlib.h>
#include <string.h>

#include "boards.h"
#include "cc2420.h"

typedef struct {
    cc2420_t *chip;
    atmega_t *mcu;
    avr_irq_t *pins[CC2420_PINS], *cca; /* of the former NULL: not wired */
    board_fault_t *fault;
    void *owner;
} micaz_t;

/* --- from the chip --- */

static void on_due(void *param, ns_t now)
{
    cc2420_due(((micaz_t *)param)->chip, now);
}

static void wake(void *param, ns_t when)
{
    micaz_t *board = param;
    atmega_at(board->mcu, when, on_due, board);
}

static void on_pin(void *param, cc2420_pin_t pin, bool level)
{
    avr_irq_t *wire = ((micaz_t *)param)->pins[pin];
    if (wire != NULL)
        avr_raise_irq(wire, level);
}

static void on_fault(void *param, const char *what)
{
    micaz_t *board = param;
    board->fault(board->owner, what);
}

/* --- from the processor --- */

static uint8_t exchange(void *param, uint8_t out)
{
    micaz_t *board = param;
    return cc2420_exchange(board->chip, out, atmega_now(board->mcu));
}

static void look_at_cca(void *param)
{
    micaz_t *board = param;
    avr_raise_irq(board->cca, cc2420_cca(board->chip, atmega_now(board->mcu)));
}

static void on_csn(avr_irq_t *irq, uint32_t high, void *param)
{
    (void)irq;
    micaz_t *board = param;
    cc2420_csn(board->chip, high != 0, atmega_now(board->mcu));
}

static void on_vreg(avr_irq_t *irq, uint32_t high, void *param)
{
    (void)irq;
    micaz_t *board = param;
    cc2420_vreg(board->chip, high != 0, atmega_now(board->mcu));
}

static void on_resetn(avr_irq_t *irq, uint32_t high, void *param)
{
    (void)irq;
    micaz_t *board = param;
    cc2420_resetn(board->chip, high != 0, atmega_now(board->mcu));
}

/* --- the whole --- */

static void *make(atmega_t *mcu, ether_t *ether, int node, double radio_ppm, board_fault_t *fault,
                  void *owner)
{
    micaz_t *board = calloc(1, sizeof *board);
    if (board == NULL)
        abort();
    cc2420_host_t host = {.at = wake, .on_pin = on_pin, .on_fault = on_fault, .owner = board};
    board->mcu = mcu;
    board->fault = fault;
    board->owner = owner;
    board->pins[CC2420_FIFO] = atmega_pin(mcu, 'B', 7);
    board->pins[CC2420_FIFOP] = atmega_pin(mcu, 'E', 6);
    board->pins[CC2420_SFD] = atmega_pin(mcu, 'D', 4);
    board->cca = atmega_pin(mcu, 'D', 6);
    board->chip = cc2420_make(ether, node, radio_ppm, host);
    atmega_spi_master(mcu, exchange, board);
    atmega_before_read(mcu, 'D', look_at_cca, board);
    avr_irq_register_notify(atmega_pin(mcu, 'B', 0), on_csn, board);
    avr_irq_register_notify(atmega_pin(mcu, 'A', 5), on_vreg, board);
    avr_irq_register_notify(atmega_pin(mcu, 'A', 6), on_resetn, board);
    return board;
}

static void power(void *radio, bool on)
{
    micaz_t *board = radio;
    cc2420_supply(board->chip, on, atmega_now(board->mcu));
}

static bool unwire(void *radio, const char *pin)
{
    static const char *const names[CC2420_PINS] = {
        [CC2420_FIFO] = "fifo", [CC2420_FIFOP] = "fifop", [CC2420_SFD] = "sfd"};
    for (int i = 0; i < CC2420_PINS; i++) {
        if (strcmp(names[i], pin) == 0) {
            ((micaz_t *)radio)->pins[i] = NULL;
            return true;
        }
    }
    return false;
}

static ns_t spent(const void *radio, radio_state_t state, ns_t now)
{
    return cc2420_spent(((const micaz_t *)radio)->chip, state, now);
}

static uint64_t starts(const void *radio)
{
    return cc2420_starts(((const micaz_t *)radio)->chip);
}

/* Preamble and delimiter, 5 bytes, are not in the frame. */
extern const board_t board_micaz;
const board_t board_micaz = {"micaz", US(160), US(32), make, power, unwire, spent, starts};
