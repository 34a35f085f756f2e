/* Events and sleep. */
#include "hal/events.h"

#include <avr/interrupt.h>
#include <avr/sleep.h>
#include <util/atomic.h>

#include "boards/mica/atmega128.h"
#include "boards/mica/clock_sleep.h"
#include "boards/mica/events_pending.h"
#include "causeway_layout.h"
#include "hal/power.h"

volatile uint8_t events_pending;
static volatile uint8_t users;              /* of the I/O clock */
static volatile uint8_t others = UINT8_MAX; /* its complement, kept by itself */

void events_post(uint8_t events)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        events_pending |= events;
    }
}

uint8_t events_take(void)
{
    uint8_t taken;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        taken = events_pending;
        events_pending = 0;
    }
    return taken;
}

void power_need(uint8_t user)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
#if CAUSEWAY_SCHEDULED
        clock_quickens(); /* drivers that use the I/O clock need the exact time */
#endif
        users |= user;
        others &= (uint8_t)~user;
    }
}

void power_release(uint8_t user)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        users &= (uint8_t)~user;
        others |= user;
    }
}

bool power_sound(void)
{
    bool sound;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        sound = (users ^ others) == UINT8_MAX;
    }
    return sound;
}

/* Sleep once. Interrupts are off, and on only while it sleeps: the instruction after sei is done before any
 * interrupt. */
static void sleep_in(uint8_t mode)
{
    MCUCR = (uint8_t)((MCUCR & ~(_BV(SM0) | _BV(SM1) | _BV(SM2))) | mode | _BV(SE));
    sei();
    sleep_cpu();
    /* an emulator may need one more instruction before it takes what was pending at sei */
    __asm__ volatile("nop");
    cli();
    MCUCR &= (uint8_t)~_BV(SE);
}

#if CAUSEWAY_SCHEDULED

/* Where an alarm is near, power-save would take longer to wake from. */
static void sleep_once(void)
{
    if (users == 0 && clock_slows()) {
        sleep_in(SLEEP_MODE_PWR_SAVE);
        clock_wakes();
    } else if (events_pending == 0) { /* clock_slows() may have found the alarm due */
        sleep_in(SLEEP_MODE_IDLE);
    }
}

#else

static void sleep_once(void)
{
    uint8_t mode = SLEEP_MODE_IDLE;
    if (users == 0) {
        mode = SLEEP_MODE_PWR_SAVE;
        clock_settle();
        clock_sleeps();
    }
    sleep_in(mode);
}

#endif

void events_wait(void)
{
    cli();
    while (events_pending == 0)
        sleep_once();
    sei();
}
