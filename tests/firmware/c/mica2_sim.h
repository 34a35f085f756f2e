/* A MICA2: an ATmega128 (atmega_sim.h) wired to a CC1000.
 *
 * The chip clocks the processor's SPI, a byte each 3072 CPU cycles, while it receives or sends. A byte that the processor writes goes
 * out in the byte's time that has just begun. That needs the first bit half a bit, 192 cycles, after its beginning: what is written
 * later collides, and the byte that came in goes out instead.
 */
#ifndef MICA2_SIM_H
#define MICA2_SIM_H

#include <simavr/avr_adc.h>
#include <simavr/avr_spi.h>

#include "atmega_sim.h"

enum { BIT_CYCLES = 384, BYTE_CYCLES = 8 * BIT_CYCLES, CALIBRATION_CYCLES = 26 * (HZ / 1000) };
enum { MICA2_SPDR = 0x2F, MICA2_DDRA = 0x3A, MICA2_PORTA = 0x3B, PALE = 4, PCLK = 6, PDATA = 7, BAT_MON = 5 };
enum { REFERENCE_MV = 1223 };
enum { CC1000_MAIN = 0x00, CC1000_PA_POW = 0x0B, CC1000_LOCK = 0x0D, CC1000_CAL = 0x0E };

typedef struct mica2 mica2_t;
struct mica2 {
    atmega_t mcu;
    uint8_t registers[128];
    bool pale, pdata; /* levels */
    uint8_t bits, address, data, shown;
    bool writing; /* the access under way */
    avr_cycle_count_t calibrated;
    int calibrations;
    avr_irq_t *pdata_in, *spi_in, *rssi_in;
    uint32_t turn;
    /* the byte on its way out, since when, and the one before it */
    uint8_t going, gone;
    avr_cycle_count_t byte_at;
    bool spdr_waits;
    avr_cycle_count_t spdr_slowest; /* from a byte's beginning to its writing, */
    avr_cycle_count_t sent_slowest; /* and of those that went on the air */
    /* what the user sets */
    uint8_t (*receive)(mica2_t *mote);         /* a byte's time is over: what came in meanwhile */
    void (*on_byte)(mica2_t *mote, bool runs); /* or NULL: before that; `gone` went out; false: the chip neither receives nor sends */
    uint32_t (*rssi)(mica2_t *mote);           /* millivolts at the RSSI pin */
};

static bool mica2_receives(const mica2_t *mote)
{
    return mote->registers[CC1000_MAIN] == 0x11;
}

/* What goes out is on the air. */
static bool mica2_sends(const mica2_t *mote)
{
    return mote->registers[CC1000_MAIN] == 0xE1 && mote->registers[CC1000_PA_POW] != 0;
}

/* --- the three wires of the registers --- */

static void mica2_write(mica2_t *mote)
{
    mote->registers[mote->address] = mote->data;
    if (mote->address == CC1000_CAL && (mote->data & 0x80) != 0) {
        mote->calibrations++;
        mote->calibrated = mote->mcu.avr->cycle + CALIBRATION_CYCLES;
    }
}

static uint8_t mica2_read(const mica2_t *mote)
{
    uint8_t value = mote->registers[mote->address];
    if (mote->address == CC1000_CAL && mote->mcu.avr->cycle >= mote->calibrated) {
        value = (uint8_t)((value & 0x7F) | 0x08);
    }
    return mote->address == CC1000_LOCK ? value | 3 : value;
}

static void mica2_on_pclk(struct avr_irq_t *irq, uint32_t high, void *param)
{
    (void)irq;
    mica2_t *mote = param;
    if (high) {
        return;
    }
    mote->bits++;
    if (!mote->pale && mote->bits < 8) {
        mote->address = (uint8_t)((mote->address << 1 | mote->pdata) & 0x7F);
    } else if (!mote->pale) {
        mote->writing = mote->pdata;
        mote->shown = mica2_read(mote);
    } else if (mote->writing) {
        mote->data = (uint8_t)(mote->data << 1 | mote->pdata);
        if (mote->bits == 8) {
            mica2_write(mote);
        }
    } else {
        avr_raise_irq(mote->pdata_in, (mote->shown & 0x80) != 0);
        mote->shown = (uint8_t)(mote->shown << 1);
    }
}

static void mica2_on_pale(struct avr_irq_t *irq, uint32_t high, void *param)
{
    (void)irq;
    mica2_t *mote = param;
    mote->pale = high != 0;
    mote->bits = 0;
}

