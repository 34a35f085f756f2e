/* Local time: timer 0 counts the 32768 Hz crystal asynchronously, its overflows are counted here.
 *
 * Three things the data sheet says of asynchronous operation decide how TCNT0 is read:
 *  - TOV0 and OCF0 come one crystal cycle and three processor cycles after the count that causes them. So for
 * a whole crystal cycle TCNT0 has wrapped to 0 without a flag: only the smaller count shows it.
 * (There is always one to compare with: the overflow's interrupt reads the count itself, when it is 1 or
 * more.)
 *  - After power-save TCNT0 shows its old value until the next crystal edge. Waiting for a write to TCCR0 to
 * go through waits for that edge, and for the one that the wake-up logic needs before the next sleep. (OCR0
 * would do as well, but while it is being written no compare happens, and an alarm could be missed.)
 *  - A register may be written again only when its last write has gone through.
 *
 * MICA2's radio wants its handler to have written the next byte within 192 processor cycles, of which that
 * takes 20 itself. So what runs with interrupts off is kept short: the handlers here call nothing, which
 * spares them saving most registers, and the compare is set in the loop.
 *
 * With a schedule, timer 0 counts ticks of 128 cycles while the processor sleeps: undivided it would wake it
 * 128 times a second. No cycle is lost, and nothing is assumed of how many cycles a change takes. The
 * prescaler counts all the time, and local time is such that its ticks come at multiples of 128. To ticks the
 * change is made between two of them, so it does not matter when it goes through. Back, a tick is waited for,
 * then the change is made, then an edge is waited for; timer 1 measures how many cycles lie between the two.
 * In ticks no interrupt counts overflows: timer 0 is read at least every 250 of them.
 */
#include "hal/clock.h"

#include <avr/interrupt.h>
#include <util/atomic.h>

#include "boards/mica/atmega128.h"
#include "boards/mica/clock_sleep.h"
#include "boards/mica/events_pending.h"
#include "causeway_layout.h"
#include "causeway/flag.h"
#include "hal/events.h"

enum {
    RUN = _BV(CS00),               /* TCCR0: the crystal undivided */
    TICKS = _BV(CS02) | _BV(CS00), /* TCCR0: a tick each ... */
    TICK_LOG2 = 7,
    TICK = 1 << TICK_LOG2, /* ... 128 cycles */
    TICKS_LEAST = 2,       /* of a sleep: a compare with the present count might not match */
    TICKS_MOST = 250,      /* between two readings: a byte counts them, and the watchdog has 2 s */
    TICK_NEAR = 16,        /* cycles before a tick in which nothing is changed, ... */
    TICK_PAST = 4,         /* ... and after it */
    ALARM_LEAD = 16,  /* cycles that the alarm must be ahead of the tick at which cycles are counted again */
    ALARM_NEAR = 440, /* cycles to the alarm that are not worth a sleep in ticks */
    ALARM_MOST = 40000,  /* cycles that an alarm can be ahead; beyond, it has passed */
    COMPARE_LEAD = 3,    /* cycles: a value written to OCR0 is in place after two crystal edges */
    STEADY_CYCLES = 32,  /* of the crystal: one look at whether it runs at its rate ... */
    STEADY_COUNTS = 900, /* ... in counts of timer 1 ... */
    STEADY_SLACK = 9,    /* ... give or take a per cent */
    STEADY_LOOKS = 3,    /* good looks in a row */
};

#define INLINE static inline __attribute__((always_inline))
/* A debugger, or a testbed, that reads memory sees what comes before it first. */
#define BARRIER() __asm__ volatile("" ::: "memory")
#define START_LIMIT (F_CPU / 8) /* counts of timer 1 that clock_start() waits: a second */

static uint32_t periods;     /* overflows served: local time >> 8 */
static uint32_t not_periods; /* its complement, counted separately, so that a wrong count stays visible */
static uint8_t seen;         /* the last count read in this period */
static uint16_t alarm_time;  /* low half of the alarm's; it is at most a second ahead */
static cw_flag_t alarm_set;
static uint8_t alarm_period; /* low byte of its time >> 8: in that period the compare is on, */
static uint8_t alarm_count;  /* for this count */
static cw_flag_t asleep;     /* power-save since TCNT0 was last in step */
#define NAPPED (!CAUSEWAY_SCHEDULED && asleep) /* with a schedule never while it counts cycles */

