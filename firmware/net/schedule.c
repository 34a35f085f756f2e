#include "schedule.h"

#if CAUSEWAY_SCHEDULED

#include "schedule_parts.h"

_Static_assert(CAUSEWAY_ROOT >= CAUSEWAY_MOTES, "levels are hops from the gateway: it must be the root");
_Static_assert(CAUSEWAY_PHASE < SCHEDULE_PHASE_MOST, "packet_formats/schedule.py refuses longer ones");

#define URGENT_PHASES (SLOTS + CAUSEWAY_URGENT_ROUNDS * CAUSEWAY_LEVELS)
#define DUTY_STEPS 16U /* packet_formats/records.py */
/* Polls are short: with them the time awake is counted in eighths of a unit, a 2048th of a period. */
#define DUTY_FINE (SCHEDULE_URGENT ? 3 : 0)
#define BRIEF(time) ((uint16_t)((time) >> (CAUSEWAY_PERIOD_LOG2 - 11 - DUTY_FINE)))

schedule_state_t schedule;

static uint16_t on_since,
    on_lately;        /* when the receiver was switched on; how long it was since the last window */
static uint16_t duty; /* how long it is in a window, eight times the mean */

/* ---- Where in the window ---- */

__attribute__((noinline)) uint16_t schedule_at(uint32_t local)
{
    uint32_t since = local - schedule.starts;
    if (clock_before(local, schedule.starts))
        return 0;
    return since < SCHEDULE_PHASE_MOST ? (uint16_t)since : SCHEDULE_PHASE_MOST;
}

/* In two steps, or it is a loop of 32-bit shifts. */
uint8_t schedule_periods(uint32_t cycles)
{
    return (uint8_t)((uint16_t)((cycles + PERIOD / 2) >> 16) >> (CAUSEWAY_PERIOD_LOG2 - 16));
}

__attribute__((noinline)) uint32_t schedule_opening_at(uint32_t local)
{
    uint32_t since = timesync_network(local) & (PERIOD - 1);
    return since > PERIOD / 2 ? local + (PERIOD - since) : local - since;
}

uint8_t schedule_round(void)
{
    return schedule.round;
}

uint8_t schedule_window(void)
{
    return schedule.window;
}

uint8_t schedule_our_round(void)
{
    return schedule.level == schedule.our_level && !schedule.lost ? schedule.round : SCHEDULE_NO_ROUND;
}

uint32_t schedule_end(uint32_t now)
{
    (void)now;
    return schedule.opened +
           (schedule_urgent() ? (uint32_t)CAUSEWAY_URGENT_END : (uint32_t)CAUSEWAY_WINDOW_END);
}

uint32_t schedule_opening(uint32_t now)
{
    uint32_t network = timesync_network(now);
    uint32_t every = PERIOD * CAUSEWAY_BEACON_EVERY;
    return now + (every - (network & (every - 1)));
}

/* The clock is read when a window opens, and again after its beacon: in between it cannot drift by much. */
void schedule_find_opening(uint32_t now)
{
    if (!schedule_urgent())
        schedule.opened = schedule_opening_at(now);
    schedule.starts = schedule.opened - schedule.ahead;
    schedule.window = schedule_periods(timesync_network(schedule.opened) -
                                       (schedule_urgent() ? PERIOD / 2 : 0)); /* that of the window before */
    uint8_t hops = timesync_hops();
    schedule.our_level = hops < CAUSEWAY_LEVELS ? hops : CAUSEWAY_LEVELS;
}

/* Find the next phase's time and level. */
static void advance(uint32_t now)
{
    schedule.phase++;
    schedule.starts += schedule.length;
    schedule.length = schedule.phase < SLOTS ? CAUSEWAY_BEACON_SLOT : CAUSEWAY_PHASE;
    if (schedule.phase == SLOTS) {
        schedule_find_opening(now);
        schedule.starts += schedule_urgent() ? 0 : CAUSEWAY_DATA_START;
    }
    if (schedule_urgent() && schedule.phase == URGENT_PHASES)
        schedule.phase = OUTSIDE;
    if (schedule.phase == OUTSIDE) {
        schedule.level = 0;
        schedule.round = SCHEDULE_NO_ROUND;
    } else if (schedule.phase >= SLOTS && (schedule.level == 0 || --schedule.level == 0)) {
        schedule.level = CAUSEWAY_LEVELS;
        schedule.round++;
    }
    schedule.last_frame = schedule.ahead;
    schedule.has_channel = false;
    schedule.gateway_answered = false;
}

