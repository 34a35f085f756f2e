"""What the page shows, as plain values: a row for each message and each event, and once a second the picture.

The feed is a sink in the station's thread. There it only makes small objects and puts them into a queue, from which the
server's thread takes them (`rows.py`). Memory is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from basestation.causality.causal_graph import Node
from basestation.live.counters import GatewayView, HeldView, MoteView, Snapshot, is_relayed
from basestation.live.explain import Passages
from basestation.live.happenings import (
    Acknowledged,
    Alarm,
    Arrived,
    ClockChanged,
    Delivered,
    Discarded,
    GaveUp,
    Happening,
    Name,
    Strange,
    Tentative,
    Violation,
)
from basestation.live.station import Station
from basestation.views.lines import row_of
from basestation.views.mote_table import GRAVE, trouble
from packet_formats.ages import is_again, is_or_more
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.messages import Data
from packet_formats.records import RSSI_UNKNOWN, Beacon, Health
from packet_formats.values import values_in

Row = dict[str, Any]

KEPT = 5000  # messages that can be explained: more than are in the causal graph
WAITING = 100_000  # changes of rows that the server has not taken; with more, the oldest are lost
POINT_MS = 60_000  # between two points of the curves
POINTS = 360  # of each curve: six hours
MOST_POINTS = 200_000  # of all curves
STRANGE_MS = 1000  # between two rows for unreadable frames: with a wrong deployment all frames are
RECENT_NS = 2 * 10**9  # for which a frame's time serves the frames after it
# These have no row of their own: they are in the row of their message, or in the picture.
NO_EVENTS = (Arrived, Delivered, Tentative, GaveUp, Discarded, Acknowledged)


def ms(ns: int) -> float:
    return round(ns / 1e6, 3)


def hello_of(station: Station, run: str, began_ms: float, *, live: bool, control: bool) -> Row:
    """The run and its network, which a viewer needs before the first row."""
    deployment = station.deployment
    network, clock = deployment.network, deployment.clock
    tick_ms = 1000 * clock.tick_seconds
    known = {mote.id: mote for mote in deployment.motes}
    return {
        "run": run,
        "network": network.name,
        "live": live,
        "control": control,
        "scheme": deployment.stamp.scheme,
        "policies": list(deployment.scheme.policies),
        "tick_ms": tick_ms,
        "safe_wait_ms": (clock.delta + clock.epsilon) * tick_ms,
        "began_ms": began_ms,
        "motes": [
            asdict(known[mote]) if mote in known else {"id": mote, "name": "", "x": None, "y": None}
            for mote in range(network.motes)
        ],
        "gateways": [
            {"id": network.motes + number, "name": counts.name or f"gateway {number}"}
            for number, counts in sorted(station.timeline.gateways.items())
        ],
        "values": [{"name": value.name, "unit": value.unit} for value in deployment.data],
    }


@dataclass(slots=True)
class MoteSeen:
    """What the last frames of a mote showed."""

    heard_ms: float
    rssi: int | None = None
    in_sync: bool | None = None
    parent: int | None = None


@dataclass(slots=True)
class LinkSeen:
    """A link to a gateway: how strong, and how many frames came over it."""

    rssi: int | None = None
    heard: int = 0


class CurvePoint(NamedTuple):
    at_ms: float
    rssi: int | None
    battery_mv: int | None
    lost: int


class FeedView(NamedTuple):
    """The content of a picture, taken at one moment."""

    snapshot: Snapshot
    motes: dict[int, MoteSeen]
    links: dict[tuple[int, int], LinkSeen]
    curves: dict[int, list[CurvePoint]] | None  # None: as in the previous view
    points: int  # points that were added to each curve so far


class Feed:
    """A sink. `changes` has new rows, and changed fields of earlier rows."""

    def __init__(self, station: Station) -> None:
        self.station = station
        self._guarded = station.timeline.guard is not None  # then a beacon counts when its proof comes
        self.passages = Passages(station, kept=KEPT)
        self.changes: deque[Row] = deque(maxlen=WAITING)
        self.lost = 0  # changes that did not fit
        self._events = 0
        self._strange_ms = 0.0
        self._motes: dict[int, MoteSeen] = {}
        self._links: dict[tuple[int, int], LinkSeen] = {}
        self._curves: dict[int, deque[CurvePoint]] = {}
        self._minute = 0
        self._points = 0
        self._clock = _SendClock(station.deployment)
        self._most = max(2, min(POINTS, MOST_POINTS // station.deployment.network.motes))

    # ---- A sink ----

    def take(self, happening: Happening) -> None:
        self.passages.take(happening)
        if isinstance(happening, Arrived):
            self._arrived(happening)
        elif isinstance(happening, Delivered):
            self._delivered(happening)
        elif isinstance(happening, Tentative):
            self._change(happening.name, state="tentative", place=happening.place or None)
        elif isinstance(happening, GaveUp):
            self._change(happening.message, gave_up=happening.text)
        elif isinstance(happening, Discarded):
            self._change(happening.message, state="discarded", gave_up=happening.text)
        elif isinstance(happening, Violation):
            self._violated(happening)
        elif isinstance(happening, ClockChanged) and happening.what != "lag":
            self._clock.restart()
        if not isinstance(happening, NO_EVENTS) and not _put_right(happening):
            self._event(happening)

    def close(self) -> None:
        pass

    # ---- Messages ----

    def _arrived(self, arrived: Arrived) -> None:
        message = arrived.message
        if arrived.proves is not None:
            self._heard(arrived, arrived.proves)
        elif isinstance(message, Data | Health) or (isinstance(message, Beacon) and not self._guarded):
            self._heard(arrived, message)
        if arrived.name is None or not isinstance(message, Data):
            return
        node = self.passages.node(arrived.name)
        sent_ms = self._clock.sent_ms(arrived, node)
        age_ms = self.station.layout.age_ms(message.age)
        self._put(
            {
                "key": arrived.number,
                "kind": "message",
                "name": str(arrived.name),
                "mote": message.source,
                "boot": message.boot,
                "event_ms": None if age_ms is None else (sent_ms or ms(arrived.wall_ns)) - age_ms,
                "event_or_before": is_or_more(message.age),
                "again": is_again(message.age),
                "sent_ms": sent_ms,
                "came_ms": ms(arrived.wall_ns),
                "gateway": arrived.gateway,
                "rssi": _rssi(arrived),
                "relayed": self._relayed(arrived, message),
                "state": "held",
                "left_ms": None,
                "held_ms": None,
                "place": None,
                "moved": 0,
                "late": False,
                "in_sync": message.in_sync,
                "concurrent": False,
                "gave_up": None,
                "wrong": None,
                "causes": self._causes(node),
                "values": values_in(self.station.layout, message.data),
                "data": message.data.hex(),
            }
        )
        for effect in node.effects if node is not None else ():
            if effect.note is not None:  # the effect came before this cause
                self._change(effect.note.name, causes=self._causes(effect))

    def _delivered(self, delivered: Delivered) -> None:
        node = self.passages.node(delivered.name)
        self._change(
            delivered.name,
            state="final",
            left_ms=ms(delivered.wall_ns),
            held_ms=round(delivered.held_ms, 3),
            place=delivered.place,
            moved=delivered.moved,
            late=delivered.late,
            in_sync=delivered.in_sync,
            concurrent=delivered.concurrent,
            **({} if node is None or node.dropped else {"causes": self._causes(node)}),
        )

    def _causes(self, node: Node | None) -> list[Row]:
        causes = node.causes.items() if node is not None else ()
        return [{"key": self._key(cause), "name": str(cause), "how": how} for cause, how in causes]

    def _key(self, node: Node) -> int | None:
        passage = None if node.note is None else self.passages.passages.get(node.note.name)
        return None if passage is None else passage.arrived.number

    def _violated(self, violation: Violation) -> None:
        """Mark both messages. A violation of the delivery order outweighs one of the arrival order."""
        for name in (violation.message, violation.cause):
            passage = self.passages.passages.get(name)
            if passage is not None:
                worst = any(one.order == "delivery" for one in passage.violations)
                self._change(name, wrong="delivery" if worst else "arrival")

    def _change(self, name: Name, **changed: Any) -> None:
        passage = self.passages.passages.get(name)
        if passage is not None:
            self._put({"key": passage.arrived.number, **changed})

    def _put(self, row: Row) -> None:
        self.lost += len(self.changes) == WAITING
        self.changes.append(row)

    # ---- Events ----

    def _event(self, happening: Happening) -> None:
        row = row_of(happening)
        if row is None:
            return
        at_ms = ms(happening.wall_ns)
        if isinstance(happening, Strange):
            if 0 <= at_ms - self._strange_ms < STRANGE_MS:
                return
            self._strange_ms = at_ms
        self._events += 1
        self._put(
            {
                "key": f"e{self._events}",
                "kind": "event",
                "at_ms": at_ms,
                "what": row.kind.lower(),
                "subject": row.subject,
                "text": row.text,
                "raised": happening.raised if isinstance(happening, Alarm) else None,
            }
        )

    # ---- The network ----

    def _heard(self, arrived: Arrived, message: Data | Health | Beacon) -> None:
        motes = self.station.deployment.network.motes
        source = message.sender if isinstance(message, Beacon) else message.source
        if source >= motes:
            return
        at_ms, rssi, gateway = ms(arrived.wall_ns), _rssi(arrived), motes + arrived.gateway
        self._sample(at_ms)
        seen = self._motes.get(source)
        if seen is None:
            seen = self._motes[source] = MoteSeen(at_ms)
        seen.heard_ms, seen.in_sync = at_ms, message.in_sync
        seen.rssi = rssi if rssi is not None else seen.rssi
        relayed = not isinstance(message, Beacon) and self._relayed(arrived, message)
        relay = self._relay(arrived, source)
        if relayed is False:
            seen.parent = gateway
        elif relay is not None:
            health = self.station.motes[source].health if source in self.station.motes else None
            seen.parent = relay if health is not None and health.hops == 2 else None
        sender = source if relayed is False else relay
        if sender is not None:
            link = self._links.setdefault((sender, gateway), LinkSeen())
            link.heard += 1
            link.rssi = rssi if rssi is not None else link.rssi

    def _relay(self, arrived: Arrived, source: int) -> int | None:
        """The relay, if the frame names one, as with TinyOS 2."""
        sender = arrived.frame.source
        known = sender is not None and sender != source and sender < self.station.deployment.network.motes
        return sender if known else None

    def _relayed(self, arrived: Arrived, message: Data | Health) -> bool | None:
        counts = self.station.motes.get(message.source)
        health = message if isinstance(message, Health) else counts.health if counts else None
        return is_relayed(message, arrived.frame.source, health, self.station.deployment.network)

    def _sample(self, at_ms: float) -> None:
        """Add a point to each curve once a minute."""
        minute = int(at_ms // POINT_MS)
        if minute == self._minute:
            return
        first, self._minute = not self._minute, minute
        if first:
            return
        self._points += 1
        for mote, counts in self.station.motes.items():
            seen = self._motes.get(mote)
            curve = self._curves.setdefault(mote, deque(maxlen=self._most))
            curve.append(CurvePoint(at_ms, seen.rssi if seen else None, counts.battery_mv, counts.lost))

    def view(self, snapshot: Snapshot, points: int) -> FeedView:
        """The content of a picture. `points`: of the previous view."""
        curves = None
        if points != self._points:
            curves = {mote: list(curve) for mote, curve in self._curves.items()}
        motes = {mote: MoteSeen(s.heard_ms, s.rssi, s.in_sync, s.parent) for mote, s in self._motes.items()}
        links = {ends: LinkSeen(link.rssi, link.heard) for ends, link in self._links.items()}
        return FeedView(snapshot, motes, links, curves, self._points)


@dataclass
class _SendClock:
    """Converts the network's time in a stamp to the host's clock."""

    deployment: Deployment
    # The host's time, and the ns between the network's clock and the host's
    recent: deque[tuple[int, float]] = field(default_factory=deque, init=False)

    def restart(self) -> None:
        self.recent.clear()

    def sent_ms(self, arrived: Arrived, node: Node | None) -> float | None:
        """When a message was sent; None if its stamp has no clock, or the clock cannot be converted."""
        deployment, data = self.deployment, arrived.message
        assert isinstance(data, Data)
        if arrived.cycles is None or node is None or not data.in_sync or not deployment.scheme.has_clock:
            return None
        cycle_ns = 1e9 / CRYSTAL_HZ
        ahead = self._ahead(arrived.mono_ns - arrived.cycles * cycle_ns, arrived.mono_ns)
        sent_ns = (node.time << deployment.clock.tick_log2) * cycle_ns + ahead
        sent_ns = min(sent_ns, arrived.mono_ns)
        return round((sent_ns + (arrived.wall_ns - arrived.mono_ns)) / 1e6, 3)

    def _ahead(self, found: float, mono_ns: int) -> float:
        """The host's clock minus the network's, by the recent frame with the shortest delay on the line.

        Old frames do not count: emulated motes on a busy machine fall behind the host's clock by seconds.
        """
        while self.recent and not mono_ns - RECENT_NS < self.recent[0][0] <= mono_ns:
            self.recent.popleft()
        while self.recent and self.recent[-1][1] >= found:
            self.recent.pop()  # the new frame was quicker, and stays recent for longer
        self.recent.append((mono_ns, found))
        return self.recent[0][1]


def _put_right(happening: Happening) -> bool:
    """Whether it is a violation in the order of arrival: common, and corrected by the policy."""
    return isinstance(happening, Violation) and happening.order == "arrival"


def _rssi(arrived: Arrived) -> int | None:
    heard = arrived.heard
    return None if heard is None or heard.rssi == RSSI_UNKNOWN else heard.rssi


# ---- The picture ----


def picture_of(view: FeedView, viewers: int) -> Row:
    """The picture in the page's form."""
    shot = view.snapshot
    return {
        "at_ms": ms(shot.wall_ns),
        "policy": shot.policy,
        "phi": shot.phi,
        "tolerate": shot.tolerate,
        "tick": shot.tick,
        "rate": shot.rate,
        "received": shot.received,
        "delivered": shot.delivered,
        "held": shot.held,
        "strange": shot.strange,
        **({} if shot.refused is None else {"refused": shot.refused}),
        "hold": {"mean": shot.hold.mean, "p50": shot.hold.p50, "p95": shot.hold.p95, "max": shot.hold.max},
        "arrival": asdict(shot.arrival),
        "delivery": asdict(shot.delivery),
        "known": shot.known,
        "ledger": None if shot.ledger is None else asdict(shot.ledger),
        "queue": [_queued(held) for held in shot.queue],
        "alarms": list(shot.alarms),
        "motes": [_mote(mote, view) for mote in shot.motes],
        "links": [
            {"from": sender, "to": gateway, "rssi": link.rssi, "heard": link.heard}
            for (sender, gateway), link in view.links.items()
        ],
        "gateways": [_gateway(gateway) for gateway in shot.gateways],
        "viewers": viewers,
    }


