/* delta-vector: the clock, and of each mote how long ago it last sent, as far as is known.
 *
 * An age is kept as it travels: plus EPSILON, so that a clock ahead of ours gives no negative one, and the
 * top code for "too long ago for any observer to wait, or never". Ages grow with the clock, so a wrong one
 * soon stops mattering.
 */
#include "causeway/stamp_fields.h"
#include "causeway/ticks.h"

#if CAUSEWAY_SCHEME_DELTA_VECTOR

#if CAUSEWAY_MODULUS + CAUSEWAY_ENTRY_TOP < 32768
typedef int16_t age_t;
#else
typedef int32_t age_t;
#endif

/* An observer gives up DELTA + EPSILON after the sending; we and the receiver may both be EPSILON behind.
 */
#define AGE_MOST ((cw_entry_t)(CAUSEWAY_DELTA + 3U * CAUSEWAY_EPSILON))

static void forget_ages(cw_stamp_t *state)
{
    memset(state->ages, 0xFF, sizeof(state->ages)); /* over AGE_MOST, whatever the width */
}

/* Go on to the clock of an event: everybody's last message is older by as much. */
static void age_to(cw_stamp_t *state, uint32_t tick)
{
    int32_t passed = cw_tick_diff(tick, state->tick);
    state->tick = tick;
    if (passed == 0)
        return;
    if (passed < 0) {
        state->bounded++;
        forget_ages(state);
        return;
    }
    if (passed > AGE_MOST) {
        forget_ages(state);
        return;
    }
    for (uint8_t mote = 0; mote < CAUSEWAY_MOTES; mote++) {
        cw_entry_t *age = &state->ages[mote];
        *age = *age <= AGE_MOST - (cw_entry_t)passed ? (cw_entry_t)(*age + passed) : CAUSEWAY_ENTRY_TOP;
    }
}

void cw_stamp_start(cw_stamp_t *state, uint32_t tick)
{
    state->tick = tick;
    forget_ages(state);
}

/* The stamp has the age of this mote's message before; only then this one becomes its last. */
bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t *payload)
{
    uint8_t *stamp = payload + CAUSEWAY_STAMP_AT, *at = stamp + FIRST_BYTE, mask = FIRST_MASK;
    uint16_t own = cw_get_source(payload + CAUSEWAY_SOURCE_AT);
    age_to(state, tick);
    give_head(stamp, tick, 0);
    for (uint8_t mote = 0; mote < CAUSEWAY_MOTES; mote++) {
        cw_entry_t age = state->ages[mote];
        put_entry(&at, &mask, age <= AGE_MOST ? age : CAUSEWAY_ENTRY_TOP);
        if (mote == own && age > CAUSEWAY_EPSILON)
            state->ages[mote] = CAUSEWAY_EPSILON;
    }
    return false;
}

/* A stamp says that a mote last sent `theirs` ago, by its sender's clock, which is `ahead` of ours. False: by
 * our clock that is in the future. */
static bool take_age(cw_entry_t *ours, cw_entry_t theirs, age_t ahead)
{
    if (theirs > AGE_MOST)
        return true;
    age_t age = (age_t)((age_t)theirs - ahead);
    if (age >= 0 && age <= AGE_MOST && age < *ours)
        *ours = (cw_entry_t)age;
    return age >= 0;
}

cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t *payload, uint8_t items)
{
    const uint8_t *stamp = payload + CAUSEWAY_STAMP_AT, *at = stamp + FIRST_BYTE;
    uint8_t mask = FIRST_MASK;
    uint16_t source = cw_get_source(payload + CAUSEWAY_SOURCE_AT);
    if (source >= CAUSEWAY_MOTES || fault_in(stamp, items) != CW_STAMP_SOUND)
        return CW_STAMP_REFUSED;

    uint16_t before = state->bounded;
    age_t ahead = (age_t)cw_clock_ahead(take_clock(stamp), tick);
    bool sound = true;

    age_to(state, tick);
    for (uint8_t mote = 0; mote < CAUSEWAY_MOTES; mote++)
        sound &= take_age(&state->ages[mote], next_entry(&at, &mask), ahead);
    take_age(&state->ages[source], CAUSEWAY_EPSILON, ahead);
    if (!sound)
        state->bounded++;
    return state->bounded == before ? CW_STAMP_OK : CW_STAMP_BOUNDED;
}

#endif
