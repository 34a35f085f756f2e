/* The ADC, single-ended channels (data sheet: analog to digital converter). */
#include "atmega_private.h"

enum {
    ADPS = 7,
    REFS = 0xC0,
    REFS_INTERNAL = 0xC0,
    ADLAR = 0x20,
    MUX = 0x1F,
    MUX_BANDGAP = 30,
    MUX_GROUND = 31
};
enum { BANDGAP_MV = 1230, INTERNAL_MV = 2560, STEPS = 1024 };

/* Half cycles of the ADC's clock from the beginning to the sampling, and to the result; the first after
 * switching on takes longer. */
enum { SAMPLE = 3, RESULT = 26, FIRST_SAMPLE = 27, FIRST_RESULT = 50 };

static avr_cycle_count_t sample(avr_t *avr, avr_cycle_count_t when, void *param);
static avr_cycle_count_t finish(avr_t *avr, avr_cycle_count_t when, void *param);

static avr_cycle_count_t divider(const avr_t *avr)
{
    int power = avr->data[REG_ADCSRA] & ADPS;
    return (avr_cycle_count_t)1 << (power == 0 ? 1 : power);
}

static uint32_t input_millivolts(atmega_t *mcu)
{
    int channel = mcu->adc.mux & MUX;
    if (channel < ADC_CHANNELS) {
        atmega_millivolts_t *millivolts = mcu->adc.inputs[channel].millivolts;
        return millivolts != NULL ? millivolts(mcu->adc.inputs[channel].param) : 0;
    }
    if (channel < MUX_BANDGAP)
        atmega_fault(mcu, "differential channels of the ADC are not emulated");
    return channel == MUX_BANDGAP ? BANDGAP_MV : 0;
}

static void begin(atmega_t *mcu, avr_cycle_count_t at)
{
    avr_t *avr = mcu->avr;
    adc_t *adc = &mcu->adc;
    avr_cycle_count_t half = divider(avr) / 2;
    avr->data[REG_ADCSRA] |= ADCSRA_ADSC;
    adc->mux = avr->data[REG_ADMUX];
    atmega_timer(mcu, at + half * (adc->fresh ? FIRST_SAMPLE : SAMPLE), sample, mcu);
    atmega_timer(mcu, at + half * (adc->fresh ? FIRST_RESULT : RESULT), finish, mcu);
    adc->fresh = false;
}

static avr_cycle_count_t sample(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)when;
    atmega_t *mcu = param;
    uint32_t reference = (mcu->adc.mux & REFS) == REFS_INTERNAL ? INTERNAL_MV : avr->avcc;
    uint64_t value = (uint64_t)input_millivolts(mcu) * STEPS / reference;
    mcu->adc.value = (uint16_t)(value < STEPS ? value : STEPS - 1);
    return 0;
}

static avr_cycle_count_t finish(avr_t *avr, avr_cycle_count_t when, void *param)
{
    atmega_t *mcu = param;
    adc_t *adc = &mcu->adc;
    if (!adc->locked) {
        unsigned shown = (unsigned)adc->value << (avr->data[REG_ADMUX] & ADLAR ? 6 : 0);
        avr->data[REG_ADCL] = (uint8_t)shown;
        avr->data[REG_ADCH] = (uint8_t)(shown >> 8);
    }
    avr->data[REG_ADCSRA] |= ADCSRA_ADIF;
    if ((avr->data[REG_ADCSRA] & ADCSRA_ADFR) != 0)
        begin(mcu, when);
    else
        avr->data[REG_ADCSRA] &= (uint8_t)~ADCSRA_ADSC;
    atmega_interrupts_look(mcu);
    return 0;
}

static void stop(atmega_t *mcu)
{
    avr_cycle_timer_cancel(mcu->avr, sample, mcu);
    avr_cycle_timer_cancel(mcu->avr, finish, mcu);
    mcu->avr->data[REG_ADCSRA] &= (uint8_t)~ADCSRA_ADSC;
}

/* A conversion begins with the next cycle of the ADC's clock, which starts when the ADC is switched on. */
static void begin_soon(atmega_t *mcu)
{
    avr_cycle_count_t period = divider(mcu->avr);
    avr_cycle_count_t since = mcu->avr->cycle - mcu->adc.clock_since;
    begin(mcu, mcu->adc.clock_since + (since + period - 1) / period * period);
}

static void control_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    atmega_t *mcu = param;
    uint8_t before = avr->data[address];
    uint8_t kept = (before & ADCSRA_ADSC) | (before & (uint8_t)~value & ADCSRA_ADIF);
    avr->data[address] = (uint8_t)((value & ~(ADCSRA_ADSC | ADCSRA_ADIF)) | kept);
    if ((value & ADCSRA_ADEN) == 0) {
        stop(mcu);
    } else if ((before & ADCSRA_ADEN) == 0) {
        mcu->adc.fresh = true;
        mcu->adc.clock_since = avr->cycle;
    }
    if ((value & ADCSRA_ADEN) != 0 && (value & ADCSRA_ADSC) != 0 && (before & ADCSRA_ADSC) == 0)
        begin_soon(mcu);
    atmega_interrupts_look(mcu);
}

static uint8_t low_read(avr_t *avr, avr_io_addr_t address, void *param)
{
    ((atmega_t *)param)->adc.locked = true;
    return avr->data[address];
}

static uint8_t high_read(avr_t *avr, avr_io_addr_t address, void *param)
{
    ((atmega_t *)param)->adc.locked = false;
    return avr->data[address];
}

void atmega_adc(atmega_t *mcu, int channel, atmega_millivolts_t *millivolts, void *param)
{
    mcu->adc.inputs[channel].millivolts = millivolts;
    mcu->adc.inputs[channel].param = param;
}

void atmega_adc_make(atmega_t *mcu)
{
    atmega_own(mcu, REG_ADCSRA, NULL, control_written);
    atmega_own(mcu, REG_ADCL, low_read, NULL);
    atmega_own(mcu, REG_ADCH, high_read, NULL);
}

void atmega_adc_reset(atmega_t *mcu)
{
    mcu->adc.locked = false;
}

/* Falling asleep starts a conversion when the ADC is on. */
void atmega_adc_sleeps(atmega_t *mcu)
{
    if ((mcu->avr->data[REG_ADCSRA] & (ADCSRA_ADEN | ADCSRA_ADSC)) == ADCSRA_ADEN)
        begin_soon(mcu);
}
