/* barrier: a hybrid logical clock (top, counter), and the names of the immediate causes.
 *
 * All times are kept as the low bits of ticks. That is sound because each event first makes them recent: what
 * is older than SPAN becomes just that old, and what is further ahead than any clock (a fault) too. SPAN is
 * more than any rule below looks back, and more than B, from which on every received l is newer. After a
 * pause longer than that everything is old, as the whole tick of the last event shows.
 *
 * Rules compare how far times are behind `latest`, the greatest l that there can be: less is newer.
 */
#include "causeway/stamp_fields.h"
#include "causeway/ticks.h"

#if CAUSEWAY_SCHEME_BARRIER

#define SPAN ((cw_past_t)CW_BARRIER_SPAN)
#define OLD ((cw_past_t)(SPAN + CAUSEWAY_LEAD + 1)) /* behind `latest` */
#define PAST_MASK ((cw_past_t)(sizeof(cw_past_t) == 2 ? UINT16_MAX : CW_TICK_MASK))

/* Ticks, as in docs/evidence/algorithms.md. */
#define Z (0UL + CAUSEWAY_DELTA + CAUSEWAY_EPSILON)
#define WIN (Z + CAUSEWAY_EPSILON)
#define BEHIND(ticks) ((cw_past_t)(CAUSEWAY_LEAD + (ticks))) /* of a time that long before our clock */

#define NO_AGE 31
#define UNIT_LOG2 (WIN < NO_AGE ? 0 : 8 * (int)sizeof(long) - __builtin_clzl(WIN / NO_AGE))
/* Codes of an age: below PREVIOUS_CODES of our previous message, above of the newest that we name. */
#define PREVIOUS_CODES ((uint8_t)((WIN >> UNIT_LOG2) + 1))
#define NAMED_CODES ((uint8_t)(NO_AGE - PREVIOUS_CODES))
#define NAMED_WHOLE (Z / (NAMED_CODES + !NAMED_CODES))
#define NAMED_LOG2 (NAMED_WHOLE == 0 ? 0 : 8 * (int)sizeof(long) - __builtin_clzl(NAMED_WHOLE))
#define COUNTER_TOP ((1U << CAUSEWAY_COUNTER_WIDTH) - 1)
#define RESIDUE_BITS (CAUSEWAY_ITEM_BITS - CAUSEWAY_ENTRY_WIDTH)
#define RESIDUE 0x0FU

enum { FRONT = 1, CLOSE = 2 };     /* marks of a heard message */
enum { FIRST = 1, TIME_LOST = 2 }; /* marks of ours: nothing was sent since the start; the time was lost */

_Static_assert(CAUSEWAY_ITEM_BITS - CAUSEWAY_ENTRY_WIDTH == 4, "residues are of 16");
_Static_assert(CW_BARRIER_SPAN + CAUSEWAY_LEAD < CW_TICK_SIGN / 2, "ticks are too long for this delta");

INLINE cw_past_t behind(cw_past_t latest, cw_past_t time)
{
    return (cw_past_t)(latest - time) & PAST_MASK;
}

INLINE void keep_recent(cw_past_t *time, cw_past_t latest)
{
    if (behind(latest, *time) >= OLD)
        *time = (cw_past_t)(latest - OLD);
}

static void keep_top(cw_stamp_t *state, cw_past_t latest)
{
    cw_past_t ahead = behind(state->top, latest);
    if (ahead != 0 && ahead <= PAST_MASK / 2) {
        state->bounded++;
        state->top = (cw_past_t)(latest - CAUSEWAY_LEAD);
        state->counter = 0;
    }
    keep_recent(&state->top, latest);
}

static void forget_causes(cw_stamp_t *state)
{
    cw_past_t old = (cw_past_t)(state->tick + CAUSEWAY_LEAD - OLD);
    state->top = state->quiet = state->previous = old;
    for (uint8_t i = 0; i < 16; i++)
        state->sent[i] = old;
    for (cw_cause_t *heard = state->heard; heard < state->heard + CAUSEWAY_MOTES; heard++)
        heard->top = old;
}