def _queued(held: HeldView) -> Row:
    due = None if held.due_ms is None else round(held.due_ms, 1)
    return asdict(held) | {"held_ms": round(held.held_ms, 1), "due_ms": due}


def _mote(mote: MoteView, view: FeedView) -> Row:
    seen, health = view.motes.get(mote.mote), mote.health
    row: Row = {
        "mote": mote.mote,
        "heard_ms": seen and seen.heard_ms,
        "rate": mote.rate,
        "received": mote.received,
        "lost": mote.lost,
        "duplicates": mote.duplicates,
        "late": mote.late,
        "held": mote.held,
        "reboots": mote.reboots,
        "boot": mote.boot,
        "in_sync": seen and seen.in_sync,
        "silent": mote.silent,
        "wrong_layout": mote.wrong_layout,
        "trouble": trouble(mote),
        "grave": any(kind in GRAVE for kind in mote.alarms),
        "hops": health and health.distance,
        "battery_mv": health and health.battery_mv,
        "battery_days": mote.battery_days,
        "duty": mote.duty,
        "duty_days": mote.duty_days,
        "rssi": seen and seen.rssi,
        "parent": seen and seen.parent,
    }
    if view.curves is not None:
        row["history"] = _columns(view.curves.get(mote.mote, ()))
    return row


def _columns(points: Iterable[CurvePoint]) -> dict[str, list[Any]]:
    rows = list(points)
    return {name: [getattr(row, name) for row in rows] for name in CurvePoint._fields}


def _gateway(gateway: GatewayView) -> Row:
    return {
        "gateway": gateway.gateway,
        "name": gateway.name,
        "live": gateway.live,
        "silent": gateway.silent,
        "foreign": gateway.foreign,
        "rate": gateway.rate,
        "errors": gateway.line_errors,
    }
