"""Why a message was held as long as it was: its causes, and theirs, and what became of each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from basestation.causality.causal_graph import ORDER, RECEIPT, Node
from basestation.live.happenings import Arrived, Delivered, Discarded, GaveUp, Happening, Name
from basestation.live.station import MS, Station
from packet_formats.messages import Data
from packet_formats.values import data_text, values_in

DEPTH = 12  # steps back along the chain of what kept a message
KEPT = 1 << 14  # messages whose times are remembered
AT_ONCE_MS = 1.0


@dataclass(slots=True)
class Passage:
    """What became of a message that came."""

    arrived: Arrived
    delivered: Delivered | None = None
    gave_up: GaveUp | None = None
    discarded: Discarded | None = None


@dataclass(frozen=True, slots=True)
class CauseSeen:
    """A direct cause of a message. Times are in ms from that message's arrival; None: it never came, or never left.

    `how`: `order` (the mote's own message before), `stamp` or `receipt`. `kept`: the message came while this one had
    not left yet.
    """

    message: str
    how: str
    arrived_ms: float | None
    left_ms: float | None
    kept: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """One message: how long it was held, what its direct causes are, and a proof in words."""

    message: str
    values: dict[str, float | None]  # of its data, where the deployment names them
    policy: str
    arrived_wall_ns: int
    held_ms: float | None
    late: bool
    complete: bool
    causes: tuple[CauseSeen, ...]
    lost: tuple[str, ...]  # what it names and never came
    text: tuple[str, ...]


@dataclass
class Witness:
    """A sink that watches a run until it knows all about one message; `boot` None: in whichever boot it comes first.

    Then it calls `stop`.
    """

    station: Station
    source: int
    sequence: int
    boot: int | None = None
    stop: Callable[[], None] = lambda: None
    node: Node | None = None
    policy: str = ""
    passages: dict[Name, Passage] = field(default_factory=dict)

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Arrived) and happening.name is not None:
            self._arrived(happening, happening.name)
        elif isinstance(happening, Delivered) and happening.name in self.passages:
            self.passages[happening.name].delivered = happening
            if self.node is not None and happening.name == self.node.note.name:
                self.policy = self.station.policy
        elif isinstance(happening, GaveUp) and happening.message in self.passages:
            self.passages[happening.message].gave_up = happening
        elif isinstance(happening, Discarded) and happening.message in self.passages:
            self.passages[happening.message].discarded = happening
        if self._is_done():
            self.stop()

    def close(self) -> None:
        pass

    def _is_done(self) -> bool:
        if self.node is None or not self.node.settled:
            return False
        passage = self.passages[self.node.note.name]
        return passage.delivered is not None or passage.discarded is not None

    def _arrived(self, arrived: Arrived, name: Name) -> None:
        self.passages[name] = Passage(arrived)
        if len(self.passages) > KEPT and self.node is None:
            del self.passages[next(iter(self.passages))]
        if self.node is None and self._is_it(name):
            own = self.station.violations.graph.between(name.source, 0, 1 << 62)
            self.node = next(node for node in own if node.note is not None and node.note.name == name)

    def _is_it(self, name: Name) -> bool:
        same = (name.source, name.sequence) == (self.source, self.sequence)
        return same and self.boot in (None, name.boot)

    # ---- What it has seen ----

    def explain(self) -> Explanation:
        """Tell why; the message must have come."""
        assert self.node is not None
        node, passage = self.node, self._passage(self.node)
        assert passage is not None
        delivered = passage.delivered
        return Explanation(
            message=str(node),
            values=values_in(self.station.layout, _data_of(passage)),
            policy=self.policy or self.station.policy,
            arrived_wall_ns=passage.arrived.wall_ns,
            held_ms=None if delivered is None else delivered.held_ms,
            late=delivered is not None and delivered.late,
            complete=node.complete,
            causes=tuple(self._seen(cause, how, passage) for cause, how in node.causes.items()),
            lost=tuple(_lost(node)),
            text=tuple(self._proof(node)),
        )

    def _passage(self, node: Node) -> Passage | None:
        return None if node.note is None else self.passages.get(node.note.name)

    def _seen(self, cause: Node, how: str, effect: Passage) -> CauseSeen:
        passage, since = self._passage(cause), effect.arrived.mono_ns
        if passage is None:
            return CauseSeen(str(cause), how, None, None, kept=False)
        left = passage.delivered
        return CauseSeen(
            message=str(cause),
            how=how,
            arrived_ms=(passage.arrived.mono_ns - since) / MS,
            left_ms=None if left is None else (left.mono_ns - since) / MS,
            kept=left is not None and left.mono_ns > since,
        )

    def _proof(self, node: Node) -> Iterator[str]:
        seen: set[Node] = set()
        step: Node | None = node
        while step is not None and step not in seen and len(seen) < DEPTH:
            seen.add(step)
            passage = self._passage(step)
            if passage is None:
                break
            yield self._held(step, passage)
            yield from self._reasons(step, passage)
            step = self._keeper(step, passage)
        known = (
            f"Of the messages that arrived, all that led to {node} are known, but for what had left before it came."
            if node.complete
            else f"Not all that led to {node} is known: something was lost, or nothing names it."
        )
        yield known

    def _held(self, node: Node, passage: Passage) -> str:
        layout, name = self.station.layout, str(node)
        if layout.values:
            name += f" ({data_text(layout, _data_of(passage))})"
        if passage.discarded is not None:
            return f"{name} was discarded: {passage.discarded.text}."
        if passage.delivered is None:
            return f"{name} was still held when the log ended."
        return f"{name} was held {passage.delivered.held_ms:.1f} ms."

    def _reasons(self, node: Node, passage: Passage) -> Iterator[str]:
        delivered = passage.delivered
        if delivered is not None and not delivered.in_sync:
            yield f"  Mote {node.source} or its gateway had lost the time: nobody can order it, and it left at once."
            return
        timed = self.station.observer.timed
        if timed and delivered is not None:
            yield (
                f"  It was sent at tick {node.time}. By {self.policy or self.station.policy} it waits until everything "
                f"sent before it has come; it left when tick {delivered.left} was over."
            )
        for cause, how in node.causes.items():
            yield f"  {_names(node, cause, how)}, {_when(self._seen(cause, how, passage))}."
        for first, last in _holes(node):
            yield f"  Mote {node.source} sent {_span(node.source, first, last)} after that, which never arrived."
        for name in _lost(node):
            yield f"  It names {name}, which never arrived."
        if passage.gave_up is not None:
            yield f"  It {passage.gave_up.text}: that had not come in time."
        elif not timed and delivered is not None and delivered.held_ms < AT_ONCE_MS:
            yield "  So it left at once."
        elif not timed and delivered is not None and self._keeper(node, passage) is None:
            yield (
                "  Its stamp says that it has causes which it does not name. Those could come "
                f"until tick {delivered.left - 1}, and it waited for them."
            )

    def _keeper(self, node: Node, passage: Passage) -> Node | None:
        """Of its causes the one that kept it longest, if any did."""
        if self.station.observer.timed:
            return None
        kept = [
            (found.delivered.mono_ns, cause)
            for cause in node.causes
            if (found := self._passage(cause)) is not None
            and found.delivered is not None
            and found.delivered.mono_ns > passage.arrived.mono_ns
        ]
        return max(kept, key=lambda one: one[0])[1] if kept else None


def _data_of(passage: Passage) -> bytes:
    assert isinstance(passage.arrived.message, Data)  # it has a name
    return passage.arrived.message.data


def _names(node: Node, cause: Node, how: str) -> str:
    if how == ORDER:
        return f"Mote {node.source} sent {cause} before it"
    if how == RECEIPT:
        return f"Its receipts name {cause}"
    return f"It names {cause}"


def _holes(node: Node) -> Iterator[tuple[int, int]]:
    """The sequence numbers of its mote's messages between its predecessor and itself."""
    for cause, how in node.causes.items():
        if how == ORDER and cause.above == node.above and cause.number < node.number - 1:
            yield cause.sequence + 1, node.sequence - 1


def _span(source: int, first: int, last: int) -> str:
    return f"{source}#{first}" if first == last else f"{source}#{first}..{last}"


def _lost(node: Node) -> Iterator[str]:
    yield from (str(cause) for cause, how in node.causes.items() if not cause.arrived and how != ORDER)
    for alias in node.lost:
        when = (
            f"sent at tick {alias.at}" if alias.at == alias.alias else f"with a number {alias.alias} mod 16"
        )
        yield f"a message of mote {alias.source} {when}"


def _when(seen: CauseSeen) -> str:
    if seen.arrived_ms is None:
        return "which never arrived"
    came = f"{abs(seen.arrived_ms):.1f} ms {'later' if seen.arrived_ms > 0 else 'before'}"
    if seen.left_ms is None:
        return f"which arrived {came} and never left"
    if seen.kept:
        return f"which arrived {came} and left {seen.left_ms:.1f} ms after this one came"
    return f"which arrived {came} and had left"
