#include "schedule.h"

#if CAUSEWAY_SCHEDULED

#include "causeway/flag.h"
#include "hal/clock.h"
#include "hal/radio.h"
#include "identity.h"
#include "jitter.h"
#include "role.h"
#include "mic.h"
#include "timesync.h"

_Static_assert(CAUSEWAY_ROOT >= CAUSEWAY_MOTES, "levels are hops from the gateway: it must be the root");

#define PERIOD (UINT32_C(1) << CAUSEWAY_PERIOD_LOG2)
#define SLOTS CAUSEWAY_HOPS /* of beacons: phases 0 .. SLOTS - 1 */
#define PHASES (SLOTS + CAUSEWAY_ROUNDS * CAUSEWAY_LEVELS)
#define OUTSIDE PHASES                /* no window is open */
#define TURNS (CAUSEWAY_SLOT_IDS + 1) /* the first is the gateway's */
#define CYCLE (TURNS * CAUSEWAY_MINI_SLOT)
#define URGENT (UINT32_C(1) << CAUSEWAY_URGENT_LOG2)
#define INSTANTS (1 << (CAUSEWAY_PERIOD_LOG2 - CAUSEWAY_URGENT_LOG2)) /* of openings in a period */
#define URGENT_PHASES (SLOTS + CAUSEWAY_URGENT_ROUNDS * CAUSEWAY_LEVELS)
#define PREPARE (LEAD + MIC_HOP_TIME) /* cycles by which a sender is up before who polls */

enum {
    LEAD = 96,           /* cycles before a turn at which a frame is handed over: stamp, load */
    BEHIND_BEACON = 110, /* cycles in which a command follows a beacon */
    LEAD_LATE = 8,       /* cycles that the loop may be early */
    BURST_LEAD = 40,     /* the same for what follows a frame of ours */
    LEAD_LEAST = 60,     /* later than that the turn is missed */
    ERROR_MOST = 8192,   /* cycles: a clock further off cannot find a window any more */
    JOIN_EAGER = 5,      /* times that the network is looked for every two minutes; then every half hour */
    NEARER = 31,         /* in every 32nd window */
    /* cycles in which a planned beacon keeps the receiver on; the last of many motes has its turn later */
    NEAR = CAUSEWAY_MOTES > 32 ? CAUSEWAY_BEACON_SLOT : 4096,
};
#define DUTY_STEPS 16U /* packet_formats/records.py */
/* Polls are short: with them the time awake is counted in eighths of a unit, a 2048th of a period. */
#define DUTY_FINE (SCHEDULE_URGENT ? 3 : 0)
#define BRIEF(time) ((uint16_t)((time) >> (CAUSEWAY_PERIOD_LOG2 - 11 - DUTY_FINE)))
#define AT_MOST 0xC000U /* cycles: all phases are shorter, and turns can be counted a round beyond */
_Static_assert(CAUSEWAY_PHASE < AT_MOST && CYCLE < UINT16_MAX - AT_MOST - 256,
               "packet_formats/schedule.py refuses longer ones");
/* Without the time, times are in units of 2 s: half of 32 bits tells them. */
#define COARSE(cycles) ((uint16_t)((cycles) >> 16))
#define JOIN_FIRST (COARSE(2 * TIMESYNC_PERIOD) + 1)
#define JOIN_LISTEN (COARSE(TIMESYNC_PERIOD + TIMESYNC_PERIOD / 4) + 1)
#define JOIN_FOUND (COARSE(PERIOD) + 1)
#define JOIN_PAUSE COARSE(120 * CLOCK_SECOND)
#define JOIN_PAUSE_LONG COARSE(1800 * CLOCK_SECOND)

static uint8_t phase;   /* the present one, or the next that we want: 0 .. PHASES - 1, or OUTSIDE */
static uint8_t round;   /* of phases with data, else SCHEDULE_NO_ROUND, */
static uint8_t level;   /* and whose phase it is */
static uint8_t ours;    /* our level, 1 .. CAUSEWAY_LEVELS, as of the phase's beginning */
static uint8_t number;  /* of the window */
static uint32_t opened; /* local time at which the window that is nearest opened, or will */
static uint32_t
    starts; /* local time at which we turn to the phase: `ahead` of its beginning in the network */
