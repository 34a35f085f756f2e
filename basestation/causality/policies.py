"""When the observer lets a message go: arrival order, causal delivery, DAPW and CBD.

A policy is given each message with the observer's clock at its arrival, and asked what is due. What it delivers,
and in which order, depends on the arrivals and their clocks alone: a caller that asks late gets what it would have
got in time.
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

    late: int

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
        if not message.in_sync:
            self._ready.append(Delivery(message, now, now))
            return
        last_tick = deadline(message.stamp, self._phi, self._epsilon, self._delta)
        late = now > last_tick
        self.late += late
        # A message is due when the tick of its deadline is over: within it a lesser one may still arrive. phi = 0 asks
        # for no wait at all, only that the sender's clock has been reached.
        due_at = last_tick + 1 if self._phi else last_tick
        self._arrivals += 1
        order = (*key(message, self._ties), self._arrivals)
        self._hold(order, due_at, Delivery(message, now, due_at, late))

    @abstractmethod
    def _hold(self, order: tuple[int, ...], due_at: int, delivery: Delivery) -> None:
        """Queue a message that may leave from `due_at` on."""

    def _take_ready(self) -> list[Delivery]:
        ready, self._ready = self._ready, []
        return ready


class Dapw(_Timed):
    """Deliver after partial wait: each message leaves when its own time is over, those of one tick in `less` order."""

    def __init__(self, phi: int, epsilon: int, delta: int, ties: Ties = "sequence") -> None:
        super().__init__(phi, epsilon, delta, ties)
        self._queue: list[tuple[int, tuple[int, ...], Delivery]] = []

    def _hold(self, order: tuple[int, ...], due_at: int, delivery: Delivery) -> None:
        # A late message leaves at the end of the present tick, in order with the others.
        end_of_tick = delivery.arrived + 1 if self._phi else delivery.arrived
        leaves = max(due_at, end_of_tick)
        heapq.heappush(self._queue, (leaves, order, delivery._replace(left=leaves)))

    def due(self, now: int) -> list[Delivery]:
        out = self._take_ready()
        while self._queue and self._queue[0][0] <= now:
            out.append(heapq.heappop(self._queue)[2])
        return out

    def next_due(self) -> int | None:
        if self._ready:
            return self._ready[0].left
        return self._queue[0][0] if self._queue else None


class Cbd(_Timed):
    """Check before delivery: a due message waits while the queue holds a lesser one.

    The paper postpones it to the lesser message's time and checks again. That is one heap ordered by `less` whose top
    leaves as soon as it is due (tests/causality holds the literal form as the oracle).
    """

    def __init__(self, phi: int, epsilon: int, delta: int, ties: Ties = "sequence") -> None:
        super().__init__(phi, epsilon, delta, ties)
        self._heap: list[tuple[tuple[int, ...], int, Delivery]] = []
        self._clock: int | None = None

    def receive(self, message: Message, now: int) -> None:
        self._settle(now - 1)
        self._clock = now
        super().receive(message, now)

    def _hold(self, order: tuple[int, ...], due_at: int, delivery: Delivery) -> None:
        heapq.heappush(self._heap, (order, due_at, delivery))

    def _settle(self, now: int) -> None:
        """Let go what left up to tick `now`, each at the tick in which it became both due and least."""
        while (at := self._next_pop()) is not None and at <= now:
            self._clock = at
            self._ready.append(heapq.heappop(self._heap)[2]._replace(left=at))

    def _next_pop(self) -> int | None:
        if not self._heap:
            return None
        due_at = self._heap[0][1]
        return due_at if self._clock is None else max(due_at, self._clock)

    def due(self, now: int) -> list[Delivery]:
        self._settle(now)
        return self._take_ready()

    def next_due(self) -> int | None:
        return self._ready[0].left if self._ready else self._next_pop()


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
