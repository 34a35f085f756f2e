#include "ether.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIGNALS = 512, STREAM_CHANCE = 0x65740000, STREAM_LINK = 0x65750000 };

#define KEPT MS(50)
#define REACH_DBM (-110.0)
#define SILENT_DBM (-INFINITY)

/* A signal and what only the ether knows of it. Strengths are those of the links when it was announced. */
typedef struct {
    signal_t signal; /* first: a pointer to it is one to this */
    bool logged;
    double *dbm;   /* at each node ... */
    double *mw;    /* ... and the same in mW, for sums */
    bool *settled; /* its outcome at a node has been said, or it has none there */
} air_t;

typedef struct {
    double noise_mw;
    const float *readings; /* or NULL */
    int reading_count, reading_start;
    ether_heard_t *heard; /* NULL: no radio here */
    void *radio;
    random_t chance, link;
} site_t;

typedef struct {
    double db, delivery;
    bool cut;
} link_t;

struct ether {
    int nodes;
    site_t *sites;
    link_t *links;        /* [from * nodes + to] */
    air_t *live[SIGNALS]; /* by number */
    int live_count;
    air_t *spare[SIGNALS];
    int spare_count;
    uint32_t next_number;
    ether_log_t log;
};

static void *allocate(int count, size_t size)
{
    void *memory = calloc((size_t)count, size);
    if (memory == NULL)
        abort();
    return memory;
}

static double mw_of(double dbm)
{
    return pow(10, dbm / 10);
}

ether_t *ether_make(int nodes, uint64_t seed, ether_log_t log)
{
    ether_t *ether = allocate(1, sizeof *ether);
    ether->nodes = nodes;
    ether->log = log;
    ether->sites = allocate(nodes, sizeof *ether->sites);
    ether->links = allocate(nodes * nodes, sizeof *ether->links);
    for (int i = 0; i < nodes; i++) {
        ether->sites[i].noise_mw = mw_of(-98);
        ether->sites[i].chance = random_stream(seed, STREAM_CHANCE + (uint64_t)i);
        ether->sites[i].link = random_stream(seed, STREAM_LINK + (uint64_t)i);
    }
    for (int i = 0; i < nodes * nodes; i++)
        ether->links[i] = (link_t){.db = SILENT_DBM, .delivery = 1};
    return ether;
}

void ether_join(ether_t *ether, int node, ether_heard_t *heard, void *radio)
{
    ether->sites[node].heard = heard;
    ether->sites[node].radio = radio;
}

/* --- links and noise --- */

static link_t *link_of(const ether_t *ether, int from, int to)
{
    return &ether->links[from * ether->nodes + to];
}

void ether_set_gain(ether_t *ether, int from, int to, double db)
{
    link_of(ether, from, to)->db = db;
}

void ether_set_delivery(ether_t *ether, int from, int to, double probability)
{
    link_of(ether, from, to)->delivery = probability;
}

void ether_cut(ether_t *ether, int from, int to, bool cut)
{
    link_of(ether, from, to)->cut = cut;
}

void ether_set_noise(ether_t *ether, int node, double dbm)
{
    ether->sites[node].noise_mw = mw_of(dbm);
    ether->sites[node].readings = NULL;
}

void ether_set_noise_readings(ether_t *ether, int node, const float *dbm, int count, int start)
{
    site_t *site = &ether->sites[node];
    site->readings = count > 0 ? dbm : NULL;
    site->reading_count = count;
    site->reading_start = start;
}

static double noise_mw(const site_t *site, ns_t at)
{
    if (site->readings == NULL)
        return site->noise_mw;
    uint64_t number = (uint64_t)site->reading_start + at / MS(1);
    return mw_of((double)site->readings[number % (uint64_t)site->reading_count]);
}

bool ether_near(uint32_t khz, uint32_t other)
{
    return (khz > other ? khz - other : other - khz) < ETHER_NEAR_KHZ;
}

/* --- signals --- */

static air_t *take_air(ether_t *ether)
{
    if (ether->spare_count > 0)
        return ether->spare[--ether->spare_count];
    if (ether->live_count == SIGNALS)
        return NULL;
    air_t *air = allocate(1, sizeof *air);
    air->dbm = allocate(ether->nodes, sizeof *air->dbm);
    air->mw = allocate(ether->nodes, sizeof *air->mw);
    air->settled = allocate(ether->nodes, sizeof *air->settled);
    return air;
}

