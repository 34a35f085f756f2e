/** What the files of the schedule share. schedule.c follows windows and phases; schedule_listen.c decides
 * which phases a mote listens to, and how long; schedule_turns.c when a frame may start; schedule_join.c how
 * a mote without the time looks for the network; schedule_urgent.c which window is an urgent one.
 */
#pragma once

#include "causeway/flag.h"
#include "hal/clock.h"
#include "hal/radio.h"
#include "identity.h"
#include "mic.h"
#include "role.h"
#include "schedule.h"
#include "timesync.h"

#define PERIOD (UINT32_C(1) << CAUSEWAY_PERIOD_LOG2)
#define SLOTS CAUSEWAY_HOPS /* of beacons: phases 0 .. SLOTS - 1 */
#define PHASES (SLOTS + CAUSEWAY_ROUNDS * CAUSEWAY_LEVELS)
#define OUTSIDE PHASES                /* no window is open */
#define TURNS (CAUSEWAY_SLOT_IDS + 1) /* the first is the gateway's */
#define CYCLE (TURNS * CAUSEWAY_MINI_SLOT)

#define SCHEDULE_PHASE_MOST \
    0xC000U /* cycles: all phases are shorter, and turns can be counted a cycle beyond */

enum {
    LEAD = 96,         /* cycles before a turn at which a frame is handed over: stamp, load */
    ERROR_MOST = 8192, /* cycles: a clock further off cannot find a window any more */
};
#define PREPARE (LEAD + MIC_HOP_TIME) /* cycles by which a sender is up before a mote that polls */

typedef struct {
    uint8_t phase;     /* the present one, or the next that we want: 0 .. PHASES - 1, or OUTSIDE */
    uint8_t round;     /* of phases with data, else SCHEDULE_NO_ROUND, */
    uint8_t level;     /* and whose phase it is */
    uint8_t our_level; /* 1 .. CAUSEWAY_LEVELS, as of the phase's beginning */
    uint8_t window;    /* its number */
    uint32_t opened;   /* local time at which the window that is nearest opened, or will */
    uint32_t starts;   /* local time at which we turn to the phase: `ahead` of its beginning in the network */
    uint16_t length;   /* cycles from there to the next phase */
    uint16_t last_frame; /* from there to the end of the last frame in it, or to its beginning */
    uint16_t ahead;      /* cycles by which we are early for each phase: to wake, and for our clock's error */
    cw_flag_t heard_farther;    /* a frame was heard in the last phase of the level behind us */
    cw_flag_t gateway_answered; /* the gateway has spoken last */
    cw_flag_t has_channel;      /* we have just sent, and may go on at once */
    cw_flag_t open;             /* the phase has begun */
    cw_flag_t on;               /* the receiver is */
    cw_flag_t lost;             /* the time is not known well enough: schedule_join.c */
#if SCHEDULE_URGENT
    cw_flag_t urgent; /* the window is for urgent messages only: it has no beacons, and fewer rounds */
#endif
} schedule_state_t;

extern schedule_state_t schedule;

/** Whether this mote only looks whether a mote farther away has an urgent message. */
#define polls() (schedule_urgent() && schedule.level > schedule.our_level)

#define PREPARED (polls() ? PREPARE : 0) /* by which we turn to a phase too early for it */

static inline uint16_t later(uint16_t a, uint16_t b)
{
    return a < b ? b : a;
}

/* ---- schedule.c ---- */

/** Cycles since we turned to the phase, 0 until then. Within a phase 16 bits suffice. */
uint16_t schedule_at(uint32_t local);

/** The nearest number of periods, modulo 256. */
uint8_t schedule_periods(uint32_t cycles);

/** The opening that is nearest to a local time. */
uint32_t schedule_opening_at(uint32_t local);

/** Read the clock: when the window opens, its number, and our level. */
void schedule_find_opening(uint32_t now);

/* ---- schedule_listen.c ---- */

/** Whether a beacon of ours goes out soon, for which the receiver stays on. */
bool schedule_speaks_soon(uint32_t now);

/** Whether this window has a beacon; how many have had one since that of the last one taken. */
bool schedule_has_beacon(void);
uint8_t schedule_beacons_missed(uint32_t now);

/** Whether we listen in the phase that comes; whether an open one is over for us, and when it may be. */
bool schedule_wants_phase(uint32_t now);
bool schedule_is_over(uint32_t now);
uint16_t schedule_over_at(void);

/** Whether a frame waits for its turn in this phase. */
bool schedule_has_something(void);

/** The phase is over: learn how long it lasted. */
void schedule_learn(void);

/* ---- schedule_join.c ---- */

void schedule_join_start(uint32_t now);

/** See whether the network is lost or found, and until when to listen for that. */
void schedule_join(uint32_t now);

/** Whether to listen beside the windows: for the network, or just after it was found. */
bool schedule_joins(uint32_t now);

/** Whether memory has kept possible times. */
bool schedule_join_sound(uint32_t now);

/* ---- schedule_urgent.c ---- */

/** Find the last window that has opened by our clock, of either kind, and whether we still can turn to it; if
 * not, when to turn to the next. */
bool schedule_turns_to_window(uint32_t now);