#if CAUSEWAY_SCHEDULED
static cw_flag_t slow;           /* timer 0 counts ticks, and so does `periods` */
static uint8_t ticked;           /* the count when `periods` was right */
static uint8_t shift, not_shift; /* the time's low byte less the count of cycles */
#else
enum { slow = 0, shift = 0 };
#endif

static uint16_t timer1_now(void)
{
    uint16_t counts;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        counts = TCNT1; /* the high byte goes through a register that all of timer 1 shares */
    }
    return counts;
}

INLINE void settle(void)
{
    while (ASSR & (_BV(TCN0UB) | _BV(OCR0UB) | _BV(TCR0UB))) {
    }
    if (asleep) {
        TCCR0 = CAUSEWAY_SCHEDULED ? TICKS : RUN; /* as it was: with a schedule it sleeps only in ticks */
        while (ASSR & _BV(TCR0UB)) {
        }
        asleep = false;
    }
}

void clock_settle(void)
{
    settle();
}

void clock_sleeps(void)
{
    asleep = true;
}

#if CAUSEWAY_SCHEDULED

/* Set the count of periods, or of ticks. A count that memory has changed stays wrong. */
static __attribute__((noinline)) void set_periods(uint32_t count)
{
    not_periods ^= periods ^ count;
    periods = count;
}

/* The time of the last tick. Timer 0 counts ticks, interrupts are off. */
static uint32_t read_tick(void)
{
    clock_settle();
    BARRIER();
    uint8_t count = TCNT0;
    uint8_t passed = (uint8_t)(count - ticked);
    ticked = count;
    set_periods(periods + passed);
    return periods << TICK_LOG2;
}

#endif

/* The time now. Interrupts are off. */
INLINE uint32_t read_time(void)
{
#if CAUSEWAY_SCHEDULED
    if (slow)
        return read_tick();
#endif
    if (NAPPED)
        settle();
    uint8_t count = TCNT0;
    uint32_t period = periods;
    __builtin_avr_delay_cycles(4); /* a flag that belongs to this count is up now, unless the count is 0 */
    if (TIFR & _BV(TOV0)) {
        count = TCNT0;
        period++;
    } else if (count < seen) {
        period++;
    } else {
        seen = count;
    }
    return (period << 8 | count) + shift;
}

uint32_t clock_now(void)
{
    uint32_t now;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        now = read_time();
    }
    return now;
}

uint32_t clock_of_capture(uint16_t capture)
{
    uint32_t now;
    uint16_t age;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
#if CAUSEWAY_SCHEDULED
        now = clock_now(); /* shorter, and not so late that it matters */
#else
        now = read_time();
#endif
        age = (uint16_t)(TCNT1 - capture);
    }
    /* A count is 8 / 225 crystal cycles. The clock shows whole cycles, half a cycle behind on average: so
     * round to the nearest. */
    return now - (uint32_t)((age * 2330UL + 0x8000UL) >> 16);
}

/* The alarm's time has come. Interrupts are off. */
INLINE void fire(void)
{
    alarm_set = false;
    TIMSK &= (uint8_t)~_BV(OCIE0);
    events_pending |= EVENT_ALARM;
}

/* The alarm's period has begun. Interrupts are off. */
INLINE void arm(void)
{
    TIFR = _BV(OCF0);
    TIMSK |= _BV(OCIE0);
}

/* Cycles from `now` to the alarm. Without one it may be too short. */
static uint16_t alarm_left(uint32_t now)
{
    uint16_t left = (uint16_t)(alarm_time - (uint16_t)now);
    return left > ALARM_MOST ? 0 : left;
}

