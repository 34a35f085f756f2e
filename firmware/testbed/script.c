#include <stdlib.h>
#include <string.h>

#include "testbed.h"

enum { ADC_TOP = 1023 };

/* The node of a command, brought up to the present: it may have slept on. */
static node_t *node_now(testbed_t *bed, const word_t *word)
{
    node_t *node = &bed->nodes[word->number];
    node_run(node, bed->now);
    return node;
}

static void do_off(testbed_t *bed, const word_t *words)
{
    node_off(node_now(bed, words));
}

static void do_on(testbed_t *bed, const word_t *words)
{
    node_on(node_now(bed, words), bed->now);
}

static void do_reset(testbed_t *bed, const word_t *words)
{
    node_reset(node_now(bed, words));
}

static void do_brown_out(testbed_t *bed, const word_t *words)
{
    node_brown_out(node_now(bed, words), bed->now + words[1].time);
}

static void do_corrupt(testbed_t *bed, const word_t *words)
{
    node_corrupt(node_now(bed, words), (int)words[1].number);
}

static void do_poke(testbed_t *bed, const word_t *words)
{
    memcpy(atmega_data(node_now(bed, words)->mcu) + words[1].number, words[2].bytes, (size_t)words[2].count);
}

static void do_peek(testbed_t *bed, const word_t *words)
{
    node_show_memory(node_now(bed, words), (uint16_t)words[1].number, (uint16_t)words[2].number);
}

static void do_crystal(testbed_t *bed, const word_t *words)
{
    atmega_crystal(node_now(bed, words)->mcu, strcmp(words[1].text, "run") == 0);
}

static void set_link(testbed_t *bed, const word_t *words, bool cut)
{
    int i = (int)words[0].number, j = (int)words[1].number;
    ether_cut(bed->ether, i, j, cut);
    ether_cut(bed->ether, j, i, cut);
}

static void do_cut(testbed_t *bed, const word_t *words)
{
    set_link(bed, words, true);
}

static void do_heal(testbed_t *bed, const word_t *words)
{
    set_link(bed, words, false);
}

static void do_jam(testbed_t *bed, const word_t *words)
{
    ns_t from = bed->now + ETHER_AHEAD;
    ether_inject(bed->ether, from, from + words[2].time, (uint32_t)words[0].number, words[1].real, from,
                 US(32), NULL, 0);
}

static void do_inject(testbed_t *bed, const word_t *words)
{
    const board_t *board = board_named(words[2].text);
    const word_t *frame = &words[3];
    ns_t from = bed->now + ETHER_AHEAD;
    ns_t data = from + board->lead;
    ns_t to = data + board->byte * (ns_t)frame->count;
    ether_inject(bed->ether, from, to, (uint32_t)words[0].number, words[1].real, data, board->byte,
                 frame->bytes, frame->count);
}

static void do_uart(testbed_t *bed, const word_t *words)
{
    node_t *node = node_now(bed, words);
    if (!atmega_uart_feed(node->mcu, words[1].bytes, words[1].count))
        node_show_fault(node, "bytes to its UART for which there was no room");
}

static void do_sense(testbed_t *bed, const word_t *words)
{
    node_feed(node_now(bed, words), words[1].text, (uint16_t)words[2].number);
}

static const struct {
    const char *name, *letters;
    void (*act)(testbed_t *bed, const word_t *words);
} commands[] = {
    {"off", "n", do_off},          {"on", "n", do_on},
    {"reset", "n", do_reset},      {"brownout", "nt", do_brown_out},
    {"corrupt", "nu", do_corrupt}, {"poke", "nux", do_poke},
    {"peek", "nuu", do_peek},      {"crystal", "nw", do_crystal},
    {"cut", "nn", do_cut},         {"heal", "nn", do_heal},
    {"jam", "uft", do_jam},        {"inject", "ufwx", do_inject},
    {"uart", "nx", do_uart},       {"sense", "nwu", do_sense},
};

/* Data memory goes up to the end of RAM. */
static bool is_memory(uint64_t address, uint64_t count)
{
    return address <= ATMEGA_RAM_END && count <= ATMEGA_RAM_END + 1 - address;
}

/* What the letters cannot say. */
static const char *check(const testbed_t *bed, const action_t *action)
{
    const word_t *words = action->words;
    if (action->act == do_poke && !is_memory(words[1].number, (uint64_t)words[2].count))
        return "not in data memory";
    if (action->act == do_peek && !is_memory(words[1].number, words[2].number))
        return "not in data memory";
    if (action->act == do_corrupt && words[1].number > ATMEGA_RAM_END)
        return "more bytes than there are";
    if (action->act == do_crystal && strcmp(words[1].text, "run") != 0 && strcmp(words[1].text, "stop") != 0)
        return "a crystal can run or stop";
    if (action->act == do_inject && board_named(words[2].text) == NULL)
        return board_names;
    if (action->act == do_sense && !node_has_sensor(&bed->nodes[words[0].number], words[1].text))
        return "its sensor board, if it has one, has no such sensor";
    if (action->act == do_sense && words[2].number > ADC_TOP)
        return "a reading is from 0 to 1023";
    if (action->act == do_inject && words[3].count > SIGNAL_BYTES)
        return "too long a frame";
    return NULL;
}

const char *script_add(testbed_t *bed, ns_t at, char *line)
{
    action_t action = {.at = at, .order = bed->script_count, .line = strdup(line)};
    char *name = strtok_r(line, " \t\n", &line);
    for (unsigned i = 0; name != NULL && i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            const char *wrong = words_read(line, commands[i].letters, bed->node_count, action.words);
            action.act = commands[i].act;
            wrong = wrong == NULL ? check(bed, &action) : wrong;
            if (wrong == NULL) {
                bed->script = realloc(bed->script, (size_t)(bed->script_count + 1) * sizeof action);
                bed->script[bed->script_count++] = action;
            }
            return wrong;
        }
    }
    return "the script has no such command";
}

ns_t script_next(const testbed_t *bed)
{
    return bed->script_next < bed->script_count ? bed->script[bed->script_next].at : NEVER;
}

void script_run(testbed_t *bed)
{
    while (script_next(bed) <= bed->now) {
        const action_t *action = &bed->script[bed->script_next++];
        truth_begin(&bed->truth, bed->now, "script", TRUTH_NOBODY);
        truth_text(&bed->truth, "line", action->line);
        truth_end(&bed->truth);
        action->act(bed, action->words);
    }
}
