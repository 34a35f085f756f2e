/* The watchdog, on an oscillator of its own. After a reset it is off, whatever the cause; later chips, and
 * the library, have it on. */
#include <string.h>

#include <simavr/avr_watchdog.h>

#include "atmega_private.h"

#define SHORTEST US(17100) /* at 3 V */

enum { OPEN_CYCLES = 4 };

static avr_cycle_count_t bite(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)avr, (void)when;
    atmega_reset(param, RESET_WATCHDOG);
    return 0;
}

static void plan(atmega_t *mcu)
{
    uint8_t control = mcu->avr->data[REG_WDTCR];
    if ((control & WDTCR_WDE) != 0) {
        ns_t when = mcu->watchdog.patted + (SHORTEST << (control & WDTCR_WDP));
        atmega_timer(mcu, atmega_cycle_at(mcu, when), bite, mcu);
    } else {
        avr_cycle_timer_cancel(mcu->avr, bite, mcu);
    }
}

static bool is_open(const atmega_t *mcu)
{
    return (mcu->avr->data[REG_WDTCR] & WDTCR_WDCE) != 0 &&
           mcu->avr->cycle - mcu->watchdog.opened <= OPEN_CYCLES;
}

static uint8_t control_read(avr_t *avr, avr_io_addr_t address, void *param)
{
    return (uint8_t)((avr->data[address] & ~WDTCR_WDCE) | (is_open(param) ? WDTCR_WDCE : 0));
}

static void control_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    atmega_t *mcu = param;
    uint8_t before = avr->data[address] & (WDTCR_WDE | WDTCR_WDP);
    uint8_t opens = WDTCR_WDCE | WDTCR_WDE;
    if ((value & opens) == opens) {
        avr->data[address] = before | opens;
        mcu->watchdog.opened = avr->cycle;
    } else if (is_open(mcu)) {
        avr->data[address] = value & (WDTCR_WDE | WDTCR_WDP);
    } else {
        avr->data[address] = before | (value & WDTCR_WDE);
    }
    if ((before & WDTCR_WDE) == 0)
        mcu->watchdog.patted = atmega_now(mcu);
    plan(mcu);
}

/* The WDR instruction. */
static int pat(avr_io_t *io, uint32_t control, void *param)
{
    (void)param;
    if (control != AVR_IOCTL_WATCHDOG_RESET)
        return -1;
    atmega_t *mcu = atmega_of(io->avr);
    mcu->watchdog.patted = atmega_now(mcu);
    plan(mcu);
    return 0;
}

void atmega_watchdog_make(atmega_t *mcu)
{
    for (avr_io_t *io = mcu->avr->io_port; io != NULL; io = io->next) {
        if (strcmp(io->kind, "watchdog") == 0) {
            io->ioctl = pat;
            io->reset = NULL;
        }
    }
    atmega_own(mcu, REG_WDTCR, control_read, control_written);
}

void atmega_watchdog_reset(atmega_t *mcu)
{
    mcu->watchdog = (watchdog_t){0};
}
