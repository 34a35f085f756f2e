"""When the observer lets a message go: the interface of all delivery rules, and the rules that wait for the time.

A rule is given each message with the observer's clock at its arrival, and is asked what is due. Everything that
arrives in a tick is taken in before anything that is due in that tick leaves. So a timed rule lets a message go when
its tick is over. What it delivers, and in which order, depends on the arrivals and their ticks alone: a caller may ask
often or seldom, between two arrivals or after them. A rule that waits for messages by name delivers at once.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from .ledger import Ledger
from .order import Message, Ties, deadline, key

NEVER = 1 << 62  # ticks: no clock gets there
MEMORY = 2  # safe waits for which the ledger remembers what left: one would do while G2 holds

Name = tuple[int, int]  # what a rule calls a message: its source and its number, or its time of sending


class Delivery(NamedTuple):
    """A message on its way out: the observer's clock when it arrived, and the tick in which it leaves."""

    message: Message
    arrived: int
    left: int
    late: bool = False
    concurrent: bool = False  # a concurrent message was delivered first
    missing: tuple[Name, ...] = ()  # what it waited for, if that was given up


class Pending(NamedTuple):
    """A held message: the tick in which it may leave, the one in which it will if nothing more comes, and why."""

    message: Message
    due: int
    leaves: int
    missing: tuple[Name, ...] = ()  # what it waits for by name
    behind: Message | None = None  # a lesser one that is due later


class Rule(ABC):
    """A replaceable filter between the link and the sinks. `late` counts messages that arrived after a greater one
    left.

    Most rules need not know which motes there are, so `join` and `leave` do nothing by default.
    """

    timed: ClassVar[bool] = False  # it waits for the time only, and delivers when a tick is over
    late: int = 0
    ledger: Ledger | None = None  # it sets the wait, unless that is fixed

    @abstractmethod
    def receive(self, message: Message, now: int) -> bool:
        """Take a message that arrived while the observer's clock read `now`.

        False if the message is discarded because it came too late to be of use.
        """

    @abstractmethod
    def due(self, now: int) -> list[Delivery]:
        """All that has left by the time the clock reads `now`, in order of delivery."""

    @abstractmethod
    def next_due(self) -> int | None:
        """The clock value at which something will be due if nothing more arrives; None when nothing is held."""

    def pending(self) -> list[Pending]:
        """All that is held, in the order in which it would leave if nothing more came."""
        return []

    def begin(self) -> None:
        """Start on a running network: do not wait for messages sent before their mote joined."""
        return

    def join(self, mote: int, number: int) -> None:
        """`mote` takes part from its message `number` on; the rule does not wait for earlier ones."""
        return

    def leave(self, mote: int) -> None:
        """Expect nothing more of `mote`."""
        return

    def retune(self, other: Rule) -> bool:
        """Take the settings of another rule of the same kind and keep the state; False if the kinds differ."""
        return False


class BufferedRule(Rule):
    """A rule with a buffer, from which each message leaves in its tick, whenever a caller asks."""

    def __init__(self) -> None:
        self._out: list[Delivery] = []  # released, and not yet handed out

    def due(self, now: int) -> list[Delivery]:
        self._settle(now)
        if not self._out:
            return []
        out, self._out = self._out, []
        return out

    def next_due(self) -> int | None:
        if self._out:
            return self._out[0].left
        at = self._next_time()
        return None if at >= NEVER else at

    @abstractmethod
    def _settle(self, now: int) -> None:
        """Release all messages that leave up to tick `now`."""

    @abstractmethod
    def _next_time(self) -> int:
        """The clock value at which a message may leave next; `NEVER` or more when none is held."""


