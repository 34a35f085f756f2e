/* An app that does everything an app can, and leaves it to be read. */
#include <string.h>

#include "net/node.h"

enum { ASK, ANSWER };

node_message_t probe_message; /* the last */
uint8_t probe_data[CAUSEWAY_DATA_BYTES];
uint32_t probe_messages, probe_timers[2], probe_sent, probe_dropped, probe_sequence, probe_command,
    probe_argument;
uint32_t probe_reading, probe_readings;
bool probe_broken;

void app_start(void)
{
    if (node_id() == 0)
        node_every(ASK, 2 * NODE_SECOND);
}

void app_on_timer(uint8_t timer)
{
    uint8_t data[CAUSEWAY_DATA_BYTES] = {timer, (uint8_t)node_id()};
    probe_timers[timer]++;
    node_send(data);
}

/* Whoever is asked answers once. */
void app_on_message(const node_message_t *message)
{
    probe_message = *message;
    memcpy(probe_data, message->data, CAUSEWAY_DATA_BYTES);
    probe_messages++;
    if (message->data[0] == ASK) {
        node_leds(LED_GREEN);
        node_after(ANSWER, NODE_SECOND / 8 + node_random(NODE_SECOND / 8));
    }
}

void app_on_sent(bool sent, uint8_t sequence)
{
    probe_sent += sent;
    probe_dropped += !sent;
    probe_sequence = sequence;
}

void app_on_command(uint8_t command, uint32_t argument)
{
    probe_command = command;
    probe_argument = argument;
    if (command == 200)
        node_read((uint8_t)argument);
    else if (command == 201)
        node_every((uint8_t)argument, NODE_SECOND / 4);
    else if (command == 202)
        node_after((uint8_t)argument, NODE_SECOND / 4);
}

void app_on_reading(uint8_t sensor, uint16_t reading)
{
    (void)sensor;
    probe_reading = reading;
    probe_readings++;
}

bool app_sound(uint32_t now)
{
    (void)now;
    return !probe_broken;
}
