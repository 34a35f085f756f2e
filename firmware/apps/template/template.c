/* A template: copy this folder anywhere, and change it. docs/guide/apps.md. */
#include "net/node.h"

enum { SEND }; /* timers, 0 .. NODE_TIMERS - 1 */

static uint8_t data[CAUSEWAY_DATA_BYTES + 1];

void app_start(void)
{
    node_every(SEND, CAUSEWAY_SEND_SECONDS * NODE_SECOND);
}

void app_on_timer(uint8_t timer)
{
    (void)timer;
    data[0]++;
    node_send(data);
}

void app_on_message(const node_message_t *message)
{
    node_leds(message->order == NODE_AFTER_OURS ? LED_GREEN : 0);
}
