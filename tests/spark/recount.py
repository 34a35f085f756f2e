"""Everything that `continuum` and `compare` count, done by hand: plain, slow Python, written from
docs/evidence/algorithms.md.

It shares no code with the product: it reads a trace's two Parquet files and steps through the motes' events one by one.
"""

from collections import namedtuple
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

import pyarrow.parquet as pq

Key = tuple[int, int]  # of a message: its source, and its number from 0
Arrival = namedtuple("Arrival", "message clock heard batch fresh")
Timed = namedtuple("Timed", "r c counts")  # a stamp that compares: L = r + c, then counts
LONG_AGO = -(10**9)


@dataclass
class Recorded:
    """What the motes did, event by event (several messages may come in one), and what reached the observer."""

    motes: int
    events: list
    arrivals: list
    vectors: dict = field(default_factory=dict)
    related: list = field(default_factory=list)

    @classmethod
    def read(cls, folder, motes):
        events, brought = [], []
        for row in pq.read_table(folder / "events.parquet").to_pylist():
            message = (row["source"], row["sequence"])
            if row["kind"] == "send":
                events.append(("send", row["mote"], row["clock"], message))
                continue
            brought.append(message)
            if row["ends"]:
                events.append(("receive", row["mote"], row["clock"], brought))
                brought = []
        columns = ["source", "sequence", "clock", "heard", "batch", "fresh"]
        rows = pq.read_table(folder / "messages.parquet", columns=columns).to_pylist()
        arrivals = [
            Arrival(
                (row["source"], row["sequence"]),
                row["heard"] if row["clock"] is None else row["clock"],
                row["heard"],
                row["batch"],
                row["fresh"],
            )
            for row in rows
        ]
        made = cls(motes, events, arrivals)
        made._vector_clocks()
        made._related_pairs()
        return made

    def _vector_clocks(self):
        clocks = [[0] * self.motes for _ in range(self.motes)]
        for kind, mote, _, what in self.events:
            if kind == "send":
                clocks[mote][mote] += 1
                self.vectors[what] = list(clocks[mote])
            else:
                for message in what:
                    clocks[mote] = [max(two) for two in zip(clocks[mote], self.vectors[message], strict=True)]

    def _related_pairs(self):
        """Every pair of messages that arrived, looked at: (cause, effect)."""
        came = [arrival.message for arrival in self.arrivals]
        for a in came:
            own = self.vectors[a][a[0]]
            self.related += [(a, b) for b in came if a != b and self.vectors[b][a[0]] >= own]

    def count(self, delivered):
        """The figures of a delivery: (message, hold) in order."""
        place = {message: at for at, (message, _) in enumerate(delivered)}
        assert len(place) == len(delivered) == len(self.arrivals)
        wrong = [(a, b) for a, b in self.related if place[a] > place[b]]
        backward, forward = {a for a, _ in wrong}, {b for _, b in wrong}
        return {
            "pairs": percent(len(wrong), len(place)),
            "backward": percent(len(backward), len(place)),
            "forward": percent(len(forward), len(place)),
            "mean": percent(len(backward) + len(forward), 2 * len(place)),
            "any": percent(len(backward | forward), len(place)),
            "related": percent(len(wrong), len(self.related)),
            "hold_mean": sum(hold for _, hold in delivered) / len(delivered),
        }


def percent(part, whole):
    return 100.0 * part / whole if whole else 0.0


# ---- Stamps that compare ----


class Figure1:
    """The paper's program: r, c, and an array of counts around r; a clock value without counts has 0."""

    def __init__(self, epsilon, receives):
        self.epsilon, self.receives = epsilon, receives
        self.r = self.c = 0
        self.kn = {0: 1}  # by clock value: the start is an event

    def send(self, rt):
        self._shift(rt)
        self.kn[rt] = self.kn.get(rt, 0) + 1
        top = self.r + self.c
        return Timed(self.r, self.c, tuple(self.kn.get(top - i, 0) for i in range(self.epsilon + 1)))

    def receive(self, rt, stamps):
        self._shift(rt)
        for stamp in stamps:
            top = stamp.r + stamp.c
            self.c = max(self.c, top - rt)
            for i, count in enumerate(stamp.counts):
                self.kn[top - i] = max(self.kn.get(top - i, 0), count)
        if self.receives:
            self.kn[rt] = self.kn.get(rt, 0) + 1

    def _shift(self, rt):
        self.c = max(0, self.r + self.c - rt)
        self.r = rt