static void mica2_on_pdata(struct avr_irq_t *irq, uint32_t high, void *param)
{
    (void)irq;
    ((mica2_t *)param)->pdata = high != 0;
}

/* --- data and strength --- */

static void mica2_spi_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    mica2_t *mote = param;
    avr_cycle_count_t late = mote->spdr_waits ? avr->cycle - mote->byte_at : 0;
    mote->spdr_waits = false;
    mote->spdr_slowest = late > mote->spdr_slowest ? late : mote->spdr_slowest;
    if (mica2_sends(mote) && late > mote->sent_slowest) {
        mote->sent_slowest = late;
    }
    avr->data[address] = value;
    if (late <= BIT_CYCLES / 2) {
        mote->going = value;
    }
}

/* Channel 7 has the battery monitor's reference, which PA5 switches on. */
static void mica2_on_adc(struct avr_irq_t *irq, uint32_t value, void *param)
{
    (void)irq, (void)value;
    mica2_t *mote = param;
    avr_raise_irq(mote->rssi_in, mote->rssi(mote));
    avr_t *avr = mote->mcu.avr;
    bool on = avr->data[MICA2_DDRA] & avr->data[MICA2_PORTA] & 1 << BAT_MON;
    avr_raise_irq(avr_io_getirq(avr, AVR_IOCTL_ADC_GETIRQ, ADC_IRQ_ADC7), on ? REFERENCE_MV : 0);
}

/* A byte's time is over: one came in, one went out. */
static avr_cycle_count_t mica2_byte(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)avr;
    mica2_t *mote = param;
    bool runs = mica2_receives(mote) || mote->registers[CC1000_MAIN] == 0xE1;
    mote->gone = mote->going;
    mote->byte_at = when;
    if (mote->on_byte != NULL) {
        mote->on_byte(mote, runs);
    }
    if (runs) {
        mote->spdr_waits = true;
        mote->turn ^= 0x100; /* the library ignores a value that stays */
        mote->going = mote->receive(mote);
        avr_raise_irq(mote->spi_in, mote->going | mote->turn);
    }
    return when + BYTE_CYCLES;
}

/* The chip's bytes begin at cycle `at`, which is to come. */
static void mica2_clock(mica2_t *mote, avr_cycle_count_t at)
{
    mote->byte_at = at;
    avr_cycle_timer_register(mote->mcu.avr, at + BYTE_CYCLES - mote->mcu.avr->cycle, mica2_byte, mote);
}

/* To be called now and then: a reset of the processor, which is none of the chip's, ends the library's timers. */
static inline void mica2_keep_clock(mica2_t *mote)
{
    avr_t *avr = mote->mcu.avr;
    if (avr->cycle > mote->byte_at + 2 * BYTE_CYCLES) {
        mica2_clock(mote, mote->byte_at + (avr->cycle - mote->byte_at) / BYTE_CYCLES * BYTE_CYCLES);
    }
}

/* A mote with a program in its flash, just switched on; mica2_clock() is to follow. False when the file is none. */
static bool mica2_make(mica2_t *mote, const char *path)
{
    memset(mote, 0, sizeof *mote);
    if (!atmega_make(&mote->mcu, path)) {
        return false;
    }
    avr_t *avr = mote->mcu.avr;
    mote->pale = mote->pdata = true;
    mote->pdata_in = atmega_pin(&mote->mcu, 'D', PDATA);
    mote->spi_in = avr_io_getirq(avr, AVR_IOCTL_SPI_GETIRQ(0), SPI_IRQ_INPUT);
    mote->rssi_in = avr_io_getirq(avr, AVR_IOCTL_ADC_GETIRQ, ADC_IRQ_ADC0);
    avr_irq_register_notify(atmega_pin(&mote->mcu, 'D', PCLK), mica2_on_pclk, mote);
    avr_irq_register_notify(atmega_pin(&mote->mcu, 'D', PALE), mica2_on_pale, mote);
    avr_irq_register_notify(atmega_pin(&mote->mcu, 'D', PDATA), mica2_on_pdata, mote);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_ADC_GETIRQ, ADC_IRQ_OUT_TRIGGER), mica2_on_adc, mote);
    avr->io[AVR_DATA_TO_IO(MICA2_SPDR)].w.c = mica2_spi_written;
    avr->io[AVR_DATA_TO_IO(MICA2_SPDR)].w.param = mote;
    return true;
}

#endif
