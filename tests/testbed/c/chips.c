/* CC2420s on an ether without processors: a library for ctypes. Time stands still but for chips_run(). */
#include <stdlib.h>
#include <string.h>

#include "cc2420.h"

enum { KIND_PIN, KIND_FAULT, KIND_END, KIND_OUTCOME };

typedef struct {
    ns_t time;
    int kind, node;
    int what; /* a pin, an outcome, or whether a signal was broken off */
    int level;
    uint32_t signal;
    uint32_t khz;
    double dbm;
    ns_t from, data, to;
    int count;
    uint8_t bytes[SIGNAL_BYTES];
    char words[120];
} event_t;

typedef struct chips chips_t;

typedef struct {
    chips_t *all;
    int node;
    cc2420_t *chip;
    ns_t due;
} slot_t;

struct chips {
    ether_t *ether;
    int count;
    slot_t *slots;
    ns_t now;
    event_t *events;
    int event_count, event_room;
    int wakes;
};

static event_t *note(chips_t *all, int kind, int node)
{
    if (all->event_count == all->event_room) {
        all->event_room = all->event_room * 2 + 64;
        all->events = realloc(all->events, (size_t)all->event_room * sizeof *all->events);
        if (all->events == NULL)
            abort();
    }
    event_t *event = &all->events[all->event_count++];
    memset(event, 0, sizeof *event);
    event->time = all->now;
    event->kind = kind;
    event->node = node;
    return event;
}

static void at(void *owner, ns_t when)
{
    ((slot_t *)owner)->due = when;
}

static void on_pin(void *owner, cc2420_pin_t pin, bool level)
{
    slot_t *slot = owner;
    event_t *event = note(slot->all, KIND_PIN, slot->node);
    event->what = (int)pin;
    event->level = level;
}

static void on_fault(void *owner, const char *what)
{
    slot_t *slot = owner;
    strncpy(note(slot->all, KIND_FAULT, slot->node)->words, what, 119);
}

static void describe(event_t *event, const signal_t *signal)
{
    event->signal = signal->number;
    event->khz = signal->khz;
    event->from = signal->from;
    event->data = signal->data;
    event->to = signal->to;
    event->count = signal->count;
    memcpy(event->bytes, signal->bytes, signal->count);
}

static void on_end(void *log, const signal_t *signal)
{
    event_t *event = note(log, KIND_END, signal->sender);
    event->what = signal->broken;
    event->dbm = signal->dbm;
    describe(event, signal);
}

static void on_outcome(void *log, const signal_t *signal, int node, outcome_t outcome, double dbm)
{
    event_t *event = note(log, KIND_OUTCOME, node);
    event->what = (int)outcome;
    event->dbm = dbm;
    describe(event, signal);
}

/* An ether for `nodes` nodes; the first `chips` nodes have a chip. */
chips_t *chips_make(int nodes, int chips, uint64_t seed, double ppm)
{
    chips_t *all = calloc(1, sizeof *all);
    if (all == NULL)
        abort();
    all->ether = ether_make(nodes, seed, (ether_log_t){on_end, on_outcome, all});
    all->count = chips;
    all->slots = calloc((size_t)chips + 1, sizeof *all->slots);
    for (int i = 0; i < chips; i++) {
        slot_t *slot = &all->slots[i];
        *slot = (slot_t){.all = all, .node = i, .due = NEVER};
        slot->chip = cc2420_make(all->ether, i, ppm, (cc2420_host_t){at, on_pin, on_fault, slot});
    }
    return all;
}

ether_t *chips_ether(chips_t *all)
{
    return all->ether;
}

void chips_run(chips_t *all, ns_t until)
{
    while (true) {
        slot_t *next = NULL;
        for (int i = 0; i < all->count; i++) {
            slot_t *slot = &all->slots[i];
            next = slot->due <= until && (next == NULL || slot->due < next->due) ? slot : next;
        }
        if (next == NULL)
            break;
        all->now = next->due > all->now ? next->due : all->now;
        next->due = NEVER;
        all->wakes++;
        cc2420_due(next->chip, all->now);
        ether_tidy(all->ether, all->now);
    }
    all->now = until;
    ether_tidy(all->ether, all->now);
}

int chips_wakes(const chips_t *all)
{
    return all->wakes;
}

int chips_event_count(const chips_t *all)
{
    return all->event_count;
}

const event_t *chips_event(const chips_t *all, int i)
{
    return &all->events[i];
}

void chips_supply(chips_t *all, int node, bool on)
{
    cc2420_supply(all->slots[node].chip, on, all->now);
}

void chips_vreg(chips_t *all, int node, bool level)
{
    cc2420_vreg(all->slots[node].chip, level, all->now);
}

void chips_resetn(chips_t *all, int node, bool level)
{
    cc2420_resetn(all->slots[node].chip, level, all->now);
}

void chips_csn(chips_t *all, int node, bool level)
{
    cc2420_csn(all->slots[node].chip, level, all->now);
}

int chips_exchange(chips_t *all, int node, int out)
{
    return cc2420_exchange(all->slots[node].chip, (uint8_t)out, all->now);
}

bool chips_cca(chips_t *all, int node)
{
    return cc2420_cca(all->slots[node].chip, all->now);
}

uint64_t chips_spent(const chips_t *all, int node, int state)
{
    return cc2420_spent(all->slots[node].chip, (radio_state_t)state, all->now);
}
