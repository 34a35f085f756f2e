/* A scenario: a thing per line, words separated by spaces, `#` starts a comment. Times are decimal seconds of
 * true time since the start. A file path is the rest of its line. An error names the line.
 *
 * seed N                    of all random numbers
 * nodes N                   before all that follow; nodes are 0 .. N - 1
 * node I BOARD START MAIN_PPM CRYSTAL_PPM RADIO_PPM IMAGE    micaz or mica2, switched on at START
 * supply I MILLIVOLTS       default 3000
 * adc I CHANNEL MILLIVOLTS  a sensor's voltage; default 0, on a MICA2's channel 7 its battery monitor's
 * sensors I BOARD           mts300, mts310 or mda100; mts300ca, mts310ca, mda100ca: their first editions,
 *                           with the thermistor on INT2
 * eeprom I ADDRESS HEX      before the start
 * recorder I ADDRESS        of `causeway_recorder` in the image's RAM
 * watch I NAME ADDRESS COUNT    memory that clock lines show
 * spare I ADDRESS COUNT     memory that `corrupt` leaves untouched, besides recorder and stack
 * unwired I PIN             a MICAz whose radio's sfd, fifo or fifop is not wired to its processor
 * clocks SECONDS            how often clock lines are written; 0, the default: never
 * measure SECONDS           the same of measured lines, also at the end; the run takes more time
 * states SECONDS            the same of states lines; 0: only at the end
 * oscillator CYCLES         of a processor's start after power-down and power-save; default 16384
 * gain FROM TO DB           of a link in one direction; a link without a gain is silent
 * deliver FROM TO P         probability that a signal gets through, besides noise
 * noise I DBM               default -98
 * readings I START PATH     noise from a file: dBm a line, one each ms, from number START on, repeated
 * port I TCP PTY            UART 0 on a TCP port (0: any) of 127.0.0.1, and/or a pty at the path PTY; -: none
 * pace FACTOR               true seconds in a second; 0, the default: as fast as possible
 * wait                      do not begin before each TCP port has had a client
 * end T                     the run ends; without it, when interrupted
 *
 * at T off I, on I          power; off: RAM is lost
 * at T reset I              the reset button
 * at T brownout I SECONDS   reset, RAM kept, the radio forgets everything
 * at T corrupt I COUNT      COUNT bytes of RAM at random, to random values
 * at T poke I ADDRESS HEX   these bytes of data memory
 * at T peek I ADDRESS COUNT    a peek line in the truth
 * at T crystal I stop       or run: the 32768 Hz crystal
 * at T cut I J, heal I J    both directions of a link
 * at T jam KHZ DBM SECONDS  a carrier everywhere
 * at T inject KHZ DBM BOARD HEX    a foreign frame: micaz from the length byte, FCS included; mica2 from the
 *                           preamble
 * at T uart I HEX           bytes to a UART
 * at T sense I SENSOR READING    0 to 1023; SENSOR, or an ADC channel from 0 to 7 */
#include <stdlib.h>
#include <string.h>

#include "testbed.h"

enum { NODES_MOST = 256, LINE_MOST = 8192, PPM_MOST = 100000, START_MOST = 65536 };

/* Each takes the words of its line; NULL, or what is wrong. */

static const char *take_seed(testbed_t *bed, const word_t *words)
{
    if (bed->ether != NULL)
        return "the seed comes before the nodes";
    bed->seed = words[0].number;
    return NULL;
}

static void on_end(void *log, const signal_t *signal)
{
    truth_t *truth = &((testbed_t *)log)->truth;
    truth_begin(truth, signal->to, "signal", TRUTH_NOBODY);
    truth_number(truth, "number", signal->number);
    if (signal->sender == ETHER_OUTSIDE)
        truth_null(truth, "node");
    else
        truth_number(truth, "node", (uint64_t)signal->sender);
    truth_number(truth, "khz", signal->khz);
    truth_real(truth, "dbm", signal->dbm);
    truth_number(truth, "from", signal->from);
    truth_number(truth, "data", signal->data);
    truth_number(truth, "to", signal->to);
    truth_bool(truth, "broken", signal->broken);
    truth_hex(truth, "bytes", signal->bytes, signal->count);
    truth_end(truth);
}

