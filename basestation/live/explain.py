"""Why a message was held as long as it was: its causes, and theirs, and what became of each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from basestation.causality.causal_graph import ORDER, RECEIPT, Node
from basestation.live.delivering import MS
from basestation.live.happenings import Arrived, Delivered, Discarded, GaveUp, Happening, Name, Violation
from basestation.live.overtakings import Out
from basestation.live.station import Station
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
    policy: str = ""  # by which it was delivered
    violations: tuple[Violation, ...] = ()  # that it is in


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
class Passages:
    """A sink that remembers what became of the newest messages, and explains why each was held."""

    station: Station
    kept: int = field(default=KEPT, kw_only=True)  # messages
    passages: dict[Name, Passage] = field(default_factory=dict, init=False)

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Arrived) and happening.name is not None:
            self.passages[happening.name] = Passage(happening)
            if len(self.passages) > self.kept:
                self._forget()
        elif isinstance(happening, Delivered) and (passage := self.passages.get(happening.name)):
            passage.delivered, passage.policy = happening, self.station.policy
        elif isinstance(happening, GaveUp) and (passage := self.passages.get(happening.message)):
            passage.gave_up = happening
        elif isinstance(happening, Discarded) and (passage := self.passages.get(happening.message)):
            passage.discarded = happening
        elif isinstance(happening, Violation):
            for name in (happening.message, happening.cause):
                if passage := self.passages.get(name):
                    passage.violations += (happening,)

    def close(self) -> None:
        pass

    def node(self, name: Name) -> Node | None:
        """A message in the causal graph; None when it is there no more. A stray never was, and has no causes."""
        found = self.station.violations.node(name)
        passage = self.passages.get(name) if found is None else None
        return found if passage is None else self._stray(name, passage)

    def _stray(self, name: Name, passage: Passage) -> Node | None:
        message = passage.arrived.message
        if not isinstance(message, Data) or not self.station.observer.is_stray(message):
            return None
        out = Out(name, name.sequence + 1, 0, counted=False, saturated=False)
        return Node(name.source, out.number, 1, [], arrived=True, note=out)

    def _forget(self) -> None:
        del self.passages[next(iter(self.passages))]

    # ---- What it has seen ----

    def explanation(self, node: Node) -> Explanation:
        """Why a message was held; it must have come."""
        passage = self._passage(node)
        assert passage is not None
        delivered = passage.delivered
        return Explanation(
            message=str(node),
            values=values_in(self.station.layout, _data_of(passage)),
            policy=passage.policy or self.station.policy,
            arrived_wall_ns=passage.arrived.wall_ns,
            held_ms=None if delivered is None else delivered.held_ms,
            late=delivered is not None and delivered.late,
            complete=self._is_complete(node) is True,
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
        complete = self._is_complete(node)
        if complete is None:
            yield f"More that led to {node} may still come."
        elif complete:
            yield f"Of the messages that arrived, all that led to {node} are known, but for what left before it."
        else:
            yield f"Not all that led to {node} is known: something was lost, or nothing names it."

    def _is_complete(self, node: Node) -> bool | None:
        return self.station.violations.is_complete(node.note)

    def _held(self, node: Node, passage: Passage) -> str:
        layout, name = self.station.layout, str(node)
        if layout.values:
            name += f" ({data_text(layout, _data_of(passage))})"
        if passage.discarded is not None:
            return f"{name} was discarded: {passage.discarded.text}."
        if passage.delivered is None:
            return f"{name} has not left."
        return f"{name} was held {passage.delivered.held_ms:.1f} ms."

    def _reasons(self, node: Node, passage: Passage) -> Iterator[str]:
        delivered = passage.delivered
        if delivered is not None and not delivered.in_sync:
            yield f"  Mote {node.source} or its gateway had lost the time: nobody can order it, and it left at once."
            return
        timed = self.station.observer.timed
        if timed and delivered is not None:
            yield (
                f"  It was sent at tick {node.time}. By {passage.policy} it waits until everything sent before it has "
                f"come; it left when tick {delivered.left} was over."
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


@dataclass
class Witness(Passages):
    """One that watches a run until it knows all about one message; `boot` None: in whichever boot it comes first.

    Then it calls `stop`.
    """

    source: int
    sequence: int
    boot: int | None = None
    stop: Callable[[], None] = lambda: None
    found: Node | None = None

    def take(self, happening: Happening) -> None:
        super().take(happening)
        if isinstance(happening, Arrived) and happening.name is not None and self._is_it(happening.name):
            self.found = self.node(happening.name)
        if self._is_done():
            self.stop()

    def explain(self) -> Explanation:
        """Why a message was held; it must have come."""
        assert self.found is not None
        return self.explanation(self.node(self.found.note.name) or self.found)

    def _forget(self) -> None:
        if self.found is None:  # its causes came before it, and few come after it until it is done
            super()._forget()

    def _is_done(self) -> bool:
        if self.found is None or self._is_complete(self.found) is None:
            return False
        passage = self.passages[self.found.note.name]
        return passage.delivered is not None or passage.discarded is not None

    def _is_it(self, name: Name) -> bool:
        same = (name.source, name.sequence) == (self.source, self.sequence)
        return self.found is None and same and self.boot in (None, name.boot)


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
