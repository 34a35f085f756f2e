/* Timer 0 on the 32768 Hz crystal (data sheet: 8-bit timer/counter 0; asynchronous operation).
 *
 * Nothing happens at an edge of the crystal. When the timer is read, the edges since the last reading are
 * made up for; cycle timers are set only for the next flag and for the edge at which a register takes over.
 *
 * An edge at which the prescaler lets the timer count is a tick. A match is seen, and OCF0 due, at the tick
 * after the one that made the counts equal; TOV0 is due a tick after the one that made the count 0. Both show
 * three processor cycles later.
 */
#include "atmega_private.h"

enum { SYNC_CYCLES = 3, TOV0 = 1, OCF0 = 2 };
enum { TCCR0_WGM01 = 0x08, TCCR0_WGM00 = 0x40, SFIOR_PSR0 = 2 };

static avr_cycle_count_t due(avr_t *avr, avr_cycle_count_t when, void *param);

static uint64_t edge_now(const atmega_t *mcu)
{
    return atmega_crystal_cycles(mcu) >> 16;
}

static bool is_asynchronous(const atmega_t *mcu)
{
    return (mcu->avr->data[REG_ASSR] & ASSR_AS0) != 0;
}

/* Edges from tick to tick, 0 when it stands still. */
static uint64_t divider(const timer0_t *timer, bool asynchronous)
{
    static const uint16_t dividers[] = {0, 1, 8, 32, 64, 128, 256, 1024};
    return asynchronous ? dividers[timer->control & TCCR_CS] : 0;
}

/* --- making up for edges --- */

static void tick(timer0_t *timer, uint64_t divided)
{
    bool writing = timer->to_count.busy != 0 || timer->to_compare.busy != 0;
    bool match = timer->count == timer->compare && !timer->blocked && !writing;
    timer->blocked = false;
    if (match)
        timer->compare_edge = timer->edge;
    if (match && (timer->control & TCCR0_WGM01) != 0)
        timer->count = 0;
    else if (++timer->count == 0)
        timer->overflow_edge = timer->edge + divided;
}

static bool takes_over(latch_t *latch, uint64_t edge)
{
    bool now = latch->busy != 0 && latch->edge == edge;
    if (now)
        latch->busy = 0;
    return now;
}

static void take_over(timer0_t *timer)
{
    if (takes_over(&timer->to_count, timer->edge)) {
        timer->count = timer->to_count.value;
        timer->blocked = true;
    }
    if (takes_over(&timer->to_compare, timer->edge))
        timer->compare = timer->to_compare.value;
    if (takes_over(&timer->to_control, timer->edge))
        timer->control = timer->to_control.value;
}

static bool is_busy(const timer0_t *timer)
{
    return (timer->to_count.busy | timer->to_compare.busy | timer->to_control.busy) != 0;
}

/* The next edge at which anything changes. */
static uint64_t next_edge(const timer0_t *timer, uint64_t divided)
{
    if (is_busy(timer) || divided == 1)
        return timer->edge + 1;
    if (divided == 0)
        return UINT64_MAX;
    return timer->edge + divided - (timer->edge - timer->prescaler) % divided;
}

static void advance(timer0_t *timer, bool asynchronous, uint64_t to)
{
    while (timer->edge < to) {
        uint64_t divided = divider(timer, asynchronous);
        uint64_t next = next_edge(timer, divided);
        if (next > to) {
            timer->edge = to;
            return;
        }
        timer->edge = next;
        if (divided != 0 && (next - timer->prescaler) % divided == 0)
            tick(timer, divided);
        take_over(timer);
    }
}

/* --- flags --- */

static avr_cycle_count_t cycle_of_flag(const atmega_t *mcu, uint64_t edge)
{
    avr_cycle_count_t cycle = atmega_edge_cycle(mcu, edge);
    return cycle == UINT64_MAX ? cycle : cycle + SYNC_CYCLES;
}

