#include "hearing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEARD = 32,
    PREAMBLE = 0xAA,
    SYNC_FIRST = 0x33,
    SYNC_SECOND = 0xCC,
    RUN = 23,      /* right bits of preamble that hold two bytes of it, wherever bytes begin */
    BEGINNING = 5, /* bytes: three of preamble and the sync word */
    LENGTH_AT = 4,
    HEADER_1 = 5,
    HEADER_2 = 7,
    CRC = 2,
    MOST = HEADER_2 + 29 + CRC,
};

#define OWN_NOISE_DBM (-110.9)

/* What became of a bit. */
typedef enum { BIT_MISSED, BIT_RIGHT, BIT_WRONG, BIT_OTHER, BIT_SENDING, BIT_FATES } fate_t;

typedef struct {
    const signal_t *signal;
    bool found; /* a program could have found its frame's beginning */
    bool busy;  /* that passed while the program was in another frame */
    uint8_t fates[SIGNAL_BYTES * 8];
} heard_t;

struct hearing {
    ether_t *ether;
    int node;
    ns_t frame_until; /* a program is in a frame until then */
    int count;
    heard_t *heard[HEARD];
    double own_mw;
};

hearing_t *hearing_make(ether_t *ether, int node)
{
    hearing_t *hearing = calloc(1, sizeof *hearing);
    if (hearing == NULL)
        abort();
    hearing->ether = ether;
    hearing->node = node;
    hearing->own_mw = pow(10, OWN_NOISE_DBM / 10);
    return hearing;
}

void hearing_add(hearing_t *hearing, const signal_t *signal)
{
    if (signal->data == NEVER)
        return;
    if (!ether_delivers(hearing->ether, signal, hearing->node)) {
        ether_outcome(hearing->ether, signal, hearing->node, OUTCOME_LOST);
        return;
    }
    if (hearing->count == HEARD) {
        ether_outcome(hearing->ether, signal, hearing->node, OUTCOME_WEAK);
        return;
    }
    heard_t **place = &hearing->heard[hearing->count++];
    if (*place == NULL && (*place = malloc(sizeof **place)) == NULL)
        abort();
    (*place)->signal = signal;
    (*place)->found = (*place)->busy = false;
    memset((*place)->fates, BIT_MISSED, sizeof(*place)->fates);
}

bool hearing_is_idle(const hearing_t *hearing)
{
    return hearing->count == 0;
}

/* --- bits --- */

static bool is_on(const signal_t *signal, ns_t at)
{
    return signal->from <= at && at < signal->to && signal->data <= at;
}

/* Number of the bit that is on the air. */
static uint64_t bit_at(const signal_t *signal, ns_t at)
{
    return (at - signal->data) * 8 / signal->byte_ns;
}

static heard_t *strongest(const hearing_t *hearing, tuning_t tuning, ns_t at)
{
    heard_t *best = NULL;
    double best_dbm = -INFINITY;
    for (int i = 0; i < hearing->count; i++) {
        const signal_t *signal = hearing->heard[i]->signal;
        if (!is_on(signal, at) ||
            !(ether_near(signal->khz, tuning.below_khz) || ether_near(signal->khz, tuning.above_khz)))
            continue;
        double dbm = ether_dbm(hearing->ether, signal, hearing->node);
        if (dbm > best_dbm) {
            best = hearing->heard[i];
            best_dbm = dbm;
        }
    }
    return best;
}

/* All signals that are on have their present bit become that. */
static void mark(hearing_t *hearing, ns_t at, fate_t fate)
{
    for (int i = 0; i < hearing->count; i++) {
        heard_t *heard = hearing->heard[i];
        if (is_on(heard->signal, at) && bit_at(heard->signal, at) < sizeof heard->fates)
            heard->fates[bit_at(heard->signal, at)] = (uint8_t)fate;
    }
}

static double error_rate(const hearing_t *hearing, const signal_t *signal, ns_t from, ns_t to)
{
    double dbm = ether_dbm(hearing->ether, signal, hearing->node);
    double noise = pow(10, -ether_sinr(hearing->ether, signal, hearing->node, from, to) / 10) +
                   hearing->own_mw * pow(10, -dbm / 10);
    return 0.5 * exp(-1 / noise);
}

/* A bit is two halves, the second the complement of the first: taken from where one ends and the next begins
 * they say nothing. Nor do they when the sender's bits are of another length. */
