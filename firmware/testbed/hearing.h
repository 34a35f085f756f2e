/** What a node's FSK receiver makes of the signals at its antenna: bits; and, for the truth, what became of
 * each signal.
 *
 * At any moment the receiver follows the strongest signal on its frequency. Each bit of that is wrong with
 * the probability exp(-SINR) / 2: non-coherent FSK in a bandwidth of twice the bit rate, 0.5 exp(-Eb/N0 / 2),
 * other signals counting as noise. The receiver has noise of its own; with only that, one bit in a thousand
 * is wrong at -103 dBm, the CC1000's sensitivity at 433 MHz and 38.4 kbaud. Of two signals the stronger is
 * understood if it is stronger by some 8 dB, else neither is. Without a signal bits are random.
 *
 * A receiver knows no frames, but the truth speaks of them: a signal counts as received if a program could
 * have taken its frame from the bits that it was given. So this part knows what motes with a CC1000 send:
 * preamble AA, sync word 33 CC, a header whose fifth byte is the length of the data, data, CRC-16; and that a
 * program which is in the middle of one frame looks for no other.
 */
#pragma once

#include "ether.h"

typedef struct hearing hearing_t;

/** Frequencies that a receiver is tuned to: with its oscillator above the signal bits come out inverted,
 * below it they do not. */
typedef struct {
    uint32_t below_khz, above_khz;
} tuning_t;

hearing_t *hearing_make(ether_t *ether, int node);

/** A signal has been announced at a node that listens or sends. */
void hearing_add(hearing_t *hearing, const signal_t *signal);

/** Has no signal to do with. */
bool hearing_is_idle(const hearing_t *hearing);

/** The bit that a receiver takes from the air between two moments. */
bool hearing_bit(hearing_t *hearing, tuning_t tuning, ns_t from, ns_t to);

/** How long after the end of a bit of the signal that is followed `at` is, less than half a bit before or
 * after; 0 without a signal. */
int64_t hearing_phase(const hearing_t *hearing, tuning_t tuning, ns_t at);

/** The node could not hear between two moments, for it was sending. */
void hearing_sent(hearing_t *hearing, ns_t from, ns_t to);

/** All bits up to this moment have been taken: say what became of the signals that have ended. */
void hearing_judge(hearing_t *hearing, ns_t until);

/** The node hears no longer: say what became of all signals. */
void hearing_stop(hearing_t *hearing);
