/* The EEPROM: a byte is written in 8.5 ms, after EEWE has followed EEMWE within four cycles. */
#include <simavr/avr_eeprom.h>

#include "atmega_private.h"

#define WRITE_TIME US(8500)

enum { SIZE = 4096, OPEN_CYCLES = 4, WRITE_HALT = 2, READ_HALT = 4, ERASED = 0xFF };

static avr_cycle_count_t written(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)when;
    atmega_t *mcu = param;
    eeprom_t *eeprom = &mcu->eeprom;
    eeprom->ready = 0;
    eeprom->bytes[eeprom->address] = eeprom->value;
    avr->data[REG_EECR] &= (uint8_t)~EECR_EEWE;
    atmega_interrupts_look(mcu);
    return 0;
}

static uint16_t address_of(const avr_t *avr)
{
    return (uint16_t)((avr->data[REG_EEARL] | avr->data[REG_EEARH] << 8) & (SIZE - 1));
}

/* The processor stands still. */
static void halt(avr_t *avr, avr_cycle_count_t cycles)
{
    avr->cycle += cycles;
    avr->run_cycle_count = 1;
}

static bool is_open(const atmega_t *mcu)
{
    return (mcu->avr->data[REG_EECR] & EECR_EEMWE) != 0 &&
           mcu->avr->cycle - mcu->eeprom.opened <= OPEN_CYCLES;
}

static void write_byte(atmega_t *mcu)
{
    avr_t *avr = mcu->avr;
    eeprom_t *eeprom = &mcu->eeprom;
    if (eeprom->ready != 0) {
        atmega_fault(mcu, "the EEPROM is written while its last write is under way");
    } else if (!is_open(mcu)) {
        atmega_fault(mcu, "the EEPROM is written without EEMWE");
    } else {
        eeprom->address = address_of(avr);
        eeprom->value = avr->data[REG_EEDR];
        eeprom->bytes[eeprom->address] = ERASED;
        eeprom->ready = atmega_now(mcu) + WRITE_TIME;
        atmega_timer(mcu, atmega_cycle_at(mcu, eeprom->ready), written, mcu);
        halt(avr, WRITE_HALT);
    }
}

static void read_byte(atmega_t *mcu)
{
    avr_t *avr = mcu->avr;
    if (mcu->eeprom.ready != 0) {
        atmega_fault(mcu, "the EEPROM is read while it is being written");
    } else {
        avr->data[REG_EEDR] = mcu->eeprom.bytes[address_of(avr)];
        halt(avr, READ_HALT);
    }
}

static uint8_t control_read(avr_t *avr, avr_io_addr_t address, void *param)
{
    const atmega_t *mcu = param;
    return (uint8_t)((avr->data[address] & ~EECR_EEMWE) | (is_open(mcu) ? EECR_EEMWE : 0));
}

static void control_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    atmega_t *mcu = param;
    bool writing = mcu->eeprom.ready != 0;
    if ((value & EECR_EEWE) != 0 && (!writing || (value & EECR_EEMWE) != 0))
        write_byte(mcu);
    else if ((value & EECR_EEMWE) != 0)
        mcu->eeprom.opened = avr->cycle;
    if ((value & EECR_EERE) != 0)
        read_byte(mcu);
    uint8_t busy = mcu->eeprom.ready != 0 ? EECR_EEWE : 0;
    avr->data[address] = (uint8_t)((value & (EECR_EERIE | EECR_EEMWE)) | busy);
    atmega_interrupts_look(mcu);
}

void atmega_eeprom_write(atmega_t *mcu, uint16_t at, const uint8_t *bytes, uint16_t count)
{
    for (uint16_t i = 0; i < count; i++)
        mcu->eeprom.bytes[(at + i) % SIZE] = bytes[i];
}

void atmega_eeprom_read(atmega_t *mcu, uint16_t at, uint8_t *bytes, uint16_t count)
{
    for (uint16_t i = 0; i < count; i++)
        bytes[i] = mcu->eeprom.bytes[(at + i) % SIZE];
}

void atmega_eeprom_make(atmega_t *mcu)
{
    avr_eeprom_desc_t all = {.ee = NULL, .offset = 0, .size = SIZE};
    avr_ioctl(mcu->avr, AVR_IOCTL_EEPROM_GET, &all);
    mcu->eeprom.bytes = all.ee;
    atmega_own(mcu, REG_EECR, control_read, control_written);
}

/* A write goes on through a reset. */
void atmega_eeprom_reset(atmega_t *mcu)
{
    if (mcu->eeprom.ready != 0) {
        mcu->avr->data[REG_EECR] = EECR_EEWE;
        atmega_timer(mcu, atmega_cycle_at(mcu, mcu->eeprom.ready), written, mcu);
    }
}