/* Whether the last event is longer ago than any time matters. */
static bool all_old(const cw_stamp_t *state, uint32_t tick)
{
    return ((tick - state->tick) & CW_TICK_MASK) > SPAN + CAUSEWAY_LEAD;
}

/* Begin an event: make all times recent. Return the latest time that there can be. */
static cw_past_t begin_event(cw_stamp_t *state, uint32_t tick)
{
    cw_past_t latest = (cw_past_t)(tick + CAUSEWAY_LEAD);
    bool pause = all_old(state, tick);
    state->tick = tick;
    if (pause)
        forget_causes(state);
    keep_top(state, latest);
    keep_recent(&state->quiet, latest);
    keep_recent(&state->previous, latest);
    for (uint8_t i = 0; i < 16; i++)
        keep_recent(&state->sent[i], latest);
    for (cw_cause_t *heard = state->heard; heard < state->heard + CAUSEWAY_MOTES; heard++)
        keep_recent(&heard->top, latest);
    return latest;
}

void cw_stamp_tidy(cw_stamp_t *state, uint32_t tick)
{
    begin_event(state, tick);
}

void cw_stamp_start(cw_stamp_t *state, uint32_t tick)
{
    state->tick = tick;
    forget_causes(state);
    state->top = (cw_past_t)tick;
    state->counter = 0;
    state->quiet = (cw_past_t)(tick + CAUSEWAY_LEAD);
    state->marks = FIRST;
}

static bool says_nothing(const cw_stamp_t *state, uint32_t tick)
{
    return state->marks & TIME_LOST ||
           (!all_old(state, tick) && behind(state->quiet, (cw_past_t)tick) <= CAUSEWAY_LEAD);
}

bool cw_stamp_in_sync(cw_stamp_t *state, uint32_t tick, bool in_sync)
{
    if (!in_sync)
        state->marks |= TIME_LOST;
    else if (state->marks & TIME_LOST)
        cw_stamp_start(state, tick);
    return !says_nothing(state, tick);
}

/* ---- Sending ---- */

/* The messages to name, the newest first; and how far the newest of those that are cut is behind. */
typedef struct {
    cw_entry_t source[CAUSEWAY_ITEMS_MOST];
    cw_past_t behind[CAUSEWAY_ITEMS_MOST];
    uint8_t names;
    cw_past_t cut; /* OLD: none is */
} causes_t;

static void cut(causes_t *causes, cw_past_t how_far)
{
    if (how_far < causes->cut)
        causes->cut = how_far;
}

/* Of two equally new messages the first one named stays first. */
static void name(causes_t *causes, cw_entry_t source, cw_past_t how_far)
{
    uint8_t at = causes->names;
    if (at == CAUSEWAY_ITEMS_MOST) {
        at--;
        cw_past_t oldest = causes->behind[at];
        cut(causes, how_far < oldest ? oldest : how_far);
        if (how_far >= oldest)
            return;
    } else {
        causes->names++;
    }
    for (; at > 0 && how_far < causes->behind[at - 1]; at--) {
        causes->source[at] = causes->source[at - 1];
        causes->behind[at] = causes->behind[at - 1];
    }
    causes->source[at] = source;
    causes->behind[at] = how_far;
}

/* Find the causes since our last message, and unmark them. */
static void find_causes(cw_stamp_t *state, causes_t *causes, uint16_t own, cw_past_t latest)
{
    cw_past_t oldest = (cw_past_t)(behind(latest, state->top) + Z);
    cw_cause_t *heard = state->heard;
    causes->names = 0;
    causes->cut = OLD;
    for (uint16_t source = 0; source < CAUSEWAY_MOTES; source++, heard++) {
        if (!(heard->marks & FRONT))
            continue;
        heard->marks &= (uint8_t)~FRONT;
        cw_past_t how_far = behind(latest, heard->top);
        if (source == own || how_far > BEHIND(WIN))
            continue;
        if (heard->marks & CLOSE || how_far > oldest)
            cut(causes, how_far);
        else
            name(causes, (cw_entry_t)source, how_far);
    }
}

