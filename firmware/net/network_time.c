#include "network_time.h"

#include <string.h>

#include "hal/clock.h"
#include "mic.h"

typedef struct {
    uint32_t local;   /* the line's start ... */
    uint32_t network; /* ... the estimate there ... */
    uint16_t part;    /* ... and its fraction, in 2^-16 cycles */
    int16_t skew;
    int32_t behind; /* the estimate less the shown time at `since` */
    uint32_t since;
    uint8_t slew_log2; /* one cycle of correction in 2^this cycles */
    uint8_t round;     /* of `network`, with a key */
} line_t;

enum { SLEW_GENTLE = 6, SLEW_HARD = 1 };

/* An interrupt may read at any moment, so a change is written beside the line in use, which is then exchanged
 * with one store of a byte. After that both are the same: so a root, which gets the time from no other node,
 * notices if memory has changed it. */
static line_t lines[2];
static volatile uint8_t current;

/* Inlined in its callers it would take sixty bytes more. */
__attribute__((noinline)) uint32_t network_time_size(int32_t difference)
{
    return difference < 0 ? 0U - (uint32_t)difference : (uint32_t)difference;
}

static __attribute__((noinline)) const line_t *in_use(void)
{
    return &lines[current & 1];
}

static line_t *spare(void)
{
    return &lines[~current & 1];
}

static void exchange(void)
{
    __asm__ volatile("" ::: "memory"); /* all of the line is in memory before it is in use */
    current = (uint8_t)(~current & 1);
    __asm__ volatile("" ::: "memory");
    memcpy(spare(), in_use(), sizeof(line_t));
}

/* The correction for skew moves by at most a cycle, and only where `elapsed` is a multiple of 256. */
static int32_t gained(const line_t *line, uint32_t local)
{
    int32_t elapsed = (int32_t)(local - line->local);
    return (elapsed >> 8) * line->skew + line->part;
}

/* Inlined in its callers it would take a hundred bytes more. */
static __attribute__((noinline)) uint32_t estimate(const line_t *line, uint32_t local)
{
    return line->network + (local - line->local) + (uint32_t)(gained(line, local) >> 16);
}

/* Steps of the slew fall half-way between multiples of 2^slew_log2, so that none meets a step of the skew:
 * two steps back in one cycle would turn the clock back. `since` and `local` of a line are a multiple of 256
 * apart. */
static int32_t left(const line_t *line, uint32_t local)
{
    int32_t elapsed = (int32_t)(local - line->since), behind = line->behind;
    if (behind == 0 || elapsed < 0)
        return behind;
    int32_t done = ((elapsed >> (line->slew_log2 - 1)) + 1) >> 1;
    int32_t rest = behind < 0 ? behind + done : behind - done;
    return (behind < 0) == (rest < 0) ? rest : 0;
}

uint8_t network_time_round(uint32_t network)
{
    const line_t *line = in_use();
    bool later = (int32_t)(network - line->network) >= 0;
    uint8_t round = line->round;
    if (later != (network >= line->network)) /* the time wrapped in between */
        round = (uint8_t)(later ? round + 1 : round - 1);
    return round & NETWORK_TIME_ROUND_MOST;
}

void network_time_set_round(uint8_t round)
{
    spare()->round = round;
    exchange();
}

void network_time_set(uint32_t local, uint32_t network)
{
    *spare() = (line_t){.local = local, .network = network, .since = local, .slew_log2 = SLEW_GENTLE};
    exchange();
}

void network_time_steer(uint32_t now, uint32_t network, uint16_t part, int16_t skew, uint16_t step)
{
    int32_t behind = (int32_t)(network - network_time_shown(now));
    if (behind > (int32_t)step)
        behind = 0;
    uint8_t slew = behind < -(int32_t)step ? SLEW_HARD : SLEW_GENTLE;
    *spare() = (line_t){.local = now,
                        .network = network,
                        .part = part,
                        .skew = skew,
                        .behind = behind,
                        .since = now,
                        .slew_log2 = slew,
                        .round = MIC_BYTES ? network_time_round(network) : 0};
    exchange();
}

void network_time_tidy(uint32_t now)
{
    const line_t *line = in_use();
    int32_t elapsed = (int32_t)(now - line->local);
    if (elapsed < NETWORK_TIME_REACH / 4)
        return;
    uint32_t start = line->local + ((uint32_t)elapsed & ~UINT32_C(0xFF));
    line_t *next = spare();
    *next = *line;
    next->network = estimate(line, start);
    if (MIC_BYTES)
        next->round = network_time_round(next->network);
    next->part = (uint16_t)gained(line, start);
    next->local = start;
    if (left(line, start) == 0) {
        next->behind = 0;
        next->since = start;
    }
    exchange();
}

uint32_t network_time_shown(uint32_t local)
{
    const line_t *line = in_use();
    return estimate(line, local) - (uint32_t)left(line, local);
}

uint32_t network_time_estimate(uint32_t local)
{
    return estimate(in_use(), local);
}

int32_t network_time_left(uint32_t local)
{
    return left(in_use(), local);
}

uint32_t network_time_local(uint32_t network)
{
    uint32_t local = in_use()->local + (network - in_use()->network);
    /* each round leaves a 64th of the error, or half of it in a hard slew */
    for (uint8_t i = 0; i < 3; i++)
        local += network - network_time_shown(local);
    return local;
}

/* In the past, but recent enough that the line's numbers do not overflow. */
static bool is_recent(uint32_t time, uint32_t now)
{
    return !clock_before(now, time) && now - time <= (uint32_t)NETWORK_TIME_REACH;
}

bool network_time_sound(uint32_t now)
{
    const line_t *line = in_use();
    return memcmp(&lines[0], &lines[1], sizeof(line_t)) == 0 && is_recent(line->local, now) &&
           is_recent(line->since, now);
}
