/* Messages of which some are urgent, to measure how long those take (tools/tables/urgent.py). Each holds its
 * number and whether it is urgent. The yellow LED flashes when an urgent one is handed over. */
#include "causeway/bytes.h"
#include "net/node.h"

#ifndef URGENT_EVERY
#define URGENT_EVERY 32
#endif

enum { SEND, DARK }; /* timers */

void app_start(void)
{
    node_every(SEND, MOTE_PERIOD);
}

void app_on_timer(uint8_t timer)
{
    static uint16_t number;
    uint8_t data[CAUSEWAY_DATA_BYTES] = {0};
    if (timer == DARK) {
        node_leds(0);
        return;
    }
    cw_put16(data, ++number);
    data[2] = number % URGENT_EVERY == 0;
    if (data[2]) {
        node_send_urgent(data);
        node_leds(LED_YELLOW);
        node_after(DARK, NODE_SECOND / 64);
    } else {
        node_send(data);
    }
}
