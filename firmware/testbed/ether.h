/** The ether: how strongly each node hears each signal, and what disturbs it.
 *
 * A signal is a carrier on a frequency from one moment to another, with bytes on it. Its bytes are appended
 * while it lasts, each by the moment at which it begins. Received strength is the sender's power plus the
 * gain of the link; a link without a gain is not heard at all. Noise and every other signal on the frequency
 * disturb; whether a byte survives that is the receiving chip's affair.
 *
 * Nodes run one after another in slices of time. A signal must be announced (ether_begin) before any node
 * runs past its beginning, so a slice is never longer than ETHER_AHEAD; while a signal is on the air, never
 * longer than ETHER_SLICE (less than a CC2420's byte).
 */
#pragma once

#include "world.h"

enum { ETHER_OUTSIDE = -1, SIGNAL_BYTES = 320, ETHER_NEAR_KHZ = 50 };

#define ETHER_AHEAD US(160)
#define ETHER_SLICE US(17)

/** What became of a signal at a node. */
typedef enum {
    OUTCOME_RECEIVED, /* all of it, its check sum right */
    OUTCOME_DAMAGED,  /* to its end, its check sum wrong; or it was broken off */
    OUTCOME_LOST,     /* by the link's chance */
    OUTCOME_WEAK,     /* too weak against noise and other signals for its beginning to be found */
    OUTCOME_BUSY,     /* the node was receiving another signal */
    OUTCOME_SENDING,  /* the node was sending itself */
    OUTCOME_DEAF,     /* the node's radio was not listening, or stopped listening */
    OUTCOME_OVERFLOW, /* the chip had no room for it */
    OUTCOME_REFUSED,  /* by the chip's address recognition */
} outcome_t;

typedef struct {
    uint32_t number; /* signals are counted from 0 */
    int sender;      /* a node, or ETHER_OUTSIDE */
    uint32_t khz;
    double dbm;
    ns_t from; /* the carrier is on ... */
    ns_t to;   /* ... until then; NEVER while it lasts */
    ns_t data; /* when bytes[0] begins: after a CC2420's preamble and delimiter; a CC1000's first byte of
                  preamble. NEVER: a bare carrier */
    ns_t byte_ns;
    uint16_t count; /* bytes so far */
    uint16_t sync;  /* how a CC2420's sync word differs from the standard's: 0 for all but odd ones */
    bool broken;    /* the sender stopped in the middle */
    uint8_t bytes[SIGNAL_BYTES];
} signal_t;

typedef struct ether ether_t;

/** A radio on the ether. Called when a signal has been announced that is above -110 dBm at this node,
 * whatever its frequency; signal->from is to come. */
typedef void ether_heard_t(void *radio, const signal_t *signal);

/** For the log; any may be NULL. */
typedef struct {
    void (*on_end)(void *log, const signal_t *signal);
    void (*on_outcome)(void *log, const signal_t *signal, int node, outcome_t outcome, double dbm);
    void *log;
} ether_log_t;

/** An ether for nodes 0 .. nodes - 1, all links without gain, noise -98 dBm. */
ether_t *ether_make(int nodes, uint64_t seed, ether_log_t log);

void ether_join(ether_t *ether, int node, ether_heard_t *heard, void *radio);

/* Links, in one direction each. A link that is cut is not heard; its gain comes back when it is healed. */
void ether_set_gain(ether_t *ether, int from, int to, double db);
/* of a signal as a whole; 1 unless set */
void ether_set_delivery(ether_t *ether, int from, int to, double probability);
void ether_cut(ether_t *ether, int from, int to, bool cut);

/* Noise at a node: constant, or readings a millisecond apart that repeat, beginning with number `start`. The
 * readings are the caller's. */
void ether_set_noise(ether_t *ether, int node, double dbm);
void ether_set_noise_readings(ether_t *ether, int node, const float *dbm, int count, int start);

/** Announce a signal; NULL when there are too many at once (counted as a fault by the caller). It is the
 * sender's until it has ended. */
signal_t *ether_begin(ether_t *ether, int sender, ns_t from, uint32_t khz, double dbm, ns_t data,
                      ns_t byte_ns);

/** One more byte. */
void ether_append(signal_t *signal, uint8_t byte);

/** The carrier goes off; before its `from`: it never was on the air. The signal may be looked at for another
 * 50 ms. */
void ether_end(ether_t *ether, signal_t *signal, ns_t to, bool broken);

/** A signal from outside, heard everywhere with `dbm`: a whole frame, or a jammer that has no bytes. `from`
 * is at least ETHER_AHEAD away from the present. False when there are too many at once. */
bool ether_inject(ether_t *ether, ns_t from, ns_t to, uint32_t khz, double dbm, ns_t data, ns_t byte_ns,
                  const uint8_t *bytes, int count);

/** Do these two frequencies disturb each other? A CC1000 cannot be set to the kHz. */
bool ether_near(uint32_t khz, uint32_t other);

/** The strength of a signal at a node, in dBm, by the link as it was when the signal was announced; -INFINITY
 * where it is not heard. */
double ether_dbm(const ether_t *ether, const signal_t *signal, int node);

/** Does the link's chance let the signal through to the node? To be asked once of each signal and node. */
bool ether_delivers(ether_t *ether, const signal_t *signal, int node);

/** All power at a node on a frequency at a moment, noise included, in dBm: for RSSI and CCA. */
double ether_power(const ether_t *ether, int node, uint32_t khz, ns_t at);

/** The same on average between two moments. */
double ether_mean_power(const ether_t *ether, int node, uint32_t khz, ns_t from, ns_t to);

/** The last moment before `before` at which a signal on the frequency began or ended or noise changed; 0 when
 * none is known. */
ns_t ether_last_change(const ether_t *ether, int node, uint32_t khz, ns_t before);

/** A signal's strength over noise and all other signals at a node, in dB, at its worst between two moments.
 */
double ether_sinr(const ether_t *ether, const signal_t *signal, int node, ns_t from, ns_t to);

/** Chance at a node, for what its radio draws. */
random_t *ether_chance(ether_t *ether, int node);

/** Say what became of a signal at a node. The first word counts; a node with a radio that has not said
 * anything 50 ms after the end was deaf. A carrier without bytes, and a signal that never was on the air,
 * have no outcomes. */
void ether_outcome(ether_t *ether, const signal_t *signal, int node, outcome_t outcome);

/** Is anything with bytes on the air, or about to be, before `until`? */
bool ether_busy(const ether_t *ether, ns_t now, ns_t until);

/** Log what has ended, forget what ended long ago. With NEVER, at the end of a run: all that has ended. */
void ether_tidy(ether_t *ether, ns_t now);
