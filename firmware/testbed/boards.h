/** A radio board on a processor and the ether: what the testbed knows of it. micaz.c has a CC2420, mica2.c a
 * CC1000. */
#pragma once

#include "atmega.h"
#include "ether.h"
#include "radio_states.h"

/** The program used the radio chip wrongly: in words, each kind once a run. */
typedef void board_fault_t(void *owner, const char *what);

typedef struct board board_t;
struct board {
    const char *name;
    ns_t lead; /* of an injected signal: from its start to its first byte */
    ns_t byte; /* how long a byte is on the air */
    /** The chip, wired to the processor's pins and joined to the ether as `node`, without power. `radio_ppm`
     * is its own crystal's error. */
    void *(*make)(atmega_t *mcu, ether_t *ether, int node, double radio_ppm, board_fault_t *fault,
                  void *owner);
    /** Supply on or off, with the processor's. Off: a signal under way breaks off, everything in the chip is
     * forgotten. */
    void (*power)(void *radio, bool on);
    /** This wire from the chip to the processor, named as the chip's pin, is missing. False: there is no such
     * wire. */
    bool (*unwire)(void *radio, const char *pin);
    /** The time since 0 that it was in a state. */
    ns_t (*spent)(const void *radio, radio_state_t state, ns_t now);
    /** How often its crystal was started. */
    uint64_t (*starts)(const void *radio);
};

/** The board of this name, or NULL; `board_names` says which there are. */
const board_t *board_named(const char *name);
extern const char *const board_names;
