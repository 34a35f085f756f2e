/** A mote's timers: the app's first, then the node's own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/node.h"

/** Cycles between health messages. */
#ifndef MOTE_HEALTH_PERIOD
#if CAUSEWAY_SCHEDULED
#define MOTE_HEALTH_PERIOD (600 * CLOCK_SECOND) /* each takes as much as two messages */
#else
#define MOTE_HEALTH_PERIOD (60 * CLOCK_SECOND)
#endif
#endif

enum {
    TIMER_HEALTH = NODE_TIMERS, /* the next health message */
    TIMER_READING,              /* a sensor is warm, or a conversion takes too long */
    TIMER_UNBLINK,
    TIMER_REBOOT,
    TIMERS
};

/** The longest that a timer is set for, node_every() apart: the one for health. */
#define TIMER_MOST (MOTE_HEALTH_PERIOD + MOTE_HEALTH_PERIOD / 4 + NODE_AFTER_MOST)

/** No timer runs. */
void timers_start(void);

/** Set a timer for this local time. */
void timer_set(uint8_t timer, uint32_t when);
void timer_off(uint8_t timer);
bool timer_runs(uint8_t timer);

/** True once when its time has come. */
bool timer_due(uint8_t timer, uint32_t now);

/** Call app_on_timer() for each timer of the app that is due. */
void timers_step(uint32_t now);

/** The first time that a timer is set for, at most half a minute ahead. */
uint32_t timers_next(uint32_t now);

/** Whether memory has kept which timers run, and how often, and each is set to a possible time. */
bool timers_sound(uint32_t now);

/** From 3/4 to 5/4 of the mean, at random. */
uint32_t timer_vary(uint32_t mean);
