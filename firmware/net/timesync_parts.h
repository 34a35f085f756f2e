/** What the files of time sync share: timesync.c follows, succeeds, and sends beacons; timeroot.c is what the
 * root does besides.
 */
#ifndef NET_TIMESYNC_PARTS_H
#define NET_TIMESYNC_PARTS_H

#include "causeway/records.h"
#include "hal/radio.h"
#include "identity.h"
#include "guarded_u16.h"
#include "role.h"
#include "timesync.h"

enum {
    QUICK_BEACONS = 8, /* of the root's, at its start */
    /* an adopting root goes on this far ahead of what it heard: others may have heard more */
    SEQUENCE_LEAP = 16,
};

/* Time to pass a beacon on in, so that neighbours do not all send at once. */
#define SPREAD ((uint16_t)(16 * radio_airtime(CAUSEWAY_BEACON_BYTES)))

typedef enum {
    LISTENING, /* a starting root */
    ROOT,
    LOST, /* no time known */
    FOLLOWING,
} state_t;

/* What the next beacon will be. An answer is not needed once somebody else has given it. */
typedef enum { NOTHING, QUESTION, ANSWER, BEACON } intent_t;

typedef struct {
    guarded_u16_t epoch;    /* first: the testbed reads it there (basestation/testbed/images.py) */
    guarded_u16_t sequence; /* who drives: of the last beacon sent; else the last one taken */
    state_t state;
    uint8_t burst;        /* quick beacons left, or a listening root's questions */
    uint32_t last_beacon; /* who drives: when the last one went out */
    timesync_counters_t counters;
} timesync_shared_t;

extern timesync_shared_t timesync;

/* A root's states count only in images that may be the root's: of the others the linker leaves out all that a
 * root does, a thousand bytes. */
static inline __attribute__((always_inline)) bool is_root(void)
{
    return role_accepts(CAUSEWAY_ROOT) && identity_id() == CAUSEWAY_ROOT;
}

static inline __attribute__((always_inline)) bool leads(void)
{
    return role_accepts(CAUSEWAY_ROOT) && timesync.state == ROOT;
}

static inline __attribute__((always_inline)) bool listens(void)
{
    return role_accepts(CAUSEWAY_ROOT) && timesync.state == LISTENING;
}

/* ---- timesync.c ---- */

/** Send this at that local time, in place of what was planned. */
void timesync_plan(intent_t what, uint32_t when);

/** Who drives sends a beacon: not at once, so that several answers make one. */
void timesync_beacon_soon(uint32_t now);

/** Newer beacons, several in a row, which all follow. */
void timesync_speak_up(uint32_t now);

/** Another one drives in our epoch, who is to hear that we do. Who drives takes no time from others, so the
 * numbers decide whom motes follow: ours shall be newer. */
void timesync_outbid(const cw_beacon_t *beacon, uint32_t now);

/** Set the clock. `flags`: of a beacon that says so. */
void timesync_set_time(uint32_t local, uint32_t network, uint8_t flags);

/** Above 0: of a later time than ours, which ours does not just go on to; below 0: of an earlier one. */
int8_t timesync_how_late(const cw_beacon_t *beacon);

/** Whether its sender's time may be taken. */
bool timesync_may_follow(const cw_beacon_t *beacon);

static inline bool newer16(uint16_t a, uint16_t b)
{
    return (int16_t)(uint16_t)(a - b) > 0;
}

/* ---- timeroot.c ---- */

/** Start: nobody has answered, no other root was heard of. */
void timeroot_start(void);

/** A starting root hears a beacon: the best one tells the time that it goes on with. */
void timeroot_on_answer(const cw_beacon_t *beacon, uint32_t heard);
bool timeroot_answered(void);

/** Be the root: with that time, or with a new epoch. */
void timeroot_begin(uint32_t now);

/** The root hears a beacon. */
void timeroot_on_beacon(const cw_beacon_t *beacon, uint32_t heard, uint32_t now);

/** With a key: rounds are counted in 5 bits. Before one could be taken for another, a new epoch begins. */
void timeroot_mind_round(uint32_t now);

#endif