static bool is_blurred(const signal_t *signal, ns_t from, ns_t to)
{
    ns_t bit_ns = signal->byte_ns / 8;
    ns_t into = (from + (to - from) / 2 - signal->data) % bit_ns;
    ns_t longer = to - from > bit_ns ? to - from - bit_ns : bit_ns - (to - from);
    return into < bit_ns / 4 || into > bit_ns * 3 / 4 || longer > bit_ns / 16;
}

static bool sent_bit(const signal_t *signal, uint64_t number)
{
    return signal->bytes[number / 8] >> (7 - number % 8) & 1;
}

static bool all_right(const heard_t *heard, int from, int to)
{
    for (int i = from; i < to; i++)
        if (heard->fates[i] != BIT_RIGHT)
            return false;
    return true;
}

/* Enough bits of preamble in a row came right before this one. */
static bool preamble_found(const heard_t *heard, int before)
{
    for (int i = 0, run = 0; i < before; i++) {
        run = heard->fates[i] == BIT_RIGHT ? run + 1 : 0;
        if (run == RUN)
            return true;
    }
    return false;
}

static bool is_sync_end(const signal_t *signal, int last)
{
    /* cppcheck-suppress arrayIndexOutOfBoundsCond ; `last` is a byte that the signal has */
    return last >= 2 && signal->bytes[last] == SYNC_SECOND && signal->bytes[last - 1] == SYNC_FIRST &&
           signal->bytes[last - 2] == PREAMBLE;
}

/* A program that is given these bits: does it find the frame that begins after byte `last`? */
static void begin_frame(hearing_t *hearing, heard_t *heard, int last, ns_t at)
{
    if (at < hearing->frame_until) {
        heard->busy = true;
    } else if (all_right(heard, 8 * (last - 1), 8 * (last + 1)) && preamble_found(heard, 8 * (last - 1))) {
        heard->found = true;
        hearing->frame_until = at + MOST * heard->signal->byte_ns;
    }
}

/* A byte of the signal that is followed has passed. */
static void follow_program(hearing_t *hearing, heard_t *heard, int last, ns_t at)
{
    const signal_t *signal = heard->signal;
    if (!heard->found && !heard->busy && is_sync_end(signal, last)) {
        begin_frame(hearing, heard, last, at);
    } else if (heard->found && last > LENGTH_AT && is_sync_end(signal, last - 1 - LENGTH_AT)) {
        /* cppcheck-suppress arrayIndexOutOfBoundsCond ; the same */
        hearing->frame_until = at + (ns_t)(HEADER_2 - HEADER_1 + signal->bytes[last] + CRC) * signal->byte_ns;
    }
}

bool hearing_bit(hearing_t *hearing, tuning_t tuning, ns_t from, ns_t to)
{
    random_t *chance = ether_chance(hearing->ether, hearing->node);
    ns_t at = from + (to - from) / 2;
    heard_t *heard = strongest(hearing, tuning, at);
    if (heard == NULL)
        return random_bits(chance) & 1;
    mark(hearing, at, BIT_OTHER);
    const signal_t *signal = heard->signal;
    uint64_t number = bit_at(signal, at);
    if (number >= (uint64_t)signal->count * 8)
        return random_bits(chance) & 1;
    double rate = is_blurred(signal, from, to) ? 0.5 : error_rate(hearing, signal, from, to);
    bool wrong = random_unit(chance) < rate;
    heard->fates[number] = wrong ? BIT_WRONG : BIT_RIGHT;
    if (number % 8 == 7)
        follow_program(hearing, heard, (int)(number / 8), at);
    return sent_bit(signal, number) ^ wrong ^ ether_near(signal->khz, tuning.below_khz);
}

int64_t hearing_phase(const hearing_t *hearing, tuning_t tuning, ns_t at)
{
    const heard_t *heard = strongest(hearing, tuning, at);
    if (heard == NULL)
        return 0;
    int64_t bit_ns = (int64_t)heard->signal->byte_ns / 8;
    int64_t into = (int64_t)((at - heard->signal->data) * 8 % heard->signal->byte_ns) / 8;
    return into > bit_ns / 2 ? into - bit_ns : into;
}

void hearing_sent(hearing_t *hearing, ns_t from, ns_t to)
{
    for (int i = 0; i < 16; i++)
        mark(hearing, from + (to - from) * (ns_t)(2 * i + 1) / 32, BIT_SENDING);
}

/* --- what became of signals --- */

