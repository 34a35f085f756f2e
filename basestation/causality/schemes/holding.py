"""What the delivery rules that wait for particular messages share: a buffer, and what each message in it waits for.

Whatever the rule, a message leaves when everything it names is settled or expired. Each name expires at a known tick,
so what leaves, and when, depends on the arrivals and their ticks alone: a caller that asks late gets what it would
have got in time.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from basestation.causality.order import Message
from basestation.causality.rules import NEVER, Delivery, Name, Pending, Rule

FEW = 1000  # names that all held messages wait for: beyond that nobody works out who leaves when


@dataclass(slots=True, eq=False)
class Held:
    """A message in the buffer: from when its rule may let it go at all, and what it still waits for."""

    message: Message
    arrived: int
    earliest: int
    order: tuple[int, ...]
    missing: dict[Name, None]
    ready: int = NEVER
    last: Name | None = None  # of what it waits for, the one that keeps it longest


class Holding(Rule):
    """A rule that holds each message until nothing that it names is missing."""

    def __init__(self) -> None:
        self._held: dict[Held, None] = {}
        self._here: Counter[Name] = Counter()
        self._waiters: dict[Name, dict[Held, None]] = {}
        self._next: Held | None = None
        self._out: list[Delivery] = []
        self._clock = -NEVER
        self._arrivals = 0

    def receive(self, message: Message, now: int) -> bool:
        self._settle(now - 1)
        self._clock = now
        self._arrivals += 1
        if self._too_late(message, now):
            self.late += 1
            return False
        missing = dict.fromkeys(self._names(message, now))
        self._hold(Held(message, now, self._earliest(message, now), self._order(message), missing))
        return True

    def due(self, now: int) -> list[Delivery]:
        self._settle(now)
        out, self._out = self._out, []
        return out

    def next_due(self) -> int | None:
        if self._out:
            return self._out[0].left
        at = self._next_leave()
        return None if at >= NEVER else at

    def pending(self) -> list[Pending]:
        """As `Rule.pending`. If they name very many, each stands where it leaves at the latest."""
        names = sum(len(held.missing) for held in self._held)
        ticks = self._leaving() if names <= FEW else self._leaving_at_latest()
        return [Pending(one.message, one.earliest, at, tuple(one.missing)) for one, at in ticks.items()]

    def _leaving_at_latest(self) -> dict[Held, int]:
        ticks = {held: max(held.ready, self._clock) for held in self._held}
        return dict(sorted(ticks.items(), key=lambda one: (one[1], one[0].order)))

    def _leaving(self) -> dict[Held, int]:
        """When each leaves, in that order. What waits for a message in the buffer leaves with it, and after it."""
        found: dict[Held, int] = {}
        clock = self._clock
        blocks = {held: {name for name in held.missing if name in self._here} for held in self._held}
        queue = [(max(held.ready, clock), held.order, id(held), held) for held in self._held]
        heapq.heapify(queue)
        while queue:
            clock, *_, held = heapq.heappop(queue)
            if held in found:
                continue  # it was freed before its own time was up
            found[held] = clock
            for name in (self._name(held.message), *blocks[held]):
                for waiter in self._waiters.get(name, ()):
                    if blocks[waiter] == {name}:
                        at = max(self._alone(waiter), clock)
                        heapq.heappush(queue, (at, waiter.order, id(waiter), waiter))
                    blocks[waiter].discard(name)
        return found

    def _alone(self, held: Held) -> int:
        """The tick in which it leaves once nothing that it waits for is in the buffer."""
        absent = (self._expires(name, here=False) for name in held.missing if name not in self._here)
        return min(max([held.earliest, *absent]), self._longest(held))

    def _settle(self, now: int) -> None:
        """Let go all that leaves up to tick `now`."""
        while (at := self._next_leave()) <= now:
            assert self._next is not None
            self._release(self._next, at)

    def _next_leave(self) -> int:
        return NEVER if self._next is None else max(self._next.ready, self._clock)

    def _hold(self, held: Held) -> None:
        name = self._name(held.message)
        self._held[held] = None
        self._here[name] += 1
        for missing in held.missing:
            self._waiters.setdefault(missing, {})[held] = None
        self._reckon(held)
        expiry = self._expires(name, here=True)  # for its waiters: what they wait for else has not changed
        for waiter in self._waiters.get(name, ()):
            self._prolong(waiter, name, expiry)
        self._choose()

    def _release(self, held: Held, at: int) -> None:
        self._clock = at
        del self._held[held]
        name = self._name(held.message)
        self._here[name] -= 1
        if not self._here[name]:
            del self._here[name]
        for missing in held.missing:
            del self._waiters[missing][held]
        concurrent = self._is_concurrent(held.message)
        late = self._leaves(held, at)
        self.late += late
        self._out.append(Delivery(held.message, held.arrived, at, late, concurrent, tuple(held.missing)))
        self._strike()

    def _strike(self) -> None:
        """Something has gone: nobody waits any more for what is settled by that."""
        touched: dict[Held, None] = {}
        for name in [name for name, waiters in self._waiters.items() if not waiters or self._settled(name)]:
            for held in (waiters := self._waiters.pop(name)):
                del held.missing[name]
            touched |= waiters
        for held in touched:
            self._reckon(held)
        self._choose()

    def _reckon(self, held: Held) -> None:
        """How long it waits now that it waits for less, or has just come."""
        if held.last in held.missing:
            return
        held.ready, held.last = held.earliest, None
        longest = self._longest(held)
        for name in reversed(held.missing):  # the newest of a mote's leaves last
            if held.ready >= longest:
                break  # nothing else that it waits for matters
            self._prolong(held, name, self._expires(name, name in self._here))

    def _prolong(self, held: Held, name: Name, expiry: int) -> None:
        until = min(expiry, self._longest(held))
        if until > held.ready:
            held.ready, held.last = until, name

    def _choose(self) -> None:
        at = max(min((held.ready for held in self._held), default=NEVER), self._clock)
        ready = [held for held in self._held if held.ready <= at]
        self._next = self._first(ready) if ready else None

    def _too_late(self, message: Message, now: int) -> bool:
        """Whether a message that arrives now must not be delivered any more."""
        return False

    def _earliest(self, message: Message, now: int) -> int:
        """The tick before which it does not leave, whatever has been delivered."""
        return now

    def _order(self, message: Message) -> tuple[int, ...]:
        """Who goes first of those that may leave in the same tick."""
        return (self._arrivals,)

    def _first(self, ready: list[Held]) -> Held:
        """The one of them that does."""
        return min(ready, key=lambda held: held.order)

    def _is_concurrent(self, message: Message) -> bool:
        """Whether something has left that neither led to a message that leaves now nor came of it."""
        return False

    def _longest(self, held: Held) -> int:
        """The tick in which it leaves whatever it waits for."""
        return NEVER

    @abstractmethod
    def _name(self, message: Message) -> Name:
        """What others call this message."""

    @abstractmethod
    def _names(self, message: Message, now: int) -> Iterator[Name]:
        """What it waits for and is not settled yet."""

    @abstractmethod
    def _settled(self, name: Name) -> bool:
        """Whether nobody need wait for that one any more."""

    @abstractmethod
    def _expires(self, name: Name, here: bool) -> int:
        """The first tick in which one leaves without it; `here`: it is in the buffer itself."""

    @abstractmethod
    def _leaves(self, held: Held, at: int) -> bool:
        """Take note that it leaves; True when it should have left before something that did."""