/* The clock's part of a send event. */
static void step_clock(cw_stamp_t *state, uint32_t tick, cw_past_t latest)
{
    cw_past_t how_far = behind(latest, state->top);
    if (how_far > CAUSEWAY_LEAD) {
        state->top = (cw_past_t)tick;
        state->counter = 0;
    } else if (state->counter < COUNTER_TOP - 1) {
        state->counter++;
    } else if (how_far > CAUSEWAY_LEAD - CAUSEWAY_EPSILON) {
        state->top++;
        state->counter = 0;
    } else {
        state->counter = COUNTER_TOP;
    }
}

/* An age in whole units, rounded down, at most the last code. */
static uint8_t code(cw_past_t ours, cw_past_t theirs, uint8_t unit_log2, uint8_t codes)
{
    if (theirs < ours)
        return 0;
    cw_past_t age = (cw_past_t)((cw_past_t)(theirs - ours) >> unit_log2);
    if (age >= codes)
        return (uint8_t)(codes - 1);
    return (uint8_t)age;
}

/* The age in a stamp: of the newest cut message or our previous one, if any is cut; else of our previous
 * message; if that is too old, of the newest that is named. */
static uint8_t age_code(const cw_stamp_t *state, const causes_t *causes, cw_past_t latest)
{
    cw_past_t ours = behind(latest, state->top), previous = behind(latest, state->previous);
    if (causes->cut < OLD)
        return code(ours, causes->cut < previous ? causes->cut : previous, UNIT_LOG2, NO_AGE);
    if (previous <= BEHIND(WIN))
        return code(ours, previous, UNIT_LOG2, PREVIOUS_CODES);
    if (!NAMED_CODES || !causes->names)
        return NO_AGE;
    return (uint8_t)(PREVIOUS_CODES + code(ours, causes->behind[0], NAMED_LOG2, NAMED_CODES));
}

static void put_names(const cw_stamp_t *state, const causes_t *causes, uint8_t *at)
{
    uint8_t mask = 0x80 >> CAUSEWAY_STAMP_HEAD_BITS % 8;
    at += CAUSEWAY_STAMP_HEAD_BITS / 8;
    for (uint8_t i = 0; i < causes->names; i++) {
        put_bits(&at, &mask, CAUSEWAY_ENTRY_WIDTH, causes->source[i]);
        put_bits(&at, &mask, RESIDUE_BITS, state->heard[causes->source[i]].sequence & RESIDUE);
    }
}

bool cw_stamp_send(cw_stamp_t *state, uint32_t tick, uint8_t *payload)
{
    uint8_t *stamp = payload + CAUSEWAY_STAMP_AT;
    cw_past_t latest = begin_event(state, tick);
    cw_past_t *sent = &state->sent[payload[CAUSEWAY_SEQUENCE_AT] & RESIDUE];
    cw_past_t quiet = behind(latest, state->quiet);
    causes_t causes;
    state->names = 0;
    if (says_nothing(state, tick)) {
        give_head(stamp, tick, 0);
        give(stamp, CAUSEWAY_AGE_BIT, CAUSEWAY_AGE_WIDTH, NO_AGE);
        return false;
    }
    step_clock(state, tick, latest);
    find_causes(state, &causes, cw_get_source(payload + CAUSEWAY_SOURCE_AT), latest);
    if (state->marks & FIRST && quiet <= BEHIND(WIN + 1))
        causes.cut = 0;
    uint8_t age = age_code(state, &causes, latest);
    bool close = quiet <= BEHIND(2 * Z + 1) ||
                 behind(latest, *sent) <= (cw_past_t)(behind(latest, state->top) + 2 * Z);

    *sent = state->previous = state->top;
    state->marks = 0;
    state->names = causes.names;
    give_head(stamp, state->top, 0);
    give(stamp, CAUSEWAY_COUNTER_BIT, CAUSEWAY_COUNTER_WIDTH, state->counter);
    give(stamp, CAUSEWAY_CUT_BIT, CAUSEWAY_CUT_WIDTH, causes.cut < OLD);
    give(stamp, CAUSEWAY_CLOSE_BIT, CAUSEWAY_CLOSE_WIDTH, close);
    give(stamp, CAUSEWAY_AGE_BIT, CAUSEWAY_AGE_WIDTH, age);
    put_names(state, &causes, stamp);
    return state->counter == COUNTER_TOP;
}

