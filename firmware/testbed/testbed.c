/* testbed SCENARIO [TRUTH]: runs a scenario (`-`: from standard input) and writes the truth (to standard
 * output by default). docs/reference/testbed.md. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "testbed.h"

enum { VERSION = 1 };

#define PORTS_EVERY MS(5) /* between looks at who is at the other end of the UARTs */
#define SLIP MS(100)      /* so far behind its pace a run may fall and still make up for it */

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

/* ---- Real time ---- */

static ns_t real_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (ns_t)now.tv_sec * SECOND + (ns_t)now.tv_nsec;
}

typedef struct {
    ns_t began; /* real time */
    ns_t zero;  /* real time at which true time would have been 0 at this pace */
} watch_t;

/* Milliseconds for which the motes must wait for real time. A run that cannot keep its pace lets time slip.
 */
static int ahead_ms(const testbed_t *bed, watch_t *watch)
{
    if (bed->pace <= 0 || interrupted)
        return 0;
    ns_t due = watch->zero + (ns_t)((double)bed->now / bed->pace);
    ns_t real = real_now();
    if (real > due + SLIP)
        watch->zero += real - due;
    ns_t ahead = due > real ? due - real : 0;
    return (int)((ahead < SECOND ? ahead : SECOND) / MS(1));
}

/* ---- The loop ---- */

static void show_ports(testbed_t *bed)
{
    for (int i = 0; i < bed->node_count; i++) {
        const port_t *port = bed->nodes[i].port;
        if (port == NULL)
            continue;
        truth_begin(&bed->truth, 0, "port", i);
        if (port_tcp(port) >= 0)
            truth_number(&bed->truth, "tcp", (uint64_t)port_tcp(port));
        else
            truth_null(&bed->truth, "tcp");
        if (port_pty(port) != NULL)
            truth_text(&bed->truth, "pty", port_pty(port));
        else
            truth_null(&bed->truth, "pty");
        truth_end(&bed->truth);
    }
}

static bool clients_missing(const testbed_t *bed)
{
    for (int i = 0; i < bed->port_count; i++)
        if (port_tcp(bed->ports[i]) >= 0 && !port_had_client(bed->ports[i]))
            return true;
    return false;
}

static void begin(testbed_t *bed)
{
    truth_begin(&bed->truth, 0, "start", TRUTH_NOBODY);
    truth_number(&bed->truth, "seed", bed->seed);
    truth_number(&bed->truth, "nodes", (uint64_t)bed->node_count);
    truth_number(&bed->truth, "version", VERSION);
    truth_end(&bed->truth);
    show_ports(bed);
    truth_flush(&bed->truth);
    while (bed->wait && clients_missing(bed) && !interrupted)
        ports_poll(bed->ports, bed->port_count, 100);
    for (int i = 0; i < bed->node_count; i++) {
        if (bed->start_cycles > 0)
            atmega_start_cycles(bed->nodes[i].mcu, bed->start_cycles);
        if (bed->measures.every > 0)
            atmega_measure(bed->nodes[i].mcu);
        node_on(&bed->nodes[i], bed->nodes[i].start);
    }
}

/* Bytes in and out; and not faster than the pace. */
static void tend_ports(testbed_t *bed, watch_t *watch)
{
    truth_flush(&bed->truth);
    for (int wait = ahead_ms(bed, watch);; wait = ahead_ms(bed, watch)) {
        ports_poll(bed->ports, bed->port_count, wait);
        if (wait == 0 || interrupted)
            break;
    }
    for (int i = 0; i < bed->node_count; i++)
        if (bed->nodes[i].port != NULL)
            node_take_input(&bed->nodes[i]);
}

static void show_all(testbed_t *bed, void (*show)(node_t *node))
{
    for (int i = 0; i < bed->node_count; i++) {
        node_run(&bed->nodes[i], bed->now);
        show(&bed->nodes[i]);
    }
}

static ns_t next_beat(const rhythm_t *rhythm)
{
    return rhythm->every > 0 ? rhythm->next : NEVER;
}

static void show_when_due(testbed_t *bed, rhythm_t *rhythm, void (*show)(node_t *node))
{
    if (bed->now >= next_beat(rhythm)) {
        show_all(bed, show);
        rhythm->next += rhythm->every;
    }
}

static ns_t sooner(ns_t a, ns_t b)
{
    return a < b ? a : b;
}

