"""Causality violations on real hardware, counted as they happen and explained in words.

The causal graph has what surely led to each message. An order's `reach` is the newest message of each mote that led
to any that came out in it; a message within reach was overtaken by an effect of its own. A message may arrive after
one that names it: then what that shows of messages already out is counted as well. These violations are *at least*
all that there are.

A stamp need not name all causes: the barrier's leaves out what is older than WIN, a clock names nothing. But it says
when a message was sent, and until when unnamed causes of it may have been sent. A message that comes out after
another one that it may have led to is *possibly* overtaken: these are *at most* the rest. All others are checked fully.
Both counts use the real places in the order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from basestation.causality.causal_graph import LONG_AGO, ORDER, Growth, Node, SureGraph, Words
from basestation.causality.order import Message
from basestation.live.happenings import Name
from basestation.observer import Observer
from packet_formats.messages import Data

LOOKED_BACK = 256  # pairs of messages that one arrival makes be looked at: a few in an honest network
WINDOW_ENTRIES, LEAST_WINDOW, MOST_WINDOW = 200_000, 256, 4096  # vector entries; messages

When = tuple[int, ...]  # when a message was sent: a tick, or a tick and counters where stamps have them


OrderPlace = tuple[int, int]  # where in an order a message came out, and the observer's clock then, in cycles


NOWHERE: OrderPlace = (0, 0)


class Overtaking(NamedTuple):
    """`message` came out in `order` before its cause, which followed `cycles` of the observer's clock later."""

    order: str
    message: Name
    cause: Name
    cycles: int
    because: str


@dataclass(eq=False, slots=True)
class Out:
    """A message that came: where it came out of each order, and of which its effects had, or may have, before it.

    It counts only if it is in sync. `until`: when it came out, unnamed causes of it may have been sent before that.
    """

    name: Name
    number: int
    heard: int  # tick
    counted: bool
    saturated: bool
    node: Node | None = None  # in the graph, if there is one
    sent: int = 0  # tick
    when: When = ()
    until: When = ()
    came: OrderPlace = NOWHERE
    left: OrderPlace = NOWHERE
    overtaken: tuple[str, ...] = ()
    possible: tuple[str, ...] = ()

    def place(self, order: str) -> OrderPlace:
        """Where in an order it came out."""
        return self.came if order == "arrival" else self.left

    def until_of(self, source: int) -> When:
        """As `until`, for causes that this mote sent; its own order is known."""
        if source == self.name.source:
            return ()
        return max(self.until, self.doubtful().get(source, ()))

    def doubtful(self) -> dict[int, When]:
        """Motes of which more may have led to it than `until` says."""
        node, found = self.node, dict[int, When]()
        if node is not None and node.named.unsure and not node.complete_receipts:
            found = dict.fromkeys(node.named.unsure, (node.named.gap + 1,))
        for alias in () if node is None else node.lost:  # what that mote had sent before is a cause, too
            found[alias.source] = max(found.get(alias.source, ()), (alias.at,))
        return found


class Reach:
    """Of each mote the newest message that led to something that is out of an order, and to what."""

    def __init__(self, motes: int) -> None:
        self.numbers = [0] * motes
        self.witnesses: list[Out | None] = [None] * motes

    def extend(self, out: Out) -> None:
        source, own = out.name.source, out.number - 1
        if own > self.numbers[source]:
            self.numbers[source], self.witnesses[source] = own, out
        if out.node is None:
            return
        numbers = self.numbers
        for mote, number in enumerate(out.node.vector):
            if number > numbers[mote] and mote != source:
                numbers[mote], self.witnesses[mote] = number, out


