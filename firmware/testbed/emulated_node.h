/** A mote of the testbed: a processor, its radio board, and what is known of its program's memory. */
#pragma once

#include "boards.h"
#include "ports.h"
#include "sensors.h"
#include "truth.h"

enum { NODE_WATCHES = 8, NODE_SPARES = 8, NODE_ADC_CHANNELS = 8, NODE_LEDS = 3, NODE_LINE = 600 };

typedef struct {
    char name[32]; /* empty where a name is not needed */
    uint16_t address, count;
} stretch_t;

typedef struct {
    int number;
    truth_t *truth;
    const board_t *board; /* NULL: the scenario has not said anything of this node */
    atmega_t *mcu;
    void *radio;
    random_t random; /* what is in its RAM at power on, and what corrupts it */
    ns_t start;
    uint16_t recorder;      /* where it is; 0: not known */
    uint16_t recorder_next; /* the event to be read next */
    stretch_t watches[NODE_WATCHES], spares[NODE_SPARES];
    int watch_count, spare_count;
    uint32_t adc[NODE_ADC_CHANNELS]; /* millivolts */
    sensors_t *sensors;              /* or NULL */
    meter_t leds[NODE_LEDS];         /* red, green, yellow; state 1: lit */
    uint8_t line[NODE_LINE];         /* what left the UART, up to the end of a serial frame */
    int line_count;
    port_t *port; /* or NULL */
} node_t;

/** A mote that is off. False when the image is none. */
bool node_make(node_t *node, const board_t *board, const char *image, double main_ppm, double crystal_ppm,
               double radio_ppm, ether_t *ether);

void node_on(node_t *node, ns_t at);
void node_off(node_t *node);
void node_reset(node_t *node);

/** The supply dips from now until then. */
void node_brown_out(node_t *node, ns_t until);

/** Run, then write down the flight recorder's new events. */
void node_run(node_t *node, ns_t until);

/** `count` bytes of RAM become random, the recorder, the stack and what is spared apart; a fault if nothing
 * is left. */
void node_corrupt(node_t *node, int count);

/** The voltage at a channel of the ADC. */
void node_set_channel(node_t *node, int channel, uint32_t millivolts);

/** A sensor board of this name; false: there is none. */
bool node_add_sensors(node_t *node, const char *board);

/** What a sensor shows from now on, or the ADC's channel of this number, which needs no supply; false: the
 * mote has no such sensor. */
bool node_feed(node_t *node, const char *sensor, uint16_t reading);
bool node_has_sensor(const node_t *node, const char *sensor);

/** A fault line: not the program's, but of a run that is not what its script says. */
void node_show_fault(node_t *node, const char *what);

/** A clock line, a measured line, a states line, a peek line. */
void node_show_clock(node_t *node);
void node_show_use(node_t *node);
void node_show_states(node_t *node);
void node_show_memory(node_t *node, uint16_t address, uint16_t count);

/** Bytes from the port to the UART, as many as there is room for. */
void node_take_input(node_t *node);