/* Let the alarm come, or at once if it has passed. Timer 0 counts cycles. */
static void place_alarm(void)
{
    while (ASSR & _BV(OCR0UB)) { /* only if two alarms were set within two crystal cycles */
    }
    uint16_t raw = (uint16_t)(alarm_time - shift);
    alarm_period = (uint8_t)(raw >> 8); /* no interrupt reads these before alarm_set */
    alarm_count = (uint8_t)raw;
    OCR0 = alarm_count;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        alarm_set = true;
        if ((uint8_t)periods == alarm_period)
            arm();
    }
    if (alarm_left(clock_now()) <= COMPARE_LEAD) { /* past, or too near for OCR0: wait here */
        while (alarm_left(clock_now()) > 0) {
        }
        ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
        {
            fire();
        }
    }
}

void clock_alarm(uint32_t when)
{
    uint32_t now = clock_now();
    clock_alarm_off();
    alarm_time = (uint16_t)(clock_before(when, now) ? now : when);
    if (slow)
        alarm_set = true; /* clock_slows() will see to it */
    else
        place_alarm();
}

void clock_alarm_off(void)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        alarm_set = false;
        TIMSK &= (uint8_t)~_BV(OCIE0);
    }
}

bool clock_sound(void)
{
    bool sound;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        sound = periods == ~not_periods;
#if CAUSEWAY_SCHEDULED
        sound = sound && (shift ^ not_shift) == UINT8_MAX;
#endif
    }
    return sound;
}

ISR(TIMER0_OVF_vect)
{
    not_periods--;
    periods++;
    if (NAPPED)
        settle();
    uint8_t count = TCNT0;
    seen = count;
    if (alarm_set && (uint8_t)periods == alarm_period) {
        if (count < alarm_count)
            arm();
        else
            fire();
    }
}

/* The interrupt of an earlier alarm's match may come just after this alarm was set: then it is not due. */
ISR(TIMER0_COMP_vect)
{
#if CAUSEWAY_SCHEDULED
    if (slow) {
        TIMSK &= (uint8_t)~_BV(OCIE0); /* it was only to wake */
        return;
    }
#endif
    if (NAPPED)
        settle();
    uint8_t count = TCNT0;
    __builtin_avr_delay_cycles(4); /* as above: it has wrapped if it is 0, or if the flag is up */
    if (count == 0 || count >= alarm_count || (TIFR & _BV(TOV0)))
        fire();
}

#if CAUSEWAY_SCHEDULED

/* From now on timer 0 counts ticks. Interrupts are off. */
static void count_ticks(uint32_t now)
{
    TCCR0 = TICKS;
    while (ASSR & _BV(TCR0UB)) {
    }
    TIMSK &= (uint8_t) ~(_BV(TOIE0) | _BV(OCIE0));
    ticked = TCNT0;
    set_periods(now >> TICK_LOG2);
    BARRIER();
    slow = true;
}

/* The next change of TCNT0: when it came, in counts of timer 1. Interrupts are off. */
static uint16_t await_change(uint8_t count)
{
    while (TCNT0 == count) {
    }
    return TCNT1;
}

void clock_quickens(void)
{
    if (!slow)
        return;
    uint16_t tick, edge;
    do { /* not at the tick that overflows: no telling how late the flag comes */
        (void)read_tick();
        tick = await_change(ticked);
    } while (ticked == UINT8_MAX);
    uint32_t time = read_tick();
    TCCR0 = RUN;
    while (ASSR & _BV(TCR0UB)) {
    }
    uint8_t count;
    do { /* nor where an overflow is near */
        count = TCNT0;
        edge = await_change(count);
        count++;
    } while ((uint8_t)(count + 2) < 4);
    time += ((uint16_t)(edge - tick) * UINT32_C(2330) + 0x8000U) >> 16;
    shift = (uint8_t)(time - count);
    not_shift = (uint8_t)~shift;
    set_periods((time - shift) >> 8);
    seen = count;
    BARRIER();
    slow = false;
    TIFR = _BV(TOV0) | _BV(OCF0);
    TIMSK |= _BV(TOIE0);
    if (alarm_set)
        place_alarm();
}

/* The time now, not too near a tick. Interrupts are off. */
static uint32_t time_between_ticks(void)
{
    uint32_t now;
    do {
        now = clock_now();
    } while ((((uint8_t)now + TICK_NEAR) & (TICK - 1)) < TICK_NEAR + TICK_PAST);
    return now;
}

