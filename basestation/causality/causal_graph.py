"""The causal graph of a log: what surely led to each message, and what may have.

A mote's own messages are in order. A stamp may name messages that led to its own, and receipts do. So each message has
known causes, and two vectors with a number for each mote. `vector` has the newest message of that mote that surely led
to it, `most` the newest that may have, where something is missing: a cause that was lost, or one that nothing names.
Where nothing is missing the causes are complete.

What is known of a message holds for its effects: one that arrives after them hands its causes on. What may have led to
it is settled later, when everything that was under way has arrived.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from .boots import ROUND
from .modular import unwrap
from .order import Message

LONG_AGO = -(1 << 62)
# A stamp may name a message that has not arrived yet. No mote sends this many messages while another one's message is
# on its way, so a number further ahead was misread.
AHEAD = 16
NAMERS = 32  # messages naming a missing one that are searched; fewer give a wider bound on when it was sent
HANDED = 256  # links over which one message hands its causes on: a few dozen in an honest network
LOOKED_AT = 512  # messages, to say in words what one arrival shows
SETTLED_AT_ONCE = 32  # messages: five in an honest network
ORDER, RECEIPT, STAMP = "order", "receipt", "stamp"  # how a cause is known


class Alias(NamedTuple):
    """A name other than a number: the message of `source` with this `alias`, sent in one of these ticks.

    `at`: all messages that the mote sent before this tick are causes, too.
    """

    source: int
    alias: int
    since: int
    until: int
    at: int = LONG_AGO


class Causes(NamedTuple):
    """The causes that a stamp names.

    `numbers` are sources and numbers. Causes that the stamp leaves out were sent at tick `gap` or before, by the motes
    in `unsure` (None: by any mote). `own_gap` is the bound for causes that are missing because the mote's previous
    message was lost. `whole`: the stamp also covers the causes of its causes, so a lost message leaves no gap.
    `newest_first`: the order of the aliases.
    """

    numbers: Sequence[tuple[int, int]] = ()
    aliases: Sequence[Alias] = ()
    gap: int = LONG_AGO
    own_gap: int = LONG_AGO
    unsure: Sequence[int] | None = None
    whole: bool = False
    newest_first: bool = False


NO_CAUSES = Causes()


@dataclass(eq=False, repr=False, slots=True)
class Node:
    """A message that arrived, or that others name. `note` belongs to the caller."""

    source: int
    number: int
    above: int  # of its sequence number
    vector: list[int]
    arrived: bool = False
    heard: int = 0
    time: int = 0  # when it was sent, as far as is known
    named: Causes = NO_CAUSES
    complete_receipts: bool = False
    causes: dict[Node, str] = field(default_factory=dict)
    effects: list[Node] = field(default_factory=list)
    lost: tuple[Alias, ...] = ()  # names of messages that have not arrived
    alias: int | None = None
    doubt: int = LONG_AGO  # it may have named unknown messages sent up to this tick
    settled: bool = False
    dropped: bool = False  # out of the window
    most: list[int] | None = None
    doubtful: list[int] | None = None  # as `most`, for its effects
    note: Any = None

    @property
    def sequence(self) -> int:
        return self.number - self.above

    @property
    def complete(self) -> bool:
        """Whether a `CausalGraph` knows all its causes, apart from messages that left before it arrived."""
        return self.settled and self.most is None

    def __str__(self) -> str:
        return f"{self.source}#{self.sequence}"


Growth = tuple[Node, dict[int, int]]  # a message, and the entries of its vector that grew, as they were


class StampScheme(Protocol):
    """The scheme as the graph needs it. `reach`: the most ticks by which a cause may seem younger than its effect."""

    @property
    def reach(self) -> int: ...

    def sent(self, message: Message, heard: int) -> int: ...

    def alias(self, message: Message) -> int | None: ...

    def causes(self, message: Message, sent: int) -> Causes: ...


class SureGraph:
    """The sure causes of each message, over a window of recent messages, so memory is bounded.

    Messages are `add`ed in order of arrival. A message is settled `patience` ticks after its arrival: by then all
    messages that were on their way at the same time have arrived.
    """

    def __init__(self, scheme: StampScheme, motes: int, patience: int, window: int) -> None:
        self._scheme, self._motes, self._window, self._patience = scheme, motes, window, patience
        self._chains: list[list[Node]] = [[] for _ in range(motes)]  # of each mote, by number
        self._booted = [LONG_AGO] * motes
        self._newest = [0] * motes
        self._recent: deque[Node] = deque()
        self._unsettled: deque[Node] = deque()
        self._wanted: dict[tuple[int, int], list[tuple[Node, Alias]]] = {}
        self._known: dict[tuple[int, int], list[Node]] = {}  # by their aliases
        self._unheard: list[deque[tuple[Node, int]]] = [deque(maxlen=AHEAD) for _ in range(motes)]
        self._grown: list[Growth] = []
        self._newest_heard = LONG_AGO
        self._left = HANDED  # links that the present message may still hand on over
        self._cut = LONG_AGO  # messages heard up to this tick may lack causes that were not handed on
        self.refused = 0  # names that contradict others

    def __len__(self) -> int:
        return len(self._recent)

    def add(
        self, message: Message, heard: int, receipts: Iterable[tuple[int, int]] = (), complete: bool = False
    ) -> tuple[Node, list[Growth]]:
        """Add a message at its first arrival, heard at this tick; return the earlier messages whose vectors grew.

        `receipts` are sources and 8-bit sequence numbers; `complete`: they name all received since the last send.
        """
        source, number = message.source, message.number
        self._left = HANDED
        while self._unsettled and heard - self._unsettled[0].heard > self._patience:
            self._settle(self._unsettled.popleft())
        self._note_boot(message, heard)
        node = self._place(source, number, message.above)
        if node.arrived:  # after many boots two messages may share a number: this one gets no links
            node = Node(source, number, message.above, self._start(source, number))
            receipts, message = (), message._replace(in_sync=False)
        node.arrived, node.settled, node.heard, node.complete_receipts = True, False, heard, complete
        node.time = self._scheme.sent(message, heard) if message.in_sync else heard
        self._unsettled.append(node)
        self._newest_heard = max(self._newest_heard, heard)
        if message.in_sync:
            node.named = self._scheme.causes(message, node.time)
        else:
            gap = heard + self._scheme.reach
            node.named = Causes(gap=gap, own_gap=gap)
        for mote, one in node.named.numbers:
            self._name(node, mote, one, STAMP)
        for alias in node.named.aliases:
            self._want(node, alias)
        if node.named.aliases and not node.lost:  # all are found: the names are not needed again
            node.named = node.named._replace(aliases=())
        for mote, sequence in receipts:
            if mote < self._motes and self._newest[mote]:
                self._name(node, mote, unwrap(sequence + 1, self._newest[mote] + AHEAD, ROUND), RECEIPT)
            elif mote < self._motes:
                self._unheard[mote].append((node, sequence))
        if message.in_sync and (called := self._scheme.alias(message)) is not None:
            self._call(node, called)
        if not self._newest[source]:
            self._newest[source] = number
            self._read_receipts(source, number)
        self._newest[source] = max(number, self._newest[source])
        if node.effects:
            self._grown += self._hand_on(node)
        grown, self._grown = self._grown, []
        return node, grown

    def resume(self, source: int, number: int, above: int, heard: int) -> None:
        """Continue after this message of a mote, whose causes are unknown."""
        node = Node(source, number, above, self._start(source, number), arrived=True, heard=heard, time=heard)
        node.settled = True
        self._chains[source].append(node)
        self._recent.append(node)
        self._newest[source] = number

    def finish(self) -> None:
        """Settle everything at the end of the log."""
        self.settle_all_but(0)

    def settle_all_but(self, most: int) -> None:
        """Keep at most this many unsettled messages; without time nothing ages out."""
        while len(self._unsettled) > most:
            self._settle(self._unsettled.popleft())

    def between(self, source: int, after: int, last: int) -> Iterator[Node]:
        """The messages of a mote above one number, up to another."""
        chain = self._chains[source]
        for place in range(_place_after(chain, after), len(chain)):
            if chain[place].number > last:
                return
            yield chain[place]

    def latest(self, source: int) -> Iterator[Node]:
        """The messages of a mote, the newest first."""
        return reversed(self._chains[source])

    # ---- Names ----

    def _note_boot(self, message: Message, heard: int) -> None:
        chain = self._chains[message.source]
        if chain and message.above > chain[-1].above:
            self._booted[message.source] = heard

    def _place(self, source: int, number: int, above: int) -> Node:
        """The node of a number, after the one before it and before the one after it in its mote's own order."""
        chain = self._chains[source]
        place = len(chain)
        if chain and number <= chain[-1].number:
            place = bisect_left(chain, number, key=_number)
            if chain[place].number == number:
                return chain[place]
        node = Node(source, number, above, self._start(source, number))
        chain.insert(place, node)
        if place:
            self._link(node, chain[place - 1], ORDER)
            if chain[place - 1].dropped:
                place -= 1
                del chain[place]
        if place + 1 < len(chain):
            after = chain[place + 1]
            if place and after.causes.get(chain[place - 1]) == ORDER:
                del after.causes[chain[place - 1]]
            after.causes[node] = ORDER
            node.effects.append(after)
        self._recent.append(node)
        if len(self._recent) > self._window:
            self._drop(self._recent.popleft())
        return node

    def _start(self, source: int, number: int) -> list[int]:
        """The vector of a message without known causes."""
        vector = [0] * self._motes
        vector[source] = number
        return vector

    def _drop(self, node: Node) -> None:
        if not node.settled and node.arrived:
            self._settle(node)
        for alias in node.lost:
            _discard(self._wanted, alias[:2], (node, alias))
        if node.alias is not None:
            _discard(self._known, (node.source, node.alias), node)
        node.effects.clear()  # a caller that keeps the node must not keep all its effects
        node.causes.clear()
        node.dropped = True
        chain = self._chains[node.source]
        # The newest stays until there is a newer one: its mote may be silent for long
        if chain[-1] is not node:
            del chain[0 if chain[0] is node else bisect_left(chain, node.number, key=_number)]

    def _name(self, node: Node, source: int, number: int, how: str) -> None:
        if not 0 <= source < self._motes or source == node.source or number <= node.vector[source]:
            return
        if number > self._newest[source] + AHEAD or node.heard - self._booted[source] < self._patience:
            node.doubt = node.time + self._scheme.reach  # misread
            return
        chain = self._chains[source]
        near = chain[max(_place_after(chain, number) - 1, 0)] if chain else None
        if near is None or number < near.above:
            node.doubt = node.time + self._scheme.reach  # of a boot that was never heard
            return
        self._link(node, self._place(source, number, near.above), how)

    def _read_receipts(self, source: int, number: int) -> None:
        """A mote's first message has come: now receipts for it can be read."""
        for node, sequence in self._unheard[source]:
            before = node.vector[source]
            self._name(node, source, unwrap(sequence + 1, number + AHEAD, ROUND), RECEIPT)
            if node.vector[source] > before:
                self._grown += [(node, {source: before}), *self._hand_on(node)]
        self._unheard[source].clear()

    def _want(self, node: Node, alias: Alias) -> None:
        """Find the message with that alias, or wait for it."""
        if alias.source == node.source or not 0 <= alias.source < self._motes:
            return
        found = None
        for one in reversed(self._known.get(alias[:2], ())):
            if alias.since <= one.time <= alias.until:
                found = one
            elif one.time < alias.since - self._patience:
                break  # and those that came before it are older
        if found is not None:
            self._link(node, found, STAMP)
            return
        node.lost += (alias,)
        wanted = self._wanted.setdefault(alias[:2], [])
        wanted.append((node, alias))
        while wanted[0][1].until < alias.since - self._patience:
            del wanted[0]  # it never came

    def _call(self, node: Node, alias: int) -> None:
        """Register a message's alias, and link those that have named it already."""
        name = (node.source, alias)
        node.alias = alias
        self._known.setdefault(name, []).append(node)
        for effect, wanted in list(self._wanted.get(name, ())):
            if wanted.since <= node.time <= wanted.until:
                _discard(self._wanted, name, (effect, wanted))
                effect.lost = tuple(one for one in effect.lost if one is not wanted)
                effect.causes[node] = STAMP
                node.effects.append(effect)

    # ---- Sure causes ----

    def _link(self, effect: Node, cause: Node, how: str) -> None:
        if cause.vector[effect.source] >= effect.number:
            effect.doubt = effect.time + self._scheme.reach  # a circle: one of the names was misread
            self.refused += 1
            return
        effect.causes.setdefault(cause, how)
        cause.effects.append(effect)
        known = zip(effect.vector, cause.vector, strict=True)
        effect.vector = [own if own > other else other for own, other in known]

    def _hand_on(self, node: Node) -> Iterator[Growth]:
        """Hand a message's causes on to its effects, and theirs. Stamps that name future messages could link
        everything, so this ends after a bounded number of links."""
        waiting = [node]
        while waiting:
            cause = waiting.pop()
            for effect in cause.effects:
                if not self._left:
                    self._cut = max(self._cut, self._newest_heard)
                    return
                self._left -= 1
                circle = cause.vector[effect.source] >= effect.number
                grown = {} if circle else _raise(effect.vector, cause.vector)
                if grown:
                    waiting.append(effect)
                    yield effect, grown

    # ---- Possible causes ----

    def gap(self, node: Node) -> int:
        """The tick up to which its own causes may be incomplete, as far as is known now."""
        if not node.arrived:
            return LONG_AGO  # the messages that name it have the gap
        named, gap = node.named, node.doubt
        if named.unsure is None and not node.complete_receipts and named.gap > gap:
            gap = named.gap
        before, is_late = None, node.heard <= self._cut
        for cause, how in node.causes.items():
            if how == ORDER:
                before = before or cause
            elif not cause.arrived and (how == RECEIPT or not named.whole):
                is_late = True
        if before is not None and before.above != node.above:
            is_late = True  # it has forgotten what it had received
        elif not named.whole and not (
            node.sequence == 0 if before is None else before.arrived and before.number == node.number - 1
        ):
            if named.own_gap > LONG_AGO:
                gap = max(gap, named.own_gap)
            else:
                is_late = True
        if node.lost and not named.whole:
            gap = max(gap, *(self._latest(node, alias) for alias in node.lost))
        return max(gap, node.time + self._scheme.reach) if is_late else gap

    def _latest(self, node: Node, alias: Alias) -> int:
        """The latest tick in which a missing message was sent: before each message that names it, and their causes."""
        namers = self._wanted.get(alias[:2], [])[-NAMERS:]
        latest = min((one.until for _, one in namers if one.until >= alias.since), default=alias.until)
        if node.named.newest_first:
            aliases = node.named.aliases
            newer = [one[:2] for one in aliases[: aliases.index(alias)]]
            came = (
                one.time
                for one, how in node.causes.items()
                if how == STAMP and (one.source, one.alias) in newer
            )
            latest = min(latest, *came, latest)
        return latest

    def _settle(self, node: Node) -> None:
        """Settle a message after its causes. Only stamps that name future messages make this way long."""
        if all(cause.settled for cause in node.causes):
            if not node.settled:
                self._close(node)
            return
        waiting = [node]
        entered = {node}
        while waiting:
            one = waiting[-1]
            cause = next((c for c in one.causes if not c.settled and c not in entered), None)
            if cause is not None and len(entered) < SETTLED_AT_ONCE:
                waiting.append(cause)
                entered.add(cause)
                continue
            waiting.pop()
            if cause is not None:
                one.doubt = max(one.doubt, one.time + self._scheme.reach)
            if not one.settled:
                self._close(one)

    def _close(self, node: Node) -> None:
        node.settled = True
        self._link_older(node)

    def _link_older(self, node: Node) -> None:
        """Link the messages that a mote sent before a named message that never arrived: they are causes as well."""
        for alias in node.lost:
            if alias.at > LONG_AGO:
                latest = reversed(self._chains[alias.source])
                older = next((one for one in latest if one.arrived and one.time < alias.at), None)
                if older is not None and older.number > node.vector[alias.source]:
                    before = list(node.vector)
                    self._link(node, older, STAMP)
                    grown = {mote: old for mote, old in enumerate(before) if node.vector[mote] > old}
                    self._grown += [(node, grown), *self._hand_on(node)]


