/* A Contiki-NG application: a reading every five seconds, stamped. TSCH gives the network's time.
 *
 *     python -m packet_formats header ../deployment.toml -o causeway_layout.h     beside this file
 */
#include "contiki.h"
#include "net/mac/tsch/tsch.h"
#include "net/netstack.h"
#include "net/nullnet/nullnet.h"
#include "sys/node-id.h"

#include <causeway/mote.h>
#include <causeway/ticks.h>

static cw_mote_t mote;
static uint8_t payload[CAUSEWAY_PAYLOAD_BYTES];

PROCESS(stamped, "Stamped readings");
AUTOSTART_PROCESSES(&stamped);

/* TSCH counts time in clock ticks, and says -1 while it has none. */
static uint32_t tick_now(bool *in_sync)
{
    uint64_t time = tsch_get_network_uptime_ticks();
    *in_sync = time != (uint64_t)-1;
    return cw_tick((uint32_t)(time * 32768 / CLOCK_SECOND));
}

static void heard(const void *data, uint16_t length, const linkaddr_t *from, const linkaddr_t *to)
{
    bool in_sync;
    uint32_t tick = tick_now(&in_sync);
    (void)from;
    (void)to;
    cw_mote_receive(&mote, tick, in_sync, data, (uint8_t)length);
}

static void send(uint16_t light)
{
    struct cw_values values = {light};
    bool in_sync;
    uint32_t tick = tick_now(&in_sync);
    uint8_t data[CAUSEWAY_DATA_BYTES];
    cw_values_pack(&values, data);
    nullnet_buf = payload;
    nullnet_len = cw_mote_send(&mote, tick, in_sync, 0, data, payload);
    if (nullnet_len)
        NETSTACK_NETWORK.output(NULL);
}

PROCESS_THREAD(stamped, ev, data)
{
    static struct etimer timer;
    static uint16_t reading;
    PROCESS_BEGIN();
    cw_mote_start(&mote, node_id, 0, 0); /* 0: keep a count of boots in a file of Coffee */
    nullnet_set_input_callback(heard);
    etimer_set(&timer, 5 * CLOCK_SECOND);
    while (1) {
        PROCESS_WAIT_EVENT_UNTIL(etimer_expired(&timer));
        etimer_reset(&timer);
        send(reading++);
    }
    PROCESS_END();
}
