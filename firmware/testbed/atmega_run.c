/* Instructions and interrupts.
 *
 * The library's own loop queues interrupts when they are raised, which loses those that are masked then,
 * takes no time for them, and waits an instruction too long after SEI. Here an interrupt is due whenever its
 * flag and its mask are set, as on the chip.
 */
#include "atmega_private.h"

#include <simavr/sim_core.h>
#include <simavr/sim_regbit.h>

DEFINE_FIFO(avr_int_vector_p, avr_int_pending);

enum { RESPONSE_CYCLES = 4, AFTER_SEI = -2, NEXT_AFTER_SEI = -1 };

/* --- which interrupt is due --- */

bool atmega_interrupt_is_level(const atmega_t *mcu, int vector)
{
    const uint8_t *data = mcu->avr->data;
    if (vector <= VECTOR_INT3)
        return (data[REG_EICRA] >> 2 * (vector - VECTOR_INT0) & 3) == 0;
    return vector <= VECTOR_INT7 && (data[REG_EICRB] >> 2 * (vector - VECTOR_INT4) & 3) == 0;
}

/* INT0 to INT3 are PD0 to PD3, INT4 to INT7 are PE4 to PE7. */
static bool pin_is_low(const atmega_t *mcu, int vector)
{
    uint8_t pins = mcu->avr->data[vector <= VECTOR_INT3 ? REG_PIND : REG_PINE];
    return (pins >> (vector - VECTOR_INT0) & 1) == 0;
}

bool atmega_interrupt_raised(const atmega_t *mcu, const avr_int_vector_t *vector)
{
    if (vector->vector == VECTOR_EEPROM)
        return (mcu->avr->data[REG_EECR] & EECR_EEWE) == 0;
    if (atmega_interrupt_is_level(mcu, vector->vector))
        return pin_is_low(mcu, vector->vector);
    return vector->raised.reg != 0 && avr_regbit_get(mcu->avr, vector->raised);
}

static bool is_due(const atmega_t *mcu, const avr_int_vector_t *vector)
{
    return atmega_interrupt_raised(mcu, vector) && atmega_sleep_ends_by(mcu, vector->vector);
}

/* Of those that are due the one with the lowest number. It is asked for all the time, so the masks lie
 * together. */
static avr_int_vector_t *first_due(const atmega_t *mcu)
{
    const uint8_t *data = mcu->avr->data;
    for (int i = 1; i < ATMEGA_VECTORS; i++) {
        const atmega_mask_t *mask = &mcu->masks[i];
        if ((data[mask->at] & mask->bits) != 0 && is_due(mcu, mcu->vectors[i]))
            return mcu->vectors[i];
    }
    return NULL;
}

bool atmega_interrupt_is_due(const atmega_t *mcu)
{
    return mcu->avr->sreg[S_I] && first_due(mcu) != NULL;
}

void atmega_interrupts_look(atmega_t *mcu)
{
    avr_t *avr = mcu->avr;
    if (avr->sreg[S_I] && avr->interrupt_state == 0)
        avr->interrupt_state = 1;
}

/* The library's queue is not used, but does not raise again what it holds. */
static void empty_queue(avr_t *avr)
{
    avr_int_pending_t *queue = &avr->interrupts.pending;
    while (!avr_int_pending_isempty(queue))
        avr_int_pending_read(queue)->pending = 0;
}

static void take(atmega_t *mcu, avr_int_vector_t *vector, int cycles)
{
    avr_t *avr = mcu->avr;
    _avr_push_addr(avr, avr->pc);
    avr->pc = (avr_flashaddr_t)vector->vector * avr->vector_size;
    avr->sreg[S_I] = 0;
    avr->interrupt_state = 0;
    avr_clear_interrupt(avr, vector);
    avr->cycle += (avr_cycle_count_t)cycles;
    atmega_measure_handler(mcu, vector->vector);
    avr_cycle_timer_process(avr);
}

static void attend_asleep(atmega_t *mcu)
{
    avr_int_vector_t *vector = mcu->avr->sreg[S_I] ? first_due(mcu) : NULL;
    if (vector != NULL) {
        atmega_sleep_end(mcu, vector->vector == VECTOR_TIMER0_OVF || vector->vector == VECTOR_TIMER0_COMP);
        if (mcu->nap.state == AWAKE)
            take(mcu, vector, 2 * RESPONSE_CYCLES);
    }
}

