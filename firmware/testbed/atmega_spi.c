/* The SPI, as master or as slave (data sheet: serial peripheral interface). */
#include "atmega_private.h"

enum { SPSR_SPIF = 0x80, SPSR_WCOL = 0x40, SPSR_SPI2X = 1, SPCR_SPR = 3, BITS = 8 };

static void finish(atmega_t *mcu, uint8_t in)
{
    mcu->spi.busy = false;
    mcu->spi.received = in;
    mcu->avr->data[REG_SPSR] |= SPSR_SPIF;
    atmega_interrupts_look(mcu);
}

static avr_cycle_count_t shifted(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)avr, (void)when;
    atmega_t *mcu = ((clocked_t *)param)->mcu;
    spi_t *spi = &mcu->spi;
    finish(mcu, spi->exchange != NULL ? spi->exchange(spi->param, spi->shift) : 0xFF);
    return 0;
}

static avr_cycle_count_t byte_cycles(const avr_t *avr)
{
    static const uint8_t dividers[] = {4, 16, 64, 128};
    unsigned divider = dividers[avr->data[REG_SPCR] & SPCR_SPR];
    return BITS * divider / (avr->data[REG_SPSR] & SPSR_SPI2X ? 2 : 1);
}

/* SPIF and WCOL go when SPDR is touched after they were seen. */
static void touch_data(atmega_t *mcu)
{
    if (mcu->spi.seen) {
        mcu->spi.seen = false;
        mcu->avr->data[REG_SPSR] &= SPSR_SPI2X;
    }
}

static uint8_t status_read(avr_t *avr, avr_io_addr_t address, void *param)
{
    atmega_t *mcu = param;
    mcu->spi.seen |= (avr->data[address] & (SPSR_SPIF | SPSR_WCOL)) != 0;
    return avr->data[address];
}

static void status_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)param;
    avr->data[address] = (uint8_t)((avr->data[address] & ~SPSR_SPI2X) | (value & SPSR_SPI2X));
}

static uint8_t data_read(avr_t *avr, avr_io_addr_t address, void *param)
{
    (void)avr, (void)address;
    atmega_t *mcu = param;
    touch_data(mcu);
    return mcu->spi.received;
}

static void data_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)address;
    atmega_t *mcu = param;
    spi_t *spi = &mcu->spi;
    bool master = (avr->data[REG_SPCR] & SPCR_MSTR) != 0;
    touch_data(mcu);
    atmega_measure_written(mcu);
    if (spi->busy) {
        avr->data[REG_SPSR] |= SPSR_WCOL;
        if (master)
            atmega_fault(mcu, "SPDR is written while a byte is being shifted");
        return;
    }
    spi->shift = value;
    if (master && (avr->data[REG_SPCR] & SPCR_SPE) != 0) {
        spi->busy = true;
        atmega_timer(mcu, avr->cycle + byte_cycles(avr), shifted, &mcu->clocked);
    }
}

static void control_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    atmega_t *mcu = param;
    bool changed = ((avr->data[address] ^ value) & (SPCR_SPE | SPCR_MSTR)) != 0;
    avr->data[address] = value;
    if (changed) {
        mcu->spi.busy = false;
        avr_cycle_timer_cancel(avr, shifted, &mcu->clocked);
    }
    atmega_interrupts_look(mcu);
}

void atmega_spi_master(atmega_t *mcu, atmega_exchange_t *exchange, void *param)
{
    mcu->spi.exchange = exchange;
    mcu->spi.param = param;
}

bool atmega_spi_shifted(atmega_t *mcu, uint8_t in)
{
    uint8_t control = mcu->avr->data[REG_SPCR];
    if (!mcu->on || mcu->nap.io_stopped || (control & SPCR_SPE) == 0 || (control & SPCR_MSTR) != 0)
        return false;
    mcu->spi.shift = in;
    atmega_measure_shifted(mcu);
    finish(mcu, in);
    return true;
}

uint8_t atmega_spi_taken(atmega_t *mcu)
{
    uint8_t control = mcu->avr->data[REG_SPCR];
    mcu->spi.busy = mcu->on && (control & (SPCR_SPE | SPCR_MSTR)) == SPCR_SPE;
    return mcu->spi.shift;
}

void atmega_spi_make(atmega_t *mcu)
{
    atmega_own(mcu, REG_SPCR, NULL, control_written);
    atmega_own(mcu, REG_SPSR, status_read, status_written);
    atmega_own(mcu, REG_SPDR, data_read, data_written);
}

void atmega_spi_reset(atmega_t *mcu)
{
    mcu->spi.busy = mcu->spi.seen = false;
}
