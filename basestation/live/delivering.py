"""What leaves the station: messages in the order of the rule, with what it says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from basestation.causality.order import Message as Ordered
from basestation.causality.rules import NEVER, Delivery, Pending
from basestation.live.counters import Holds, MoteCounts
from basestation.live.happenings import (
    Delivered,
    Discarded,
    GaveUp,
    Happening,
    Name,
    Tentative,
    Violation,
)
from basestation.live.overtakings import Out, Overtaking, Overtakings
from basestation.live.timeline import Timeline
from basestation.observer import Observer
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.messages import Data
from packet_formats.phrases import many
from packet_formats.schemes import LEDGER, descriptor

MOST_HELD = 10_000  # messages; beyond that the first are delivered early, and counted
MOST_NAMED = 1_000  # under a rule that waits for messages by name: each of them may name all the others
MOST_PLACED = 100  # tentative rows: among more the place of a message takes too long to find
SHOWN = 8  # names of different motes in a text
MS = 1_000_000
NO_NAME = Name(0, 0, 0)

Named = Callable[[int, int], tuple[int, int]]  # a source and a number to its boot and sequence number


@dataclass(slots=True)
class HeldMessage:
    """A message between its arrival and its delivery."""

    data: Data
    mono_ns: int
    arrived: int  # ticks
    cycles: int | None  # when it was heard
    in_sync: bool  # and heard at a known time: otherwise it cannot be ordered
    # Known once the observer has taken it:
    name: Name = NO_NAME
    number: int = 0
    late: bool = False
    differs: bool = False
    out: Out | None = None  # as it is counted; None for a stray
    tentative: bool = False  # it was shown by a `Tentative`
    gone: bool = False  # delivered


class Deliveries:
    """Holds messages until the observer's rule lets them go, counts them, and makes the rows that sinks show."""

    def __init__(
        self, deployment: Deployment, observer: Observer, timeline: Timeline, motes: Mapping[int, MoteCounts]
    ) -> None:
        self._deployment, self._observer, self._timeline, self._motes = deployment, observer, timeline, motes
        self.violations = Overtakings(observer, deployment.network.motes)
        self.delivered = self.held = self.forced = 0
        self.named = self.tentative = (
            0  # messages under a rule that waits by name, and those that had to wait
        )
        self.holds = Holds()
        self.noticed: Counter[str] = Counter()

    def hold(self, held: HeldMessage) -> None:
        self.held += 1
        self._motes[held.name.source].held += 1

    def discard(self, held: HeldMessage, message: Ordered) -> Discarded:
        self.noticed["discarded"] += 1
        sent, clock = message.stamp.r, self._deployment.clock
        text = (
            f"sent at tick {sent}, of use until {sent + clock.delta + clock.epsilon}, heard at {held.arrived}"
        )
        return Discarded(*self._timeline.now, held.name, text)

    def drop(self, held: HeldMessage, message: Ordered) -> Discarded:
        """Discard a message that was held."""
        self.held -= 1
        self._motes[message.source].held -= 1
        return self.discard(held, message)

    def deliver(self, deliveries: Iterable[Delivery]) -> list[Happening]:
        found: list[Happening] = []
        for delivery in deliveries:
            held: HeldMessage = delivery.message.token
            if delivery.missing:
                found.append(self._gave_up(held.name, delivery.missing))
            found.append(self._delivered(delivery, held))
            left = delivery.left << self._deployment.clock.tick_log2
            if held.out is not None and (overtakings := self.violations.delivered(held.out, left)):
                found += self.violated(overtakings)
        return found

    def make_room(self) -> list[Happening]:
        """Deliver the first messages early while too many are held."""
        found: list[Happening] = []
        room = MOST_HELD if self._observer.timed else MOST_NAMED
        while self.held > room and (tick := self._observer.next_due()) is not None:
            before = self.held
            found += self.deliver(self._observer.due(tick))
            self.forced += before - self.held
        return found

    def finish(self) -> list[Happening]:
        """The end: all that is held leaves in order, without its wait."""
        found: list[Happening] = []
        while (tick := self._observer.next_due()) is not None:
            found += self.deliver(self._observer.due(tick))
        self.violations.finish()
        return found

    def violated(self, overtakings: Iterable[Overtaking]) -> list[Happening]:
        return [self._violation(overtaking) for overtaking in overtakings]

    # ---- Rules that wait for messages by name ----

    def show(self, held: HeldMessage) -> list[Happening]:
        """Show a message that has come, unless it has left already."""
        self.named += 1
        if held.gone:
            return []
        self.tentative += 1
        if self.held > MOST_PLACED:
            return [self._tentative(held, 0, (), f"is one of {self.held} that wait")]
        return self.show_all()

    def show_all(self) -> list[Happening]:
        """Show all messages that are held and were not shown yet, each at its present place."""
        found: list[Happening] = []
        for place, pending in enumerate(self._observer.pending(), self.delivered + 1):
            if not pending.message.token.tentative:
                names = self.names(pending.missing)
                text = f"waits {self.why_waits(pending, names)}"
                found.append(self._tentative(pending.message.token, place, names, text))
        return found

    def why_waits(self, pending: Pending, names: tuple[str, ...]) -> str:
        """What a message waits for, in words; `names`: the messages that it waits for."""
        heard, timeline = pending.message.heard, self._timeline
        if not names and heard is not None and heard > timeline.tick(timeline.present or 0):
            slowest = timeline.clock.slowest()
            name = timeline.gateway(slowest).name if isinstance(slowest, int) else ""
            return f"for the line of {name or f'gateway {slowest}'}"
        return why_waits(names, pending.leaves)

    def names(self, missing: Iterable[tuple[int, int]]) -> tuple[str, ...]:
        """The names of messages that a rule waits for."""
        policy = self._observer.policy
        rule = self._deployment.stamp.scheme if policy == LEDGER else policy
        return shown_names(missing, rule, self._observer.named)

    # ---- Rows ----

    def _delivered(self, delivery: Delivery, held: HeldMessage) -> Delivered:
        counts, timeline = self._motes[held.name.source], self._timeline
        self.delivered += 1
        self.held -= 1
        counts.delivered += 1
        counts.held -= 1
        held.gone = True
        timed = self._observer.timed
        late = delivery.late and not timed  # a timed rule knew it when the message came
        counts.late += late
        if delivery.concurrent:
            self.noticed["concurrent"] += 1
        mono_ns, wall_ns = timeline.now
        held_ms = max(0, mono_ns - held.mono_ns) / MS
        due_ns = timeline.when(delivery.left + 1 if timed else delivery.left)
        overdue_ns = 0 if due_ns is None else max(0, mono_ns - max(due_ns, held.mono_ns))
        counts.holds.add(held_ms)
        self.holds.add(held_ms)
        return Delivered(  # by place: keywords take twice as long, and every message makes one
            mono_ns,
            wall_ns,
            held.name,
            held.data,
            held.number,
            self.delivered,
            held.arrived,
            delivery.left,
            held_ms,
            overdue_ns / MS,
            held.late or late,
            held.in_sync,
            delivery.concurrent,
            held.tentative,
            held.differs,
        )

    def _gave_up(self, name: Name, missing: Iterable[tuple[int, int]]) -> GaveUp:
        self.noticed["gave_up"] += 1
        names = self.names(missing)
        return GaveUp(*self._timeline.now, name, names, f"leaves without {listed(names)}")

    def _tentative(self, held: HeldMessage, place: int, missing: tuple[str, ...], text: str) -> Tentative:
        held.tentative = True
        return Tentative(*self._timeline.now, held.name, held.data, held.number, place, missing, text)

    def _violation(self, found: Overtaking) -> Violation:
        ticks, ms = self._timeline.tick(found.cycles), found.cycles * 1000 / CRYSTAL_HZ
        how = "arrived" if found.order == "arrival" else "was delivered"
        text = (
            f"{found.message} {how} before its cause {found.cause}, by {many(ticks, 'tick')} ({ms:.1f} ms): "
            f"{found.because}"
        )
        return Violation(*self._timeline.now, found.order, found.message, found.cause, ticks, ms, text)