static void on_outcome(void *log, const signal_t *signal, int node, outcome_t outcome, double dbm)
{
    static const char *const outcomes[] = {"received", "damaged", "lost",     "weak",   "busy",
                                           "sending",  "deaf",    "overflow", "refused"};
    testbed_t *bed = log;
    truth_t *truth = &bed->truth;
    truth_begin(truth, bed->now, "outcome", node);
    truth_number(truth, "signal", signal->number);
    truth_text(truth, "outcome", outcomes[outcome]);
    truth_real(truth, "dbm", dbm);
    truth_end(truth);
}

static const char *take_nodes(testbed_t *bed, const word_t *words)
{
    if (bed->ether != NULL || words[0].number == 0 || words[0].number > NODES_MOST)
        return "there can be 1 to 256 nodes, and they are counted once";
    bed->node_count = (int)words[0].number;
    bed->nodes = calloc((size_t)bed->node_count, sizeof *bed->nodes);
    bed->ports = calloc((size_t)bed->node_count, sizeof(port_t *));
    for (int i = 0; i < bed->node_count; i++) {
        bed->nodes[i] = (node_t){
            .number = i, .truth = &bed->truth, .random = random_stream(bed->seed, (uint64_t)i)};
    }
    bed->ether = ether_make(bed->node_count, bed->seed, (ether_log_t){on_end, on_outcome, bed});
    return NULL;
}

static const char *take_node(testbed_t *bed, const word_t *words)
{
    node_t *node = &bed->nodes[words[0].number];
    const board_t *board = board_named(words[1].text);
    if (board == NULL)
        return board_names;
    if (node->board != NULL)
        return "this node is there already";
    for (int i = 3; i < 6; i++)
        if (words[i].real < -PPM_MOST || words[i].real > PPM_MOST)
            return "no crystal is that wrong";
    node->start = words[2].time;
    if (!node_make(node, board, words[6].text, words[3].real, words[4].real, words[5].real, bed->ether))
        return "its image cannot be used";
    return NULL;
}

/* A node's line must come after the node itself. */
static node_t *made(testbed_t *bed, const word_t *words)
{
    node_t *node = &bed->nodes[words[0].number];
    return node->board != NULL ? node : NULL;
}

static const char *const unmade = "the node's own line comes first";

static const char *take_supply(testbed_t *bed, const word_t *words)
{
    node_t *node = made(bed, words);
    if (node == NULL)
        return unmade;
    atmega_supply(node->mcu, (uint32_t)words[1].number);
    return NULL;
}

static const char *take_adc(testbed_t *bed, const word_t *words)
{
    node_t *node = made(bed, words);
    if (node == NULL)
        return unmade;
    if (words[1].number >= NODE_ADC_CHANNELS)
        return "the ADC has channels 0 to 7";
    node_set_channel(node, (int)words[1].number, (uint32_t)words[2].number);
    return NULL;
}

static const char *take_sensors(testbed_t *bed, const word_t *words)
{
    node_t *node = made(bed, words);
    if (node == NULL)
        return unmade;
    if (node->sensors != NULL)
        return "a mote has one sensor board";
    return node_add_sensors(node, words[1].text) ? NULL : sensor_board_names;
}

static const char *take_unwired(testbed_t *bed, const word_t *words)
{
    const node_t *node = made(bed, words);
    if (node == NULL)
        return unmade;
    return node->board->unwire(node->radio, words[1].text)
               ? NULL
               : "a MICAz has wires fifo, fifop and sfd, a MICA2 none of them";
}

static const char *take_eeprom(testbed_t *bed, const word_t *words)
{
    node_t *node = made(bed, words);
    if (node == NULL)
        return unmade;
    if (words[1].number > 4096 || (uint64_t)words[2].count > 4096 - words[1].number)
        return "the EEPROM has 4096 bytes";
    atmega_eeprom_write(node->mcu, (uint16_t)words[1].number, words[2].bytes, (uint16_t)words[2].count);
    return NULL;
}

static const char *take_recorder(testbed_t *bed, const word_t *words)
{
    node_t *node = made(bed, words);
    node_t *there = node != NULL && words[1].number >= ATMEGA_RAM && words[1].number < ATMEGA_RAM_END - 4
                        ? node
                        : NULL;
    if (there == NULL)
        return node == NULL ? unmade : "not in RAM";
    there->recorder = (uint16_t)words[1].number;
    return NULL;
}

