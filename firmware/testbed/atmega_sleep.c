/* Sleep: what stands still in which mode, what ends it, and what a program must not expect of it (data sheet:
 * power management and sleep modes; asynchronous operation of timer 0).
 */
#include <string.h>

#include <simavr/avr_timer.h>
#include <simavr/sim_regbit.h>

#include "atmega_private.h"

enum { MCUCR_SE = 0x20, MCUCR_SM2 = 0x04, MCUCR_SM10 = 0x18 };
enum { IDLE = 0, NOISE_REDUCTION = 1, POWER_DOWN = 2, POWER_SAVE = 3, STANDBY = 6, EXTENDED_STANDBY = 7 };

/* In the standby modes the main crystal goes on. */
enum { STANDBY_CYCLES = 6, HALT_CYCLES = 4 };

enum { ONE_CRYSTAL_CYCLE = 1 << 16 };

static const uint8_t flag_registers[] = {REG_EIFR, REG_TIFR, REG_ETIFR};

static const char *mode_name(uint8_t mode)
{
    static const char *const names[] = {
        "idle",    "ADC noise reduction", "power-down", "power-save", "a reserved mode", "a reserved mode",
        "standby", "extended standby",
    };
    return names[mode];
}

/* A reserved mode, which is reported as a fault, counts as idle. */
static processor_state_t state_in(uint8_t mode)
{
    static const processor_state_t states[] = {
        [IDLE] = PROCESSOR_IDLE,
        [NOISE_REDUCTION] = PROCESSOR_NOISE_REDUCTION,
        [POWER_DOWN] = PROCESSOR_POWER_DOWN,
        [POWER_SAVE] = PROCESSOR_POWER_SAVE,
        [4] = PROCESSOR_IDLE,
        [5] = PROCESSOR_IDLE,
        [STANDBY] = PROCESSOR_STANDBY,
        [EXTENDED_STANDBY] = PROCESSOR_EXTENDED_STANDBY,
    };
    return states[mode];
}

static void enter(atmega_t *mcu, processor_state_t state)
{
    meter_enter(&mcu->states, (int)state, mcu->avr->cycle);
}

static bool crystal_runs_in(uint8_t mode)
{
    return mode == NOISE_REDUCTION || mode == POWER_SAVE || mode == EXTENDED_STANDBY;
}

/* --- which interrupt could come --- */

static bool is_live(const atmega_t *mcu, uint8_t mode, int vector)
{
    if (mode == IDLE || vector <= VECTOR_INT3 || vector == VECTOR_TWI ||
        atmega_interrupt_is_level(mcu, vector))
        return true;
    if (vector == VECTOR_TIMER0_COMP || vector == VECTOR_TIMER0_OVF)
        return crystal_runs_in(mode) && (mcu->avr->data[REG_ASSR] & ASSR_AS0) != 0;
    return mode == NOISE_REDUCTION &&
           (vector == VECTOR_ADC || vector == VECTOR_EEPROM || vector == VECTOR_SPM);
}

static bool timer_runs(const atmega_t *mcu, int vector)
{
    const uint8_t *data = mcu->avr->data;
    if (vector == VECTOR_TIMER0_COMP || vector == VECTOR_TIMER0_OVF)
        return (data[REG_TCCR0] & TCCR_CS) != 0;
    if (vector == VECTOR_TIMER2_COMP || vector == VECTOR_TIMER2_OVF)
        return (data[REG_TCCR2] & TCCR_CS) != 0;
    return (data[vector >= VECTOR_TIMER3_CAPT ? REG_TCCR3B : REG_TCCR1B] & TCCR_CS) != 0;
}

/* Is its interrupt enabled, and does what causes it go on? */
static bool is_waited_for(const atmega_t *mcu, int number)
{
    const avr_int_vector_t *vector = mcu->vectors[number];
    const uint8_t *data = mcu->avr->data;
    if (vector == NULL || !avr_regbit_get(mcu->avr, vector->enable))
        return false;
    switch (number) {
    case VECTOR_TIMER2_COMP:
    case VECTOR_TIMER2_OVF:
    case VECTOR_TIMER1_COMPA ... VECTOR_TIMER0_OVF:
    case VECTOR_TIMER1_COMPC:
    case VECTOR_TIMER3_COMPA ... VECTOR_TIMER3_OVF:
        return timer_runs(mcu, number);
    case VECTOR_SPI:
        return (data[REG_SPCR] & SPCR_SPE) != 0;
    case VECTOR_UART0_RX:
        return (data[REG_UCSR0B] & UCSRB_RXEN) != 0;
    case VECTOR_UART0_UDRE:
    case VECTOR_UART0_TX:
        return mcu->uart.sending;
    case VECTOR_ADC:
        return (data[REG_ADCSRA] & ADCSRA_ADSC) != 0;
    case VECTOR_UART1_RX:
        return (data[REG_UCSR1B] & UCSRB_RXEN) != 0;
    default:
        return true;
    }
}

