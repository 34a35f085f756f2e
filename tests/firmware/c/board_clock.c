/* The clock of boards/mica on timer 0 as the data sheet describes its asynchronous operation, which emulators
 * do not:
 *
 *  - flags come one crystal cycle and three CPU cycles after the count that raises them;
 *  - a register write goes through at the second crystal edge; a second write before that is an error; while
 * OCR0 is being written nothing is compared;
 *  - after power-save the count reads as before it until the next crystal edge; sleeping again within a
 * crystal cycle of the wake, or with a write under way, is an error.
 *
 * With `early` the flags come at once and writes go through at once, as in an emulator. With `odd` the timer
 * does what the data sheet leaves open: a change of the prescaler takes one to four edges and may itself
 * count, and flags come a crystal cycle late where they should come a tick late.
 * Reads the clock, sets alarms and sleeps at random; each reading must be the crystal's true count. With a
 * schedule, timer 0 is slow while it sleeps: a reading right after that may be the last tick's. Prints what
 * it found.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <avr/interrupt.h>
#include <avr/io.h>

#include "boards/mica/clock_sleep.h"
#include "boards/mica/events_pending.h"
#include "causeway_layout.h"
#include "hal/clock.h"
#include "hal/events.h"

enum { CYCLE = 225, NEVER = -1 };

static int64_t cpu;   /* time in CPU cycles */
static int64_t edges; /* of the crystal since it began: the true count */
static bool early, odd;
static uint8_t count; /* TCNT0 as the crystal has it */
static uint8_t shown; /* and as the CPU reads it */
static bool stale;
static uint8_t flags, mask, compare;
static int64_t flag_at[2] = {NEVER, NEVER};
static struct {
    int edges; /* until it goes through; 0: no write under way */
    uint8_t value;
} writes[3];        /* TCNT0, OCR0, TCCR0 */
static int divided; /* edges of the crystal from count to count; 0: it stands still */
static bool locked, handling;
static int64_t woken_edge = -10;
volatile uint8_t events_pending; /* boards/mica/events.c has it otherwise */
static int faults;

static volatile uint8_t lent[REGS];
static uint8_t lent_value[REGS];
static int lent_which = NEVER;

static void fault(const char *what)
{
    if (faults++ < 10)
        printf("fault at %lld: %s\n", (long long)cpu, what);
}

static void raise_flag(int which)
{
    flag_at[which] = early ? cpu : cpu + CYCLE * (odd ? 1 : divided) + 3;
}

static void set_control(uint8_t value)
{
    int before = divided;
    divided = value & _BV(CS00) ? (value & _BV(CS02) ? 128 : 1) : 0;
    if (odd && divided != before && rand() % 2 == 0)
        count++;
}

static void edge(void)
{
    edges++;
    stale = false;
    for (int i = 0; i < 3; i++) {
        if (writes[i].edges > 0 && --writes[i].edges == 0) {
            if (i == REG_TCNT0)
                count = (uint8_t)(writes[i].value - 1);
            else if (i == REG_OCR0)
                compare = writes[i].value;
            else
                set_control(writes[i].value);
        }
    }
    if (divided != 0 && edges % divided == 0) {
        count++;
        if (count == 0)
            raise_flag(TOV0);
        if (count == compare && writes[REG_OCR0].edges == 0)
            raise_flag(OCF0);
    }
    shown = count;
}

static void settle_lent(void);

static void dispatch(void)
{
    settle_lent();
    while (!locked && !handling && (flags & mask & 3)) {
        handling = true;
        fake_cycles(20);
        if (flags & mask & _BV(OCF0)) {
            flags &= (uint8_t)~_BV(OCF0);
            TIMER0_COMP_vect();
        } else {
            flags &= (uint8_t)~_BV(TOV0);
            TIMER0_OVF_vect();
        }
        settle_lent();
        handling = false;
    }
}

static void pass(unsigned cycles)
{
    for (int64_t end = cpu + cycles; cpu < end;) {
        int64_t next = cpu - cpu % CYCLE + CYCLE;
        for (int i = 0; i < 2; i++)
            next = flag_at[i] != NEVER && flag_at[i] < next ? flag_at[i] : next;
        cpu = next > end ? end : next <= cpu ? cpu + 1 : next;
        if (cpu % CYCLE == 0)
            edge();
        for (int i = 0; i < 2; i++) {
            if (flag_at[i] != NEVER && flag_at[i] <= cpu) {
                flags |= (uint8_t)_BV(i);
                flag_at[i] = NEVER;
            }
        }
    }
}