/* ---- Receiving ---- */

/* A message whose l is `theirs` behind names this one: it need not be named by us, since that one will be. */
static void cover(cw_stamp_t *state, cw_past_t latest, cw_past_t theirs, cw_entry_t source, uint8_t residue)
{
    if (source >= CAUSEWAY_MOTES)
        return;
    cw_cause_t *heard = &state->heard[source];
    cw_past_t how_far = behind(latest, heard->top);

    if ((heard->sequence & RESIDUE) == residue && !(heard->marks & CLOSE) && how_far >= theirs &&
        how_far <= (cw_past_t)(theirs + Z))
        heard->marks &= (uint8_t)~FRONT;
}

static bool is_later(uint8_t sequence, uint8_t other)
{
    uint8_t after = (uint8_t)(sequence - other);
    return after > 0 && after < 128;
}

cw_stamp_result_t cw_stamp_receive(cw_stamp_t *state, uint32_t tick, const uint8_t *payload, uint8_t items)
{
    const uint8_t *stamp = payload + CAUSEWAY_STAMP_AT, *at = stamp + CAUSEWAY_STAMP_HEAD_BITS / 8;
    uint8_t mask = 0x80 >> CAUSEWAY_STAMP_HEAD_BITS % 8, sequence = payload[CAUSEWAY_SEQUENCE_AT];
    uint16_t source = cw_get_source(payload + CAUSEWAY_SOURCE_AT);
    if (source >= CAUSEWAY_MOTES || fault_in(stamp, items) != CW_STAMP_SOUND)
        return CW_STAMP_REFUSED;

    uint16_t before = state->bounded;
    cw_past_t latest = begin_event(state, tick);
    cw_past_t theirs = behind(latest, take_clock(stamp)) & CAUSEWAY_CLOCK_MASK;
    cw_past_t ours = behind(latest, state->top);
    uint8_t counter = (uint8_t)take(stamp, CAUSEWAY_COUNTER_BIT, CAUSEWAY_COUNTER_WIDTH);

    if (theirs < ours || (theirs == ours && counter > state->counter)) {
        state->top = (cw_past_t)(latest - theirs);
        state->counter = counter;
    }
    for (; items; items--) {
        cw_entry_t named = next_bits(&at, &mask, CAUSEWAY_ENTRY_WIDTH);
        cover(state, latest, theirs, named, (uint8_t)next_bits(&at, &mask, RESIDUE_BITS));
    }
    cw_cause_t *heard = &state->heard[source];
    cw_past_t known = behind(latest, heard->top);
    if (theirs < known || (theirs == known && is_later(sequence, heard->sequence))) {
        heard->top = (cw_past_t)(latest - theirs);
        heard->sequence = sequence;
        heard->marks = (uint8_t)(take(stamp, CAUSEWAY_CLOSE_BIT, CAUSEWAY_CLOSE_WIDTH) ? FRONT | CLOSE
                                                                                       : FRONT);
    }
    return state->bounded == before ? CW_STAMP_OK : CW_STAMP_BOUNDED;
}

#endif
