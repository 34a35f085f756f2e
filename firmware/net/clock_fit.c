#include "clock_fit.h"

#include <string.h>

#include "hal/clock.h"
#include "network_time.h"
#include "timesync.h"

enum {
    WINDOW = 8,          /* pairs that the line is fitted to */
    DRIFT_UNKNOWN = 128, /* growth of the error in 2^-20: 122 ppm while no skew is known ... */
    DRIFT_LEAST = 8,     /* ... and 7.6 ppm at best: temperature, and the errors of the hops before */
    /* cycles that offsets in one window may differ by; with it the sums stay within 32 bits */
    OFFSET_MOST = 8191,
};

#define MEMORY (UINT32_C(1) << 24)     /* pairs older than this (8.5 minutes) are not used */
#define SPAN_LEAST (UINT32_C(1) << 15) /* pairs closer together than a second say nothing about skew */
#define ASTRAY (UINT32_C(1) << 18)     /* off by more (8 s): not a faulty clock, but another time */

typedef struct {
    uint32_t local;
    uint32_t offset; /* network - local */
    uint8_t hops;    /* from the deployment's root, as far as was known then */
} pair_t;

/* A pair as the line is fitted to it: x in 1024 cycles, at most 2^14 of them, y in cycles, at most
 * OFFSET_MOST. So 16 bits hold them, and their differences. */
typedef struct {
    int16_t x, y;
} point_t;

/* The fit, relative to the newest pair. */
typedef struct {
    int16_t mean_x;
    int32_t mean_y;    /* in 1/256 cycles */
    uint16_t residual; /* largest distance of a pair from the line */
} fit_t;

static pair_t window[WINDOW]; /* newest first */
static uint8_t pairs;
static uint16_t base_error; /* at the newest pair, in cycles */
static uint16_t drift;      /* growth of the error since, in 2^-20 */
static int16_t skew;        /* as last fitted; used until there are enough pairs again */

/* ---- The error, and the hops ---- */

uint16_t clock_fit_base_error(void)
{
    return base_error;
}

uint32_t clock_fit_age(uint32_t now)
{
    return now - window[0].local;
}

uint16_t clock_fit_error(uint32_t now)
{
    int32_t age = (int32_t)clock_fit_age(now);
    uint32_t growth = age > 0 ? (((uint32_t)age >> 8) * drift) >> 12 : 0;
    return growth > (uint32_t)(UINT16_MAX - base_error) ? UINT16_MAX : (uint16_t)(base_error + growth);
}

bool clock_fit_knows_skew(void)
{
    return drift < DRIFT_UNKNOWN;
}

/* Whether most beacons of the window came over no more hops than this. */
static bool mostly_within(uint8_t most)
{
    uint8_t found = 0;
    for (uint8_t i = 0; i < pairs; i++)
        found = (uint8_t)(found + (window[i].hops <= most));
    return 2 * found > pairs;
}

uint8_t clock_fit_hops(void)
{
    for (uint8_t usual = 1; usual <= TIMESYNC_MAX_HOPS; usual++)
        if (mostly_within(usual))
            return usual;
    return TIMESYNC_NO_HOPS;
}

/* ---- The pairs ---- */

/* Cycles from a pair to the newest. */
static __attribute__((noinline)) uint32_t since_pair(const pair_t *pair)
{
    return window[0].local - pair->local;
}

static bool is_usable(const pair_t *pair)
{
    return since_pair(pair) <= MEMORY &&
           network_time_size((int32_t)(pair->offset - window[0].offset)) <= OFFSET_MOST;
}

/* From the newest on, forget the first pair that is not usable and all older ones. */
static void forget_old_pairs(void)
{
    for (uint8_t i = 1; i < pairs; i++)
        if (!is_usable(&window[i]))
            pairs = i;
}

void clock_fit_take(uint32_t local, uint32_t network, uint8_t hops)
{
    if (pairs < WINDOW)
        pairs++;
    memmove(window + 1, window, sizeof(pair_t) * (size_t)(pairs - 1));
    window[0] = (pair_t){local, network - local, hops};
    forget_old_pairs();
}

void clock_fit_clear(void)
{
    pairs = 0;
}

void clock_fit_forget_skew(void)
{
    skew = 0;
}

void clock_fit_begin(uint8_t error)
{
    skew = 0;
    base_error = (uint16_t)(error + TIMESYNC_NOISE);
    drift = DRIFT_UNKNOWN;
}

