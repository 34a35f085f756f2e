/* CC1000s on an ether without processors: cc1000_bench < script
 *
 * One command a line; times in ns, registers in hexadecimal:
 *
 *     nodes N SEED             first; all links silent
 *     ppm I P                  before the node's power
 *     gain FROM TO DB, deliver FROM TO P, noise I DBM
 *     power I 1|0
 *     write I ADDRESS VALUE, read I ADDRESS
 *     spi I 1|0                print the bytes that come in, or no longer
 *     send I AT HEX            as a driver does it: turn, 250 us, power, these bytes, and back to receiving
 *     jam FROM TO KHZ DBM      a carrier
 *     inject FROM KHZ DBM HEX  a frame from outside
 *     rssi I, spent I
 *     run NS                   to this moment
 *
 * Printed: `read I VALUE`, `in I T BYTE DRIVEN`, `rssi I MV`, `spent I NS...` (by state), `chp I T LEVEL`,
 * `fault I T WHAT`, `signal NUMBER NODE KHZ DBM FROM TO DATA BYTE_NS BROKEN HEX`, `outcome NUMBER NODE
 * OUTCOME DBM T`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cc1000.h"
#include "unhex.h"

enum { NODES = 32, MAIN = 0x00, CURRENT = 0x09, PA_POW = 0x0B, QUEUE = 400 };

typedef struct {
    cc1000_t *chip;
    int number;
    double ppm;
    ns_t now, wake;
    bool spi, pdata;
    enum { IDLE, WAITING, TURNING, SENDING } sends;
    ns_t next; /* step of a send */
    uint8_t queue[QUEUE];
    int count, at;
} node_t;

static ether_t *ether;
static node_t nodes[NODES];
static int node_count;
static ns_t now;

/* --- the three wires, as a driver moves them --- */

static void put(node_t *node, unsigned bits, int count)
{
    while (count-- > 0) {
        cc1000_pdata(node->chip, bits >> count & 1);
        cc1000_pclk(node->chip, node->now, false);
        cc1000_pclk(node->chip, node->now, true);
    }
}

static void write_register(node_t *node, unsigned address, unsigned value)
{
    cc1000_pale(node->chip, false);
    put(node, address << 1 | 1, 8);
    cc1000_pale(node->chip, true);
    put(node, value, 8);
}

static unsigned read_register(node_t *node, unsigned address)
{
    unsigned value = 0;
    cc1000_pale(node->chip, false);
    put(node, address << 1, 8);
    cc1000_pale(node->chip, true);
    for (int i = 0; i < 8; i++) {
        cc1000_pclk(node->chip, node->now, false);
        value = value << 1 | node->pdata;
        cc1000_pclk(node->chip, node->now, true);
    }
    return value;
}

/* --- what the chip does --- */

static void on_wake(void *board, ns_t when)
{
    ((node_t *)board)->wake = when;
}

static bool on_byte_in(void *board, uint8_t byte, bool driven)
{
    node_t *node = board;
    if (node->spi)
        printf("in %d %llu %02x %d\n", node->number, (unsigned long long)node->now, byte, driven);
    if (node->sends == SENDING && node->at == node->count) {
        node->sends = IDLE;
        write_register(node, CURRENT, 0x44);
        write_register(node, PA_POW, 0);
        write_register(node, MAIN, 0x11);
    }
    return node->spi;
}

static uint8_t on_byte_out(void *board)
{
    node_t *node = board;
    return node->sends == SENDING && node->at < node->count ? node->queue[node->at++] : 0xAA;
}

static void on_pdata(void *board, bool high)
{
    ((node_t *)board)->pdata = high;
}

static void on_chp_out(void *board, bool high)
{
    printf("chp %d %llu %d\n", ((node_t *)board)->number, (unsigned long long)((node_t *)board)->now, high);
}

static void on_fault(void *board, const char *what)
{
    printf("fault %d %llu %s\n", ((node_t *)board)->number, (unsigned long long)((node_t *)board)->now, what);
}

static void on_end(void *log, const signal_t *signal)
{
    (void)log;
    printf("signal %u %d %u %.1f %llu %llu %llu %llu %d ", signal->number, signal->sender, signal->khz,
           signal->dbm, (unsigned long long)signal->from, (unsigned long long)signal->to,
           (unsigned long long)signal->data, (unsigned long long)signal->byte_ns, signal->broken);
    for (int i = 0; i < signal->count; i++)
        printf("%02x", signal->bytes[i]);
    printf("\n");
}

static void on_outcome(void *log, const signal_t *signal, int node, outcome_t outcome, double dbm)
{
    static const char *const names[] = {"received", "damaged", "lost",     "weak",   "busy",
                                        "sending",  "deaf",    "overflow", "refused"};
    (void)log;
    printf("outcome %u %d %s %.1f %llu\n", signal->number, node, names[outcome], dbm,
           (unsigned long long)nodes[node].now);
}

/* --- time --- */

