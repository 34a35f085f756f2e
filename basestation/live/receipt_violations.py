"""Causality violations on real hardware, counted as they happen and explained in words.

Receipts name messages that a sender had received. With each mote's own numbering they give a part of the true
happened-before relation: so many violations there are *at least*. Each message that is known carries a vector, the
newest message of each mote that surely led to it. An order's `reach` is the maximum over all that came out in it; a
message within reach was overtaken by an effect of its own. A message may arrive after one that names it: then its
vector is handed on to its effects, and what that shows of messages already out is counted as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from basestation.causality.boots import ROUND
from basestation.causality.modular import unwrap
from basestation.live.happenings import Name
from packet_formats.messages import Data

ORDERS = ("arrival", "delivery")
WINDOW_ENTRIES, LEAST_WINDOW, MOST_WINDOW = 200_000, 256, 4096  # vector entries; messages
NEIGHBOURS = 16  # as far as a mote's own numbers are searched for the next one that is known
# A receipt may name a message that has not reached us yet. No mote sends so many while another's message is under
# way; a number further ahead is an old one.
AHEAD = 16

Origin = tuple[int, int]  # a mote and its boot


class OrderPlace(NamedTuple):
    """Where in an order a message came out."""

    number: int
    cycles: int
    mono_ns: int


class Overtaking(NamedTuple):
    """`message` came out in `order` before its cause, which followed `cycles` of the observer's clock later."""

    order: str
    message: Name
    cause: Name
    cycles: int
    because: str


@dataclass(eq=False, slots=True)
class _KnownMessage:
    """A message that came, or one that others name."""

    name: Name
    known: bool = False
    counted: bool = False
    vector: dict[Origin, int] = field(default_factory=dict)
    causes: tuple[Name, ...] = ()
    effects: list[_KnownMessage] = field(default_factory=list)
    out: dict[str, OrderPlace] = field(default_factory=dict)
    overtaken: tuple[str, ...] = ()  # the orders in which it was


