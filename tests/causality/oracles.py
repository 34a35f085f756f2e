"""The papers' algorithms written out literally, slow and obvious: what the code is tested against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from basestation.causality.order import Message, Stamp, Ties, key
from basestation.causality.truth import Send


def happened_before(a: Send, b: Send) -> bool:
    """send(a) -> send(b). The vector counts the send itself, so b knows a exactly when it counts that far."""
    return a is not b and (a.source, a.index) != (b.source, b.index) and b.vector[a.source] >= a.index


def less(a: Message, b: Message) -> bool:
    """True when `a` is to be delivered before `b`; send(a) -> send(b) implies less(a, b) for full stamps."""
    return key(a) < key(b)


def least_modulus(epsilon: int, delta: int) -> int:
    """The least B that unwraps exactly: at receipt the field lies in [now - delta - epsilon, now + epsilon].

    The paper's epsilon + delta + 1 is too small: it leaves out that the receiver's clock may also be ahead.
    """
    return delta + 2 * epsilon + 1


@dataclass
class ArrayStamp:
    """(r, c, kn) with the whole array of ACO figure 1, indexed from r."""

    r: int
    c: int
    kn: dict[int, int]


class Figure1:
    """ACO figure 1, with the index range [-epsilon, +epsilon] and with the bound on L = r + c."""

    def __init__(self, epsilon: int, rt: int, counts_receives: bool) -> None:
        self.epsilon, self.counts_receives = epsilon, counts_receives
        self.range = range(-epsilon, epsilon + 1)
        self.bounded = 0
        self.r, self.c = rt, 0
        self.kn = dict.fromkeys(self.range, 0)
        self.kn[0] = 1

    def send(self, rt: int) -> ArrayStamp:
        self._shift(rt)
        self.kn[0] += 1
        return ArrayStamp(self.r, self.c, dict(self.kn))

    def receive(self, rt: int, stamps: Iterable[ArrayStamp]) -> None:
        self._shift(rt)
        for stamp in stamps:
            c, kn = stamp.c, stamp.kn
            if stamp.r + c > rt + self.epsilon:
                self.bounded += 1
                c, kn = 0, {}
            self.c = max(self.c, stamp.r + c - rt)
            self.kn = {t: max(self.kn[t], kn.get(t + rt - stamp.r, 0)) for t in self.range}
        if self.counts_receives:
            self.kn[0] += 1

    def corrupt(self, r: int, c: int, kn: Sequence[int]) -> None:
        self.r, self.c = r, c
        self.kn = {t: kn[c - t] if 0 <= c - t < len(kn) else 0 for t in self.range}

    def _shift(self, rt: int) -> None:
        if self.r + self.c > rt + self.epsilon:
            self.bounded += 1
            self.c = 0
            self.kn = dict.fromkeys(self.range, 0)
        else:
            self.c = max(0, self.r + self.c - rt)
            self.kn = {t: self.kn.get(t + rt - self.r, 0) for t in self.range}
        self.r = rt


def carried(stamp: ArrayStamp, entries: int) -> Stamp:
    """The stamp on the wire: kn[c], kn[c-1], ..., kn[c-entries+1]."""
    return Stamp(stamp.r, stamp.c, tuple(stamp.kn[stamp.c - i] for i in range(entries)))


class TextbookHlc:
    """The hybrid logical clock as its authors print it, its counter without end."""

    def __init__(self, rt: int) -> None:
        self.l, self.c = rt, 0

    def send(self, rt: int) -> tuple[int, int]:
        before = self.l
        self.l = max(before, rt)
        self.c = self.c + 1 if self.l == before else 0
        return self.l, self.c

    def receive(self, rt: int, pairs: Sequence[tuple[int, int]]) -> None:
        """One event; of several messages that it brings only the latest can matter."""
        l_m, c_m = max(pairs)
        before = self.l
        self.l = max(before, l_m, rt)
        if self.l == before == l_m:
            self.c = max(self.c, c_m) + 1
        elif self.l == before:
            self.c += 1
        elif self.l == l_m:
            self.c = c_m + 1
        else:
            self.c = 0


class TextbookShlc(TextbookHlc):
    """The variant whose counter advances at sends only."""

    def receive(self, rt: int, pairs: Sequence[tuple[int, int]]) -> None:
        for l_m, c_m in pairs:
            if (l_m, c_m) > (self.l, self.c):
                self.l, self.c = l_m, c_m


def exact_deadline(stamp: Stamp, phi: int, epsilon: int, delta: int) -> int:
    return stamp.r + ceil(Fraction(phi, 100) * (stamp.c + delta + epsilon))


@dataclass
class Held:
    """A message in a naive queue, with the tick in which it may leave: when that is over."""

    message: Message
    order: tuple[int, ...]
    due_at: int


@dataclass
class NaiveDapw:
    """All whose own time is over leave in `less` order."""

    phi: int
    epsilon: int
    delta: int
    ties: Ties = "sequence"
    queue: list[Held] = field(default_factory=list)
    arrivals: int = 0

    def receive(self, message: Message, now: int) -> None:
        self.arrivals += 1
        end = exact_deadline(message.stamp, self.phi, self.epsilon, self.delta)
        order = (*key(message, self.ties), self.arrivals)
        self.queue.append(Held(message, order, max(now, end + 1 if self.phi else end)))

    def due(self, now: int) -> list[Message]:
        """To be called in every tick, when all that arrives in it is there: what leaves when it is over."""
        leaving = sorted((held for held in self.queue if held.due_at <= now), key=lambda held: held.order)
        self.queue = [held for held in self.queue if held.due_at > now]
        return [held.message for held in leaving]


class NaiveCbd(NaiveDapw):
    """The paper's wording: a due message that is not the least is postponed to the lesser one's time; check again."""

    def due(self, now: int) -> list[Message]:
        stable = False
        while not stable:
            stable = True
            for held in self.queue:
                for other in self.queue:
                    if held.due_at <= now and other.order < held.order and other.due_at > held.due_at:
                        held.due_at = other.due_at
                        stable = False
        return super().due(now)


def brute_force(order: Sequence[Send]) -> dict[str, int]:
    """Every pair looked at."""
    pairs = [
        (cause, effect)
        for place, effect in enumerate(order)
        for cause in order[place + 1 :]
        if happened_before(cause, effect)
    ]
    related = sum(happened_before(a, b) for a in order for b in order)
    backward = {(cause.source, cause.index) for cause, _ in pairs}
    forward = {(effect.source, effect.index) for _, effect in pairs}
    return {
        "delivered": len(order),
        "pairs": len(pairs),
        "backward": len(backward),
        "forward": len(forward),
        "any": len(backward | forward),
        "related_pairs": related,
    }