/* The CPU does something else, interrupts on. */
static void elsewhere(unsigned cycles)
{
    for (; cycles > 50; cycles -= 50) {
        pass(50);
        dispatch();
    }
    pass(cycles);
    dispatch();
}

/* A register was lent to be read or written. Was it written? */
static void settle_lent(void)
{
    int which = lent_which;
    lent_which = NEVER;
    if (which == NEVER || lent[which] == lent_value[which])
        return;
    uint8_t value = lent[which];
    if (which <= REG_TCCR0) {
        if (writes[which].edges != 0)
            fault("a register written while its last write is under way");
        writes[which].edges = early ? 1 : odd && which == REG_TCCR0 ? 1 + rand() % 4 : 2;
        writes[which].value = value;
        if (early && which == REG_OCR0) {
            compare = value;
            writes[which].edges = 0;
        }
    } else if (which == REG_TIFR) {
        flags &= (uint8_t)~value;
    } else if (which == REG_TIMSK) {
        mask = value;
    }
}

void fake_cycles(unsigned cycles)
{
    settle_lent();
    pass(cycles);
}

volatile uint8_t *fake_register(int which)
{
    settle_lent();
    pass(1 + (unsigned)(rand() & 1));
    dispatch();
    uint8_t value = 0;
    switch (which) {
    case REG_TCNT0:
        value = shown;
        break;
    case REG_OCR0:
        value = writes[REG_OCR0].edges != 0 ? writes[REG_OCR0].value : compare;
        break;
    case REG_TCCR0:
        value = 0x80; /* nobody reads it: so that writing the same again is seen */
        break;
    case REG_ASSR:
        value = (uint8_t)(_BV(AS0) | (early ? 0
                                            : (writes[REG_TCNT0].edges != 0) << TCN0UB |
                                                  (writes[REG_OCR0].edges != 0) << OCR0UB |
                                                  (writes[REG_TCCR0].edges != 0) << TCR0UB));
        break;
    case REG_TIFR:
        value = flags | 0x80; /* as above */
        break;
    case REG_TIMSK:
        value = mask;
        break;
    default:
        break;
    }
    lent[which] = lent_value[which] = value;
    lent_which = which;
    return &lent[which];
}

volatile uint16_t *fake_tcnt1(void)
{
    static volatile uint16_t counts;
    settle_lent();
    pass(3);
    counts = (uint16_t)(cpu / 8);
    return &counts;
}

uint8_t fake_lock(void)
{
    settle_lent();
    uint8_t was = locked;
    locked = true;
    return was;
}

void fake_unlock(const uint8_t *was)
{
    settle_lent();
    locked = *was != 0;
    dispatch();
}

/* --- the test --- */

static uint32_t offset; /* local time - edges */

static uint32_t truth(void)
{
    return (uint32_t)(edges + offset);
}

static void read_clock(void)
{
    uint32_t before = truth();
    uint32_t now = clock_now();
    settle_lent();
    uint32_t after = truth();
    if (clock_before(now, before) || clock_before(after, now)) {
        if (faults < 10) {
            printf("read %lu, true %lu..%lu\n", (unsigned long)now, (unsigned long)before,
                   (unsigned long)after);
        }
        fault("a reading that is not the true count");
    }
}

static void read_capture(void)
{
    uint32_t then = truth();
    uint16_t capture = *fake_tcnt1();
    elsewhere((unsigned)rand() % 30000);
    int32_t off = (int32_t)(clock_of_capture(capture) - then);
    settle_lent();
    if (off < -1 || off > 1)
        fault("a capture's time is more than a cycle off");
}

static void power_save(void)
{
    settle_lent();
    locked = true;
    clock_settle();
    clock_sleeps();
    settle_lent();
    if (!early && (writes[0].edges || writes[1].edges || writes[2].edges))
        fault("asleep with a write under way");
    if (!early && edges - woken_edge < 1)
        fault("asleep within a crystal cycle of the wake");
    uint8_t before = shown;
    while (!(flags & mask & 3))
        pass(1);
    pass((unsigned)rand() % 400); /* the main oscillator starts */
    if (!early && cpu % CYCLE != 0) {
        shown = before; /* until the next edge */
        stale = true;
    }
    woken_edge = edges;
    locked = false;
    dispatch();
}

static void set_alarm(void)
{
    uint32_t wait = (uint32_t)(rand() % 8 == 0 ? rand() % 6 : rand() % 700);
    events_pending = 0;
    uint32_t when = truth() + wait;
    bool sleeps = rand() & 1;
    clock_alarm(when);
    settle_lent();
    int32_t late;
    while (events_pending == 0) {
        if (sleeps)
            power_save();
        else
            elsewhere(7 + (unsigned)rand() % 50);
        if (rand() % 4 == 0)
            read_clock();
        if ((int32_t)(truth() - when) > 300) {
            fault("an alarm that never comes");
            return;
        }
    }
    late = (int32_t)(truth() - when);
    if (late < 0)
        fault("an alarm before its time");
    else if (late > 7)
        fault("a late alarm");
}