static const char *vector_name(int vector)
{
    static const char *const names[ATMEGA_VECTORS] = {
        "",
        "INT0",
        "INT1",
        "INT2",
        "INT3",
        "INT4",
        "INT5",
        "INT6",
        "INT7",
        "timer 2's compare",
        "timer 2's overflow",
        "timer 1's capture",
        "timer 1's compare A",
        "timer 1's compare B",
        "timer 1's overflow",
        "timer 0's compare",
        "timer 0's overflow",
        "the SPI",
        "a byte from UART 0",
        "UART 0's sending",
        "UART 0's sending",
        "the ADC",
        "the EEPROM",
        "the analog comparator",
        "timer 1's compare C",
        "timer 3's capture",
        "timer 3's compare A",
        "timer 3's compare B",
        "timer 3's compare C",
        "timer 3's overflow",
        "a byte from UART 1",
        "UART 1's sending",
        "UART 1's sending",
        "the two-wire interface",
        "the flash",
    };
    return names[vector];
}

/* --- faults --- */

static void fault_waits(atmega_t *mcu, uint8_t mode, int vector)
{
    atmega_fault(mcu, "sleeps in %s while %s is waited for", mode_name(mode), vector_name(vector));
}

/* Parts that stop working though the program waits for none of their interrupts. */
static void check_work(atmega_t *mcu, uint8_t mode)
{
    const uint8_t *data = mcu->avr->data;
    if (mcu->uart.sending)
        fault_waits(mcu, mode, VECTOR_UART0_TX);
    if (mcu->spi.busy && (data[REG_SPCR] & SPCR_MSTR) != 0)
        fault_waits(mcu, mode, VECTOR_SPI);
    if (mode != NOISE_REDUCTION && (data[REG_ADCSRA] & ADCSRA_ADSC) != 0)
        fault_waits(mcu, mode, VECTOR_ADC);
}

static void check_timer0(atmega_t *mcu, uint8_t mode)
{
    const nap_t *nap = &mcu->nap;
    if ((mode != POWER_SAVE && mode != EXTENDED_STANDBY) || (mcu->avr->data[REG_TIMSK] & TIMER0_FLAGS) == 0)
        return;
    if (atmega_timer0_is_busy(mcu))
        atmega_fault(mcu, "sleeps in %s while a write to timer 0 is under way", mode_name(mode));
    if (nap->timer0_woke && atmega_crystal_cycles(mcu) - nap->woke_at < ONE_CRYSTAL_CYCLE)
        atmega_fault(mcu, "sleeps in %s within a crystal cycle of being woken by timer 0", mode_name(mode));
}

static void check(atmega_t *mcu, uint8_t mode)
{
    bool wakes = false;
    for (int i = 1; i < ATMEGA_VECTORS; i++) {
        if (is_waited_for(mcu, i)) {
            wakes |= is_live(mcu, mode, i);
            if (!is_live(mcu, mode, i))
                fault_waits(mcu, mode, i);
        }
    }
    if (mode != IDLE) {
        check_work(mcu, mode);
        check_timer0(mcu, mode);
    }
    if ((mcu->avr->data[REG_WDTCR] & WDTCR_WDE) != 0)
        return;
    if (!mcu->avr->sreg[S_I])
        atmega_fault(mcu, "sleeps in %s with interrupts off", mode_name(mode));
    else if (!wakes)
        atmega_fault(mcu, "sleeps in %s with nothing to wake it", mode_name(mode));
}

/* --- the I/O clock --- */

static bool stands_still(const atmega_t *mcu, const avr_cycle_timer_slot_t *slot)
{
    const call_t *one = slot->param;
    return slot->param != mcu && !(one >= mcu->calls && one < mcu->calls + CALLS);
}

