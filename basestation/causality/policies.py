"""When the observer lets a message go: arrival order, causal delivery, DAPW and CBD.

A policy is given each message with the observer's clock at its arrival, and asked what is due. What it delivers, and in
which order, depends on the arrivals and their ticks: a caller that asks some ticks late gets what it would have got in
time. (Within one tick it matters whether CBD, or anything at phi = 0, is asked between two arrivals or after them.)
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Protocol

from .order import Message, Ties, deadline, key


class Delivery(NamedTuple):
    """A message on its way out: the observer's clock when it arrived and when it left."""

    message: Message
    arrived: int
    left: int
    late: bool = False


class Policy(Protocol):
    """A replaceable filter between the link and the sinks."""

    @property
    def late(self) -> int:
        """How many should have left before something that had."""

    def receive(self, message: Message, now: int) -> None:
        """Take a message that arrived while the observer's clock read `now` (which never falls)."""

    def due(self, now: int) -> list[Delivery]:
        """All that leaves up to and in tick `now`, in order of delivery."""

    def next_due(self) -> int | None:
        """The clock value at which something will be due if nothing more arrives; None when nothing is held."""


class _Timed(ABC):
    """What the timed policies share: deadlines, lateness, and messages out of sync.

    Nobody can order a message whose mote has lost the time, so it passes straight through.
    """

    def __init__(self, phi: int, epsilon: int, delta: int, ties: Ties = "sequence") -> None:
        self._phi, self._epsilon, self._delta, self._ties = phi, epsilon, delta, ties
        self._ready: list[Delivery] = []
        self._arrivals = 0
        self.late = 0

    def receive(self, message: Message, now: int) -> None:
        self._settle(now - 1)
        if not message.in_sync:
            self._ready.append(Delivery(message, now, now))
            return
        last_tick = deadline(message.stamp, self._phi, self._epsilon, self._delta)
        late = now > last_tick
        self.late += late
        # A message is due when the tick of its deadline is over: within it a lesser one may still arrive. phi = 0
        # asks for no wait at all, only that the sender's clock has been reached.
        due_at = last_tick + 1 if self._phi else last_tick
        self._arrivals += 1
        order = (*key(message, self._ties), self._arrivals)
        self._hold(order, due_at, Delivery(message, now, due_at, late))

    def due(self, now: int) -> list[Delivery]:
        self._settle(now)
        ready, self._ready = self._ready, []
        return ready

    def next_due(self) -> int | None:
        return self._ready[0].left if self._ready else self._next_leave()

    def _settle(self, now: int) -> None:
        """Move all that leaves up to tick `now` to the ready ones."""
        while (at := self._next_leave()) is not None and at <= now:
            self._ready.append(self._release(at))

    @abstractmethod
    def _hold(self, order: tuple[int, ...], due_at: int, delivery: Delivery) -> None:
        """Queue a message that may leave from `due_at` on."""

    @abstractmethod
    def _next_leave(self) -> int | None:
        """The tick in which the first of the queue leaves."""

    @abstractmethod
    def _release(self, at: int) -> Delivery:
        """Take the first of the queue out, in tick `at`."""


class Dapw(_Timed):
    """Deliver after partial wait: each message leaves when its own time is over, those of one tick in `less` order."""

    def __init__(self, phi: int, epsilon: int, delta: int, ties: Ties = "sequence") -> None:
        super().__init__(phi, epsilon, delta, ties)
        self._queue: list[tuple[int, tuple[int, ...], Delivery]] = []

    def _hold(self, order: tuple[int, ...], due_at: int, delivery: Delivery) -> None:
        # A late message leaves at the end of the present tick, in order with the others.
        end_of_tick = delivery.arrived + 1 if self._phi else delivery.arrived
        heapq.heappush(self._queue, (max(due_at, end_of_tick), order, delivery))

    def _next_leave(self) -> int | None:
        return self._queue[0][0] if self._queue else None

    def _release(self, at: int) -> Delivery:
        return heapq.heappop(self._queue)[2]._replace(left=at)


class Cbd(_Timed):
    """Check before delivery: a due message waits while the queue holds a lesser one.

    The paper postpones it to the lesser message's time and checks again. That is one heap ordered by `less` whose
    top leaves as soon as it is due (tests/causality holds the literal form as the oracle).
    """

    def __init__(self, phi: int, epsilon: int, delta: int, ties: Ties = "sequence") -> None:
        super().__init__(phi, epsilon, delta, ties)
        self._heap: list[tuple[tuple[int, ...], int, Delivery]] = []
        self._clock: int | None = None  # nothing leaves before the last arrival, nor before what left last

    def _hold(self, order: tuple[int, ...], due_at: int, delivery: Delivery) -> None:
        self._clock = delivery.arrived
        heapq.heappush(self._heap, (order, due_at, delivery))

    def _next_leave(self) -> int | None:
        if not self._heap:
            return None
        due_at = self._heap[0][1]
        return due_at if self._clock is None else max(due_at, self._clock)

    def _release(self, at: int) -> Delivery:
        self._clock = at
        return heapq.heappop(self._heap)[2]._replace(left=at)


class Unfiltered:
    """Arrival order: the measure of what any other policy gains."""

    def __init__(self) -> None:
        self._ready: list[Delivery] = []
        self.late = 0

    def receive(self, message: Message, now: int) -> None:
        self._ready.append(Delivery(message, now, now))

    def due(self, now: int) -> list[Delivery]:
        ready, self._ready = self._ready, []
        return ready

    def next_due(self) -> int | None:
        return self._ready[0].left if self._ready else None


def make_policy(name: str, phi: int, epsilon: int, delta: int, ties: Ties = "sequence") -> Policy:
    """A policy by its name; `causal` is DAPW that waits the whole time, whatever phi says."""
    if name not in POLICIES:
        raise ValueError(f"no policy {name!r}: it is one of {', '.join(POLICIES)}")
    if not 0 <= phi <= 100:
        raise ValueError(f"phi is a whole percentage from 0 to 100, not {phi}")
    return POLICIES[name](phi, epsilon, delta, ties)


POLICIES: dict[str, Callable[[int, int, int, Ties], Policy]] = {
    "none": lambda phi, epsilon, delta, ties: Unfiltered(),
    "causal": lambda phi, epsilon, delta, ties: Dapw(100, epsilon, delta, ties),
    "dapw": Dapw,
    "cbd": Cbd,
}
