/* A Zephyr application: a reading every five seconds, stamped, by UDP to all nodes in reach. OpenThread gives
 * the network's time.
 *
 *     python -m packet_formats header ../deployment.toml -o causeway_layout.h     beside this file
 */
#include <openthread/network_time.h>
#include <zephyr/kernel.h>
#include <zephyr/net/openthread.h>
#include <zephyr/net/socket.h>

#include <causeway/mote.h>
#include <causeway/ticks.h>

#define PORT 40404

static cw_mote_t mote;
static K_MUTEX_DEFINE(lock);
static int line;
static struct sockaddr_in6 all = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};

/* OpenThread counts microseconds. */
static uint32_t tick_now(bool *in_sync)
{
    uint64_t time = 0;
    *in_sync = otNetworkTimeGet(openthread_get_default_instance(), &time) == OT_NETWORK_TIME_SYNCHRONIZED;
    return cw_tick((uint32_t)(time * 512 / 15625));
}

static void hear(void *a, void *b, void *c)
{
    uint8_t payload[CAUSEWAY_PAYLOAD_BYTES];
    bool in_sync;
    for (;;) {
        ssize_t length = zsock_recv(line, payload, sizeof(payload), 0);
        uint32_t tick = tick_now(&in_sync);
        if (length <= 0)
            continue;
        k_mutex_lock(&lock, K_FOREVER);
        cw_mote_receive(&mote, tick, in_sync, payload, (uint8_t)length);
        k_mutex_unlock(&lock);
    }
}

K_THREAD_STACK_DEFINE(stack, 1024);
static struct k_thread hearer;

static void send(uint16_t light)
{
    struct cw_values values = {light};
    uint8_t data[CAUSEWAY_DATA_BYTES], payload[CAUSEWAY_PAYLOAD_BYTES];
    bool in_sync;
    cw_values_pack(&values, data);
    k_mutex_lock(&lock, K_FOREVER);
    uint32_t tick = tick_now(&in_sync);
    uint8_t length = cw_mote_send(&mote, tick, in_sync, 0, data, payload);
    k_mutex_unlock(&lock);
    if (length)
        zsock_sendto(line, payload, length, 0, (struct sockaddr *)&all, sizeof(all));
}

int main(void)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
    cw_mote_start(&mote, CONFIG_MOTE_ID, 0, 0); /* 0: keep a count of boots in the settings */
    line = zsock_socket(AF_INET6, SOCK_DGRAM, IPPROTO_UDP);
    zsock_bind(line, (struct sockaddr *)&any, sizeof(any));
    zsock_inet_pton(AF_INET6, "ff02::1", &all.sin6_addr);
    k_thread_create(&hearer, stack, K_THREAD_STACK_SIZEOF(stack), hear, NULL, NULL, NULL, 5, 0, K_NO_WAIT);
    for (uint16_t reading = 0;; reading++) {
        k_sleep(K_SECONDS(5));
        send(reading);
    }
}