static uint16_t length;     /* cycles from there to the next phase */
static uint16_t last_frame; /* from there to the end of the last frame in it, or to its beginning */
static uint16_t ahead; /* cycles by which we are early for each phase: to wake, and for our clock's error */
static uint16_t errors_seen;              /* damaged frames, as counted by the radio */
static uint16_t learned[CAUSEWAY_LEVELS]; /* how long phases of the first round lasted of late */
static cw_flag_t heard_farther;           /* somebody was heard in the last phase of the level behind us */
static cw_flag_t gateway_answered;        /* the gateway has spoken last */
static cw_flag_t has_channel;             /* we have just sent, and may go on at once */
static cw_flag_t open;                    /* the phase has begun */
static cw_flag_t on;                      /* the receiver is */
static uint16_t on_since, on_lately;      /* when it was switched on; how long it was since the last window */
static uint16_t duty;                     /* how long it is in a window, eight times the mean */
static cw_flag_t lost;                    /* the time is not known well enough: see join() */
static uint16_t join_until; /* COARSE: awake until then, for the network if lost, or as it was just found */
static uint16_t join_again; /* COARSE: lost, it listens again then */
static uint8_t join_tries;
#if SCHEDULE_URGENT
static cw_flag_t urgent; /* the window is for urgent messages alone: it has no beacons, and fewer rounds */

/* Whether we only look if somebody farther away has something urgent. */
static bool polls(void)
{
    return urgent && level > ours;
}
#else
#define urgent false
#define polls() false
#endif
#define PREPARED (polls() ? PREPARE : 0) /* by which we turn to a phase too early for it */

/* ---- Where in the window ---- */

static uint16_t later(uint16_t a, uint16_t b)
{
    return a < b ? b : a;
}

/* Cycles since we turned to the phase, 0 until then. Within a phase 16 bits tell all. */
static __attribute__((noinline)) uint16_t at(uint32_t local)
{
    uint32_t since = local - starts;
    if (clock_before(local, starts))
        return 0;
    return since < AT_MOST ? (uint16_t)since : AT_MOST;
}

/* The nearest number of periods, modulo 256. In two steps, or it is a loop of 32-bit shifts. */
static uint8_t periods(uint32_t cycles)
{
    return (uint8_t)((uint16_t)((cycles + PERIOD / 2) >> 16) >> (CAUSEWAY_PERIOD_LOG2 - 16));
}

/* The opening that is nearest to a local time. */
static __attribute__((noinline)) uint32_t opening_at(uint32_t local)
{
    uint32_t since = timesync_network(local) & (PERIOD - 1);
    return since > PERIOD / 2 ? local + (PERIOD - since) : local - since;
}

uint8_t schedule_round(void)
{
    return round;
}

uint8_t schedule_window(void)
{
    return number;
}

#if SCHEDULE_URGENT
bool schedule_urgent(void)
{
    return urgent;
}
#endif

uint8_t schedule_our_round(void)
{
    return level == ours && !lost ? round : SCHEDULE_NO_ROUND;
}

uint32_t schedule_end(uint32_t now)
{
    (void)now;
    return opened + (urgent ? (uint32_t)CAUSEWAY_URGENT_END : (uint32_t)CAUSEWAY_WINDOW_END);
}

uint32_t schedule_opening(uint32_t now)
{
    uint32_t network = timesync_network(now);
    uint32_t every = PERIOD * CAUSEWAY_BEACON_EVERY;
    return now + (every - (network & (every - 1)));
}

/* ---- Who listens when ---- */

static __attribute__((noinline)) bool speaks_soon(uint32_t now)
{
    return timesync_speaks(now + NEAR);
}

static bool has_beacon(void)
{
    /* cppcheck-suppress moduloofone ; in some deployments each window has one */
    return number % CAUSEWAY_BEACON_EVERY == 0;
}

/* Windows with a beacon since that of the last one taken. */
static uint8_t beacons_missed(uint32_t now)
{
    return (uint8_t)(periods(opened - timesync_taken(now)) / CAUSEWAY_BEACON_EVERY);
}

/* The beacon comes to us in the slot before our own; in any, if the last one did not come or somebody else
 * drives. Now and then we listen whether we have come nearer, and go on if we have. */
