"""The barrier's delivery rule by its fast algorithm. The tests hold the rules, written out, as its oracle.

A message leaves when its predecessor and all messages that it names have left. The rule waits for a missing message
until `now > b + W`, where b bounds the l of the missing one: by then every message with an l up to b has arrived or is
lost. Of several messages that may leave, the least by key goes first.

A held message is in one of five states. It waits for its floor, rule 0 (heap `_low`); for another held message
(`_waiters`); for a missing message (an arrival wakes it, or its b in the heap `_timer`); it may leave (`_ready`); or it
may leave once no message with an l up to its greatest b is held (`_cut`).
Evaluating a message again makes its older entries in lists and heaps stale: they carry its `version`.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from basestation.causality.ledger import Ledger
from basestation.causality.modular import nearest
from basestation.causality.order import Message
from basestation.causality.rules import NEVER, BufferedRule, Delivery, Name, Pending, Rule

from .barrier_stamp import HEAD, NO_AGE, RESIDUES, BarrierConstants, names_of

Row = TypeVar("Row")
Key = tuple[int, int, int, int, int]  # l, counter, source, number, arrival
# A link to a message: (source, residue), or (source, number, 0) from its successor
Link = tuple[int, ...]


@dataclass(eq=False, slots=True)
class Arrival:
    """A message that arrived, held or delivered."""

    message: Message
    key: Key
    top: int  # its l
    at: int
    floor: int  # the observer's clock before which only rule 5 lets it go
    called: tuple[Link, ...]  # the names by which other messages refer to it
    links: list[Link]  # its predecessor, if the stamp has its age, and the named messages, newest first
    newest: int  # a bound on the l of what it names
    barrier: int | None  # b of what it cuts
    effects_gone: int = 0  # how many of its effects had left before it came
    held: bool = True
    version: int = 0
    bound: int | None = None  # the greatest b that it used, once it may leave
    effects: list[Arrival] = field(default_factory=list)  # those that left after it and depend on it at once


class BarrierRule(BufferedRule):
    """Waits for messages by name, and by the clock for missing ones. With a ledger its wait takes the place of W."""

    def __init__(self, motes: int, constants: BarrierConstants, ledger: Ledger) -> None:
        super().__init__()
        self._motes, self._constants = motes, constants
        # How much older than the message that has a link the link's message may be, by the link's length
        self._reaches = {2: constants.Z, 3: constants.WIN + constants.Y}
        self.ledger: Ledger = ledger
        self._memory = 2 * constants.Z + constants.WIN + 2 * constants.Y  # ticks for which a message matters
        self._clock = -NEVER
        self._swept = -NEVER
        self._arrivals = 0
        self.evaluations = 0
        self._awake = False  # something may leave in this tick
        self._quiet = -NEVER  # nothing leaves before this tick, unless it is awake
        self._newest: dict[int, int] = {}
        # Arrivals by the links to them, in order of keys
        self._known: dict[Link, list[tuple[Key, Arrival]]] = {}
        self._namers: dict[Link, list[int]] = {}  # the l of all messages with this link, in order
        # Messages to evaluate again when the message behind the link arrives
        self._missed: dict[Link, list[tuple[Arrival, int]]] = {}
        self._waiters: dict[Arrival, list[tuple[Arrival, int]]] = {}  # the messages that wait for a held one
        self._held: list[tuple[Key, Arrival]] = []
        self._low: list[tuple[int, Key, int, Arrival]] = []
        self._timer: list[tuple[int, Key, int, Arrival]] = []
        self._cut: list[tuple[int, Key, int, Arrival]] = []
        self._ready: list[tuple[Key, int, Arrival]] = []
        # Those that left without such a message, by their keys
        self._gone_without: dict[Link, list[tuple[Key, Arrival]]] = {}
        self._gone_past: list[tuple[int, Key, Arrival]] = []  # those that left past a barrier, by its b

    def receive(self, message: Message, now: int) -> bool:
        self._settle(now - 1)
        self._clock = max(self._clock, now)
        if not message.in_sync:
            self._out.append(Delivery(message, self._clock, self._clock))
            return True
        self._forget()
        arrival = self._arrival(message)
        wait = self.ledger.ticks
        self.ledger.arrived()
        if arrival.effects_gone:
            self.late += 1
            self.ledger.late(arrival.effects_gone)
        self._take(arrival)
        if self.ledger.ticks > wait:
            self._reconsider()
        self._awake = True
        return True

    def retune(self, other: Rule) -> bool:
        """Take the other rule's ledger; a new rule would wait for messages that have left already."""
        if not isinstance(other, BarrierRule):
            return False
        self.ledger = other.ledger
        self._reconsider()
        self._awake = True
        return True

    def pending(self) -> list[Pending]:
        """A message leaves when its links allow it, or when it is the least held and its own time is over."""
        wait, leaves = self.ledger.ticks, dict[Arrival, int]()
        awaited = dict[Arrival, list[Name]]()  # links that have not come, and those that are held themselves
        last = self._clock  # when all before this one have left
        slowest: list[int] = []
        held = sorted(key_and_arrival for key_and_arrival in self._held if key_and_arrival[1].held)
        keys = [key for key, _ in held]
        for key, one in held:
            at, bound = max(self._clock, one.floor), one.barrier
            names = awaited[one] = []
            for link, cause, b in self._causes(one):
                if cause is None:
                    bound = b if bound is None else max(bound, b)
                    names.append(self._name(link))
                elif cause.held:
                    at = max(at, leaves.get(cause, NEVER))
                    names.append((cause.message.source, cause.message.number))
            if bound is not None:
                before = bisect_left(keys, (bound + 1,))
                at = max(at, bound + wait + 1, slowest[before - 1] if 0 < before <= len(slowest) else at)
            leaves[one] = min(at, max(last, key[0] + wait + 1))
            last = max(last, leaves[one])
            slowest.append(last)
        return [
            Pending(one.message, leaves[one], leaves[one], tuple(awaited[one]))
            for _, one in sorted(held, key=lambda row: (leaves[row[1]], row[0]))
        ]

    # ---- An arrival ----

    def _arrival(self, message: Message) -> Arrival:
        stamp, source, number, constants = message.stamp, message.source, message.number, self._constants
        top, (counter, cut, close, age) = stamp.top, stamp.kn[:HEAD]
        self._arrivals += 1
        key = (top, counter, source, number, self._arrivals)
        called: tuple[Link, ...] = ((source, number, 0),)
        if not close:  # else it has no name
            called += ((source, (number - 1) % RESIDUES),)
        links: list[Link] = [name for name in names_of(stamp) if name[0] < self._motes and name[0] != source]
        if constants.has_previous(stamp):
            links.insert(0, (source, number - 1, 0))
        barrier = top - (age % NO_AGE) * constants.u if cut else None
        newest, floor = constants.newest_named(stamp), self._floor(message)
        arrival = Arrival(message, key, top, self._clock, floor, called, links, newest, barrier)
        arrival.effects_gone = self._effects_gone(arrival)
        return arrival

    def _floor(self, message: Message) -> int:
        """Rule 0: the clock from which every message sent more than WIN before this one has left, or is lost."""
        latest = message.stamp.top - self._constants.epsilon
        if message.guessed:
            return latest
        return min(self._clock if message.heard is None else message.heard, latest)

    def _take(self, arrival: Arrival) -> None:
        _, _, source, number, _ = arrival.key
        self._newest[source] = max(number, self._newest.get(source, 0))
        concerned, row = list(arrival.called), (arrival.key, arrival)
        for link in concerned:
            insort(self._known.setdefault(link, []), row)
        for link in arrival.links:
            if len(link) == 2:
                namers = self._namers.setdefault(link, [])
                if namers and arrival.top < namers[-1]:
                    concerned.append(link)  # the b of later namers may have become less
                insort(namers, arrival.top)
        heapq.heappush(self._held, row)
        self._evaluate(arrival)
        if self._missed:
            self._wake([one for link in concerned for one in self._missed.pop(link, ())])

    def _wake(self, waiting: Sequence[tuple[Arrival, int]]) -> None:
        for one, version in waiting:
            if one.held and one.version == version:
                self._evaluate(one)

    def _reconsider(self) -> None:
        """The wait has grown: hold messages again that were allowed to leave."""
        allowed = [(one, version) for *_, version, one in self._cut]
        allowed += [(one, version) for _, version, one in self._ready]
        self._cut.clear()
        self._ready.clear()
        self._wake(allowed)

    # ---- Waiting ----

    def _evaluate(self, one: Arrival) -> None:
        self.evaluations += 1
        one.version += 1
        one.bound = None
        if self._clock < one.floor:
            heapq.heappush(self._low, (one.floor, one.key, one.version, one))
            return
        bound = None
        for link, cause, b in self._causes(one):
            if cause is None:
                self._missed.setdefault(link, []).append((one, one.version))
                if not self._is_past(b, one):
                    return
                bound = b if bound is None else max(bound, b)
            elif cause.held:
                self._waiters.setdefault(cause, []).append((one, one.version))
                self._missed.setdefault(link, []).append((one, one.version))
                return
        if one.barrier is not None:
            if not self._is_past(one.barrier, one):
                return
            bound = one.barrier if bound is None else max(bound, one.barrier)
        one.bound = bound
        if bound is None:
            heapq.heappush(self._ready, (one.key, one.version, one))
        else:
            heapq.heappush(self._cut, (bound, one.key, one.version, one))
            for link in one.links:
                self._missed.setdefault(link, []).append((one, one.version))

    def _causes(self, one: Arrival) -> Iterator[tuple[Link, Arrival | None, int]]:
        """The message behind each link, or a bound on its l if it is missing. A stamp names the newest cause first."""
        newest = one.newest
        for link in one.links:
            cause = self._find(link, one)
            if cause is None:
                bound = self._bound(link, one)
                yield link, None, min(bound, newest) if len(link) == 2 else bound
            else:
                if len(link) == 2:
                    newest = cause.top
                yield link, cause, cause.top

    def _find(self, link: Link, one: Arrival) -> Arrival | None:
        """The newest arrival that a link of this message can mean."""
        known = self._known.get(link)
        if not known:
            return None
        newest = known[-1]
        if newest[0][0] > one.top:
            place = bisect_left(known, ((one.top + 1,),))
            if not place:
                return None
            newest = known[place - 1]
        return None if newest[0][0] < one.top - self._reaches[len(link)] else newest[1]

    def _bound(self, link: Link, one: Arrival) -> int:
        """A bound on the l of the missing message that a link means."""
        if len(link) == 2:
            namers = self._namers[link]
            return namers[bisect_left(namers, one.top - self._constants.Z)]
        return one.top - one.message.stamp.kn[3] * self._constants.u

    def _is_past(self, b: int, one: Arrival) -> bool:
        if self._clock > b + self.ledger.ticks:
            return True
        heapq.heappush(self._timer, (b, one.key, one.version, one))
        return False

    # ---- Leaving ----

    def _settle(self, now: int) -> None:
        """Release all messages that leave up to tick `now`."""
        if now < self._quiet and not self._awake:
            return
        while (at := self._next_time()) <= now:
            self._clock = at
            self._awake = False
            while (one := self._next()) is not None:
                self._release(one)
        self._quiet = at

    def _next_time(self) -> int:
        """The tick in which something may happen next."""
        if self._awake:
            return self._clock
        least = self._least()
        if least is None:
            return NEVER
        first = min(least.top, _first(self._timer))
        return max(min(first + self.ledger.ticks + 1, _first(self._low)), self._clock)

    def _least(self) -> Arrival | None:
        while self._held and not self._held[0][1].held:
            heapq.heappop(self._held)
        return self._held[0][1] if self._held else None

    def _next(self) -> Arrival | None:
        """The least message that may leave now."""
        wait = self.ledger.ticks
        while self._low and _first(self._low) <= self._clock:
            self._evaluate(heapq.heappop(self._low)[3])
        while self._timer and _first(self._timer) + wait < self._clock:
            self._evaluate(heapq.heappop(self._timer)[3])
        least = self._least()
        if least is None:
            return None
        while self._cut and self._cut[0][0] < least.top:
            _, key, version, one = heapq.heappop(self._cut)
            heapq.heappush(self._ready, (key, version, one))
        if least.bound is not None or self._clock > least.top + wait:
            return least
        while self._ready:
            _, version, one = heapq.heappop(self._ready)
            if not _is_stale(version, one):
                return one
        return None

    def _release(self, one: Arrival) -> None:
        one.held = False
        missing: list[Name] = []
        for link in one.links:
            cause = self._find(link, one)
            if cause is None:
                missing.append(self._name(link))
                insort(self._gone_without.setdefault(link, []), (one.key, one))
            else:
                cause.effects.append(one)
        if one.barrier is not None:
            insort(self._gone_past, (one.barrier, one.key, one))
        late = one.effects_gone > 0
        self._out.append(Delivery(one.message, one.at, self._clock, late, missing=tuple(missing)))
        self._wake(self._waiters.pop(one, ()))

    def _name(self, link: Link) -> Name:
        """The number of a missing message; a residue means the number nearest to the newest that arrived."""
        source, which, *is_number = link
        known = self._newest.get(source, 0)
        return source, which if is_number else max(nearest(which + 1, known, RESIDUES), 1)

    # ---- Late messages ----

    def _effects_gone(self, late: Arrival) -> int:
        """How many delivered messages depend on a message that has just arrived."""
        if not self._gone_without and not self._gone_past:
            return 0
        todo: list[Arrival] = []
        for link in late.called:
            if gone := self._gone_without.get(link):
                later = gone[bisect_left(gone, ((late.top,),)) :]
                todo += [one for _, one in later if one.top - late.top <= self._reaches[len(link)]]
        past = self._gone_past[bisect_left(self._gone_past, (late.top,)) :]
        todo += [one for _, key, one in past if key > late.key]
        if not todo:
            return 0
        found = dict.fromkeys(todo)
        while todo:
            new = [one for one in todo.pop().effects if one not in found]
            found |= dict.fromkeys(new)
            todo += new
        return len(found)

    def _forget(self) -> None:
        """Now and then drop messages that are too old to matter."""
        if self._clock - self._swept <= self._memory:
            return
        self._swept, oldest = self._clock, self._clock - self._memory
        for link, known in self._known.items():
            if len(link) == 2:
                continue  # the link from its successor finds it
            for _, one in known:
                one.effects = [effect for effect in one.effects if effect.top >= oldest]
        self._known = _kept(self._known, lambda row: row[1].held or row[1].top >= oldest)
        self._namers = _kept(self._namers, lambda top: top >= oldest)
        self._missed = _kept(self._missed, lambda row: not _is_stale(row[1], row[0]))
        self._gone_without = _kept(self._gone_without, lambda row: row[1].top >= oldest)
        self._gone_past = self._gone_past[bisect_left(self._gone_past, (oldest,)) :]


def _kept(lists: dict[Link, list[Row]], keep: Callable[[Row], bool]) -> dict[Link, list[Row]]:
    """The lists with the rows to keep, without those that become empty."""
    kept = ((link, [row for row in rows if keep(row)]) for link, rows in lists.items())
    return {link: rows for link, rows in kept if rows}


def _first(heap: list[tuple[int, Key, int, Arrival]]) -> int:
    """The least tick in a heap; stale entries are dropped."""
    while heap and _is_stale(*heap[0][2:]):
        heapq.heappop(heap)
    return heap[0][0] if heap else NEVER


def _is_stale(version: int, one: Arrival) -> bool:
    return not one.held or one.version != version