class TimedRule(BufferedRule):
    """The common part of the timed rules: deadlines, lateness, and messages out of sync.

    A message whose mote has lost the time cannot be ordered, so it passes straight through. A message is late if it was
    heard after its deadline. A line that lags may set the observer's clock back; this rule never processes a tick
    twice.
    """

    timed = True

    def __init__(self, phi: int, epsilon: int, delta: int, ties: Ties = "sequence") -> None:
        super().__init__()
        self._phi, self._epsilon, self._delta, self._ties = phi, epsilon, delta, ties
        self._arrivals = 0
        self._clock = -NEVER

    def receive(self, message: Message, now: int) -> bool:
        self._settle(now)
        if not message.in_sync:
            self._out.append(Delivery(message, self._clock, self._clock))
            return True
        self._arrivals += 1
        self._take(message, (*key(message, self._ties), self._arrivals), now)
        return True

    def _take(self, message: Message, order: tuple[int, ...], now: int) -> None:
        """Judge whether a message is late, and queue it."""
        tick = self._clock
        last_tick = deadline(message.stamp, self._phi, self._epsilon, self._delta)
        heard = message.heard
        late = (now if heard is None else heard) > last_tick
        self.late += late
        # In the tick of the deadline a lesser message may still arrive, so the message is due after that tick. With
        # phi = 0 it waits only until the observer's clock reaches the sender's.
        due_at = last_tick + 1 if self._phi else last_tick
        self._hold(order, Delivery(message, tick, due_at if due_at > tick else tick, late))

    def _next_time(self) -> int:
        return self._first() + 1

    def _settle(self, now: int) -> None:
        """Release all messages whose tick is over. A message that arrives in a tick leaves in that tick or later, so a
        second call in one tick releases none."""
        if now <= self._clock:
            return
        self._clock = now
        while self._first() < now:
            self._out.append(self._release())

    @abstractmethod
    def _hold(self, order: tuple[int, ...], delivery: Delivery) -> None:
        """Queue a message that may leave in the tick of its delivery."""

    @abstractmethod
    def _first(self) -> int:
        """The tick in which the first of the queue leaves; `NEVER` when there is none."""

    @abstractmethod
    def _release(self) -> Delivery:
        """Take the first out of the queue."""


class Dapw(TimedRule):
    """Deliver after partial wait: each message leaves when its own time is over, those of one tick in `less` order."""

    def __init__(self, phi: int, epsilon: int, delta: int, ties: Ties = "sequence") -> None:
        super().__init__(phi, epsilon, delta, ties)
        self._queue: list[tuple[int, tuple[int, ...], Delivery]] = []

    def pending(self) -> list[Pending]:
        return [Pending(delivery.message, tick, tick) for tick, _, delivery in sorted(self._queue)]

    def _hold(self, order: tuple[int, ...], delivery: Delivery) -> None:
        heapq.heappush(self._queue, (delivery.left, order, delivery))

    def _first(self) -> int:
        return self._queue[0][0] if self._queue else NEVER

    def _release(self) -> Delivery:
        return heapq.heappop(self._queue)[2]


class Cbd(TimedRule):
    """Check before delivery: a due message waits while the queue holds a lesser one.

    The paper postpones it to the lesser message's time and checks again. That is one heap ordered by `less` whose
    top leaves as soon as it is due (tests/causality holds the literal form as the oracle).
    """

    def __init__(self, phi: int, epsilon: int, delta: int, ties: Ties = "sequence") -> None:
        super().__init__(phi, epsilon, delta, ties)
        self._heap: list[tuple[tuple[int, ...], Delivery]] = []
        self._last = -NEVER  # the tick in which something left last: nothing leaves in an earlier one

    def pending(self) -> list[Pending]:
        found: list[Pending] = []
        slowest: Pending | None = None
        for _, delivery in sorted(self._heap):
            message, due = delivery.message, delivery.left
            if slowest is not None and slowest.due > due:
                found.append(Pending(message, due, slowest.due, behind=slowest.message))
            else:
                slowest = Pending(message, due, due)
                found.append(slowest)
        return found

    def _hold(self, order: tuple[int, ...], delivery: Delivery) -> None:
        heapq.heappush(self._heap, (order, delivery))

    def _first(self) -> int:
        if not self._heap:
            return NEVER
        left = self._heap[0][1].left
        return left if left > self._last else self._last

    def _release(self) -> Delivery:
        delivery = heapq.heappop(self._heap)[1]
        if delivery.left >= self._last:
            self._last = delivery.left
            return delivery
        return delivery._replace(left=self._last)