/* Ticks until the one before the last before the alarm: at the last one cycles are counted again, and that
 * must not be one that overflows. */
static uint8_t ticks_to_sleep(uint16_t left)
{
    if (left < ALARM_LEAD + TICK)
        return 0;
    uint16_t ticks = (uint16_t)((left - ALARM_LEAD) / TICK - 1);
    if (ticks > TICKS_MOST)
        return TICKS_MOST;
    ticks = (uint16_t)(ticks - ((uint8_t)(ticked + ticks) == UINT8_MAX));
    return (uint8_t)(ticks < TICKS_LEAST ? 0 : ticks);
}

/* Wake before the alarm, or after TICKS_MOST. False if the alarm is too near. */
static bool set_wake(void)
{
    do {
        uint8_t ticks = ticks_to_sleep(alarm_left(read_tick()));
        if (ticks == 0)
            return false;
        TIFR = _BV(OCF0);
        OCR0 = (uint8_t)(ticked + ticks - 1); /* the flag comes with the tick after the match */
        while (ASSR & _BV(OCR0UB)) {
        }
    } while (TCNT0 != ticked);
    TIMSK |= _BV(OCIE0);
    return true;
}

bool clock_slows(void)
{
    clock_settle();
    if (!slow) {
        if (alarm_left(clock_now()) < ALARM_NEAR)
            return false;
        count_ticks(time_between_ticks());
    }
    if (!set_wake()) {
        clock_quickens();
        return false;
    }
    BARRIER();
    asleep = true;
    return true;
}

void clock_wakes(void)
{
    TIMSK &= (uint8_t)~_BV(OCIE0);
    if (alarm_left(read_tick()) < ALARM_NEAR)
        clock_quickens();
    else
        events_pending |= EVENT_ALARM;
}

#endif

/* Does the crystal make STEADY_CYCLES in the time it should? Ends in any case after twice that time. */
static bool looks_steady(void)
{
    uint8_t count = TCNT0;
    uint16_t begin = timer1_now();
    while (TCNT0 == count) /* from edge to edge */
        if ((uint16_t)(timer1_now() - begin) > STEADY_COUNTS)
            return false;
    count = TCNT0;
    begin = timer1_now();
    uint16_t took = 0;
    while ((uint8_t)(TCNT0 - count) < STEADY_CYCLES && took <= STEADY_COUNTS + STEADY_SLACK)
        took = (uint16_t)(timer1_now() - begin);
    return took >= STEADY_COUNTS - STEADY_SLACK && took <= STEADY_COUNTS + STEADY_SLACK;
}

/* Wait until the crystal runs at its rate, but no longer than START_LIMIT. */
static void wait_for_crystal(void)
{
    uint32_t waited = 0;
    uint8_t good = 0;
    uint16_t last = timer1_now();
    while (good < STEADY_LOOKS && waited < START_LIMIT) {
        bool busy = (ASSR & (_BV(TCN0UB) | _BV(OCR0UB) | _BV(TCR0UB))) != 0;
        good = !busy && looks_steady() ? (uint8_t)(good + 1) : 0;
        uint16_t now = timer1_now();
        waited += (uint16_t)(now - last);
        last = now;
    }
}

void clock_start(void)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        TIMSK &= (uint8_t) ~(_BV(TOIE0) | _BV(OCIE0));
        TCCR1A = 0;
        TCCR1B = _BV(CS11); /* main clock / 8, for captures */
        ASSR = _BV(AS0);
        TCNT0 = 0; /* changing AS0 may have spoilt all three */
        OCR0 = 0;
        TCCR0 = RUN;
    }
    wait_for_crystal();
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        TIFR = _BV(TOV0) | _BV(OCF0);
        periods = 0;
        not_periods = ~periods;
        seen = 0;
        asleep = false;
#if CAUSEWAY_SCHEDULED
        alarm_set = false;
        count_ticks(0);
        clock_quickens(); /* from here on ticks are at multiples of 128 */
#else
        TIMSK |= _BV(TOIE0);
#endif
    }
}