class Hlc:
    """The hybrid logical clock as its authors print it. A receive event that brings several takes the latest."""

    def __init__(self):
        self.l = self.c = 0

    def send(self, rt):
        before, self.l = self.l, max(self.l, rt)
        self.c = self.c + 1 if self.l == before else 0
        return Timed(rt, self.l - rt, (self.c,))

    def receive(self, rt, stamps):
        theirs, count = max((stamp.r + stamp.c, stamp.counts[0]) for stamp in stamps)
        before, self.l = self.l, max(self.l, theirs, rt)
        if self.l == before == theirs:
            self.c = max(self.c, count) + 1
        elif self.l == before:
            self.c += 1
        else:
            self.c = count + 1 if self.l == theirs else 0


class Shlc(Hlc):
    """Its counter advances at sends only; the stamp is l itself."""

    def send(self, rt):
        super().send(rt)
        return Timed(self.l, 0, (self.c,))

    def receive(self, rt, stamps):
        for stamp in stamps:
            self.l, self.c = max((self.l, self.c), (stamp.r, stamp.counts[0]))


def stamped(run, start):
    """The stamp of each message, when every mote runs the program that `start` makes."""
    programs, stamps = [start() for _ in range(run.motes)], {}
    for kind, mote, clock, what in run.events:
        if kind == "send":
            stamps[what] = programs[mote].send(clock)
        else:
            programs[mote].receive(clock, [stamps[message] for message in what])
    return stamps


def cut(stamps, entries, top, with_c=True):
    """Stamps with fewer entries, each at most `top`; dpc1 has not even c."""
    return {
        message: Timed(r, c if with_c else 0, tuple(min(count, top) for count in counts[:entries]))
        for message, (r, c, counts) in stamps.items()
    }


# ---- Policies ----


def deliver(run, stamps, policy, phi, epsilon, delta):
    """The messages in the order in which they leave, each with its hold in ticks."""
    if policy == "none":
        return [(arrival.message, 0) for arrival in run.arrivals]
    due, order = {}, {}
    for arrival in run.arrivals:
        r, c, counts = stamps[arrival.message]
        wait = ceil(Fraction(phi, 100) * (c + delta + epsilon))
        due[arrival.message] = r + wait + 1 if phi else r
        order[arrival.message] = (r + c, *counts, *arrival.message)
    came = {arrival.message: arrival.clock for arrival in run.arrivals}
    held, out, waiting = [], [], list(run.arrivals)
    tick = waiting[0].clock
    while waiting or held:
        while waiting and waiting[0].clock <= tick:
            held.append(waiting.pop(0).message)
        held.sort(key=order.get)
        leaving = []
        for message in held:
            if due[message] <= tick:
                leaving.append(message)
            elif policy == "cbd":
                break  # what is due waits while an earlier one is not
        out += [(message, tick - came[message]) for message in leaving]
        held = [message for message in held if message not in set(leaving)]
        tick += 1
    return out


# ---- The short barrier ----


class Constants:
    """As docs/evidence/algorithms.md names them."""

    def __init__(self, epsilon, delta):
        self.epsilon, self.W, self.Z = epsilon, delta + epsilon, delta + epsilon
        self.WIN, self.Y = delta + 2 * epsilon, 2 * epsilon
        modulus = power_of_two(lambda power: power >= delta + 3 * epsilon + 1)
        self.counter_top = (1 << max(3, 9 - (modulus - 1).bit_length())) - 1
        self.u = power_of_two(lambda power: 31 * power > self.WIN)
        self.P = self.WIN // self.u + 1
        self.v = power_of_two(lambda power: (31 - self.P) * power > self.Z) if self.P < 31 else 1


def power_of_two(suits):
    power = 1
    while not suits(power):
        power *= 2
    return power


Named = namedtuple("Named", "l counter cut close age names")