/* Go to the next phase in which we may hear or send a frame, and sleep through others. */
static void turn_to_next(uint32_t now)
{
    schedule_learn();
    if (schedule.phase >= SLOTS && schedule.level == (uint8_t)(schedule.our_level + 1))
        schedule.heard_farther = (schedule.round == 0 && !schedule_urgent()) ||
                                 schedule.last_frame > schedule.ahead;
    do {
        advance(now);
    } while (!schedule_wants_phase(now));
}

static void set_ahead(uint32_t now)
{
    uint16_t error = timesync_error(now);
    uint16_t guard = error < ERROR_MOST ? error + CAUSEWAY_GUARD_MARGIN : ERROR_MOST;
    schedule.ahead = SCHEDULE_START_TIME + RADIO_WAKE_TIME + later(guard, CAUSEWAY_GUARD);
}

/* ---- The receiver ---- */

void schedule_start(uint32_t now)
{
    schedule.phase = OUTSIDE;
    schedule.round = SCHEDULE_NO_ROUND;
    schedule.on = true;
    schedule_join_start(now);
}

bool schedule_awake(void)
{
    return schedule.on;
}

/* Find the window that opens next, and whether we still can turn to it; if not, turn to the one after it. */
static bool turns_to_window(uint32_t now)
{
    schedule_find_opening(now);
    bool before = clock_before(now, schedule.opened + CAUSEWAY_BEACON_SLOT / 2);
    schedule.starts += before ? 0 : PERIOD;
    return before;
}

/* Between windows the next one is computed in each step, since the clock may have been corrected much. A mote
 * that learns the time while a window is open waits for the next. */
static void find_window(uint32_t now)
{
    set_ahead(now);
    schedule.length = 0;
    if (!(SCHEDULE_URGENT ? schedule_turns_to_window(now) : turns_to_window(now)) || schedule.lost ||
        clock_before(now, schedule.starts))
        return;
    if (!schedule_urgent()) {
        duty = (uint16_t)(duty + (uint16_t)(on_lately >> DUTY_FINE) - (duty + 4U) / 8);
        on_lately = 0;
    }
    schedule.phase = schedule_urgent() ? SLOTS - 1 : UINT8_MAX; /* the first comes next */
    turn_to_next(now);
}

static void follow_window(uint32_t now)
{
    if (schedule.lost) {
        schedule.phase = OUTSIDE - 1;
        advance(now);
    } else if (schedule.phase != OUTSIDE && (schedule_at(now) >= schedule.length ||
                                             (role_sleeps && schedule.on && schedule_is_over(now)))) {
        turn_to_next(now);
    }
    if (schedule.phase == OUTSIDE)
        find_window(now);
}

void schedule_step(uint32_t now)
{
    if (!role_sleeps) {
        schedule.lost = !timesync_known();
        follow_window(now);
        schedule.on = true;
        return;
    }
    schedule_join(now);
    bool joining = schedule_joins(now);
    follow_window(now);
    schedule.open = schedule.phase < OUTSIDE && schedule_at(now) > PREPARED;
    if (joining || schedule.open || timesync_speaks(now) || (schedule.on && schedule_on_sending())) {
        if (!schedule.on || joining) /* which is rare, and not counted */
            on_since = BRIEF(now);
        schedule.on = radio_wake();
    } else if (schedule.on) {
        schedule.on = false;
        on_lately = (uint16_t)(on_lately + BRIEF(now) - on_since);
        radio_sleep();
    }
}

uint8_t schedule_duty(void)
{
    uint16_t share = duty;
    uint8_t code = 0;
    while (share >= 2 * DUTY_STEPS) {
        share >>= 1;
        code = (uint8_t)(code + DUTY_STEPS);
    }
    return (uint8_t)(code + share);
}

void schedule_on_frame(uint32_t end)
{
    schedule.last_frame = schedule_at(end);
    schedule.gateway_answered = false;
    schedule.has_channel = false;
}

/* An answer at the phase's beginning is for motes farther away. */
void schedule_on_answer(uint32_t now)
{
    schedule.gateway_answered = schedule.level == 1 && schedule_at(now) > schedule.ahead + CYCLE;
}

bool schedule_answers(void)
{
    return schedule.level == 1 && schedule.round != SCHEDULE_NO_ROUND;
}

void schedule_on_sent(uint32_t now)
{
    schedule.last_frame = schedule_at(now);
    schedule.has_channel = true;
}

bool schedule_sound(uint32_t now)
{
    return schedule.phase <= OUTSIDE &&
           (!role_sleeps || schedule_join_sound(now)); /* a gateway does not join */
}

#endif