# ---- What rules wait for, in words ----


def shown_names(missing: Iterable[tuple[int, int]], policy: str, named: Named) -> tuple[str, ...]:
    """The messages that a rule names, as people know them; several in a row of one mote together."""
    if descriptor(policy).one_send_a_tick:  # it names messages by the time of their sending
        return tuple(f"what mote {source} sent at tick {sent}" for source, sent in sorted(missing))
    runs: list[tuple[int, int, int]] = []
    for source, number in sorted(missing):
        if runs and runs[-1][0] == source and runs[-1][2] == number - 1:
            runs[-1] = (source, runs[-1][1], number)
        else:
            runs.append((source, number, number))
    if policy == "scalar":
        return tuple(f"number {_span(first, last)}" for _, first, last in runs)
    return tuple(
        f"{source}#{_span(named(source, first)[1], named(source, last)[1])}" for source, first, last in runs
    )


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def listed(names: tuple[str, ...]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names if more <= 0 else (*names[:SHOWN], f"{more} more"))


def why_waits(names: tuple[str, ...], leaves: int) -> str:
    """`leaves`: the tick in which it leaves whether they have come or not."""
    until = "" if leaves >= NEVER else f"until tick {leaves - 1} is over"
    return f"for {listed(names)}{', at most ' if until else ''}{until}" if names else until