class Doubts:
    """Up to when something unnamed was sent that may have led to what is out of an order."""

    def __init__(self) -> None:
        self._greatest: When = ()  # for what led to messages of any mote,
        self._whose = -1  # which is this one,
        self._others: When = ()  # and for what led to messages of all others
        self._about: dict[
            int, When
        ] = {}  # whose messages may be such causes, where only some motes are in doubt

    def extend(self, out: Out) -> None:
        until, node = out.until, out.node
        if until > self._others:
            self._raise(out.name.source, until)
        if node is not None and (node.lost or node.named.unsure):
            for mote, until in out.doubtful().items():
                self._about[mote] = max(self._about.get(mote, ()), until)

    def _raise(self, source: int, until: When) -> None:
        if source == self._whose:
            self._greatest = max(until, self._greatest)
        elif until > self._greatest:
            self._greatest, self._whose, self._others = until, source, self._greatest
        else:
            self._others = until

    def cover(self, out: Out) -> bool:
        """Whether a message may have led to one that is out; a mote's own order is known."""
        source, when = out.name.source, out.when
        if when < (self._others if source == self._whose else self._greatest):
            return True
        return bool(self._about) and when < self._about.get(source, ())


class OrderCount:
    """One order of messages, and what was overtaken in it: surely, and possibly."""

    def __init__(self, name: str, motes: int) -> None:
        self.name = name
        self.messages = self.overtaken = self.possible = 0
        self.reach, self.doubts = Reach(motes), Doubts()

    def next_place(self, cycles: int) -> OrderPlace:
        """The place of one more message."""
        self.messages += 1
        return self.messages, cycles