void clock_fit_move_up(uint16_t error, uint32_t now)
{
    window[0] = (pair_t){now, network_time_estimate(now) - now, clock_fit_hops()};
    base_error = error;
    pairs = 1;
}

/* ---- The fit ---- */

/* The slope is in cycles per 1024 cycles; the skew is 2^14 times that. */
static int16_t slope(int32_t xy, int32_t xx)
{
    while (network_time_size(xy) >= UINT32_C(1) << 16) {
        xy /= 2;
        xx /= 2;
    }
    int32_t found = xx > 0 ? xy * 16384 / xx : 0;
    if (found > NETWORK_TIME_SKEW_MAX)
        return NETWORK_TIME_SKEW_MAX;
    return (int16_t)(found < -NETWORK_TIME_SKEW_MAX ? -NETWORK_TIME_SKEW_MAX : found);
}

/* Relative to the means, as far as they are computed. */
static point_t point_of(const fit_t *fit, const pair_t *pair)
{
    int16_t before = (int16_t)(since_pair(pair) >> 10);
    int16_t more = (int16_t)(pair->offset - window[0].offset);
    return (point_t){(int16_t)(-before - fit->mean_x), (int16_t)(more - (int16_t)(fit->mean_y >> 8))};
}

static void find_means(fit_t *fit)
{
    int32_t sum_x = 0, sum_y = 0;
    for (uint8_t i = 0; i < pairs; i++) {
        point_t point = point_of(fit, &window[i]);
        sum_x += point.x;
        sum_y += point.y;
    }
    fit->mean_x = (int16_t)(sum_x / pairs);
    fit->mean_y = sum_y * 256 / pairs;
}

/* At most 8 products of 2^14 and 2^14. */
static void find_skew(const fit_t *fit)
{
    int32_t xx = 0, xy = 0;
    for (uint8_t i = 0; i < pairs; i++) {
        point_t point = point_of(fit, &window[i]);
        xx += ((int32_t)point.x * point.x) >> 1;
        xy += ((int32_t)point.x * point.y) >> 1;
    }
    skew = slope(xy, xx);
}

static void find_residual(fit_t *fit)
{
    for (uint8_t i = 0; i < pairs; i++) {
        point_t point = point_of(fit, &window[i]);
        int16_t off = (int16_t)(point.y - (int16_t)(((int32_t)point.x * skew) >> 14));
        uint16_t distance = (uint16_t)(off < 0 ? -off : off);
        if (distance > fit->residual)
            fit->residual = distance;
    }
}

static uint16_t drift_of(uint16_t residual, uint32_t span)
{
    if (span < SPAN_LEAST)
        return DRIFT_UNKNOWN;
    uint32_t unsure = ((uint32_t)(TIMESYNC_NOISE + residual) << 16) / (span >> 4);
    return unsure > DRIFT_UNKNOWN - DRIFT_LEAST ? DRIFT_UNKNOWN : (uint16_t)(unsure + DRIFT_LEAST);
}

bool clock_fit_steer(uint8_t error, uint32_t now)
{
    fit_t fit = {0};
    uint32_t span = since_pair(&window[pairs - 1]); /* 0, if there is one */
    find_means(&fit);
    if (span >= SPAN_LEAST)
        find_skew(&fit);
    find_residual(&fit);
    base_error = (uint16_t)((uint16_t)(error + TIMESYNC_NOISE) + fit.residual);
    drift = drift_of(fit.residual, span);

    int32_t since_mean = ((int32_t)clock_fit_age(now) >> 8) - fit.mean_x * INT32_C(4); /* in 256 cycles */
    int32_t gain = since_mean * skew + fit.mean_y * 256;
    uint32_t network = now + window[0].offset + (uint32_t)(gain >> 16);
    if (network_time_size((int32_t)(network - network_time_shown(now))) > ASTRAY)
        return false;
    network_time_steer(now, network, (uint16_t)gain, skew, (uint16_t)TIMESYNC_LIMIT);
    return true;
}

bool clock_fit_sound(uint32_t now)
{
    if (pairs == 0 || pairs > WINDOW || clock_before(now, window[0].local))
        return false;
    for (uint8_t i = 1; i < pairs; i++)
        if (!is_usable(&window[i]))
            return false;
    return true;
}
