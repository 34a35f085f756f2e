"""The paper's model of a network, in numba.

Each step picks a mote or a gateway at random, ticks its clock unless that would break G1 (then another is picked),
lets it receive the copies that have reached it, and lets it send with probability `rate`. With sends="any" the process
that may send is drawn apart from the one whose clock ticks: so a mote sends at any time, at the same mean rate.

Copies in flight hang in a ring of chains, one chain for each value of the clock that their delay runs in: launching and
handing over a copy takes constant time. The world is a few integer tables, whose columns are named below; they have
their largest possible length, since untouched pages cost nothing. They are passed one by one: one tuple of them all
would be shorter, and a fifth slower (numba counts references to each array it takes out of a tuple).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from basestation.causality.kernels.compiled import compiled
from basestation.causality.stream import Stream

from .measured_delays import FlatDelays, none_measured
from .options import WorldOptions
from .several_gateways import FIRST_CLOCK, stream_of
from .topology import FlatTopology

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SEND, RECEIVE, MERGE = 0, 1, 2  # as in causality.stream; numba wants its own constants
SENDER, GLOBAL = 1, 2  # values of delay_clock; 0 is the fastest clock
TICK, IMMEDIATE = 0, 2  # values of reception; 1 is one event for each message
NOTHING = -1
SLICE = 2_000_000  # steps between two looks at Python
PART, ENOUGH = 20_000, 16  # steps and arrivals at most in a part of a run that is made as it goes

# at: the world's counters
STEPS, SENT, EVENTS, ARRIVALS, BATCHES, FLYING = range(6)
WAITING, FREE, USED, LOWEST, AT_LOWEST, FASTEST_CLOCK = range(6, 12)
# processes: clock, turns taken in this tick, messages sent, its inbox as a chain of copies
# its clock at its last send, and sends put off to its next tick
CLOCK, ACTS, SENDS, INBOX_FIRST, INBOX_LAST, LAST_SEND, PUT_OFF = range(7)
# copies: NEXT chains them in a slot of the ring, in an inbox, or on the list of free places
COPY_MESSAGE, COPY_RECEIVER, NEXT = range(3)
# sent: one row a message; where there are fewer rows, those of messages that are under way
SENT_BY, SENT_INDEX, SENT_AT = range(3)


class Settings(NamedTuple):
    """The `WorldOptions` as numbers."""

    motes: int
    gateways: int
    epsilon: int
    delta: int
    rate: float
    messages: int
    mean: float
    one: bool
    each: bool
    delay_clock: int
    reception: int
    enforce: bool
    loss: float
    turns: int
    any_time: bool
    waits: bool


@compiled
def _pick(random: Generator, s: Settings, at: Ints, processes: Ints) -> int:
    """Pick a process whose turn keeps G1, and tick its clock on the first of every `turns` turns."""
    while True:
        process = int(random.random() * len(processes))
        if processes[process, ACTS] != 0:
            break
        if processes[process, CLOCK] + 1 - at[LOWEST] <= s.epsilon:
            _tick(at, processes, process)
            break
    processes[process, ACTS] = (processes[process, ACTS] + 1) % s.turns
    at[STEPS] += 1
    return process


@compiled
def _tick(at: Ints, processes: Ints, process: int) -> None:
    """Tick a clock, and keep the largest, the least, and how many show the least, so that G1 needs no search."""
    processes[process, CLOCK] += 1
    now = processes[process, CLOCK]
    at[FASTEST_CLOCK] = max(at[FASTEST_CLOCK], now)
    at[AT_LOWEST] -= now - 1 == at[LOWEST]
    if at[AT_LOWEST] == 0:
        at[LOWEST] += 1
        for p in range(len(processes)):
            at[AT_LOWEST] += processes[p, CLOCK] == at[LOWEST]


@compiled
def _waited(s: Settings, at: Ints, processes: Ints, process: int) -> int:
    """The process, if it has a delayed send that may go now; else NOTHING."""
    p = processes[process]
    if p[PUT_OFF] == 0 or at[SENT] >= s.messages or p[LAST_SEND] == p[CLOCK]:
        return NOTHING
    p[PUT_OFF] -= 1
    return process


@compiled
def _drawn(random: Generator, s: Settings, at: Ints, processes: Ints, process: int) -> int:
    """The mote that sends by chance; NOTHING if none does, or if its send is delayed to its next tick."""
    if at[SENT] >= s.messages:
        return NOTHING
    if s.any_time:
        process = int(random.random() * len(processes))
    if process >= s.motes or random.random() >= s.rate:
        return NOTHING
    if s.waits and processes[process, LAST_SEND] == processes[process, CLOCK]:
        processes[process, PUT_OFF] += 1
        return NOTHING
    return process


@compiled
def _draw_delay(random: Generator, mean: float) -> float:
    while True:
        delay = mean + mean / 2 * random.standard_normal()
        if delay >= 0:
            return delay


@compiled
def _send(
    random: Generator,
    s: Settings,
    at: Ints,
    processes: Ints,
    copies: Ints,
    due: Floats,
    first: Ints,
    last: Ints,
    sent: Ints,
    events: Ints,
    mote: int,
    offsets: Ints,
    peers: Ints,
    hearing: Floats,
    hops: Ints,
    path: Floats,
    begins: Ints,
    rows: Floats,
) -> None:
    message = at[SENT]
    at[SENT] += 1
    processes[mote, SENDS] += 1
    processes[mote, LAST_SEND] = processes[mote, CLOCK]
    row = message % len(sent)
    sent[row, SENT_BY] = mote
    sent[row, SENT_INDEX] = processes[mote, SENDS]
    sent[row, SENT_AT] = processes[mote, CLOCK]
    _record(at, processes, events, SEND, mote, message)
    domain = mote if s.delay_clock == SENDER else 0
    start = at[STEPS] if s.delay_clock == GLOBAL else processes[mote, CLOCK]
    unit = len(processes) * s.turns if s.delay_clock == GLOBAL else 1
    now = _delay_clock(s, at, processes, mote)
    if len(rows):
        row = begins[mote] + int(random.random() * (begins[mote + 1] - begins[mote]))
        for receiver in range(s.motes + 1):
            delay = rows[row, receiver]
            if 0 <= delay <= s.delta and receiver != mote:
                _launch(
                    at, copies, due, first[domain], last[domain], message, receiver, start + delay * unit, now
                )
        return
    shared = 0.0 if s.each else _draw_delay(random, s.mean)
    begin, end = offsets[mote], offsets[mote + 1]
    if s.one and end > begin:
        begin += int(random.random() * (end - begin))
        end = begin + 1
    for peer in range(begin, end):
        delay = _draw_delay(random, s.mean) if s.each else shared
        if _survives(random, s, delay, hearing[peer] * (1 - s.loss)):
            _launch(
                at, copies, due, first[domain], last[domain], message, peers[peer], start + delay * unit, now
            )
    for gateway in range(s.motes, len(processes)):
        delay = _draw_delay(random, s.mean) if s.each else shared
        for _ in range(hops[mote] - 1):
            delay += _draw_delay(random, s.mean)
        if _survives(random, s, delay, path[mote] * (1 - s.loss) ** hops[mote]):
            _launch(at, copies, due, first[domain], last[domain], message, gateway, start + delay * unit, now)


@compiled
def _survives(random: Generator, s: Settings, delay: float, chance: float) -> bool:
    if chance < 1 and random.random() >= chance:
        return False
    return delay <= s.delta


@compiled
def _launch(
    at: Ints,
    copies: Ints,
    due: Floats,
    first: Ints,
    last: Ints,
    message: int,
    receiver: int,
    when: float,
    now: int,
) -> None:
    """Hang a copy at the end of the chain for the clock value at which its delay is over."""
    copy = at[FREE]
    if copy == NOTHING:
        copy = at[USED]
        at[USED] += 1
    else:
        at[FREE] = copies[copy, NEXT]
    copies[copy, COPY_MESSAGE] = message
    copies[copy, COPY_RECEIVER] = receiver
    due[copy] = when
    at[FLYING] += 1
    _append(copies, first, last, max(int(np.ceil(when)), now) % len(first), copy)


@compiled
def _append(copies: Ints, first: Ints, last: Ints, chain: int, copy: int) -> None:
    copies[copy, NEXT] = NOTHING
    if first[chain] == NOTHING:
        first[chain] = copy
    else:
        copies[last[chain], NEXT] = copy
    last[chain] = copy


@compiled
def _delay_clock(s: Settings, at: Ints, processes: Ints, process: int) -> int:
    if s.delay_clock == GLOBAL:
        return at[STEPS]
    return processes[process, CLOCK] if s.delay_clock == SENDER else at[FASTEST_CLOCK]


@compiled
def _ripen(
    s: Settings,
    at: Ints,
    processes: Ints,
    copies: Ints,
    due: Floats,
    first: Ints,
    last: Ints,
    drained: Ints,
    ripe: Ints,
    sent: Ints,
    events: Ints,
    arrivals: Ints,
    process: int,
) -> None:
    """Hand over the copies whose delay is over, after a turn of `process`."""
    if s.delay_clock == SENDER and process >= s.motes:
        return
    domain = process if s.delay_clock == SENDER else 0
    now = _delay_clock(s, at, processes, process)
    for value in range(drained[domain], now + 1):
        slot = value % first.shape[1]
        if first[domain, slot] == NOTHING:
            continue
        count = _unhook(copies, due, first[domain], slot, ripe)
        for i in range(count):
            receiver = copies[ripe[i], COPY_RECEIVER]
            at[FLYING] -= 1
            at[WAITING] += 1
            _append(copies, processes[:, INBOX_FIRST], processes[:, INBOX_LAST], receiver, ripe[i])
            if s.reception == IMMEDIATE:
                _take_inbox(s, at, processes, copies, sent, events, arrivals, receiver)
    drained[domain] = now


@compiled
def _unhook(copies: Ints, due: Floats, first: Ints, slot: int, ripe: Ints) -> int:
    """Empty a chain into `ripe`, in order of delay and then of launch, and return how many there were."""
    count = 0
    copy = first[slot]
    first[slot] = NOTHING
    while copy != NOTHING:
        ripe[count] = copy
        count += 1
        copy = copies[copy, NEXT]
    if count > 16:
        ripe[:count] = ripe[:count][np.argsort(due[ripe[:count]], kind="mergesort")]
        return count
    for i in range(1, count):
        copy, place = ripe[i], i
        while place > 0 and due[ripe[place - 1]] > due[copy]:
            ripe[place] = ripe[place - 1]
            place -= 1
        ripe[place] = copy
    return count


@compiled
def _take_inbox(
    s: Settings,
    at: Ints,
    processes: Ints,
    copies: Ints,
    sent: Ints,
    events: Ints,
    arrivals: Ints,
    process: int,
) -> None:
    copy = processes[process, INBOX_FIRST]
    processes[process, INBOX_FIRST] = NOTHING
    events_before, arrivals_before = at[EVENTS], at[ARRIVALS]
    while copy != NOTHING:
        message, following = copies[copy, COPY_MESSAGE], copies[copy, NEXT]
        copies[copy, NEXT] = at[FREE]
        at[FREE] = copy
        at[WAITING] -= 1
        copy = following
        row = message % len(sent)
        if s.enforce and processes[sent[row, SENT_BY], CLOCK] > sent[row, SENT_AT] + s.delta:
            continue
        if process >= s.motes:
            _observe(s, at, processes, arrivals, process, message)
        else:
            _record(at, processes, events, MERGE if s.reception == TICK else RECEIVE, process, message)
    if at[EVENTS] > events_before:
        events[at[EVENTS] - 1, 0] = RECEIVE
    at[BATCHES] += at[ARRIVALS] > arrivals_before


@compiled
def _record(at: Ints, processes: Ints, events: Ints, kind: int, mote: int, message: int) -> None:
    row = at[EVENTS]
    at[EVENTS] += 1
    events[row, 0] = kind
    events[row, 1] = mote
    events[row, 2] = processes[mote, CLOCK]
    events[row, 3] = message


@compiled
def _observe(s: Settings, at: Ints, processes: Ints, arrivals: Ints, gateway: int, message: int) -> None:
    row = at[ARRIVALS]
    at[ARRIVALS] += 1
    first_turn = processes[gateway, ACTS] == 1 % s.turns
    arrivals[row, 0] = message
    arrivals[row, 1] = processes[gateway, CLOCK]
    arrivals[row, 2] = at[BATCHES] + 1
    arrivals[row, 3] = first_turn and s.reception != IMMEDIATE
    arrivals[row, 4] = gateway - s.motes
    arrivals[row, 5:] = processes[s.motes :, CLOCK]


@compiled
def _run(
    random: Generator,
    s: Settings,
    at: Ints,
    processes: Ints,
    copies: Ints,
    due: Floats,
    first: Ints,
    last: Ints,
    drained: Ints,
    sent: Ints,
    events: Ints,
    arrivals: Ints,
    ripe: Ints,
    network: FlatTopology,
    measured: FlatDelays,
    until: int,
    enough: int,
) -> bool:
    """Step until all is done, until step `until`, or until `enough` have arrived. True if there is more to do."""
    offsets, peers, hearing, hops, path = network
    begins, rows = measured
    while at[STEPS] < until and at[ARRIVALS] < enough:
        if at[SENT] >= s.messages and not at[FLYING] and not at[WAITING]:
            return False
        process = _pick(random, s, at, processes)
        _ripen(s, at, processes, copies, due, first, last, drained, ripe, sent, events, arrivals, process)
        if s.reception != IMMEDIATE and processes[process, INBOX_FIRST] != NOTHING:
            _take_inbox(s, at, processes, copies, sent, events, arrivals, process)
        for by_chance in (False, True):
            mote = (
                _drawn(random, s, at, processes, process) if by_chance else _waited(s, at, processes, process)
            )
            if mote == NOTHING:
                continue
            _send(
                random, s, at, processes, copies, due, first, last, sent, events, mote,
                offsets, peers, hearing, hops, path, begins, rows,
            )  # fmt: skip
            if s.reception == IMMEDIATE:
                _ripen(
                    s, at, processes, copies, due, first, last, drained, ripe, sent, events, arrivals, mote
                )
    return True


class Tables(NamedTuple):
    """The world, as `_run` takes it."""

    random: Generator
    settings: Settings
    at: Ints
    processes: Ints
    copies: Ints
    due: Floats
    first: Ints
    last: Ints
    drained: Ints
    sent: Ints
    events: Ints
    arrivals: Ints
    ripe: Ints
    network: FlatTopology
    measured: FlatDelays


def generate(options: WorldOptions) -> Stream:
    """Simulate the network; no scheme is involved yet."""
    world = _tables(options, options.messages)
    at = world.at
    while _run(*world, int(at[STEPS]) + SLICE, options.messages * options.gateways + 1):
        pass  # back in Python now and then, an interrupt is seen
    return stream_of(options, world.sent, world.events[: at[EVENTS]], world.arrivals[: at[ARRIVALS]])


def parts(options: WorldOptions) -> Iterator[tuple[Ints, Ints]]:
    """The events and arrivals of the same stream as they happen, a few at a time: memory does not grow with the run."""
    world = _tables(options, min(options.messages, options.most_under_way + 2 * PART))
    at, more = world.at, True
    while more:
        at[EVENTS] = at[ARRIVALS] = 0
        more = _run(*world, int(at[STEPS]) + PART, ENOUGH)
        yield world.events[: at[EVENTS]], world.arrivals[: at[ARRIVALS]]


def _tables(options: WorldOptions, messages: int) -> Tables:
    """A world before its first step, with room for a number of messages at a time."""
    s = _settings(options)
    at = np.zeros(12, np.int64)
    processes = np.zeros((s.motes + s.gateways, 7), np.int64)
    at[FREE], at[AT_LOWEST] = NOTHING, len(processes)
    processes[:, INBOX_FIRST:PUT_OFF] = NOTHING
    rows = messages * options.copies_per_message  # a copy, or a receive, for each receiver
    domains = s.motes if s.delay_clock == SENDER else 1
    slots = ceil(s.delta * (len(processes) * s.turns if s.delay_clock == GLOBAL else 1)) + 2
    first, last = np.full((2, domains, slots), NOTHING, np.int64)
    return Tables(
        random=np.random.default_rng(options.seed),
        settings=s,
        at=at,
        processes=processes,
        copies=np.empty((rows, 3), np.int64),
        due=np.empty(rows),
        first=first,
        last=last,
        drained=np.zeros(domains, np.int64),
        sent=np.empty((messages, 3), np.int64),
        events=np.empty((rows, 4), np.int64),
        arrivals=np.empty((messages * s.gateways, FIRST_CLOCK + s.gateways), np.int64),
        ripe=np.empty(rows, np.int64),
        network=options.network.arrays(),
        measured=none_measured(s.motes) if options.measured is None else options.measured.arrays(),
    )


def _settings(options: WorldOptions) -> Settings:
    return Settings(
        options.motes,
        options.gateways,
        options.epsilon,
        options.delta,
        float(options.rate),
        options.messages,
        options.mean_hop_delay,
        options.recipients == "one",
        options.delay == "each",
        ("fastest", "sender", "global").index(options.delay_clock),
        ("tick", "message", "immediate").index(options.reception),
        options.g2 == "enforce",
        float(options.loss),
        options.events_per_tick,
        options.sends == "any",
        options.second_send == "waits",
    )