class CausalGraph(SureGraph):
    """Adds the possible causes of each message once it is settled. The message is then in `settled` until the caller
    takes it out.

    Under any policy a message leaves when it arrives, or at most `wait` ticks after it was sent. So it cannot be a
    doubtful cause of a message that arrives later.
    """

    def __init__(self, scheme: StampScheme, motes: int, patience: int, wait: int, window: int) -> None:
        super().__init__(scheme, motes, patience, window)
        self._wait = wait
        self.settled: deque[Node] = deque()

    def _close(self, node: Node) -> None:
        super()._close(node)
        most = list(node.vector)
        gap = self.gap(node)
        for cause in node.causes:
            if cause.doubtful is not None:
                _raise(most, cause.doubtful)
        if gap > LONG_AGO:
            self._raise_to(most, gap, range(self._motes))
        if node.named.unsure and not node.complete_receipts:
            self._raise_to(most, node.named.gap, node.named.unsure)
        most[node.source] = node.number
        shown = list(most)
        for source, number in enumerate(most):
            known = node.vector[source]
            if number > known:
                gone = self._last_gone(source, known, number, node.heard)
                if gone < node.heard:
                    shown[source] = known
                if gone < node.heard - self._wait:  # not even late for an effect of it that came earlier
                    most[source] = known
        node.most = None if shown == node.vector else shown
        node.doubtful = None if most == node.vector else most
        if node.arrived:
            self.settled.append(node)

    def _last_gone(self, source: int, after: int, last: int, heard: int) -> int:
        """When the last of these messages may have left; those from long before that tick do not matter."""
        gone = LONG_AGO
        for node in reversed(self._chains[source]):
            if (
                node.number <= after
                or gone >= heard
                or (node.arrived and node.heard < heard - self._patience)
            ):
                break
            if node.number <= last and node.arrived:
                gone = max(gone, node.heard, node.time + self._wait)
        return gone

    def _raise_to(self, most: list[int], gap: int, sources: Iterable[int]) -> None:
        """Mark all messages of these motes up to that tick as possible causes."""
        for source in sources:
            for node in reversed(self._chains[source]):
                if node.number <= most[source]:
                    break
                if node.arrived and node.time <= gap:
                    most[source] = node.number
                    break