static const char *add_stretch(stretch_t *list, int *count, int most, const char *name, const word_t *place)
{
    if (strlen(name) >= sizeof list->name)
        return "too long a name";
    if (*count == most)
        return "too many of these";
    if (place[0].number > ATMEGA_RAM_END || place[1].number > ATMEGA_RAM_END + 1 - place[0].number)
        return "not in data memory";
    stretch_t *stretch = &list[(*count)++];
    snprintf(stretch->name, sizeof stretch->name, "%s", name);
    stretch->address = (uint16_t)place[0].number;
    stretch->count = (uint16_t)place[1].number;
    return NULL;
}

static const char *take_watch(testbed_t *bed, const word_t *words)
{
    node_t *node = &bed->nodes[words[0].number];
    return add_stretch(node->watches, &node->watch_count, NODE_WATCHES, words[1].text, words + 2);
}

static const char *take_spare(testbed_t *bed, const word_t *words)
{
    node_t *node = &bed->nodes[words[0].number];
    return add_stretch(node->spares, &node->spare_count, NODE_SPARES, "", words + 1);
}

static const char *take_clocks(testbed_t *bed, const word_t *words)
{
    bed->clocks = (rhythm_t){words[0].time, words[0].time};
    return NULL;
}

static const char *take_measure(testbed_t *bed, const word_t *words)
{
    bed->measures = (rhythm_t){words[0].time, words[0].time};
    return NULL;
}

static const char *take_states(testbed_t *bed, const word_t *words)
{
    bed->states = (rhythm_t){words[0].time, words[0].time};
    return NULL;
}

static const char *take_oscillator(testbed_t *bed, const word_t *words)
{
    if (words[0].number == 0 || words[0].number > START_MOST)
        return "an oscillator starts within 1 to 65536 cycles";
    bed->start_cycles = (uint32_t)words[0].number;
    return NULL;
}

static const char *take_gain(testbed_t *bed, const word_t *words)
{
    ether_set_gain(bed->ether, (int)words[0].number, (int)words[1].number, words[2].real);
    return NULL;
}

static const char *take_deliver(testbed_t *bed, const word_t *words)
{
    if (words[2].real < 0 || words[2].real > 1)
        return "a probability is from 0 to 1";
    ether_set_delivery(bed->ether, (int)words[0].number, (int)words[1].number, words[2].real);
    return NULL;
}

static const char *take_noise(testbed_t *bed, const word_t *words)
{
    ether_set_noise(bed->ether, (int)words[0].number, words[1].real);
    return NULL;
}

/* Readings of a file are kept: many nodes use the same. */
typedef struct readings readings_t;
struct readings {
    char *path;
    float *dbm;
    int count;
    readings_t *others;
};

static const char *read_readings(const char *path, readings_t *readings)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return "the readings cannot be opened";
    int room = 0;
    float dbm;
    while (fscanf(file, "%f", &dbm) == 1) {
        if (readings->count == room) {
            room = room * 2 + 1024;
            readings->dbm = realloc(readings->dbm, (size_t)room * sizeof dbm);
        }
        readings->dbm[readings->count++] = dbm;
    }
    bool whole = feof(file);
    fclose(file);
    return whole && readings->count > 0 ? NULL : "not one number a line";
}

static const char *take_readings(testbed_t *bed, const word_t *words)
{
    static readings_t *all;
    readings_t *readings = all;
    while (readings != NULL && strcmp(readings->path, words[2].text) != 0)
        readings = readings->others;
    if (readings == NULL) {
        readings = calloc(1, sizeof *readings);
        readings->path = strdup(words[2].text);
        const char *wrong = read_readings(words[2].text, readings);
        if (wrong != NULL)
            return wrong;
        readings->others = all;
        all = readings;
    }
    ether_set_noise_readings(bed->ether, (int)words[0].number, readings->dbm, readings->count,
                             (int)(words[1].number % (uint64_t)readings->count));
    return NULL;
}