static bool wants_beacon(uint8_t slot, uint32_t now)
{
    if (speaks_soon(now))
        return true;
    uint8_t missed = beacons_missed(now);
    bool as_usual = missed == 1 && timesync_driver() == CAUSEWAY_ROOT && (number & NEARER) != 0;
    return has_beacon() && missed > 0 && (!as_usual || slot + 1 >= ours || slot + 1 >= timesync_last_hops());
}

/* In the first round those beside the senders: who passes on, peers, and who waits to hear himself passed on.
 * Later the next level looks whether anything is sent again, as long as something was; others are there for
 * what they have left. */
static bool wants_phase(uint32_t now)
{
    if (!role_sleeps || phase >= OUTSIDE)
        return true;
    if (phase < SLOTS)
        return wants_beacon(phase, now);
    if ((uint8_t)(level + 1 - ours) > 2) /* neither ours nor beside it */
        return false;
    return (round == 0 && !urgent) || (level > ours ? heard_farther : schedule_on_due(SCHEDULE_NO_ROUND));
}

/* Who has nothing left is there for his peers alone. */
static uint16_t quiet_time(void)
{
    if (phase < SLOTS)
        return BEHIND_BEACON;
    if (polls() && last_frame <= ahead)
        return (uint16_t)(ahead + CAUSEWAY_URGENT_QUIET - last_frame);
    if (level > 1)
        return CAUSEWAY_QUIET;
    if (schedule_on_due(SCHEDULE_NO_ROUND)) /* the gateway may hear somebody whom we do not, and wait */
        return CAUSEWAY_QUIET + CYCLE;
    return gateway_answered ? CAUSEWAY_MINI_SLOT : CAUSEWAY_QUIET;
}

/* Whether something waits for its turn in this phase. */
static bool has_something(void)
{
    return schedule_our_round() != SCHEDULE_NO_ROUND && schedule_on_due(round);
}

/* When the phase may be over, if nothing more is heard. */
static uint16_t over_at(void)
{
    uint16_t quiet = last_frame + quiet_time();
    return round == 0 && !urgent && !gateway_answered ? later(quiet, ahead + learned[level - 1]) : quiet;
}

static bool is_over(uint32_t now)
{
    uint16_t damaged = radio_counters()->crc, present = at(now);
    bool speaking = phase < SLOTS && schedule_on_sending(); /* a command may follow our beacon */
    if (speaking || radio_busy() || damaged != errors_seen) {
        errors_seen = damaged;
        last_frame = later(present, ahead);
        return false;
    }
    if (round == 0 && level < ours && present >= ahead && !schedule_on_due(SCHEDULE_NO_ROUND))
        return true; /* all of ours was passed on */
    if (present < over_at())
        return false;
    if (phase < SLOTS)
        return !speaks_soon(now) && (beacons_missed(now) == 0 || !has_beacon());
    return !has_something();
}

/* How long the phase lasted, towards which what was learned moves: soon when it was longer, slowly else. */
static void learn(void)
{
    if (round != 0 || !on || urgent)
        return;
    uint16_t *known = &learned[level - 1];
    uint16_t lasted = last_frame > ahead ? last_frame - ahead : 0;
    if ((level < ours || level == 1) && schedule_on_due(SCHEDULE_NO_ROUND))
        lasted = CAUSEWAY_PHASE; /* it would have been passed on later */
    *known = (uint16_t)(lasted > *known ? *known + (lasted - *known) / 2 : *known - (*known - lasted) / 4);
}

/* The clock is looked at when a window opens, and again after its beacon: it cannot go wrong by much in
 * between. */
static void find_opening(uint32_t now)
{
    if (!urgent)
        opened = opening_at(now);
    starts = opened - ahead;
    number = periods(timesync_network(opened) - (urgent ? PERIOD / 2 : 0)); /* that of the window before */
    uint8_t hops = timesync_hops();
    ours = hops < CAUSEWAY_LEVELS ? hops : CAUSEWAY_LEVELS;
}

