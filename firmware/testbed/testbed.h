/** The whole: motes, ether, script, log. */
#pragma once

#include "ether.h"
#include "emulated_node.h"
#include "truth.h"
#include "words.h"

typedef struct testbed testbed_t;

/** Something that is done now and then. */
typedef struct {
    ns_t every; /* 0: never */
    ns_t next;
} rhythm_t;

/** A command of the script, read and waiting for its time. */
typedef struct {
    ns_t at;
    int order; /* among those of the same time: as in the scenario */
    void (*act)(testbed_t *bed, const word_t *words);
    word_t words[WORDS_MOST];
    const char *line; /* for the log */
} action_t;

struct testbed {
    truth_t truth;
    uint64_t seed;
    ether_t *ether;
    node_t *nodes;
    int node_count;
    ns_t now;                          /* no node has run beyond this */
    ns_t end;                          /* NEVER: until interrupted */
    rhythm_t clocks, measures, states; /* of clock lines, measured lines and states lines */
    uint32_t start_cycles;             /* of each processor's oscillator; 0: as the processor has them */
    double pace;                       /* true seconds in a real one; 0: as fast as it goes */
    bool wait;                         /* for a client at each TCP port */
    action_t *script;                  /* by time, once the scenario has been read */
    int script_count, script_next;
    port_t **ports;
    int port_count;
};

/** Read a scenario. False, and what is wrong with which line on standard error, when it is none. */
bool scenario_read(testbed_t *bed, FILE *file);

/** The script's command in `line`, for time `at`: NULL, or what is wrong. */
const char *script_add(testbed_t *bed, ns_t at, char *line);

/** When the script goes on; NEVER after its end. */
ns_t script_next(const testbed_t *bed);

/** Do what is due. */
void script_run(testbed_t *bed);