class BarrierMote:
    def __init__(self, constants, me):
        self.k, self.me = constants, me
        self.l = self.counter = 0
        self.heard = {}  # source: [l, sequence, close, front]
        self.previous, self.residues = LONG_AGO, {}

    def send(self, rt, sequence):
        k = self.k
        if rt > self.l:
            self.l, self.counter = rt, 0
        elif self.counter < k.counter_top - 1:
            self.counter += 1
        elif self.l < rt + k.epsilon:
            self.l, self.counter = self.l + 1, 0
        else:
            self.counter = k.counter_top
        front = [(-entry[0], s) for s, entry in self.heard.items() if entry[3] and rt - entry[0] <= k.WIN]
        names, cut = [], []
        for minus, s in sorted(front):
            if self.heard[s][2] or len(names) == 6 or self.l + minus > k.Z:
                cut.append(-minus)
            else:
                names.append((s, self.heard[s][1] % 16))
        newest = max((self.heard[s][0] for s, _ in names), default=None)
        for entry in self.heard.values():
            entry[3] = False
        own = rt - self.previous <= k.WIN
        if cut:
            age = min((self.l - max([*cut, *([self.previous] if own else [])])) // k.u, 30)
        elif own:
            age = min((self.l - self.previous) // k.u, k.P - 1)
        else:
            age = 31 if newest is None or k.P == 31 else min(k.P + (self.l - newest) // k.v, 30)
        close = self.l - self.residues.get(sequence % 16, LONG_AGO) <= 2 * k.Z
        self.previous = self.residues[sequence % 16] = self.l
        return Named(self.l, self.counter, bool(cut), close, age, tuple(names))

    def receive(self, messages):
        """(source, sequence, stamp) of each message that this event brings."""
        for source, sequence, stamp in messages:
            self.l, self.counter = max((self.l, self.counter), (stamp.l, stamp.counter))
            for s, q in stamp.names:
                entry = self.heard.get(s)
                covers = entry and entry[1] % 16 == q and not entry[2]
                if covers and stamp.l - self.k.Z <= entry[0] <= stamp.l:
                    entry[3] = False
            entry = self.heard.get(source)
            if entry is None or (stamp.l, sequence) > (entry[0], entry[1]):
                self.heard[source] = [stamp.l, sequence, stamp.close, True]


def barrier_stamps(run, constants):
    motes = [BarrierMote(constants, mote) for mote in range(run.motes)]
    stamps = {}
    for kind, mote, clock, what in run.events:
        if kind == "send":
            stamps[what] = motes[mote].send(clock, what[1])
        else:
            motes[mote].receive([(*message, stamps[message]) for message in what])
    return stamps


class BarrierObserver:
    """Rules 0 to 5: whenever something happens, the least that may leave does."""

    def __init__(self, constants, stamps):
        self.k, self.stamps = constants, stamps
        self.came, self.floor, self.held, self.left = {}, {}, [], {}

    def run(self, arrivals):
        tick = arrivals[0].clock - 1
        batches = {}
        for arrival in arrivals:
            batches.setdefault(arrival.batch, []).append(arrival)
        for _, batch in sorted(batches.items()):
            now = batch[0].clock
            for past in range(tick + 1, now):
                self._let_go(past)
            tick = now
            if not batch[0].fresh:
                self._let_go(now)
            for arrival in batch:
                self.came[arrival.message] = now
                latest = self.stamps[arrival.message].l - self.k.epsilon
                self.floor[arrival.message] = min(arrival.heard, latest)
                self.held.append(arrival.message)
            self._let_go(now)
        while self.held:
            tick += 1
            self._let_go(tick)
        return [(message, at - self.came[message]) for message, at in self.left.items()]

    def _let_go(self, now):
        self.held.sort(key=self._order)
        while chosen := next((m for m in self.held if self._may_leave(m, now)), None):
            self.held.remove(chosen)
            self.left[chosen] = now

    def _order(self, message):
        stamp = self.stamps[message]
        return (stamp.l, stamp.counter, *message)

    def _may_leave(self, m, now):
        stamp, least = self.stamps[m], self.held[0]
        if m == least and now > stamp.l + self.k.W:
            return True
        if now < self.floor[m]:
            return False
        given_up = []
        for cause, b in self._links(m, stamp):
            if cause is None:
                given_up.append(b)
            elif cause not in self.left:
                return False
        if any(now <= b + self.k.W for b in given_up):
            return False
        return not given_up or m == least or self.stamps[least].l > max(given_up)

    def _links(self, m, stamp):
        """What m waits for, None where that has not come, and the b up to which to wait for it."""
        k, top = self.k, stamp.l
        if stamp.cut:
            yield None, top - stamp.age * k.u
        elif stamp.age < k.P:
            before = (m[0], m[1] - 1)
            there = before in self.came and top - k.WIN - k.Y <= self.stamps[before].l <= top
            yield before if there else None, top - stamp.age * k.u
        bound = top - (stamp.age - k.P) * k.v if not stamp.cut and k.P <= stamp.age < 31 else top
        for name in stamp.names:
            cause = self._named(name, top)
            if cause is not None:
                bound = self.stamps[cause].l
            same = [
                self.stamps[x].l
                for x in self.came
                if name in self.stamps[x].names and top - k.Z <= self.stamps[x].l <= top
            ]
            yield cause, min(bound, *same, top)

    def _named(self, name, top):
        found = [
            (self.stamps[x].l, x)
            for x in self.came
            if (x[0], x[1] % 16) == name
            and not self.stamps[x].close
            and top - self.k.Z <= self.stamps[x].l <= top
        ]
        return max(found)[1] if found else None


def barrier(run, epsilon, delta):
    constants = Constants(epsilon, delta)
    return BarrierObserver(constants, barrier_stamps(run, constants)).run(run.arrivals)
