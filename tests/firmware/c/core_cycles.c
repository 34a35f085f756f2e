/* Cycles of stamping on the ATmega128: the least, the mean and the most over many events, on timer 1 at the
 * CPU's own clock.
 *
 * Three motes talk to each other in the pattern of a small network: clocks within EPSILON, messages that
 * arrive up to DELTA later, so that windows slide and stamps merge in every way. Now and then a fault, so
 * that the bound is measured too.
 */
#include "check.h"
#include "causeway/data.h"

#define MOTES 3
#define EVENTS 1500
#define FLYING 4

typedef struct {
    uint16_t least, most, count;
    uint32_t sum;
} span_t;

static cw_stamp_t motes[MOTES];
static uint32_t clocks[MOTES];
static uint8_t flying[FLYING][CAUSEWAY_PAYLOAD_BYTES], items[FLYING];
static uint8_t ahead[MOTES];

static uint16_t draw(uint16_t below)
{
    static uint32_t chance = 1;

    chance ^= chance << 13;
    chance ^= chance >> 17;
    chance ^= chance << 5;
    return (uint16_t)((uint16_t)chance % below);
}

static void add(span_t *span, uint16_t cycles)
{
    if (!span->count || cycles < span->least)
        span->least = cycles;
    if (cycles > span->most)
        span->most = cycles;
    span->sum += cycles;
    span->count++;
}

/* Around a call, `before` as late and `after` as early as the compiler can be made to read them. */
#define TIMED(cycles, call)                  \
    do {                                     \
        __asm__ volatile("" ::: "memory");   \
        uint16_t before = TCNT1;             \
        __asm__ volatile("" ::: "memory");   \
        call;                                \
        __asm__ volatile("" ::: "memory");   \
        cycles = (uint16_t)(TCNT1 - before); \
    } while (0)

/* A function that does nothing and takes as much to call: what measuring costs. */
static __attribute__((noinline)) cw_stamp_result_t nothing(cw_stamp_t *state, uint32_t tick,
                                                           const uint8_t *payload, uint8_t count)
{
    __asm__ volatile("" ::"r"(state), "r"(tick), "r"(payload), "r"(count));
    return CW_STAMP_OK;
}

static void damage(cw_stamp_t *state)
{
    (void)state;
#if CAUSEWAY_SCHEME_DELTA_VECTOR
    state->tick += 5000;
#elif CAUSEWAY_SCHEME_LAST_SENDER
    state->source = CAUSEWAY_MOTES;
#elif CAUSEWAY_SCHEME_BARRIER
    state->top = (cw_past_t)(state->top + 5000);
#elif !CAUSEWAY_SCHEME_DPC1 && !CAUSEWAY_STAMP_NAMED
    state->top += 5000;
#endif
}

static void say(const char *name, const span_t *span)
{
    CHECK_SAY(CHECK_TEXT("cycles: " CHECK_STRING " %u %lu %u\n"), name, span->least, span->sum / span->count,
              span->most);
}

int main(void)
{
    span_t sends = {0}, receives = {0};
    uint32_t now = 1000;
    uint16_t cost;
    volatile uint8_t result;

    check_start();
    TCCR1B = 1 << CS10;
    TIMED(cost, result = nothing(&motes[0], now, flying[0], items[0]));
    cost = (uint16_t)(cost - 4 - 4); /* but call and return are part of a call's price */
    for (uint8_t i = 0; i < MOTES; i++)
        cw_stamp_start(&motes[i], clocks[i] = now);
    for (uint16_t event = 0; event < EVENTS; event++) {
        uint8_t i = (uint8_t)draw(MOTES);
        uint8_t which = (uint8_t)draw(FLYING), *payload = flying[which], count = items[which];
        uint16_t cycles;

        now += draw(3) == 0;
        if (draw(10) == 0)
            ahead[i] = (uint8_t)draw(CAUSEWAY_EPSILON + 1);
        if ((int32_t)(now + ahead[i] - clocks[i]) > 0)
            clocks[i] = now + ahead[i];
        if (event % 3 == 0 || event < FLYING) {
            cw_data_head(payload, i, (uint8_t)(event / 3), 0, 0, true);
            TIMED(cycles, result = cw_stamp_send(&motes[i], clocks[i], payload));
            add(&sends, (uint16_t)(cycles - cost));
            items[which] = (uint8_t)cw_stamp_items((uint8_t)(CW_STAMP_REST + cw_stamp_size(&motes[i])));
        } else {
            __asm__ volatile("" : "+r"(count)); /* fetched before the clock is read */
            TIMED(cycles, result = cw_stamp_receive(&motes[i], clocks[i], payload, count));
            add(&receives, (uint16_t)(cycles - cost));
        }
        if (event % 200 == 199)
            damage(&motes[i]);
    }
    (void)result;
    say(CHECK_TEXT("send"), &sends);
    say(CHECK_TEXT("receive"), &receives);
    return check_end();
}