/* The instruction after the one that has set the I flag is done before any interrupt. */
static void attend_awake(atmega_t *mcu)
{
    avr_t *avr = mcu->avr;
    if (avr->interrupt_state == AFTER_SEI && avr->sreg[S_I]) {
        avr->interrupt_state = NEXT_AFTER_SEI;
        return;
    }
    avr->interrupt_state = 0;
    avr_int_vector_t *vector = avr->sreg[S_I] ? first_due(mcu) : NULL;
    if (vector != NULL)
        take(mcu, vector, RESPONSE_CYCLES);
}

static void attend(atmega_t *mcu)
{
    empty_queue(mcu->avr);
    if (mcu->nap.state == ASLEEP)
        attend_asleep(mcu);
    else if (mcu->nap.state == AWAKE && mcu->avr->interrupt_state != 0)
        attend_awake(mcu);
}

/* --- flags and masks --- */

static void flags_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)param;
    avr->data[address] &= (uint8_t)~value;
    empty_queue(avr);
}

static void mask_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    avr->data[address] = value;
    atmega_interrupts_look(param);
}

void atmega_interrupts_make(atmega_t *mcu)
{
    static const uint8_t flags[] = {REG_EIFR, REG_TIFR, REG_ETIFR};
    static const uint8_t masks[] = {REG_EIMSK, REG_TIMSK, REG_ETIMSK, REG_EICRA, REG_EICRB};
    avr_int_table_t *table = &mcu->avr->interrupts;
    for (int i = 0; i < table->vector_count; i++) {
        avr_int_vector_t *vector = table->vector[i];
        uint8_t bits = vector->enable.reg ? (uint8_t)(vector->enable.mask << vector->enable.bit) : 0;
        mcu->vectors[vector->vector] = vector;
        mcu->masks[vector->vector] = (atmega_mask_t){(uint16_t)vector->enable.reg, bits};
    }
    for (size_t i = 0; i < sizeof flags; i++)
        atmega_own(mcu, flags[i], NULL, flags_written);
    for (size_t i = 0; i < sizeof masks; i++)
        atmega_own(mcu, masks[i], NULL, mask_written);
}

/* --- running --- */

static avr_cycle_count_t stop_here(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)avr, (void)when, (void)param;
    return 0;
}

void atmega_run_again(atmega_t *mcu)
{
    if (mcu->running)
        atmega_timer(mcu, mcu->end, stop_here, mcu);
}

static void run_instructions(atmega_t *mcu)
{
    avr_t *avr = mcu->avr;
    avr->pc = mcu->measure.on ? atmega_measure_instruction(mcu) : avr_run_one(avr);
    if (avr->state == cpu_Sleeping)
        atmega_sleep_begin(mcu);
    else if (avr->state != cpu_Running)
        atmega_fault(mcu, "runs wild: no such memory");
    avr->state = cpu_Running; /* it is we who know whether it sleeps */
}

static void step(atmega_t *mcu)
{
    avr_t *avr = mcu->avr;
    if (mcu->nap.state == AWAKE) {
        run_instructions(mcu);
    } else if (avr->cycle_timers.timer->when > avr->cycle) {
        avr_cycle_count_t cycles = avr->cycle_timers.timer->when - avr->cycle;
        avr->cycle += cycles;
        atmega_measure_sleep(mcu, cycles);
    }
    avr_cycle_timer_process(avr);
    avr->state = cpu_Running;
    if (mcu->reset_wanted)
        atmega_do_reset(mcu, mcu->reset_cause);
    attend(mcu);
}

void atmega_run(atmega_t *mcu, ns_t until)
{
    if (!mcu->on) {
        mcu->off_time = until > mcu->off_time ? until : mcu->off_time;
        return;
    }
    mcu->end = atmega_cycle_at(mcu, until);
    if (mcu->avr->cycle >= mcu->end)
        return;
    mcu->running = true;
    atmega_run_again(mcu);
    if (mcu->nap.state == ASLEEP)
        attend(mcu); /* a pin may have been moved since the last run */
    while (mcu->on && mcu->avr->cycle < mcu->end)
        step(mcu);
    mcu->running = false;
}

ns_t atmega_idle_until(const atmega_t *mcu)
{
    const avr_t *avr = mcu->avr;
    if (!mcu->on)
        return NEVER;
    if (mcu->nap.state == AWAKE || (mcu->nap.state == ASLEEP && atmega_interrupt_is_due(mcu)))
        return atmega_now(mcu);
    const avr_cycle_timer_slot_t *next = avr->cycle_timers.timer;
    return next == NULL ? NEVER : atmega_time_of(mcu, next->when > avr->cycle ? next->when : avr->cycle);
}