static void stop_io_clock(atmega_t *mcu)
{
    avr_t *avr = mcu->avr;
    nap_t *nap = &mcu->nap;
    nap->io_stopped = true;
    nap->stopped_at = avr->cycle;
    nap->frozen_count = 0;
    for (const avr_cycle_timer_slot_t *slot = avr->cycle_timers.timer; slot != NULL; slot = slot->next) {
        if (stands_still(mcu, slot)) {
            avr_cycle_count_t left = slot->when > avr->cycle ? slot->when - avr->cycle : 1;
            nap->frozen[nap->frozen_count++] = (frozen_t){slot->timer, slot->param, left};
        }
    }
    for (int i = 0; i < nap->frozen_count; i++)
        avr_cycle_timer_cancel(avr, nap->frozen[i].timer, nap->frozen[i].param);
    for (size_t i = 0; i < sizeof flag_registers; i++)
        nap->flags[i] = avr->data[flag_registers[i]];
}

/* The library's timers know the cycle at which they were 0. */
static void shift_timers(avr_t *avr, avr_cycle_count_t stood)
{
    for (avr_io_t *io = avr->io_port; io != NULL; io = io->next)
        if (strcmp(io->kind, "timer") == 0 && ((avr_timer_t *)io)->tov_cycles != 0)
            ((avr_timer_t *)io)->tov_base += stood;
}

/* Flags that were set without a clock to set them are taken back. */
static void restore_flags(atmega_t *mcu)
{
    const uint8_t live[sizeof flag_registers] = {0x0F, TIMER0_FLAGS, 0};
    for (size_t i = 0; i < sizeof flag_registers; i++)
        mcu->avr->data[flag_registers[i]] &= live[i] | mcu->nap.flags[i];
}

static void start_io_clock(atmega_t *mcu)
{
    avr_t *avr = mcu->avr;
    nap_t *nap = &mcu->nap;
    nap->io_stopped = false;
    for (int i = 0; i < nap->frozen_count; i++)
        avr_cycle_timer_register(avr, nap->frozen[i].left, nap->frozen[i].timer, nap->frozen[i].param);
    shift_timers(avr, avr->cycle - nap->stopped_at);
    restore_flags(mcu);
}

/* --- to sleep and back --- */

void atmega_sleep_reset(atmega_t *mcu)
{
    memset(&mcu->nap, 0, sizeof mcu->nap);
    enter(mcu, PROCESSOR_ACTIVE);
}

void atmega_start_cycles(atmega_t *mcu, uint32_t cycles)
{
    mcu->start_cycles = cycles;
}

void atmega_sleep_begin(atmega_t *mcu)
{
    uint8_t control = mcu->avr->data[REG_MCUCR];
    if ((control & MCUCR_SE) == 0 || atmega_interrupt_is_due(mcu))
        return;
    uint8_t mode = (uint8_t)((control & MCUCR_SM2) | (control & MCUCR_SM10) >> 3);
    if (mode == IDLE || mode == NOISE_REDUCTION)
        atmega_adc_sleeps(mcu);
    check(mcu, mode);
    mcu->nap.state = ASLEEP;
    mcu->nap.mode = mode;
    mcu->nap.timer0_woke = false;
    enter(mcu, state_in(mode));
    if (mode != IDLE) {
        atmega_timer0_sleeps(mcu);
        stop_io_clock(mcu);
    }
}

bool atmega_sleep_ends_by(const atmega_t *mcu, int vector)
{
    return mcu->nap.state == AWAKE || is_live(mcu, mcu->nap.mode, vector);
}

static void wake(atmega_t *mcu)
{
    nap_t *nap = &mcu->nap;
    nap->state = AWAKE;
    enter(mcu, PROCESSOR_ACTIVE);
    if (nap->io_stopped) {
        start_io_clock(mcu);
        atmega_timer0_wakes(mcu);
        nap->woke_at = atmega_crystal_cycles(mcu);
    }
}

static avr_cycle_count_t started(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)when;
    wake(param);
    avr->cycle += HALT_CYCLES;
    atmega_interrupts_look(param);
    return 0;
}

void atmega_sleep_end(atmega_t *mcu, bool by_timer0)
{
    uint8_t mode = mcu->nap.mode;
    mcu->nap.timer0_woke = by_timer0 && mode != IDLE;
    if (mode == IDLE || mode == NOISE_REDUCTION) {
        wake(mcu);
        return;
    }
    bool oscillator_runs = mode == STANDBY || mode == EXTENDED_STANDBY;
    mcu->nap.state = WAKING;
    enter(mcu, PROCESSOR_STARTING);
    atmega_timer(mcu, mcu->avr->cycle + (oscillator_runs ? STANDBY_CYCLES : mcu->start_cycles), started, mcu);
}