static void show_flag(atmega_t *mcu, uint64_t *edge, uint8_t flag)
{
    if (*edge != 0 && cycle_of_flag(mcu, *edge) <= mcu->avr->cycle) {
        *edge = 0;
        mcu->avr->data[REG_TIFR] |= flag;
        atmega_interrupts_look(mcu);
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The edge after which the next flag may show, if no register is written meanwhile. May be early. */
static uint64_t next_flag_edge(const atmega_t *mcu, uint64_t divided)
{
    const timer0_t *timer = &mcu->timer0;
    uint64_t to_match = (uint64_t)(uint8_t)(timer->compare - timer->count) + 1;
    uint64_t to_overflow = 256 - (uint64_t)timer->count + 1;
    uint64_t ticks = (timer->edge - timer->prescaler) / divided + earlier(to_match, to_overflow);
    return timer->prescaler + ticks * divided;
}

static uint64_t next_latch_edge(const timer0_t *timer)
{
    const latch_t *latches[] = {&timer->to_count, &timer->to_compare, &timer->to_control};
    uint64_t edge = UINT64_MAX;
    for (int i = 0; i < 3; i++)
        if (latches[i]->busy != 0)
            edge = earlier(edge, latches[i]->edge);
    return edge;
}

static uint64_t or_never(uint64_t edge)
{
    return edge == 0 ? UINT64_MAX : edge;
}

void atmega_timer0_plan(atmega_t *mcu)
{
    timer0_t *timer = &mcu->timer0;
    uint64_t divided = divider(timer, is_asynchronous(mcu));
    uint64_t flag = earlier(or_never(timer->overflow_edge), or_never(timer->compare_edge));
    if (divided != 0)
        flag = earlier(flag, next_flag_edge(mcu, divided));
    uint64_t latch = next_latch_edge(timer);
    avr_cycle_count_t when = flag == UINT64_MAX ? UINT64_MAX : cycle_of_flag(mcu, flag);
    if (latch != UINT64_MAX)
        when = earlier(when, atmega_edge_cycle(mcu, latch));
    if (when == UINT64_MAX)
        avr_cycle_timer_cancel(mcu->avr, due, mcu);
    else
        atmega_timer(mcu, when, due, mcu);
}

void atmega_timer0_catch_up(atmega_t *mcu)
{
    advance(&mcu->timer0, is_asynchronous(mcu), edge_now(mcu));
}

uint8_t atmega_crystal_count(const atmega_t *mcu)
{
    timer0_t timer = mcu->timer0;
    advance(&timer, is_asynchronous(mcu), edge_now(mcu));
    return timer.count;
}

unsigned atmega_crystal_divider(const atmega_t *mcu)
{
    timer0_t timer = mcu->timer0;
    advance(&timer, is_asynchronous(mcu), edge_now(mcu));
    return (unsigned)divider(&timer, is_asynchronous(mcu));
}

unsigned atmega_crystal_prescaler(const atmega_t *mcu)
{
    return (unsigned)((edge_now(mcu) - mcu->timer0.prescaler) % 1024);
}

static avr_cycle_count_t due(avr_t *avr, avr_cycle_count_t when, void *param)
{
    (void)avr, (void)when;
    atmega_t *mcu = param;
    atmega_timer0_catch_up(mcu);
    show_flag(mcu, &mcu->timer0.overflow_edge, TOV0);
    show_flag(mcu, &mcu->timer0.compare_edge, OCF0);
    atmega_timer0_plan(mcu);
    return 0;
}

/* --- registers --- */

static uint8_t count_read(avr_t *avr, avr_io_addr_t address, void *param)
{
    (void)avr, (void)address;
    atmega_t *mcu = param;
    atmega_timer0_catch_up(mcu);
    return mcu->timer0.edge < mcu->timer0.stale_until ? mcu->timer0.stale : mcu->timer0.count;
}

static uint8_t status_read(avr_t *avr, avr_io_addr_t address, void *param)
{
    atmega_t *mcu = param;
    timer0_t *timer = &mcu->timer0;
    atmega_timer0_catch_up(mcu);
    return (uint8_t)((avr->data[address] & ASSR_AS0) | timer->to_count.busy | timer->to_compare.busy |
                     timer->to_control.busy);
}

static void check_control(atmega_t *mcu)
{
    const uint8_t *data = mcu->avr->data;
    if ((data[REG_TCCR0] & TCCR0_WGM00) != 0)
        atmega_fault(mcu, "timer 0 in a PWM mode is not emulated");
    if ((data[REG_TCCR0] & TCCR_CS) != 0 && !is_asynchronous(mcu))
        atmega_fault(mcu, "timer 0 without AS0 is not emulated");
}

static void status_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    atmega_t *mcu = param;
    atmega_timer0_catch_up(mcu);
    avr->data[address] = value & ASSR_AS0;
    check_control(mcu);
    atmega_timer0_plan(mcu);
}

static void set_latch(atmega_t *mcu, latch_t *latch, uint8_t busy, uint8_t value, const char *name)
{
    timer0_t *timer = &mcu->timer0;
    atmega_timer0_catch_up(mcu);
    if (latch->busy != 0)
        atmega_fault(mcu, "%s is written while its last write is under way", name);
    *latch = (latch_t){value, busy, timer->edge + (is_asynchronous(mcu) ? 2 : 0)};
    if (!is_asynchronous(mcu))
        take_over(timer);
    atmega_timer0_plan(mcu);
}

static void count_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    (void)avr, (void)address;
    atmega_t *mcu = param;
    set_latch(mcu, &mcu->timer0.to_count, ASSR_TCN0UB, value, "TCNT0");
}