class ReceiptViolations:
    """What receipts tell, over a window of recent messages: memory stays bounded."""

    def __init__(self, motes: int) -> None:
        self._window = max(LEAST_WINDOW, min(MOST_WINDOW, WINDOW_ENTRIES // motes))
        self._nodes: dict[tuple[int, int, int], _KnownMessage] = {}
        self._recent: deque[Name] = deque()
        self._boot: dict[int, int] = {}
        self._newest: dict[Origin, int] = {}
        self._reach: dict[str, dict[Origin, tuple[int, _KnownMessage]]] = {order: {} for order in ORDERS}
        self.messages = dict.fromkeys(ORDERS, 0)
        self.overtaken = dict.fromkeys(ORDERS, 0)
        self.sends = 0
        self.complete = 0

    def arrived(self, name: Name, data: Data, in_sync: bool, cycles: int, mono_ns: int) -> list[Overtaking]:
        """A message has come, for the first time. `in_sync`: its mote and its gateway knew the time."""
        node = self._node(name)
        node.known, node.counted = True, in_sync
        before = self._neighbour(name, -1)
        self._count_send(name, data, before)
        if before is not None:
            node.causes = (before.name,)
        for source, sequence in data.receipts:
            named = self._read(source, sequence)
            if named is not None:
                node.causes += (named,)
        origin = name[:2]
        newest = self._newest.get(origin)
        self._learn(node, origin)
        if newest is None or name.sequence < newest:
            after = self._neighbour(name, 1)
            if after is not None:
                node.effects.append(after)
        found = list(self._hand_on(node)) if node.effects else []
        self._boot[name.source] = name.boot
        if newest is None or name.sequence > newest:
            self._newest[origin] = name.sequence
        return found + self._came_out("arrival", node, cycles, mono_ns)

    def delivered(self, name: Name, cycles: int, mono_ns: int) -> list[Overtaking]:
        node = self._nodes.get(name)
        return [] if node is None else self._came_out("delivery", node, cycles, mono_ns)

    def forget(self, source: int) -> None:
        """A mote has started anew: what its earlier boots were known to have sent leads nowhere."""
        for origin in [(source, boot) for boot in range(8)]:
            self._newest.pop(origin, None)
            for reach in self._reach.values():
                reach.pop(origin, None)

    def _count_send(self, name: Name, data: Data, before: _KnownMessage | None) -> None:
        """All causes are known if its receipts are complete and its mote's last message is known as well."""
        self.sends += 1
        follows = name.sequence == 0 if before is None else before.name.sequence == name.sequence - 1
        self.complete += data.complete and follows

    def _read(self, source: int, field_: int) -> Name | None:
        """Which message a receipt names; None if we never heard of its mote, or not of so early a one."""
        boot = self._boot.get(source)
        if boot is None or (source, boot) not in self._newest:
            return None
        sequence = unwrap(field_, self._newest[source, boot] + AHEAD, ROUND)
        return Name(source, boot, sequence) if sequence >= 0 else None

    def _node(self, name: Name) -> _KnownMessage:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _KnownMessage(name)
            self._recent.append(name)
            if len(self._recent) > self._window:
                # An order's witness may be kept for good, and must not keep all that came after it.
                self._nodes.pop(self._recent.popleft()).effects.clear()
        return node

    def _neighbour(self, name: Name, step: int) -> _KnownMessage | None:
        """The mote's next known message before or after this one."""
        nodes, (source, boot, sequence) = self._nodes, name
        for number in range(sequence + step, sequence + step * (NEIGHBOURS + 1), step):
            node = nodes.get((source, boot, number))
            if node is not None and node.known:
                return node
        return None

    def _learn(self, node: _KnownMessage, origin: Origin) -> None:
        """Fill the node's vector from its causes, and enter it among their effects."""
        sequence = node.name.sequence
        if sequence > 0:
            node.vector[origin] = sequence - 1
        for cause_name in node.causes:
            cause = self._node(cause_name)
            cause.effects.append(node)
            self._raise(node, cause)

    def _hand_on(self, node: _KnownMessage) -> Iterator[Overtaking]:
        """What is known of a message holds for its effects, and theirs."""
        waiting = [node]
        while waiting:
            cause = waiting.pop()
            for effect in cause.effects:
                grown = self._raise(effect, cause)
                if grown:
                    waiting.append(effect)
                    yield from self._look_back(effect, grown)

    @staticmethod
    def _raise(effect: _KnownMessage, cause: _KnownMessage) -> dict[Origin, int]:
        """Raise the effect's vector by its cause's; the entries that grew, with what they were."""
        vector, grown = effect.vector, {}
        for origin, sequence in (*cause.vector.items(), (cause.name[:2], cause.name.sequence)):
            before = vector.get(origin, -1)
            if sequence > before:
                vector[origin] = sequence
                grown[origin] = before
        return grown

    def _look_back(self, effect: _KnownMessage, grown: dict[Origin, int]) -> Iterator[Overtaking]:
        """New causes of a message that is out already may have come out after it."""
        for order, place in effect.out.items():
            for origin, before in grown.items():
                newest = effect.vector[origin]
                self._extend_reach(order, effect, origin, newest)
                for sequence in range(max(before, newest - NEIGHBOURS) + 1, newest + 1):
                    cause = self._nodes.get(Name(*origin, sequence))
                    if cause is not None and order in cause.out and cause.out[order] > place:
                        yield from self._overtakes(order, effect, cause)

    def _came_out(self, order: str, node: _KnownMessage, cycles: int, mono_ns: int) -> list[Overtaking]:
        self.messages[order] += 1
        node.out[order] = OrderPlace(self.messages[order], cycles, mono_ns)
        reached, witness = self._reach[order].get(node.name[:2], (-1, node))
        found = list(self._overtakes(order, witness, node)) if reached >= node.name.sequence else []
        if node.counted:
            reach = self._reach[order]
            for origin, sequence in node.vector.items():
                known = reach.get(origin)
                if sequence > (-1 if known is None else known[0]):
                    reach[origin] = (sequence, node)
        return found

    def _extend_reach(self, order: str, node: _KnownMessage, origin: Origin, sequence: int) -> None:
        if node.counted and sequence > self._reach[order].get(origin, (-1, node))[0]:
            self._reach[order][origin] = (sequence, node)

    def _overtakes(self, order: str, message: _KnownMessage, cause: _KnownMessage) -> Iterator[Overtaking]:
        """Each overtaken message counts once; those whose mote has lost the time don't."""
        if message is cause or not (message.counted and cause.counted) or order in cause.overtaken:
            return
        cause.overtaken += (order,)
        self.overtaken[order] += 1
        cycles = cause.out[order].cycles - message.out[order].cycles
        yield Overtaking(order, message.name, cause.name, max(0, cycles), self._why(message, cause))

    def _why(self, message: _KnownMessage, cause: _KnownMessage) -> str:
        steps = self._chain(message.name, cause.name)
        return "; ".join(_step(before, after) for before, after in pairwise(steps))

    def _chain(self, message: Name, cause: Name) -> list[Name]:
        """The shortest way from the cause to the message, over what was sent and received."""
        ways: dict[Name, Name | None] = {message: None}
        waiting = deque([message])
        while waiting:
            name = waiting.popleft()
            if name[:2] == cause[:2] and name.sequence >= cause.sequence:
                return [cause] * (name != cause) + list(_way(ways, name))
            node = self._nodes.get(name)
            for before in node.causes if node else ():
                if before not in ways:
                    ways[before] = name
                    waiting.append(before)
        return [cause, message]


def _way(ways: dict[Name, Name | None], name: Name) -> Iterator[Name]:
    step: Name | None = name
    while step is not None:
        yield step
        step = ways[step]


def _step(before: Name, after: Name) -> str:
    if before.source == after.source:
        return f"mote {before.source} sent {before} before {after}"
    return f"mote {after.source} had received {before} when it sent {after}"