static void step_send(node_t *node)
{
    if (node->sends == WAITING) {
        write_register(node, MAIN, 0xE1);
        write_register(node, CURRENT, 0x81);
        node->sends = TURNING;
        node->next += US(251);
    } else {
        write_register(node, PA_POW, 0x0F);
        node->sends = SENDING;
        node->next = NEVER;
    }
}

static void run_node(node_t *node, ns_t until)
{
    for (;;) {
        ns_t next = node->wake < node->next ? node->wake : node->next;
        if (next > until)
            break;
        node->now = next > node->now ? next : node->now;
        if (next == node->wake)
            cc1000_due(node->chip, node->now);
        else
            step_send(node);
    }
    node->now = until;
}

/* As the testbed does it: all for a slice, one after the other. */
static void run(ns_t until)
{
    while (now < until) {
        ns_t end = now + (ether_busy(ether, now, now + ETHER_AHEAD) ? ETHER_SLICE : ETHER_AHEAD);
        end = end < until ? end : until;
        for (int i = 0; i < node_count; i++)
            run_node(&nodes[i], end);
        now = end;
        ether_tidy(ether, now);
    }
}

/* --- commands --- */

static void make_nodes(int count, unsigned long long seed)
{
    node_count = count;
    ether = ether_make(count, seed, (ether_log_t){on_end, on_outcome, NULL});
    for (int i = 0; i < count; i++)
        nodes[i] = (node_t){.number = i, .wake = NEVER, .next = NEVER};
}

static void power(node_t *node, bool on)
{
    if (node->chip == NULL) {
        cc1000_wires_t wires = {node, on_wake, on_byte_in, on_byte_out, on_pdata, on_chp_out, on_fault};
        node->chip = cc1000_make(ether, node->number, node->ppm, wires);
    }
    cc1000_power(node->chip, node->now, on);
}

static void inject(ns_t from, unsigned khz, double dbm, const char *hex)
{
    uint8_t bytes[SIGNAL_BYTES];
    int count = unhex(hex, bytes, SIGNAL_BYTES);
    ns_t byte_ns = 416667;
    ether_inject(ether, from, from + (ns_t)count * byte_ns, khz, dbm, from, byte_ns, bytes, count);
}

static bool obey(const char *line)
{
    int i, j;
    unsigned a, b;
    unsigned long long t, u;
    double x;
    static char hex[1024];
    if (sscanf(line, "nodes %d %llu", &i, &t) == 2) {
        make_nodes(i, t);
    } else if (sscanf(line, "ppm %d %lf", &i, &x) == 2) {
        nodes[i].ppm = x;
    } else if (sscanf(line, "gain %d %d %lf", &i, &j, &x) == 3) {
        ether_set_gain(ether, i, j, x);
    } else if (sscanf(line, "deliver %d %d %lf", &i, &j, &x) == 3) {
        ether_set_delivery(ether, i, j, x);
    } else if (sscanf(line, "noise %d %lf", &i, &x) == 2) {
        ether_set_noise(ether, i, x);
    } else if (sscanf(line, "power %d %d", &i, &j) == 2) {
        power(&nodes[i], j != 0);
    } else if (sscanf(line, "write %d %x %x", &i, &a, &b) == 3) {
        write_register(&nodes[i], a, b);
    } else if (sscanf(line, "read %d %x", &i, &a) == 2) {
        printf("read %d %02x\n", i, read_register(&nodes[i], a));
    } else if (sscanf(line, "spi %d %d", &i, &j) == 2) {
        nodes[i].spi = j != 0;
    } else if (sscanf(line, "send %d %llu %1023s", &i, &t, hex) == 3) {
        nodes[i].sends = WAITING;
        nodes[i].next = t;
        nodes[i].at = 0;
        nodes[i].count = unhex(hex, nodes[i].queue, QUEUE);
    } else if (sscanf(line, "jam %llu %llu %u %lf", &t, &u, &a, &x) == 4) {
        ether_inject(ether, t, u, a, x, 0, 0, NULL, 0);
    } else if (sscanf(line, "inject %llu %u %lf %1023s", &t, &a, &x, hex) == 4) {
        inject(t, a, x, hex);
    } else if (sscanf(line, "rssi %d", &i) == 1) {
        printf("rssi %d %u\n", i, cc1000_rssi_millivolts(nodes[i].chip, nodes[i].now));
    } else if (sscanf(line, "spent %d", &i) == 1) {
        printf("spent %d", i);
        for (radio_state_t state = 0; state < RADIO_STATES; state++)
            printf(" %llu", (unsigned long long)cc1000_spent(nodes[i].chip, state, nodes[i].now));
        printf("\n");
    } else if (sscanf(line, "run %llu", &t) == 1) {
        run(t);
    } else {
        return false;
    }
    return true;
}

int main(void)
{
    static char line[1200];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (!obey(line)) {
            fprintf(stderr, "what is this: %s", line);
            return 2;
        }
    }
    return 0;
}