static double strength(const ether_t *ether, int sender, double dbm, int node)
{
    if (sender == ETHER_OUTSIDE)
        return dbm;
    const link_t *link = link_of(ether, sender, node);
    return sender == node || link->cut ? SILENT_DBM : dbm + link->db;
}

static void spread(const ether_t *ether, air_t *air)
{
    for (int i = 0; i < ether->nodes; i++) {
        double dbm = strength(ether, air->signal.sender, air->signal.dbm, i);
        air->dbm[i] = dbm;
        air->mw[i] = isinf(dbm) ? 0 : mw_of(dbm);
        air->settled[i] = dbm < REACH_DBM || ether->sites[i].heard == NULL;
    }
}

static void announce(const ether_t *ether, const air_t *air)
{
    for (int i = 0; i < ether->nodes; i++) {
        const site_t *site = &ether->sites[i];
        if (!air->settled[i])
            site->heard(site->radio, &air->signal);
    }
}

static air_t *begin(ether_t *ether, const signal_t *signal)
{
    air_t *air = take_air(ether);
    if (air != NULL) {
        air->signal = *signal;
        air->signal.number = ether->next_number++;
        air->logged = false;
        spread(ether, air);
        ether->live[ether->live_count++] = air;
        announce(ether, air);
    }
    return air;
}

signal_t *ether_begin(ether_t *ether, int sender, ns_t from, uint32_t khz, double dbm, ns_t data,
                      ns_t byte_ns)
{
    signal_t signal = {.sender = sender,
                       .khz = khz,
                       .dbm = dbm,
                       .from = from,
                       .to = NEVER,
                       .data = data,
                       .byte_ns = byte_ns};
    air_t *air = begin(ether, &signal);
    return air != NULL ? &air->signal : NULL;
}

void ether_append(signal_t *signal, uint8_t byte)
{
    if (signal->count < SIGNAL_BYTES)
        signal->bytes[signal->count++] = byte;
}

static void log_end(const ether_t *ether, air_t *air)
{
    air->logged = true;
    if (ether->log.on_end != NULL)
        ether->log.on_end(ether->log.log, &air->signal);
}

void ether_end(ether_t *ether, signal_t *signal, ns_t to, bool broken)
{
    signal->to = to > signal->from ? to : signal->from;
    signal->broken = broken;
    log_end(ether, (air_t *)signal);
}

bool ether_inject(ether_t *ether, ns_t from, ns_t to, uint32_t khz, double dbm, ns_t data, ns_t byte_ns,
                  const uint8_t *bytes, int count)
{
    signal_t signal = {.sender = ETHER_OUTSIDE,
                       .khz = khz,
                       .dbm = dbm,
                       .from = from,
                       .to = to,
                       .data = NEVER,
                       .byte_ns = byte_ns};
    if (count > 0) {
        signal.data = data;
        signal.count = (uint16_t)(count < SIGNAL_BYTES ? count : SIGNAL_BYTES);
        memcpy(signal.bytes, bytes, signal.count);
    }
    return begin(ether, &signal) != NULL;
}

/* --- what a node hears --- */

double ether_dbm(const ether_t *ether, const signal_t *signal, int node)
{
    (void)ether;
    return ((const air_t *)signal)->dbm[node];
}

bool ether_delivers(ether_t *ether, const signal_t *signal, int node)
{
    if (signal->sender == ETHER_OUTSIDE)
        return true;
    double probability = link_of(ether, signal->sender, node)->delivery;
    return probability >= 1 || random_unit(&ether->sites[node].link) < probability;
}

/* Noise and all signals but one. */
static double disturbance_mw(const ether_t *ether, int node, uint32_t khz, ns_t at, const signal_t *without)
{
    double sum = noise_mw(&ether->sites[node], at);
    for (int i = 0; i < ether->live_count; i++) {
        const air_t *air = ether->live[i];
        const signal_t *signal = &air->signal;
        if (signal != without && signal->from <= at && at < signal->to && ether_near(signal->khz, khz))
            sum += air->mw[node];
    }
    return sum;
}

double ether_power(const ether_t *ether, int node, uint32_t khz, ns_t at)
{
    return 10 * log10(disturbance_mw(ether, node, khz, at, NULL));
}

