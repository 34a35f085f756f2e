"""Causality violations on real hardware, counted as they happen and explained in words.

The causal graph tells what surely led to each message. An order's `reach` is the newest message of each mote that led
to any that came out in it; a message within reach was overtaken by an effect of its own. A message may arrive after
one that names it: then what that shows of messages already out is counted as well. So many violations there are *at
least*. `complete` of the `settled` messages could be checked fully: all their causes are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from basestation.causality.causal_graph import CausalGraph, Growth, Node, Words
from basestation.causality.order import Message
from basestation.live.happenings import Name
from basestation.observer import Observer
from packet_formats.messages import Data

ORDERS = ("arrival", "delivery")
LOOKED_BACK = 256  # pairs of messages that one arrival makes be looked at: a few in an honest network
WINDOW_ENTRIES, LEAST_WINDOW, MOST_WINDOW = 200_000, 256, 4096  # vector entries; messages


class OrderPlace(NamedTuple):
    """Where in an order a message came out."""

    number: int
    cycles: int


class Overtaking(NamedTuple):
    """`message` came out in `order` before its cause, which followed `cycles` of the observer's clock later."""

    order: str
    message: Name
    cause: Name
    cycles: int
    because: str


@dataclass(slots=True)
class Out:
    """A message that came: where it came out of each order, and of which its effects had come out before it.

    It counts only if it is in sync.
    """

    name: Name
    counted: bool
    places: dict[str, OrderPlace]
    overtaken: tuple[str, ...] = ()


class Reach:
    """Of each mote the newest message that led to something that is out of an order, and to what."""

    def __init__(self, motes: int) -> None:
        self.numbers = [0] * motes
        self.witnesses: list[Node | None] = [None] * motes

    def extend(self, node: Node) -> None:
        numbers, source = self.numbers, node.source
        for mote, number in enumerate(node.vector):
            if number > numbers[mote] and (mote != source or number - 1 > numbers[mote]):
                numbers[mote] = number - (mote == source)
                self.witnesses[mote] = node


class Overtakings:
    """Counts what came out after its effects, over a window of recent messages: memory stays bounded."""

    def __init__(self, observer: Observer, motes: int) -> None:
        self._window = max(LEAST_WINDOW, min(MOST_WINDOW, WINDOW_ENTRIES // motes))
        self.graph: CausalGraph = observer.graph(self._window)
        self._reach = {order: Reach(motes) for order in ORDERS}
        self.messages = dict.fromkeys(ORDERS, 0)
        self.overtaken = dict.fromkeys(ORDERS, 0)
        self.settled = 0
        self.complete = 0

    def arrived(
        self, message: Message, name: Name, data: Data, heard: int, cycles: int
    ) -> tuple[Node, list[Overtaking]]:
        """A message has come for the first time, heard at this tick."""
        node, grown = self.graph.add(message, heard, data.receipts, data.complete)
        node.note = Out(name, message.in_sync, {})
        self.graph.settle_all_but(self._window)
        self._count_settled()
        words = Words()
        found = list(self._look_back(grown, words)) if grown else []
        return node, found + self._came_out("arrival", node, cycles, words)

    def delivered(self, node: Node, cycles: int) -> list[Overtaking]:
        return self._came_out("delivery", node, cycles, Words())

    def finish(self) -> None:
        """Nothing more comes."""
        self.graph.finish()
        self._count_settled()

    @property
    def known(self) -> float | None:
        """The share of messages whose causes are complete, of those for which that is settled."""
        return self.complete / self.settled if self.settled else None

    def _count_settled(self) -> None:
        settled = self.graph.settled
        while settled:
            self.settled += 1
            self.complete += settled.popleft().complete

    def _look_back(self, grown: Sequence[Growth], words: Words) -> Iterator[Overtaking]:
        """New causes of messages that are out already may have come out after them."""
        for effect, cause in islice(self._new_pairs(grown), LOOKED_BACK):
            early, late = effect.note, cause.note
            if early is not None and late is not None:
                for order, place in early.places.items():
                    if order in late.places and late.places[order] > place:
                        yield from self._overtakes(order, effect, cause, words)

    def _new_pairs(self, grown: Sequence[Growth]) -> Iterator[tuple[Node, Node]]:
        """Messages and causes of them that were not known before."""
        for effect, entries in grown:
            if effect.note is not None and effect.note.counted:
                for order in effect.note.places:
                    self._reach[order].extend(effect)
            for source, before in entries.items():
                for cause in self.graph.between(source, before, effect.vector[source]):
                    yield effect, cause

    def _came_out(self, order: str, node: Node, cycles: int, words: Words) -> list[Overtaking]:
        self.messages[order] += 1
        node.note.places[order] = OrderPlace(self.messages[order], cycles)
        reach, found = self._reach[order], []
        witness = reach.witnesses[node.source]
        if witness is not None and reach.numbers[node.source] >= node.number:
            found = list(self._overtakes(order, witness, node, words))
        if node.note.counted:
            reach.extend(node)
        return found

    def _overtakes(self, order: str, message: Node, cause: Node, words: Words) -> Iterator[Overtaking]:
        """Each overtaken message counts once; those whose mote has lost the time don't."""
        early, late = message.note, cause.note
        if message is cause or not (early.counted and late.counted) or order in late.overtaken:
            return
        late.overtaken += (order,)
        self.overtaken[order] += 1
        cycles = late.places[order].cycles - early.places[order].cycles
        yield Overtaking(order, early.name, late.name, max(0, cycles), words.why(cause, message))