/* What must not be run past, whatever the motes do. */
static ns_t next_appointment(const testbed_t *bed, ns_t tend_at)
{
    ns_t next = sooner(bed->end, sooner(script_next(bed), tend_at));
    next = sooner(next, sooner(next_beat(&bed->clocks), next_beat(&bed->measures)));
    return sooner(next, next_beat(&bed->states));
}

/* When the next node has something to do. */
static ns_t next_wake(const testbed_t *bed)
{
    ns_t next = NEVER;
    for (int i = 0; i < bed->node_count; i++)
        next = sooner(next, atmega_idle_until(bed->nodes[i].mcu));
    return next;
}

/* Run all nodes to `until`, except those that would only sleep. */
static void run_slice(testbed_t *bed, ns_t until)
{
    for (int i = 0; i < bed->node_count; i++)
        if (atmega_idle_until(bed->nodes[i].mcu) < until)
            node_run(&bed->nodes[i], until);
    bed->now = until;
}

/* The next slice's end: while all sleep nothing can begin, so it may lie that much later. */
static ns_t slice_end(const testbed_t *bed, ns_t limit)
{
    if (ether_busy(bed->ether, bed->now, bed->now + ETHER_AHEAD))
        return sooner(bed->now + ETHER_SLICE, limit);
    ns_t wake = next_wake(bed);
    ns_t from = wake > bed->now ? wake : bed->now;
    return from > limit ? limit : sooner(from + ETHER_AHEAD, limit);
}

static uint64_t run(testbed_t *bed, watch_t *watch)
{
    uint64_t slices = 0;
    ns_t tend_at = 0;
    while (bed->now < bed->end && !interrupted) {
        if (bed->now >= tend_at) {
            tend_ports(bed, watch);
            ether_tidy(bed->ether, bed->now);
            tend_at = bed->now + PORTS_EVERY;
        }
        script_run(bed);
        show_when_due(bed, &bed->clocks, node_show_clock);
        show_when_due(bed, &bed->measures, node_show_use);
        show_when_due(bed, &bed->states, node_show_states);
        run_slice(bed, slice_end(bed, next_appointment(bed, tend_at)));
        slices++;
    }
    return slices;
}

static void finish(testbed_t *bed, uint64_t slices, const watch_t *watch)
{
    for (int i = 0; i < bed->node_count; i++)
        node_run(&bed->nodes[i], bed->now);
    if (bed->measures.every > 0)
        show_all(bed, node_show_use);
    show_all(bed, node_show_states);
    ether_tidy(bed->ether, NEVER);
    truth_flush(&bed->truth);
    ports_poll(bed->ports, bed->port_count, 0);
    truth_begin(&bed->truth, bed->now, "end", TRUTH_NOBODY);
    truth_text(&bed->truth, "reason", interrupted ? "interrupted" : "end");
    truth_number(&bed->truth, "slices", slices);
    if (bed->pace > 0)
        truth_real(&bed->truth, "seconds", (double)(real_now() - watch->began) / 1e9);
    truth_end(&bed->truth);
    for (int i = 0; i < bed->port_count; i++)
        port_close(bed->ports[i]);
}

/* ---- Start ---- */

static FILE *open_file(const char *path, const char *mode, FILE *standard)
{
    FILE *file = strcmp(path, "-") == 0 ? standard : fopen(path, mode);
    if (file == NULL)
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return file;
}

static void expect_interruption(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int main(int count, char **arguments)
{
    if (count < 2 || count > 3) {
        fprintf(stderr, "usage: testbed SCENARIO [TRUTH]\n");
        return 2;
    }
    FILE *scenario = open_file(arguments[1], "r", stdin);
    testbed_t bed = {.end = NEVER, .truth.file = open_file(count > 2 ? arguments[2] : "-", "w", stdout)};
    if (scenario == NULL || bed.truth.file == NULL || !scenario_read(&bed, scenario))
        return 2;
    expect_interruption();
    begin(&bed);
    ns_t began = real_now();
    watch_t watch = {began, began};
    uint64_t slices = run(&bed, &watch);
    finish(&bed, slices, &watch);
    bool failed = ferror(bed.truth.file) != 0;
    if (fclose(bed.truth.file) != 0 || failed) {
        perror("the truth could not be written");
        return 1;
    }
    return interrupted ? 130 : 0;
}