/* Find the next phase's time and level. */
static void advance(uint32_t now)
{
    phase++;
    starts += length;
    length = phase < SLOTS ? CAUSEWAY_BEACON_SLOT : CAUSEWAY_PHASE;
    if (phase == SLOTS) {
        find_opening(now);
        starts += urgent ? 0 : CAUSEWAY_DATA_START;
    }
    if (urgent && phase == URGENT_PHASES)
        phase = OUTSIDE;
    if (phase == OUTSIDE) {
        level = 0;
        round = SCHEDULE_NO_ROUND;
    } else if (phase >= SLOTS && (level == 0 || --level == 0)) {
        level = CAUSEWAY_LEVELS;
        round++;
    }
    last_frame = ahead;
    has_channel = false;
    gateway_answered = false;
}

/* On to the next phase in which we may hear or send something: there is no need to wake for others. */
static void turn_to_next(uint32_t now)
{
    learn();
    if (phase >= SLOTS && level == (uint8_t)(ours + 1))
        heard_farther = (round == 0 && !urgent) || last_frame > ahead;
    do {
        advance(now);
    } while (!wants_phase(now));
}

static void set_ahead(uint32_t now)
{
    uint16_t error = timesync_error(now);
    uint16_t guard = error < ERROR_MOST ? error + CAUSEWAY_GUARD_MARGIN : ERROR_MOST;
    ahead = SCHEDULE_START_TIME + RADIO_WAKE_TIME + later(guard, CAUSEWAY_GUARD);
}

/* ---- Without the time ---- */

static bool is_lost(uint32_t now)
{
    return !timesync_known() || timesync_error(now) > ERROR_MOST;
}

/* Whether to listen beside the windows: for the network, or just after it was found. */
static bool joins(uint32_t now)
{
    return (int16_t)(uint16_t)(COARSE(now) - join_until) < 0;
}

/* See whether the network is lost or found, and until when to listen for that. */
static void join(uint32_t now)
{
    uint16_t present = COARSE(now);
    if ((phase == OUTSIDE || lost) && is_lost(now) != lost) {
        lost = !lost;
        join_tries = 0;
        join_until = (uint16_t)(present + (lost ? JOIN_FIRST : JOIN_FOUND));
    }
    if (joins(now)) {
        join_again = (uint16_t)(present + (join_tries < JOIN_EAGER ? JOIN_PAUSE : JOIN_PAUSE_LONG));
        return;
    }
    join_until = present; /* neither is ever half the clock's range ago */
    if (!lost) {
        join_again = present;
    } else if ((int16_t)(uint16_t)(present - join_again) >= 0) {
        join_tries = (uint8_t)(join_tries + (join_tries < JOIN_EAGER));
        join_until = present + JOIN_LISTEN;
    }
}

/* ---- The receiver ---- */

void schedule_start(uint32_t now)
{
    phase = OUTSIDE;
    round = SCHEDULE_NO_ROUND;
    on = true;
    lost = true;
    join_again = COARSE(now);
    join_until = join_again + JOIN_FIRST;
}

bool schedule_awake(void)
{
    return on;
}

#if SCHEDULE_URGENT

/* Find the last window that has opened by our clock, of either kind, and whether we still can turn to it; if
 * not, when to turn to the next. In urgent ones we begin with the phase of the level behind us; the farthest
 * level, with its own, if it has something. */
static bool turns_to_window(uint32_t now)
{
    bool sends = schedule_on_due(SCHEDULE_NO_ROUND), looks = sends || ours < CAUSEWAY_LEVELS;
    uint16_t prepared = (uint16_t)(ahead + PREPARE);
    ahead = sends ? prepared : ahead;
    uint32_t network = timesync_network(now + ahead);
    uint8_t instant = (uint8_t)((uint16_t)(network >> 16) >> (CAUSEWAY_URGENT_LOG2 - 16)) & (INSTANTS - 1);
    urgent = looks && instant >= CAUSEWAY_URGENT_FIRST;
    opened = now + ahead - (network & (urgent ? URGENT - 1 : PERIOD - 1));
    instant = urgent ? instant : 0;
    uint32_t skips = ours < CAUSEWAY_LEVELS ? (CAUSEWAY_LEVELS - 1U - ours) * (uint32_t)CAUSEWAY_PHASE : 0;
    bool before = clock_before(
        now, opened + (urgent ? skips - RADIO_WAKE_TIME : (uint32_t)CAUSEWAY_BEACON_SLOT / 2));
    uint8_t next = instant;
    if (!before)
        next = urgent ? (uint8_t)(instant + 1) : looks ? CAUSEWAY_URGENT_FIRST : INSTANTS;
    starts = opened + ((uint32_t)(next - instant) << CAUSEWAY_URGENT_LOG2) - ahead;
    if (next & (INSTANTS - 1))
        starts += skips;
    ahead = urgent ? prepared : ahead;
    heard_farther = true;
    if (before && !urgent)
        find_opening(now);
    return before;
}

