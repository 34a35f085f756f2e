/** What the files of time sync share. timesync.c has the state, and beacons in and out; timesync_follow.c
 * takes beacons of others; timesync_drive.c decides for a driver, the root or a successor; timeroot.c is what
 * the root does besides.
 */
#pragma once

#include "causeway/records.h"
#include "hal/radio.h"
#include "identity.h"
#include "guarded_u16.h"
#include "role.h"
#include "timesync.h"

enum {
    QUICK_BEACONS = 8, /* of the root's, at its start */
    /* a root that adopts a time goes on this far ahead of the number heard: others may have newer ones */
    SEQUENCE_LEAP = 16,
};

#define ANSWER_PAUSE CLOCK_SECOND /* a driver answers questions by a beacon, but no more often than this */

/* The time in which a beacon is forwarded, at random, so that neighbours do not all send at once. */
#define SPREAD ((uint16_t)(16 * radio_airtime(CAUSEWAY_BEACON_BYTES)))

typedef enum {
    LISTENING, /* a starting root */
    ROOT,
    LOST, /* no time known */
    FOLLOWING,
} state_t;

/* What the next beacon will be. An answer is dropped once another node has given it. */
typedef enum { NOTHING, QUESTION, ANSWER, BEACON } intent_t;

typedef struct {
    guarded_u16_t epoch;    /* first: the testbed reads it there (basestation/testbed/images.py) */
    guarded_u16_t sequence; /* a driver's: of the last beacon sent; else of the last one taken */
    state_t state;
    uint8_t burst;        /* quick beacons left, or a listening root's questions */
    uint32_t last_beacon; /* when a driver's last one went out */
    timesync_counters_t counters;
    uint16_t driver; /* following: whose beacons we take; our own id: we are the successor */
    intent_t intent;
    uint32_t beacon_at; /* local time for `intent` */
    uint8_t hops;       /* our own, by the last beacon taken */
    uint8_t ask_pause;  /* the next one is ASK_FIRST, doubled this often */
} timesync_shared_t;

extern timesync_shared_t timesync;

/* A root's states count only in images that may be the root's: from others the linker leaves out the root's
 * code, a thousand bytes. */
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

static inline bool is_successor(void)
{
    return timesync.state == FOLLOWING && timesync.driver == identity_id();
}

static inline bool drives(void)
{
    return leads() || is_successor();
}

static inline bool newer16(uint16_t a, uint16_t b)
{
    return (int16_t)(uint16_t)(a - b) > 0;
}

/* ---- timesync.c ---- */

/** Send this at that local time, instead of what was planned. */
void timesync_plan(intent_t what, uint32_t when);

/** Set the clock. `flags`: of the beacon with that time. */
void timesync_set_time(uint32_t local, uint32_t network, uint8_t flags);

/** The estimate's error in cycles; the shown clock is off by the rest of a correction, too. */
uint16_t timesync_estimate_error(uint32_t now);

/** Above 0: of a later time than ours, which ours does not just go on to; below 0: of an earlier one. */
int8_t timesync_how_late(const cw_beacon_t *beacon);

/* ---- timesync_follow.c ---- */

/** Whether its sender's time may be taken. */
bool timesync_may_follow(const cw_beacon_t *beacon);

/** Follow a beacon, if it is to be followed. */
void timesync_follow(const cw_beacon_t *beacon, uint32_t heard, uint32_t now);

/** Answer a question, if we know the time. */
void timesync_answer(const cw_beacon_t *question, uint32_t now);

/* ---- timesync_drive.c ---- */

/** A driver sends a beacon: not at once, so that several answers make one. */
void timesync_beacon_soon(uint32_t now);

/** Newer beacons, several in a row, which all follow. */
void timesync_speak_up(uint32_t now);

/** Another node drives in our epoch, and is to hear that we do. A driver takes no time from others, so the
 * numbers decide which driver motes follow: ours shall be newer. */
void timesync_outbid(const cw_beacon_t *beacon, uint32_t now);

/** Whether the driver has been silent for so long that this mote, whose clock is good, must succeed it; do
 * so: our time goes on as the network's. */
bool timesync_must_succeed(uint32_t now);
void timesync_succeed(uint32_t now);

/** Whether this root has precedence over the driver that we follow. */
bool timesync_outranks(uint16_t root);

/** A successor hears a beacon of its epoch: its own, forwarded, or another driver's. Whether it steps down:
 * for the root, then for the lowest id, unless the beacon's number is old: then its driver may be gone. */
bool timesync_gives_way(const cw_beacon_t *beacon, uint32_t now);

/** When a driver's next beacon goes out. */
uint32_t timesync_next_beacon(uint32_t now);

/* ---- timeroot.c ---- */

/** Start: no answer yet, and no other root. */
void timeroot_start(void);

/** A starting root hears a beacon: it goes on with the time of the best one. */
void timeroot_on_answer(const cw_beacon_t *beacon, uint32_t heard);
bool timeroot_answered(void);

/** Be the root: with that time, or with a new epoch. */
void timeroot_begin(uint32_t now);

/** The root hears a beacon. */
void timeroot_on_beacon(const cw_beacon_t *beacon, uint32_t heard, uint32_t now);

/** With a key: rounds are counted in 5 bits. Before two rounds could be confused, a new epoch begins. */
void timeroot_mind_round(uint32_t now);