static void hold_interrupts(void)
{
    settle_lent();
    locked = true;
    pass((unsigned)rand() % 2000);
    read_clock();
    pass((unsigned)rand() % 300);
    read_clock();
    settle_lent();
    locked = false;
    dispatch();
}

#if CAUSEWAY_SCHEDULED

static long naps;

/* As events_wait() does it. */
static void wait_for_event(void)
{
    settle_lent();
    locked = true;
    while (events_pending == 0) {
        bool deep = clock_slows();
        settle_lent();
        if (!deep && events_pending != 0)
            break;
        if (deep && (writes[0].edges || writes[1].edges || writes[2].edges))
            fault("asleep with a write under way");
        if (deep && edges - woken_edge < 1)
            fault("asleep within a crystal cycle of the wake");
        uint8_t before = shown;
        while (!(flags & mask & 3))
            pass(CYCLE);
        if (deep) {
            naps++;
            pass((unsigned)rand() % (120 * CYCLE)); /* the main oscillator starts */
            shown = before;                         /* until the next edge */
            woken_edge = edges;
        }
        locked = false;
        dispatch();
        locked = true;
        if (deep) {
            clock_wakes();
            settle_lent();
        }
    }
    locked = false;
    dispatch();
}

/* The time, exact or that of the last tick. */
static uint32_t read_about(void)
{
    uint32_t now = clock_now();
    settle_lent();
    int32_t behind = (int32_t)(truth() - now);
    if (behind < 0 || behind > 140 || (behind > 8 && now % 128 != 0)) {
        printf("read %lu, true %lu\n", (unsigned long)now, (unsigned long)truth());
        fault("a reading that is neither exact nor the last tick's");
    }
    return now;
}

/* As a node does it: the loop runs at least every second. */
static void sleep_until(uint32_t when)
{
    while (clock_before(truth(), when)) {
        uint32_t now = read_about();
        clock_alarm(when - now < CLOCK_SECOND ? when : now + CLOCK_SECOND);
        wait_for_event();
        events_pending = 0;
        if (rand() % 8 == 0) { /* somebody needs the I/O clock */
            locked = true;
            clock_quickens();
            settle_lent();
            locked = false;
            dispatch();
            read_clock();
        }
        if (!clock_sound())
            fault("not sound");
        settle_lent();
    }
}

static void sleep_long(void)
{
    static const unsigned most[] = {40, 600, 3000, 33000, 140000};
    uint32_t when = truth() + (unsigned)rand() % most[rand() % 5];
    sleep_until(when);
    if ((int32_t)(truth() - when) > 12)
        fault("late after a sleep");
    read_clock();
}

static void try_scheduled(int times)
{
    for (int i = 0; i < times; i++) {
        switch (rand() % 4) {
        case 0:
            hold_interrupts();
            break;
        case 1:
            read_capture();
            break;
        default:
            sleep_long();
        }
    }
    printf("%ld naps, %lld s\n", naps, (long long)edges / 32768);
}

#else

static void try_scheduled(int times)
{
    (void)times;
}

#endif

int main(int argc, char **argv)
{
    srand(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
    early = argc > 2 && atoi(argv[2]) == 1;
    odd = argc > 2 && atoi(argv[2]) == 2;
    cpu = rand() % 100000;
    clock_start();
    settle_lent();
    offset = (uint32_t)(clock_now() - (uint32_t)edges);
    settle_lent();
    long readings = 0;
    if (CAUSEWAY_SCHEDULED) {
        read_clock();
        try_scheduled(argc > 3 ? atoi(argv[3]) : 1000);
        printf("%d faults\n", faults);
        return faults != 0;
    }
    for (int i = 0; i < 6000; i++) {
        switch (rand() % 8) {
        case 0:
            set_alarm();
            break;
        case 1:
            hold_interrupts();
            break;
        case 2:
            read_capture();
            break;
        case 3:
            elsewhere((unsigned)rand() % 90000);
            read_clock();
            break;
        default:
            for (int k = rand() % 60; k > 0; k--, readings++) {
                read_clock();
                elsewhere((unsigned)rand() % 60);
            }
        }
    }
    printf("%ld readings, %lld overflows, %d faults\n", readings, (long long)edges / 256, faults);
    return faults != 0;
}