static uint16_t crc16(const uint8_t *bytes, int count)
{
    unsigned crc = 0;
    for (int i = 0; i < count; i++) {
        crc ^= (unsigned)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc << 1 ^ (crc & 0x8000 ? 0x1021 : 0);
    }
    return (uint16_t)crc;
}

/* The first byte after the sync word; 0: there is none. */
static int frame_start(const signal_t *signal)
{
    for (int i = 2; i < signal->count; i++)
        if (is_sync_end(signal, i))
            return i + 1;
    return 0;
}

/* The first byte after the CRC, if that is right by the header of either TinyOS; else 0. */
static int frame_end(const signal_t *signal, int start)
{
    for (int header = HEADER_1; header <= HEADER_2; header += HEADER_2 - HEADER_1) {
        int crc_at = start + LENGTH_AT < signal->count ? start + header + signal->bytes[start + LENGTH_AT]
                                                       : SIGNAL_BYTES;
        if (crc_at + CRC <= signal->count && crc16(signal->bytes + start, crc_at - start) ==
                                                 (signal->bytes[crc_at] | signal->bytes[crc_at + 1] << 8))
            return crc_at + CRC;
    }
    return 0;
}

typedef struct {
    int of[BIT_FATES];
} tally_t;

static tally_t count_fates(const heard_t *heard, int from, int to)
{
    tally_t tally = {{0}};
    for (int i = from < 0 ? 0 : from; i < to; i++)
        tally.of[heard->fates[i]]++;
    return tally;
}

/* Why the beginning was not found: what befell most of its bits. */
static outcome_t missed_outcome(const heard_t *heard, int from, int to)
{
    static const outcome_t outcomes[BIT_FATES] = {OUTCOME_DEAF, OUTCOME_WEAK, OUTCOME_WEAK, OUTCOME_BUSY,
                                                  OUTCOME_SENDING};
    tally_t tally = count_fates(heard, from, to);
    fate_t most = BIT_WRONG;
    for (fate_t fate = 0; fate < BIT_FATES; fate++)
        if (fate != BIT_RIGHT && tally.of[fate] > tally.of[most])
            most = fate;
    return outcomes[most];
}

/* How many bits have been on the air. */
static int bits_sent(const signal_t *signal)
{
    uint64_t appended = (uint64_t)signal->count * 8;
    uint64_t passed = signal->to == NEVER         ? appended
                      : signal->to > signal->data ? bit_at(signal, signal->to)
                                                  : 0;
    return (int)(passed < appended ? passed : appended);
}

static outcome_t found_outcome(const heard_t *heard, int start)
{
    const signal_t *signal = heard->signal;
    int end = frame_end(signal, start) * 8;
    bool whole = end != 0 && end <= bits_sent(signal);
    tally_t tally = count_fates(heard, start * 8, whole ? end : bits_sent(signal));
    if (tally.of[BIT_SENDING] > 0)
        return OUTCOME_SENDING;
    if (tally.of[BIT_MISSED] > 0)
        return OUTCOME_DEAF;
    return whole && tally.of[BIT_WRONG] + tally.of[BIT_OTHER] == 0 ? OUTCOME_RECEIVED : OUTCOME_DAMAGED;
}

static outcome_t outcome_of(const heard_t *heard)
{
    int start = frame_start(heard->signal);
    if (heard->found)
        return found_outcome(heard, start);
    if (heard->busy)
        return OUTCOME_BUSY;
    if (start == 0 && preamble_found(heard, bits_sent(heard->signal)) && heard->signal->to != NEVER)
        return OUTCOME_DAMAGED;
    return missed_outcome(heard, (start - BEGINNING) * 8, start != 0 ? start * 8 : bits_sent(heard->signal));
}

static void forget(hearing_t *hearing, int i)
{
    heard_t *heard = hearing->heard[i];
    hearing->heard[i] = hearing->heard[--hearing->count];
    hearing->heard[hearing->count] = heard;
}

static void judge(hearing_t *hearing, int i)
{
    const signal_t *signal = hearing->heard[i]->signal;
    if (signal->to > signal->from)
        ether_outcome(hearing->ether, signal, hearing->node, outcome_of(hearing->heard[i]));
    forget(hearing, i);
}

void hearing_judge(hearing_t *hearing, ns_t until)
{
    for (int i = hearing->count; i-- > 0;)
        if (hearing->heard[i]->signal->to <= until)
            judge(hearing, i);
}

void hearing_stop(hearing_t *hearing)
{
    while (hearing->count > 0)
        judge(hearing, hearing->count - 1);
    hearing->frame_until = 0;
}