def _discard(table: dict[tuple[int, int], list[Any]], key: tuple[int, int], item: Any) -> None:
    """Remove an item of a table's list, and the list with its last one."""
    with suppress(KeyError, ValueError):
        table[key].remove(item)
        if not table[key]:
            del table[key]


def _number(node: Node) -> int:
    return node.number


def _place_after(chain: list[Node], number: int) -> int:
    return bisect_right(chain, number, key=_number)


def _raise(vector: list[int], cause: Sequence[int]) -> dict[int, int]:
    """Raise a vector by another; the entries that grew, with what they were."""
    grown = {}
    for source, number in enumerate(cause):
        if number > vector[source]:
            grown[source] = vector[source]
            vector[source] = number
    return grown


# ---- In words ----


class Words:
    """Proofs in words that a message led to another. `left` limits the messages searched for shortest paths,
    since stamps that name future messages could ask for many long paths at once."""

    def __init__(self) -> None:
        self.left = LOOKED_AT

    def why(self, cause: Node, message: Node) -> str:
        steps = self._way(cause, message)
        if steps is None:
            return f"{cause} led to {message} over others"
        return "; ".join(_step(before, after) for before, after in pairwise(steps))

    def _way(self, cause: Node, message: Node) -> list[Node] | None:
        """The shortest way from a cause to a message, over what was sent and named."""
        ways: dict[Node, Node | None] = {message: None}
        waiting = deque([message])
        while waiting and self.left > 0:
            self.left -= 1
            node = waiting.popleft()
            if node.source == cause.source and node.number >= cause.number:
                steps = [cause] * (node is not cause)
                step: Node | None = node
                while step is not None:
                    steps.append(step)
                    step = ways[step]
                return steps
            for before in node.causes:
                if before not in ways:
                    ways[before] = node
                    waiting.append(before)
        return None


def _step(before: Node, after: Node) -> str:
    if before.source == after.source:
        return f"mote {before.source} sent {before} before {after}"
    how = "knew of" if after.causes.get(before) == STAMP else "had received"
    return f"mote {after.source} {how} {before} when it sent {after}"