static const char *take_port(testbed_t *bed, const word_t *words)
{
    node_t *node = &bed->nodes[words[0].number];
    bool tcp = strcmp(words[1].text, "-") != 0;
    char *end = NULL;
    long number = tcp ? strtol(words[1].text, &end, 10) : -1;
    if (node->port != NULL || (tcp && (*end != '\0' || number < 0 || number > 65535)))
        return "one port a node: a number from 0 to 65535, or -";
    node->port = port_open((int)number, strcmp(words[2].text, "-") != 0 ? words[2].text : NULL);
    if (node->port == NULL)
        return "the port cannot be opened";
    bed->ports[bed->port_count++] = node->port;
    return NULL;
}

static const char *take_pace(testbed_t *bed, const word_t *words)
{
    bed->pace = words[0].real;
    return bed->pace == 0 || bed->pace >= 0.001 ? NULL : "a pace is 0, or 0.001 and more";
}

static const char *take_wait(testbed_t *bed, const word_t *words)
{
    (void)words;
    bed->wait = true;
    return NULL;
}

static const char *take_end(testbed_t *bed, const word_t *words)
{
    bed->end = words[0].time;
    return NULL;
}

static const char *take_at(testbed_t *bed, const word_t *words)
{
    char line[LINE_MOST];
    snprintf(line, sizeof line, "%s", words[1].text);
    return script_add(bed, words[0].time, line);
}

static const struct {
    const char *name, *letters;
    const char *(*take)(testbed_t *bed, const word_t *words);
    bool early; /* may come before the nodes have been counted */
} lines[] = {
    {"seed", "u", take_seed, true},
    {"nodes", "u", take_nodes, true},
    {"node", "nwtfffr", take_node, false},
    {"supply", "nu", take_supply, false},
    {"adc", "nuu", take_adc, false},
    {"sensors", "nw", take_sensors, false},
    {"eeprom", "nux", take_eeprom, false},
    {"recorder", "nu", take_recorder, false},
    {"watch", "nwuu", take_watch, false},
    {"spare", "nuu", take_spare, false},
    {"unwired", "nw", take_unwired, false},
    {"clocks", "t", take_clocks, true},
    {"measure", "t", take_measure, true},
    {"states", "t", take_states, true},
    {"oscillator", "u", take_oscillator, true},
    {"gain", "nnf", take_gain, false},
    {"deliver", "nnf", take_deliver, false},
    {"noise", "nf", take_noise, false},
    {"readings", "nur", take_readings, false},
    {"port", "nwr", take_port, false},
    {"pace", "f", take_pace, true},
    {"wait", "", take_wait, true},
    {"end", "t", take_end, true},
    {"at", "tr", take_at, false},
};

static const char *take_line(testbed_t *bed, char *line)
{
    char *name = strtok_r(line, " \t\n", &line);
    if (name == NULL)
        return NULL;
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (strcmp(lines[i].name, name) != 0)
            continue;
        if (!lines[i].early && bed->ether == NULL)
            return "the nodes must have been counted before";
        word_t words[WORDS_MOST];
        const char *wrong = words_read(line, lines[i].letters, bed->node_count, words);
        return wrong == NULL ? lines[i].take(bed, words) : wrong;
    }
    return "there is no such line";
}

static int by_time(const void *a, const void *b)
{
    const action_t *first = a, *second = b;
    if (first->at != second->at)
        return first->at < second->at ? -1 : 1;
    return first->order - second->order;
}

static bool is_whole(const testbed_t *bed)
{
    for (int i = 0; i < bed->node_count; i++) {
        if (bed->nodes[i].board == NULL) {
            fprintf(stderr, "scenario: nothing is said of node %d\n", i);
            return false;
        }
    }
    if (bed->node_count == 0)
        fprintf(stderr, "scenario: there are no nodes\n");
    return bed->node_count > 0;
}

bool scenario_read(testbed_t *bed, FILE *file)
{
    char line[LINE_MOST], whole[LINE_MOST];
    for (int number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        if (strchr(line, '\n') == NULL && !feof(file)) {
            fprintf(stderr, "scenario, line %d: longer than %d characters\n", number, LINE_MOST - 2);
            return false;
        }
        line[strcspn(line, "#\n")] = '\0';
        memcpy(whole, line, sizeof line);
        const char *wrong = take_line(bed, line);
        if (wrong != NULL) {
            fprintf(stderr, "scenario, line %d: %s\n    %s\n", number, wrong, whole);
            return false;
        }
    }
    if (bed->script_count > 0)
        qsort(bed->script, (size_t)bed->script_count, sizeof *bed->script, by_time);
    return is_whole(bed);
}
