/* MTS300, MTS310 and MDA100. Pins, channels and times as TinyOS's drivers have them (tinyos/tinyos-main,
 * tos/sensorboards); the firmware's own table is in firmware/boards/mica/sensors. The first editions (CA)
 * have the thermistor's supply on INT2, the later ones (CB) on PW0. */
#include "sensors.h"

#include <simavr/sim_irq.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_DDRE = 0x22, DATA_PORTE = 0x23, DATA_DDRC = 0x34, DATA_PORTC = 0x35 };
enum { STEPS = 1024, SENSORS_MOST = 7, CHANNELS = 8 };

typedef struct {
    const char *name;
    int channel;
    uint8_t port_e, port_c; /* all of these pins high: it is powered */
    ns_t warm_up;           /* somewhat less than its driver waits */
} kind_t;

#define INT1 (1 << 5)
#define INT2 (1 << 6)
#define PW(n) (1 << (n))

static const kind_t first_edition = {"temperature", 1, INT2, 0, US(9500)};

static const kind_t kinds[SENSORS_MOST] = {
    {"light", 1, INT1, 0, US(9500)},
    {"temperature", 1, 0, PW(0), US(9500)},
    {"microphone", 2, 0, PW(3) | PW(6), MS(1140)},
    {"accel_x", 3, 0, PW(4), US(16300)},
    {"accel_y", 4, 0, PW(4), US(16300)},
    {"mag_x", 6, 0, PW(5), MS(95)},
    {"mag_y", 5, 0, PW(5), MS(95)},
};

static const struct {
    const char *name;
    int count; /* of the kinds */
    bool first_edition;
} boards[] = {
    {"mts300", 3, false},  {"mts310", 7, false},  {"mda100", 2, false},
    {"mts300ca", 3, true}, {"mts310ca", 7, true}, {"mda100ca", 2, true},
};

const char *const sensor_board_names =
    "there are sensor boards mts300, mts310 and mda100, and with ca at the end their first editions";

typedef struct {
    kind_t kind;
    uint16_t reading;
    meter_t supply; /* state 1: it is on */
} sensor_t;

typedef struct {
    sensors_t *board;
    int number;
} channel_t;

struct sensors {
    atmega_t *mcu;
    random_t random;
    sensors_on_supply_t *on_supply;
    void *owner;
    sensor_t list[SENSORS_MOST];
    int count;
    channel_t channels[CHANNELS];
};

static bool is_powered(const sensors_t *board, const kind_t *kind)
{
    const uint8_t *data = atmega_data(board->mcu);
    uint8_t e = data[DATA_DDRE] & data[DATA_PORTE], c = data[DATA_DDRC] & data[DATA_PORTC];
    return atmega_is_on(board->mcu) && (e & kind->port_e) == kind->port_e &&
           (c & kind->port_c) == kind->port_c;
}

void sensors_look(sensors_t *board)
{
    for (int i = 0; i < board->count; i++) {
        sensor_t *sensor = &board->list[i];
        bool on = is_powered(board, &sensor->kind);
        if (on != sensor->supply.state) {
            meter_enter(&sensor->supply, on, atmega_now(board->mcu));
            board->on_supply(board->owner, sensor->kind.name, on);
        }
    }
}

static void on_pin(avr_irq_t *irq, uint32_t high, void *param)
{
    (void)irq, (void)high;
    sensors_look(param);
}

static uint32_t shown(const sensors_t *board, const sensor_t *sensor)
{
    ns_t warm = atmega_now(board->mcu) - sensor->supply.since;
    return warm < sensor->kind.warm_up ? (uint32_t)(sensor->reading * warm / sensor->kind.warm_up)
                                       : sensor->reading;
}

/* At a channel when a conversion samples it: the least voltage that gives the reading. */
static uint32_t millivolts(void *param)
{
    const channel_t *channel = param;
    sensors_t *board = channel->board;
    uint32_t reading = random_below(&board->random, STEPS);
    const sensor_t *only = NULL;
    int on = 0;
    sensors_look(board);
    for (int i = 0; i < board->count; i++) {
        if (board->list[i].supply.state == 1 && board->list[i].kind.channel == channel->number) {
            only = &board->list[i];
            on++;
        }
    }
    if (on == 1)
        reading = shown(board, only);
    return (reading * atmega_supply_now(board->mcu) + STEPS - 1) / STEPS;
}

static void connect(sensors_t *board)
{
    for (int bit = 0; bit < 8; bit++) {
        if (((INT1 | INT2) & 1 << bit) != 0)
            avr_irq_register_notify(atmega_pin(board->mcu, 'E', bit), on_pin, board);
        avr_irq_register_notify(atmega_pin(board->mcu, 'C', bit), on_pin, board);
    }
    for (int i = 0; i < board->count; i++) {
        int channel = board->list[i].kind.channel;
        board->channels[channel] = (channel_t){board, channel};
        atmega_adc(board->mcu, channel, millivolts, &board->channels[channel]);
    }
}

sensors_t *sensors_make(atmega_t *mcu, const char *name, random_t random, sensors_on_supply_t *on_supply,
                        void *owner)
{
    for (size_t i = 0; i < sizeof boards / sizeof *boards; i++) {
        if (strcmp(boards[i].name, name) != 0)
            continue;
        sensors_t *board = calloc(1, sizeof *board);
        if (board == NULL)
            abort();
        *board = (sensors_t){mcu, random, on_supply, owner, .count = boards[i].count};
        for (int k = 0; k < board->count; k++) {
            bool other = boards[i].first_edition && strcmp(kinds[k].name, first_edition.name) == 0;
            board->list[k].kind = other ? first_edition : kinds[k];
        }
        connect(board);
        return board;
    }
    return NULL;
}

static sensor_t *find(const sensors_t *board, const char *name)
{
    for (int i = 0; i < board->count; i++)
        if (strcmp(board->list[i].kind.name, name) == 0)
            return (sensor_t *)&board->list[i];
    return NULL;
}

bool sensors_feed(sensors_t *board, const char *name, uint16_t reading)
{
    sensor_t *sensor = find(board, name);
    if (sensor != NULL)
        sensor->reading = reading;
    return sensor != NULL;
}

bool sensors_has(const sensors_t *board, const char *name)
{
    return find(board, name) != NULL;
}

const char *sensors_name(const sensors_t *board, int sensor)
{
    return sensor < board->count ? board->list[sensor].kind.name : NULL;
}

ns_t sensors_powered(const sensors_t *board, int sensor)
{
    return meter_spent(&board->list[sensor].supply, 1, atmega_now(board->mcu));
}