#endif

/* Outside all is found anew in each step, since the clock may have been corrected much. Who comes to know the
 * time while a window is open waits for the next. */
static void find_window(uint32_t now)
{
    set_ahead(now);
    length = 0;
#if SCHEDULE_URGENT
    if (!turns_to_window(now))
        return;
#else
    find_opening(now);
    if (!clock_before(now, opened + CAUSEWAY_BEACON_SLOT / 2)) {
        starts += PERIOD;
        return;
    }
#endif
    if (lost || clock_before(now, starts))
        return;
    if (!urgent) {
        duty = (uint16_t)(duty + (uint16_t)(on_lately >> DUTY_FINE) - (duty + 4U) / 8);
        on_lately = 0;
    }
    phase = urgent ? SLOTS - 1 : UINT8_MAX; /* the first comes next */
    turn_to_next(now);
}

static void follow_window(uint32_t now)
{
    if (lost) {
        phase = OUTSIDE - 1;
        advance(now);
    } else if (phase != OUTSIDE && (at(now) >= length || (role_sleeps && on && is_over(now)))) {
        turn_to_next(now);
    }
    if (phase == OUTSIDE)
        find_window(now);
}

void schedule_step(uint32_t now)
{
    if (!role_sleeps) {
        lost = !timesync_known();
        follow_window(now);
        on = true;
        return;
    }
    join(now);
    bool joining = joins(now);
    follow_window(now);
    open = phase < OUTSIDE && at(now) > PREPARED;
    if (joining || open || timesync_speaks(now) || (on && schedule_on_sending())) {
        if (!on || joining) /* which is rare, and not counted */
            on_since = BRIEF(now);
        on = radio_wake();
    } else if (on) {
        on = false;
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
    last_frame = at(end);
    gateway_answered = false;
    has_channel = false;
}

/* An answer at the phase's beginning is for those farther away. */
void schedule_on_answer(uint32_t now)
{
    gateway_answered = level == 1 && at(now) > ahead + CYCLE;
}

bool schedule_answers(void)
{
    return level == 1 && round != SCHEDULE_NO_ROUND;
}

void schedule_on_sent(uint32_t now)
{
    last_frame = at(now);
    has_channel = true;
}

/* ---- Turns ---- */

/* Cycles from the first turn of a mote to ours, if ids are counted from somewhere else in each window. */
static uint16_t turn_of(uint8_t window)
{
    return (uint16_t)((identity_id() + window) % CAUSEWAY_SLOT_IDS * CAUSEWAY_MINI_SLOT);
}

/* The gateway speaks first in its neighbours' phase: it has heard some who are farther away. Then it waits
 * until all have had their turn since the last frame. */
static uint16_t answer_from(uint16_t earliest)
{
    if (!schedule_answers())
        return later(length, earliest);
    bool begins = last_frame <= ahead;
    return later(begins ? ahead : last_frame + CYCLE + CAUSEWAY_MINI_SLOT / 2, earliest);
}

/* Our first turn not before `earliest`: every so many mini-slots from the phase's start. Whoever sent last
 * may go on before. */
static uint16_t turn_from(uint16_t earliest)
{
    if (!role_sleeps)
        return answer_from(earliest);
#if SCHEDULE_URGENT
    if (urgent && level > 1 && last_frame <= ahead) {
        /* who polls waits for four turns; two who share one have different ones in the next round */
        uint16_t first = ahead + (uint16_t)(((uint8_t)identity_id() >> 2 * round & 3) * CAUSEWAY_MINI_SLOT);
        return earliest <= first ? first : later(length, earliest); /* nobody would be there */
    }
#endif
    uint16_t turn = CAUSEWAY_MINI_SLOT + turn_of(number);
    if (round & 1)
        turn = CYCLE - turn; /* two whose clocks are a turn apart must not meet again */
    turn += ahead;
    if (last_frame > ahead)
        earliest = later(earliest, last_frame + BURST_LEAD + CAUSEWAY_BURST_GAP + CAUSEWAY_MINI_SLOT);
    while (turn < earliest)
        turn += CYCLE;
    return turn;
}

/* Whether a frame that begins then is over before we turn to the next phase. */
static bool is_in_time(uint16_t turn)
{
    return turn + radio_airtime(CAUSEWAY_PAYLOAD_LIMIT) < length;
}

bool schedule_turn(uint32_t now, uint32_t *when)
{
    uint16_t present = at(now), turn = present;
    if (!role_sleeps && radio_busy())
        last_frame = present;
    if (has_channel)
        has_channel = false;
    else
        turn = turn_from(present + LEAD_LEAST);
    *when = starts + turn;
    return turn <= present + LEAD + LEAD_LATE && is_in_time(turn);
}

uint32_t schedule_turn_after(uint32_t time)
{
    return starts + turn_from(at(time) + LEAD + LEAD_LATE + 1) - LEAD;
}

/* When to look again at an open phase, if nothing is heard: at our turn, or when it may be over. */
static uint16_t look_again(uint32_t now)
{
    uint16_t present = at(now);
    uint16_t then = has_something() ? turn_from(present + LEAD + LEAD_LATE + 1) - LEAD : over_at();
    if (present >= then)
        then = phase < SLOTS ? length : present + CAUSEWAY_MINI_SLOT; /* a beacon is waited for */
    return then < length ? then : length;
}

uint32_t schedule_next(uint32_t now)
{
    if (role_sleeps && lost)
        return now + CLOCK_SECOND;
    uint16_t then = role_sleeps && !open ? 1 + PREPARED : length;
    if (role_sleeps && open && on)
        then = look_again(now);
    return starts + then; /* whoever is awake comes here every second */
}

/* ---- Beacons ---- */

bool schedule_passes_on(uint8_t hops, uint32_t now, uint32_t *when)
{
    if (hops >= CAUSEWAY_HOPS)
        return false;
    uint32_t slot = opening_at(now) + (uint16_t)(hops * CAUSEWAY_BEACON_SLOT);
    uint32_t turn = slot + turn_of(0);
    if (now - slot + PERIOD / 8 < PERIOD / 8 + CAUSEWAY_BEACON_SLOT / 2) { /* soon, or it has just begun */
        *when = clock_before(now, turn) ? turn : now;
        return true;
    }
    *when = now + jitter_below(CAUSEWAY_BEACON_SLOT);
    return !role_sleeps || lost || joins(now);
}

/* Cycles from the moment at which somebody's beacon has begun, or begins, to our turn behind it. */
static __attribute__((noinline)) uint16_t behind_beacon(void)
{
    return (uint16_t)(radio_airtime(CAUSEWAY_BEACON_BYTES) + MIC_PROOF_TIME + CAUSEWAY_MINI_SLOT +
                      turn_of(0));
}

/* Those who wait have seen it at turns of their own, in the same order. */
uint32_t schedule_behind_beacon(void)
{
    return clock_now() + behind_beacon();
}

bool schedule_may_succeed(uint32_t now, uint8_t missed)
{
    return phase == 0 && has_beacon() && at(now) >= ahead && beacons_missed(now) >= missed;
}

uint16_t schedule_successor_turn(void)
{
    return behind_beacon(); /* the root may be there, and some of us hear it */
}

bool schedule_for_commands(uint32_t now)
{
    return phase < SLOTS && !speaks_soon(now) && phase == timesync_hops();
}

bool schedule_sound(uint32_t now)
{
    uint16_t present = COARSE(now);
    return phase <= OUTSIDE && (!role_sleeps || /* who does not sleep does not join */
                                ((int16_t)(uint16_t)(join_until - present) <= (int16_t)JOIN_FIRST &&
                                 (int16_t)(uint16_t)(join_again - present) <= (int16_t)JOIN_PAUSE_LONG));
}

#endif
