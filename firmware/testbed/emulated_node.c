#include "emulated_node.h"

#include <string.h>

/* ---- The flight recorder: firmware/net/recorder.h ---- */

enum { RECORDER_FORMAT = 1, RECORDER_HEAD = 4, RECORDER_ENTRY = 8 };

static const char *const kinds[] = {"none", "boot", "send", "receive", "unmerged", "relay", "late", "epoch"};

static uint16_t word_at(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static void show_entry(node_t *node, const uint8_t *entry)
{
    unsigned kind = entry[6] < sizeof kinds / sizeof *kinds ? entry[6] : 0;
    truth_begin(node->truth, atmega_now(node->mcu), "recorder", node->number);
    truth_number(node->truth, "number", word_at(entry));
    truth_text(node->truth, "kind", kinds[kind]);
    truth_number(node->truth, "peer", word_at(entry + 2));
    truth_number(node->truth, "sequence", entry[7]);
    truth_number(node->truth, "tick", word_at(entry + 4));
    truth_end(node->truth);
}

static void show_missed(node_t *node, uint16_t count)
{
    truth_begin(node->truth, atmega_now(node->mcu), "missed", node->number);
    truth_number(node->truth, "count", count);
    truth_end(node->truth);
}

static void show_reset(node_t *node, const char *cause)
{
    truth_begin(node->truth, atmega_now(node->mcu), "reset", node->number);
    truth_text(node->truth, "cause", cause);
    truth_end(node->truth);
}

/* The counter's two bytes are written one after the other: between them it is neither the old one nor the
 * new. */
static bool is_whole(const uint8_t *recorder, uint16_t next)
{
    uint16_t last = (uint16_t)(next - 1);
    return word_at(recorder + RECORDER_HEAD + last % recorder[1] * RECORDER_ENTRY) == last;
}

static void read_recorder(node_t *node)
{
    const uint8_t *recorder = atmega_data(node->mcu) + node->recorder;
    if (node->recorder == 0 || recorder[0] != RECORDER_FORMAT || recorder[1] == 0)
        return;
    uint16_t next = word_at(recorder + 2);
    uint16_t fresh = (uint16_t)(next - node->recorder_next);
    uint8_t size = recorder[1];
    if (fresh == 0 || !is_whole(recorder, next))
        return;
    if (fresh > INT16_MAX) { /* it counts from 0 again: a program run wild has come to its own beginning */
        show_reset(node, "jump");
        node->recorder_next = 0;
        fresh = next;
    }
    if (fresh > size) {
        show_missed(node, (uint16_t)(fresh - size));
        node->recorder_next = (uint16_t)(next - size);
    }
    for (; node->recorder_next != next; node->recorder_next++)
        show_entry(node, recorder + RECORDER_HEAD + node->recorder_next % size * RECORDER_ENTRY);
}

/* A program that starts clears it; until then random RAM must not be taken for events. */
static void clear_recorder(node_t *node)
{
    node->recorder_next = 0;
    if (node->recorder != 0)
        memset(atmega_data(node->mcu) + node->recorder, 0, RECORDER_HEAD);
}

/* ---- What the processor reports ---- */

void node_show_fault(node_t *node, const char *what)
{
    truth_begin(node->truth, atmega_now(node->mcu), "fault", node->number);
    truth_text(node->truth, "what", what);
    truth_end(node->truth);
}

static void on_fault(void *owner, const char *what)
{
    node_show_fault(owner, what);
}

static void show_line(node_t *node)
{
    truth_begin(node->truth, atmega_now(node->mcu), "uart", node->number);
    truth_hex(node->truth, "bytes", node->line, node->line_count);
    truth_end(node->truth);
    node->line_count = 0;
}

static void on_uart(void *owner, uint8_t byte)
{
    node_t *node = owner;
    if (node->port != NULL)
        port_put(node->port, byte);
    node->line[node->line_count++] = byte;
    if (node->line_count == NODE_LINE || (byte == 0x7E && node->line_count > 1))
        show_line(node);
}

static void on_leds(void *owner, uint8_t lit)
{
    node_t *node = owner;
    for (int i = 0; i < NODE_LEDS; i++)
        meter_enter(&node->leds[i], lit >> i & 1, atmega_now(node->mcu));
    truth_begin(node->truth, atmega_now(node->mcu), "leds", node->number);
    truth_number(node->truth, "lit", lit);
    truth_end(node->truth);
}

static void on_reset(void *owner, reset_cause_t cause)
{
    static const char *const causes[] = {"power-on", "button", "brown-out", "watchdog"};
    node_t *node = owner;
    if (cause != RESET_POWER_ON)
        read_recorder(node);
    clear_recorder(node);
    show_reset(node, causes[cause]);
    if (node->sensors != NULL)
        sensors_look(node->sensors);
}

/* ---- The mote ---- */

bool node_make(node_t *node, const board_t *board, const char *image, double main_ppm, double crystal_ppm,
               double radio_ppm, ether_t *ether)
{
    atmega_watch_t watch = {on_fault, on_uart, on_leds, on_reset, node};
    node->board = board;
    node->mcu = atmega_make(image, main_ppm, crystal_ppm, watch);
    if (node->mcu == NULL)
        return false;
    node->radio = board->make(node->mcu, ether, node->number, radio_ppm, on_fault, node);
    return true;
}

/* ---- Sensors ---- */

enum { SENSOR_STREAM = 1 << 20, ADC_STEPS = 1024 };

static void on_supply(void *owner, const char *name, bool on)
{
    node_t *node = owner;
    truth_begin(node->truth, atmega_now(node->mcu), "supply", node->number);
    truth_text(node->truth, "sensor", name);
    truth_bool(node->truth, "on", on);
    truth_end(node->truth);
}

bool node_add_sensors(node_t *node, const char *board)
{
    random_t random = random_stream(node->random.state, SENSOR_STREAM);
    node->sensors = sensors_make(node->mcu, board, random, on_supply, node);
    return node->sensors != NULL;
}

static bool is_channel(const char *name)
{
    return name[0] >= '0' && name[0] < '0' + NODE_ADC_CHANNELS && name[1] == '\0';
}

static uint32_t millivolts(void *param)
{
    return *(const uint32_t *)param;
}

void node_set_channel(node_t *node, int channel, uint32_t value)
{
    node->adc[channel] = value;
    atmega_adc(node->mcu, channel, millivolts, &node->adc[channel]);
}

bool node_feed(node_t *node, const char *sensor, uint16_t reading)
{
    if (is_channel(sensor)) {
        uint32_t supply = atmega_supply_now(node->mcu);
        node_set_channel(node, sensor[0] - '0', (reading * supply + ADC_STEPS - 1) / ADC_STEPS);
        return true;
    }
    return node->sensors != NULL && sensors_feed(node->sensors, sensor, reading);
}

bool node_has_sensor(const node_t *node, const char *sensor)
{
    return is_channel(sensor) || (node->sensors != NULL && sensors_has(node->sensors, sensor));
}

/* ---- Power ---- */

static void show_power(node_t *node, ns_t at, bool on)
{
    truth_begin(node->truth, at, "power", node->number);
    truth_bool(node->truth, "on", on);
    truth_end(node->truth);
}

void node_on(node_t *node, ns_t at)
{
    if (!atmega_is_on(node->mcu)) {
        show_power(node, at, true);
        atmega_on(node->mcu, at, &node->random);
        node->board->power(node->radio, true);
    }
}

void node_off(node_t *node)
{
    if (atmega_is_on(node->mcu)) {
        read_recorder(node);
        show_power(node, atmega_now(node->mcu), false);
        node->board->power(node->radio, false);
        atmega_off(node->mcu);
        if (node->sensors != NULL)
            sensors_look(node->sensors);
    }
}

void node_reset(node_t *node)
{
    if (atmega_is_on(node->mcu))
        atmega_reset(node->mcu, RESET_BUTTON);
}

/* The detector holds the processor in reset until the supply is back; RAM keeps its contents at any voltage
 * worth the name. */
void node_brown_out(node_t *node, ns_t until)
{
    if (atmega_is_on(node->mcu)) {
        node_off(node);
        atmega_on(node->mcu, until, NULL);
        node->board->power(node->radio, true);
    }
}

void node_run(node_t *node, ns_t until)
{
    atmega_run(node->mcu, until);
    read_recorder(node);
}

/* ---- Memory ---- */

static bool is_within(const stretch_t *stretch, uint16_t address)
{
    return address >= stretch->address && address < stretch->address + stretch->count;
}

static bool is_spared(const node_t *node, uint16_t address)
{
    const uint8_t *data = atmega_data(node->mcu);
    uint16_t stack = word_at(data + 0x5D);
    uint16_t recorder_size = (uint16_t)(RECORDER_HEAD + RECORDER_ENTRY * data[node->recorder + 1]);
    if (address > stack ||
        (node->recorder != 0 && is_within(&(stretch_t){"", node->recorder, recorder_size}, address)))
        return true;
    for (int i = 0; i < node->spare_count; i++)
        if (is_within(&node->spares[i], address))
            return true;
    return false;
}

static bool all_spared(const node_t *node)
{
    for (uint16_t address = ATMEGA_RAM; address <= ATMEGA_RAM_END; address++)
        if (!is_spared(node, address))
            return false;
    return true;
}

void node_corrupt(node_t *node, int count)
{
    if (all_spared(node)) {
        node_show_fault(node, "nothing to corrupt: all of its memory is spared");
        return;
    }
    for (int i = 0; i < count; i++) {
        uint16_t address;
        do {
            address = (uint16_t)(ATMEGA_RAM + random_below(&node->random, ATMEGA_RAM_END + 1 - ATMEGA_RAM));
        } while (is_spared(node, address));
        atmega_data(node->mcu)[address] = (uint8_t)random_bits(&node->random);
    }
}

void node_show_clock(node_t *node)
{
    if (!atmega_is_on(node->mcu))
        return;
    const uint8_t *data = atmega_data(node->mcu);
    truth_begin(node->truth, atmega_now(node->mcu), "clock", node->number);
    truth_number(node->truth, "crystal", atmega_crystal_cycles(node->mcu));
    truth_number(node->truth, "tcnt0", atmega_crystal_count(node->mcu));
    truth_number(node->truth, "divider", atmega_crystal_divider(node->mcu));
    truth_number(node->truth, "prescaler", atmega_crystal_prescaler(node->mcu));
    truth_object(node->truth, "watch");
    for (int i = 0; i < node->watch_count; i++) {
        const stretch_t *watch = &node->watches[i];
        truth_hex(node->truth, watch->name, data + watch->address, watch->count);
    }
    truth_object_end(node->truth);
    truth_end(node->truth);
}

void node_show_use(node_t *node)
{
    atmega_use_t use = atmega_use(node->mcu);
    truth_begin(node->truth, atmega_now(node->mcu), "measured", node->number);
    truth_number(node->truth, "stack", use.stack);
    truth_number(node->truth, "cycles", use.cycles);
    truth_number(node->truth, "awake", use.awake);
    truth_number(node->truth, "masked", use.masked);
    truth_number(node->truth, "spi", use.spi);
    truth_object(node->truth, "handlers");
    for (int i = 1; i < ATMEGA_VECTORS; i++) {
        if (use.handlers[i] > 0) {
            char vector[4];
            snprintf(vector, sizeof vector, "%d", i);
            truth_number(node->truth, vector, use.handlers[i]);
        }
    }
    truth_object_end(node->truth);
    truth_end(node->truth);
}

/* A state in which it never was is left out. */
static void show_spent(node_t *node, const char *name, ns_t spent)
{
    if (spent > 0)
        truth_number(node->truth, name, spent);
}

static void show_processor(node_t *node)
{
    static const char *const names[PROCESSOR_STATES] = {
        "active",   "idle", "noise_reduction", "power_down", "power_save", "standby", "extended_standby",
        "starting", "off",
    };
    truth_object(node->truth, "processor");
    for (processor_state_t state = 0; state < PROCESSOR_STATES; state++)
        show_spent(node, names[state], atmega_spent(node->mcu, state));
    truth_object_end(node->truth);
}

static void show_radio(node_t *node, ns_t now)
{
    static const char *const names[RADIO_STATES] = {
        "off", "down", "starting", "idle", "calibrating", "receiving", "sending",
    };
    truth_object(node->truth, "radio");
    for (radio_state_t state = 0; state < RADIO_STATES; state++)
        show_spent(node, names[state], node->board->spent(node->radio, state, now));
    truth_object_end(node->truth);
}

void node_show_states(node_t *node)
{
    static const char *const colours[NODE_LEDS] = {"red", "green", "yellow"};
    ns_t now = atmega_now(node->mcu);
    truth_begin(node->truth, now, "states", node->number);
    show_processor(node);
    show_radio(node, now);
    truth_object(node->truth, "leds");
    for (int i = 0; i < NODE_LEDS; i++)
        show_spent(node, colours[i], meter_spent(&node->leds[i], 1, now));
    truth_object_end(node->truth);
    truth_object(node->truth, "sensors");
    for (int i = 0; node->sensors != NULL && sensors_name(node->sensors, i) != NULL; i++)
        show_spent(node, sensors_name(node->sensors, i), sensors_powered(node->sensors, i));
    truth_object_end(node->truth);
    truth_object(node->truth, "starts");
    truth_number(node->truth, "processor", atmega_starts(node->mcu));
    truth_number(node->truth, "radio", node->board->starts(node->radio));
    truth_object_end(node->truth);
    truth_end(node->truth);
}

void node_show_memory(node_t *node, uint16_t address, uint16_t count)
{
    truth_begin(node->truth, atmega_now(node->mcu), "peek", node->number);
    truth_number(node->truth, "address", address);
    truth_hex(node->truth, "bytes", atmega_data(node->mcu) + address, count);
    truth_end(node->truth);
}

void node_take_input(node_t *node)
{
    uint8_t bytes[256];
    int room = atmega_uart_room(node->mcu);
    int count = port_take(node->port, bytes, room < (int)sizeof bytes ? room : (int)sizeof bytes);
    if (count > 0)
        atmega_uart_feed(node->mcu, bytes, count);
}