class LedgerRule(TimedRule):
    """Wait as long as a promise needs: at most `tolerate` per cent of the messages may be in a violation.

    The least held message leaves once its clock value L is more than the ledger's wait ago. A message is late when a
    greater one has left; it and all greater ones that left are then in a violation as far as stamps show. Each
    message is charged once: `_unpaid` has the order of those that left and were not charged, the greatest last. What
    arrives while G1 and G2 hold precedes nothing that is `_memory` ticks old, so older ones need not be kept.
    """

    def __init__(self, tolerate: float, epsilon: int, delta: int, ties: Ties = "sequence") -> None:
        super().__init__(100, epsilon, delta, ties)
        self.ledger: Ledger = Ledger(tolerate / 100, delta + epsilon)
        self._memory = MEMORY * (delta + epsilon)
        self._heap: list[tuple[tuple[int, ...], Delivery]] = []
        self._unpaid: deque[tuple[int, ...]] = deque()
        self._greatest: tuple[int, ...] = ()  # order of all that left
        self._changed = -NEVER  # the tick in which the wait changed last: nothing leaves in an earlier one

    def pending(self) -> list[Pending]:
        leaving = [(delivery.message, self._leaves(order)) for order, delivery in sorted(self._heap)]
        return [Pending(message, tick, tick) for message, tick in leaving]

    def _take(self, message: Message, order: tuple[int, ...], now: int) -> None:
        tick = self._changed = self._clock
        while self._unpaid and self._unpaid[0][0] < tick - self._memory:
            self._unpaid.popleft()
        self.ledger.arrived()
        late = order < self._greatest
        if late:
            self.late += 1
            self.ledger.late(self._charge(order))
        self._hold(order, Delivery(message, tick, tick, late))

    def _charge(self, order: tuple[int, ...]) -> int:
        """Charge the messages that left too early for this message, and return their number."""
        charged = 0
        while self._unpaid and self._unpaid[-1] > order:
            self._unpaid.pop()
            charged += 1
        return charged

    def _hold(self, order: tuple[int, ...], delivery: Delivery) -> None:
        heapq.heappush(self._heap, (order, delivery))

    def _first(self) -> int:
        return self._leaves(self._heap[0][0]) if self._heap else NEVER

    def _leaves(self, order: tuple[int, ...]) -> int:
        """The tick in which a held message leaves if nothing more comes; its order begins with its L."""
        return max(order[0] + self.ledger.ticks + 1, self._changed)

    def _release(self) -> Delivery:
        left = self._first()
        order, delivery = heapq.heappop(self._heap)
        if order > self._greatest:  # all but the late ones, which are charged already
            self._greatest = order
            self._unpaid.append(order)
        return delivery._replace(left=left)


class Unfiltered(BufferedRule):
    """Arrival order, with which other rules are compared."""

    def receive(self, message: Message, now: int) -> bool:
        self._out.append(Delivery(message, now, now))
        return True

    def _settle(self, now: int) -> None:
        return

    def _next_time(self) -> int:
        return NEVER


def make_rule(
    name: str, phi: int, epsilon: int, delta: int, ties: Ties = "sequence", tolerate: float | None = None
) -> Rule:
    """A rule by its policy's name; `causal` is DAPW that waits the whole time, whatever phi says.

    `ledger` has a share to tolerate in place of phi, in per cent.
    """
    if name == "ledger":
        return LedgerRule(tolerate or 0.0, epsilon, delta, ties)
    if name not in RULES:
        raise ValueError(f"no policy {name!r}: it is one of {', '.join(RULES)}, ledger")
    if not 0 <= phi <= 100:
        raise ValueError(f"phi is a whole percentage from 0 to 100, not {phi}")
    return RULES[name](phi, epsilon, delta, ties)


RULES: dict[str, Callable[[int, int, int, Ties], Rule]] = {
    "none": lambda phi, epsilon, delta, ties: Unfiltered(),
    "causal": lambda phi, epsilon, delta, ties: Dapw(100, epsilon, delta, ties),
    "dapw": Dapw,
    "cbd": Cbd,
}