class Overtakings:
    """Counts what came out after its effects, over a window of recent messages: memory stays bounded."""

    def __init__(self, observer: Observer, motes: int) -> None:
        self._scheme, self._patience = observer.scheme, observer.patience
        self._window = max(LEAST_WINDOW, min(MOST_WINDOW, WINDOW_ENTRIES // motes))
        # Where neither stamps nor receipts name anything, a mote's own order is all that is sure.
        self.graph: SureGraph | None = observer.sure_graph(self._window)
        self._recent: deque[Out] = deque()
        self._newest_heard = LONG_AGO
        self.arrival, self.delivery = OrderCount("arrival", motes), OrderCount("delivery", motes)
        self._unordered = 0  # delivered ones whose time of sending is unknown

    def arrived(
        self, message: Message, name: Name, data: Data, heard: int, cycles: int
    ) -> tuple[Out, list[Overtaking]]:
        """A message has come for the first time, heard at this tick."""
        out = Out(name, message.number, heard, message.in_sync, data.saturated)
        self._keep(out)
        found: list[Overtaking] = []
        if self.graph is not None:
            out.node, grown = self.graph.add(message, heard, data.receipts, data.complete)
            out.node.note, out.sent = out, out.node.time
            self.graph.settle_all_but(self._window)
            if grown:
                found = list(self._look_back(grown))
        elif out.counted:
            out.sent = self._scheme.sent(message, heard)
        out.when = self._scheme.place(message.stamp) or (out.sent,)
        out.came = self.arrival.next_place(cycles)
        return out, found + self._came_out(self.arrival, out)

    def _keep(self, out: Out) -> None:
        self._recent.append(out)
        if out.heard > self._newest_heard:
            self._newest_heard = out.heard
        if len(self._recent) > self._window:
            old = self._recent.popleft()
            if old.left > NOWHERE:
                old.node = None  # which knows it: neither keeps the other

    def delivered(self, out: Out, cycles: int) -> list[Overtaking]:
        self._unordered += not out.counted
        out.left = self.delivery.next_place(cycles)
        return self._came_out(self.delivery, out)

    def finish(self) -> None:
        """Nothing more comes."""
        self._newest_heard += self._patience + 1
        if self.graph is not None:
            self.graph.finish()

    @property
    def known(self) -> float | None:
        """The share of delivered messages that were checked fully: it is known whether an effect left before them."""
        messages = self.delivery.messages
        return 1 - (self._unordered + self.delivery.possible) / messages if messages else None

    # ---- One message, to explain it ----

    def node(self, name: Name) -> Node | None:
        """A message with its causes; None when it is there no more."""
        if self.graph is not None:
            own = self.graph.latest(name.source)
            return next((node for node in own if node.note is not None and node.note.name == name), None)
        before: Node | None = None
        for out in sorted((one for one in self._recent if one.name.source == name.source), key=_number):
            above = out.number - out.name.sequence
            node = Node(name.source, out.number, above, [], arrived=True, time=out.sent, note=out)
            node.causes = {} if before is None else {before: ORDER}
            if out.name == name:
                return node
            before = node
        return None

    def is_complete(self, out: Out) -> bool | None:
        """Whether all that led to a message is known, but for what left before it; None: more may still come."""
        if out.counted and self._newest_heard - out.heard <= self._patience:
            return None
        return out.counted and not any(self._may_have_led(one, out) for one in self._recent)

    def _may_have_led(self, cause: Out, effect: Out) -> bool:
        """Whether a message that left after another one may have led to it, and nothing names it."""
        if NOWHERE < cause.left < effect.left or effect.left == NOWHERE or not cause.counted:
            return False
        if effect.node is not None and cause.number <= effect.node.vector[cause.name.source]:
            return False
        return cause.when < effect.until_of(cause.name.source)

    # ---- Counting ----

    def _look_back(self, grown: Sequence[Growth]) -> Iterator[Overtaking]:
        """New causes of messages that are out already may have come out after them."""
        words = Words()
        for effect, cause in islice(self._new_pairs(grown), LOOKED_BACK):
            early, late = effect.note, cause.note
            if early is not None and late is not None:
                for order in (self.arrival, self.delivery):
                    if NOWHERE < early.place(order.name) < late.place(order.name):
                        yield from self._overtakes(order, early, late, words)

    def _new_pairs(self, grown: Sequence[Growth]) -> Iterator[tuple[Node, Node]]:
        """Messages and causes of them that were not known before."""
        assert self.graph is not None
        for effect, entries in grown:
            if effect.note is not None and effect.note.counted:
                for order in (self.arrival, self.delivery):
                    if effect.note.place(order.name) > NOWHERE:
                        order.reach.extend(effect.note)
            for source, before in entries.items():
                for cause in self.graph.between(source, before, effect.vector[source]):
                    yield effect, cause

    def _came_out(self, order: OrderCount, out: Out) -> list[Overtaking]:
        if not out.counted:
            return []
        reach, source = order.reach, out.name.source
        found: list[Overtaking] = []
        if reach.numbers[source] >= out.number and (witness := reach.witnesses[source]) is not None:
            found = list(self._overtakes(order, witness, out, Words()))
        if order.doubts.cover(out) and order.name not in out.overtaken:
            out.possible += (order.name,)
            order.possible += 1
        if out.node is not None or not out.until:
            out.until = self._until(out)
        reach.extend(out)
        order.doubts.extend(out)
        return found

    def _until(self, out: Out) -> When:
        """Before when something unnamed was sent that may have led to a message, as far as is known now."""
        graph, node = self.graph, out.node
        gap = out.sent + self._scheme.reach if graph is None or node is None else graph.gap(node)
        if gap == LONG_AGO:
            return ()
        if len(out.when) == 1:
            return (gap + 1,)
        own = (*out.when, 0) if out.saturated else out.when  # a tie of full counters tells nothing
        return min((gap + 1,), own)

    def _overtakes(self, order: OrderCount, early: Out, late: Out, words: Words) -> Iterator[Overtaking]:
        """Each overtaken message counts once; those whose mote has lost the time don't."""
        name = order.name
        if early is late or not (early.counted and late.counted) or name in late.overtaken:
            return
        late.overtaken += (name,)
        order.overtaken += 1
        order.possible -= name in late.possible
        cycles = late.place(name)[1] - early.place(name)[1]
        yield Overtaking(name, early.name, late.name, max(0, cycles), _why(late, early, words))


def _number(out: Out) -> int:
    return out.number


def _why(cause: Out, message: Out, words: Words) -> str:
    if cause.name.source == message.name.source:
        return f"mote {cause.name.source} sent {cause.name} before {message.name}"
    if cause.node is None or message.node is None:
        return f"{cause.name} led to {message.name} over others"
    return words.why(cause.node, message.node)
