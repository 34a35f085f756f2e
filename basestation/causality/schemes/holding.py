"""The common part of the rules that wait for particular messages: a buffer, and the names that each message waits for.

A message leaves when everything that it names is settled or expired. Each name expires at a known tick, so deliveries
depend only on the arrivals and their ticks: a caller that asks late gets the same deliveries.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from basestation.causality.order import Message
from basestation.causality.rules import NEVER, BufferedRule, Delivery, Name, Pending

FEW = 1000  # names that all held messages wait for: with more, `pending` gives the latest ticks


@dataclass(slots=True, eq=False)
class Held:
    """A message in the buffer, the earliest tick in which it may leave, and the names that it waits for."""

    message: Message
    arrived: int
    earliest: int
    order: tuple[int, ...]
    missing: dict[Name, None]
    ready: int = NEVER
    last: Name | None = None  # the name that holds it longest


def since(message: Message, now: int) -> int:
    """When the wait for its causes begins: a gateway may have heard the message after the observer's clock."""
    return now if message.heard is None else max(now, message.heard)


class Holding(BufferedRule):
    """A rule that holds each message until nothing that it names is missing."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[Held, None] = {}
        self._here: dict[Name, dict[Held, None]] = {}
        self._waiters: dict[Name, dict[Held, None]] = {}
        self._next: Held | None = None
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

    def pending(self) -> list[Pending]:
        """As `Rule.pending`. With more than `FEW` names, the messages are sorted by the latest tick in which they
        leave."""
        names = sum(len(held.missing) for held in self._held)
        ticks = self._leaving() if names <= FEW else self._leaving_at_latest()
        return [Pending(one.message, one.earliest, at, tuple(one.missing)) for one, at in ticks.items()]

    def _leaving_at_latest(self) -> dict[Held, int]:
        ticks = {held: max(held.ready, self._clock) for held in self._held}
        return dict(sorted(ticks.items(), key=lambda one: (one[1], one[0].order)))

    def _leaving(self) -> dict[Held, int]:
        """When each message leaves, in order. A message that waits for a held one leaves with it, behind it."""
        found: dict[Held, int] = {}
        clock = self._clock
        blocks = {held: {name for name in held.missing if name in self._here} for held in self._held}
        queue = [(max(held.ready, clock), held.order, id(held), held) for held in self._held]
        heapq.heapify(queue)
        while queue:
            clock, *_, held = queue[0]
            if held not in found and clock >= self._longest(held):
                held = self._foremost(held, found)
            if held is queue[0][-1]:
                heapq.heappop(queue)
            if held in found:
                continue  # a message that it waited for freed it earlier
            found[held] = clock
            for name in (self._name(held.message), *blocks[held]):
                for waiter in self._waiters.get(name, ()):
                    if blocks[waiter] == {name}:
                        at = max(self._alone(waiter), clock)
                        heapq.heappush(queue, (at, waiter.order, id(waiter), waiter))
                    blocks[waiter].discard(name)
        return found

    def _alone(self, held: Held) -> int:
        """The tick in which a message leaves if none of the messages that it waits for is in the buffer."""
        absent = (self._expires(name, here=False) for name in held.missing if name not in self._here)
        return min(max([held.earliest, *absent]), self._longest(held))

    def _settle(self, now: int) -> None:
        """Release all messages that leave up to tick `now`."""
        while (at := self._next_time()) <= now:
            assert self._next is not None
            overdue = at >= self._longest(self._next)
            self._release(self._foremost(self._next) if overdue else self._next, at)

    def _foremost(self, held: Held, gone: Collection[Held] = ()) -> Held:
        """Of a message whose time is up and the held ones that it waits for, the one that leaves first."""
        seen = {held, *gone}
        while True:
            here = (one for name in held.missing for one in self._here.get(name, ()) if one not in seen)
            cause = next(here, None)
            if cause is None:
                return held
            seen.add(cause)
            held = cause

    def _next_time(self) -> int:
        return NEVER if self._next is None else max(self._next.ready, self._clock)

    def _hold(self, held: Held) -> None:
        name = self._name(held.message)
        self._held[held] = None
        self._here.setdefault(name, {})[held] = None
        self._contradict(held, name)
        for missing in held.missing:
            self._waiters.setdefault(missing, {})[held] = None
        self._reckon(held)
        expiry = self._expires(name, here=True)  # their other names have not changed
        for waiter in self._waiters.get(name, ()):
            self._prolong(waiter, name, expiry)
        self._choose()

    def _contradict(self, held: Held, name: Name) -> None:
        """Drop the names of messages that name this one and are named by it: one of the two stamps is wrong."""
        waiters = self._waiters.get(name)
        if not waiters or not held.missing:
            return
        for waiter in [one for one in waiters if self._name(one.message) in held.missing]:
            del waiters[waiter]
            del waiter.missing[name]
            self._reckon(waiter)
        if not waiters:
            del self._waiters[name]

    def _release(self, held: Held, at: int) -> None:
        self._clock = at
        del self._held[held]
        name = self._name(held.message)
        del self._here[name][held]
        if not self._here[name]:
            del self._here[name]
        for missing in held.missing:
            del self._waiters[missing][held]
            if not self._waiters[missing]:
                del self._waiters[missing]
        concurrent = self._is_concurrent(held.message)
        late = self._leaves(held, at)
        self.late += late
        self._out.append(Delivery(held.message, held.arrived, at, late, concurrent, tuple(held.missing)))
        self._strike(self._settled_by(held))

    def _strike(self, names: Iterable[Name]) -> None:
        """Remove these names, which are settled now, from all messages that wait for them."""
        touched: dict[Held, None] = {}
        for name in names:
            for held in (waiters := self._waiters.pop(name, {})):
                del held.missing[name]
            touched |= waiters
        for held in touched:
            self._reckon(held)
        self._choose()

    def _reckon(self, held: Held) -> None:
        """Compute how long a message waits, after it arrived or lost a name."""
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
        """Whether a message that arrives now is too late to be delivered."""
        return False

    def _earliest(self, message: Message, now: int) -> int:
        """The tick before which a message does not leave, whatever has been delivered."""
        return now

    def _order(self, message: Message) -> tuple[int, ...]:
        """The order of messages that may leave in the same tick."""
        return (self._arrivals,)

    def _first(self, ready: list[Held]) -> Held:
        """The first of these messages."""
        return min(ready, key=lambda held: held.order)

    def _is_concurrent(self, message: Message) -> bool:
        """Whether a message concurrent to this one was delivered first."""
        return False

    def _longest(self, held: Held) -> int:
        """The latest tick in which a message leaves, whatever it waits for."""
        return NEVER

    @abstractmethod
    def _name(self, message: Message) -> Name:
        """The name by which other messages refer to this one."""

    @abstractmethod
    def _names(self, message: Message, now: int) -> Iterator[Name]:
        """The names that a message waits for, without settled ones."""

    def _settled_by(self, gone: Held) -> Iterable[Name]:
        """The awaited names that are settled now that this message has left."""
        return self._all_settled()

    def _all_settled(self) -> list[Name]:
        return [name for name in self._waiters if self._settled(name)]

    @abstractmethod
    def _settled(self, name: Name) -> bool:
        """Whether a name is settled, so that no message need wait for it."""

    @abstractmethod
    def _expires(self, name: Name, here: bool) -> int:
        """The first tick in which a message leaves without this name; `here`: the named message is held itself."""

    @abstractmethod
    def _leaves(self, held: Held, at: int) -> bool:
        """Note that a message leaves; True if it should have left before one that left already."""
