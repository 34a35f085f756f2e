/** How long something was in each of its states. Time is the caller's: nanoseconds or cycles. */
#pragma once

#include <stdint.h>

enum { METER_STATES = 10 };

/** At first it has been in state 0 from time 0 on. */
typedef struct {
    int state;
    uint64_t since;
    uint64_t spent[METER_STATES]; /* before that */
    uint64_t entries[METER_STATES];
} meter_t;

/** It is in this state from now on. */
static inline void meter_enter(meter_t *meter, int state, uint64_t now)
{
    if (state != meter->state) {
        meter->spent[meter->state] += now - meter->since;
        meter->since = now;
        meter->state = state;
        meter->entries[state]++;
    }
}

/** The time in a state up to now. All of them add up to `now`. */
static inline uint64_t meter_spent(const meter_t *meter, int state, uint64_t now)
{
    return meter->spent[state] + (state == meter->state ? now - meter->since : 0);
}