static void compare_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    atmega_t *mcu = param;
    avr->data[address] = value;
    set_latch(mcu, &mcu->timer0.to_compare, ASSR_OCR0UB, value, "OCR0");
}

static void control_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    atmega_t *mcu = param;
    avr->data[address] = value & 0x7F;
    check_control(mcu);
    set_latch(mcu, &mcu->timer0.to_control, ASSR_TCR0UB, value & 0x7F, "TCCR0");
}

static void special_written(avr_t *avr, avr_io_addr_t address, uint8_t value, void *param)
{
    atmega_t *mcu = param;
    avr->data[address] = (uint8_t)(value & ~SFIOR_PSR0);
    if ((value & SFIOR_PSR0) != 0) {
        atmega_timer0_catch_up(mcu);
        mcu->timer0.prescaler = mcu->timer0.edge;
        atmega_timer0_plan(mcu);
    }
}

/* --- reset and sleep --- */

void atmega_timer0_make(atmega_t *mcu)
{
    atmega_own(mcu, REG_TCNT0, count_read, count_written);
    atmega_own(mcu, REG_OCR0, NULL, compare_written);
    atmega_own(mcu, REG_TCCR0, NULL, control_written);
    atmega_own(mcu, REG_ASSR, status_read, status_written);
    atmega_own(mcu, REG_SFIOR, NULL, special_written);
}

void atmega_timer0_reset(atmega_t *mcu)
{
    mcu->timer0 = (timer0_t){.edge = edge_now(mcu)};
}

bool atmega_timer0_is_busy(atmega_t *mcu)
{
    atmega_timer0_catch_up(mcu);
    return is_busy(&mcu->timer0);
}

void atmega_timer0_sleeps(atmega_t *mcu)
{
    atmega_timer0_catch_up(mcu);
    mcu->timer0.stale = mcu->timer0.edge < mcu->timer0.stale_until ? mcu->timer0.stale : mcu->timer0.count;
}

void atmega_timer0_wakes(atmega_t *mcu)
{
    mcu->timer0.stale_until = edge_now(mcu) + 1;
}