static ns_t earlier(ns_t a, ns_t b)
{
    return a < b ? a : b;
}

static ns_t later(ns_t a, ns_t b)
{
    return a > b ? a : b;
}

/* Noise in mW times ns. */
static double noise_energy(const site_t *site, ns_t from, ns_t to)
{
    double sum = 0;
    while (from < to) {
        ns_t next = site->readings == NULL ? to : earlier((from / MS(1) + 1) * MS(1), to);
        sum += noise_mw(site, from) * (double)(next - from);
        from = next;
    }
    return sum;
}

double ether_mean_power(const ether_t *ether, int node, uint32_t khz, ns_t from, ns_t to)
{
    double sum = noise_energy(&ether->sites[node], from, to);
    for (int i = 0; i < ether->live_count; i++) {
        const signal_t *signal = &ether->live[i]->signal;
        ns_t on = later(signal->from, from), off = earlier(signal->to, to);
        if (on < off && ether_near(signal->khz, khz))
            sum += ether->live[i]->mw[node] * (double)(off - on);
    }
    return 10 * log10(sum / (double)(to - from));
}

ns_t ether_last_change(const ether_t *ether, int node, uint32_t khz, ns_t before)
{
    ns_t last = ether->sites[node].readings == NULL || before == 0 ? 0 : (before - 1) / MS(1) * MS(1);
    for (int i = 0; i < ether->live_count; i++) {
        const signal_t *signal = &ether->live[i]->signal;
        if (ether->live[i]->mw[node] > 0 && ether_near(signal->khz, khz)) {
            last = signal->from < before ? later(last, signal->from) : last;
            last = signal->to < before ? later(last, signal->to) : last;
        }
    }
    return last;
}

/* Disturbance grows only where another signal begins, or with the next reading of noise. */
double ether_sinr(const ether_t *ether, const signal_t *signal, int node, ns_t from, ns_t to)
{
    double worst = disturbance_mw(ether, node, signal->khz, from, signal);
    for (int i = 0; i < ether->live_count; i++) {
        const signal_t *other = &ether->live[i]->signal;
        if (other != signal && from < other->from && other->from < to && ether->live[i]->mw[node] > 0)
            worst = fmax(worst, disturbance_mw(ether, node, signal->khz, other->from, signal));
    }
    if (ether->sites[node].readings != NULL)
        for (ns_t at = (from / MS(1) + 1) * MS(1); at < to; at += MS(1))
            worst = fmax(worst, disturbance_mw(ether, node, signal->khz, at, signal));
    return ether_dbm(ether, signal, node) - 10 * log10(worst);
}

random_t *ether_chance(ether_t *ether, int node)
{
    return &ether->sites[node].chance;
}

/* --- what became of them --- */

void ether_outcome(ether_t *ether, const signal_t *signal, int node, outcome_t outcome)
{
    air_t *air = (air_t *)signal;
    if (air->settled[node] || signal->to <= signal->from)
        return;
    air->settled[node] = true;
    if (ether->log.on_outcome != NULL)
        ether->log.on_outcome(ether->log.log, signal, node, outcome, air->dbm[node]);
}

bool ether_busy(const ether_t *ether, ns_t now, ns_t until)
{
    for (int i = 0; i < ether->live_count; i++) {
        const signal_t *signal = &ether->live[i]->signal;
        if (signal->from < until && now < signal->to && signal->data != NEVER)
            return true;
    }
    return false;
}

static void settle(ether_t *ether, const air_t *air)
{
    const signal_t *signal = &air->signal;
    if (signal->data == NEVER)
        return;
    for (int i = 0; i < ether->nodes; i++)
        ether_outcome(ether, signal, i, OUTCOME_DEAF);
}

void ether_tidy(ether_t *ether, ns_t now)
{
    int kept = 0;
    for (int i = 0; i < ether->live_count; i++) {
        air_t *air = ether->live[i];
        if (!air->logged && air->signal.to != NEVER && air->signal.to <= now)
            log_end(ether, air);
        if (air->logged && (now == NEVER || air->signal.to + KEPT < now)) {
            settle(ether, air);
            ether->spare[ether->spare_count++] = air;
        } else {
            ether->live[kept++] = air;
        }
    }
    ether->live_count = kept;
}
