"""Checks of a line: whether our gateway is there, how quick the line is, and whether messages fit the deployment.

The station counts as in `listen`. This sink keeps what only the checks need.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from basestation.doctor.findings import Finding, failure, good, warning
from basestation.live.clock import line_allowance_ns
from basestation.live.counters import GatewayView, MoteView, Snapshot
from basestation.live.evidence import EMPTY_MV
from basestation.live.happenings import Acknowledged, Arrived, ClockChanged, Happening, Strange
from basestation.live.timeline import PacketReader
from basestation.planning.budget import GUESS_MS
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.framing import FrameCounters
from packet_formats.layout import layout_of
from packet_formats.messages import Data
from packet_formats.phrases import many
from packet_formats.records import Heard, Status
from packet_formats.tinyos import ActiveMessage

LINE = "line"  # unless there are several
MOST = 100_000  # delays that are kept
MS = 1_000_000
OWN_TYPES = 0x80  # data messages of any deployment have types from here on
STATUS_SECONDS = 10.0
BAD_SHARE = 0.01  # of frames with a bad check sum
LOST_SHARE = 0.1  # of messages
LEAST_FOR_PACE = 10  # frames, and seconds between the first and the last
OTHER_PACE = 0.002  # crystals differ by less
LEAST_BATTERY_MV = EMPTY_MV
WALL_STEP_MS = 100


@dataclass
class LineSeen:
    """The packets of one line."""

    ids: set[int] = field(default_factory=set)  # reported by its gateways
    out_of_sync: int = 0  # heard records of a gateway that has no time
    records: int = 0
    # Of each frame: the host's time in ns, and by how many ns it came later than it was heard.
    delays: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=MOST))
    asked_ns: int | None = None
    answered_ns: int | None = None


class Examination:
    """A sink that collects what the checks need. `ask` notes a request, so that its acknowledgement can be timed."""

    def __init__(self, deployment: Deployment, lines: int, askable: bool = True) -> None:
        """`askable`: asking motes for a report would help; not after it was done, or where no mote hears it."""
        self.deployment, self.askable = deployment, askable
        self.layout = layout_of(deployment)
        self._reader = PacketReader(self.layout)
        self.lines = [LineSeen() for _ in range(lines)]
        self.strange: Counter[tuple[int, int, int]] = Counter()  # TinyOS version, group, AM type
        self.unreadable = 0
        self.unknown: set[int] = set()
        self.wall: tuple[int, int] | None = None  # wall clock less monotonic clock: first, farthest from it

    def ask(self, line: int, mono_ns: int) -> None:
        self.lines[line].asked_ns = mono_ns

    def take(self, happening: Happening) -> None:
        self._watch_clock(happening)
        if isinstance(happening, Arrived):
            self._take_arrived(happening)
        elif isinstance(happening, Strange):
            self._take_strange(happening)
        elif isinstance(happening, ClockChanged) and happening.what != "lag":
            for line in self.lines:
                line.delays.clear()
        elif isinstance(happening, Acknowledged):
            self._seen(happening.gateway).answered_ns = happening.mono_ns

    def close(self) -> None:
        pass

    def _watch_clock(self, happening: Happening) -> None:
        ahead = happening.wall_ns - happening.mono_ns
        first, farthest = self.wall or (ahead, ahead)
        self.wall = first, max(ahead, farthest, key=lambda value: abs(value - first))

    def _seen(self, gateway: int) -> LineSeen:
        """The packets of a gateway. A replayed log may hold several gateways."""
        while len(self.lines) <= gateway:
            self.lines.append(LineSeen())
        return self.lines[gateway]

    def _take_arrived(self, arrived: Arrived) -> None:
        line, message = self._seen(arrived.gateway), arrived.message
        if isinstance(message, Heard):
            line.ids.add(message.gateway)
            line.records += 1
            line.out_of_sync += not message.in_sync
        elif isinstance(message, Status):
            line.ids.add(message.gateway)
        elif arrived.heard is not None and arrived.cycles is not None:
            behind = arrived.mono_ns - arrived.cycles * 10**9 // CRYSTAL_HZ
            line.delays.append((arrived.mono_ns, behind))

    def _take_strange(self, strange: Strange) -> None:
        frame, message, _ = self._reader.read(strange.packet)
        if frame is None:
            self.unreadable += 1
        elif isinstance(message, Data):
            if message.source >= self.deployment.network.motes:  # otherwise the guard refused it
                self.unknown.add(message.source)
        elif isinstance(frame, ActiveMessage):
            self.strange[frame.tinyos, frame.group, frame.type] += 1

    # ---- Verdicts ----

    def findings(
        self, snapshot: Snapshot, counters: Sequence[FrameCounters], seconds: float
    ) -> Iterator[Finding]:
        for view in snapshot.gateways:
            seen, counted = self._seen(view.gateway), counters[min(view.gateway, len(counters) - 1)]
            area = view.name if len(self.lines) > 1 else LINE
            for finding in self._line(view, seen, counted, seconds):
                yield replace(finding, area=area)
        if any(view.frames for view in snapshot.gateways):
            refused = _refused(snapshot)
            yield from self._strangers(snapshot, refused)
            yield from self._motes(snapshot.motes, refused)
            yield from self._orders(snapshot)
        yield from self._host_clock()

    def _line(
        self, view: GatewayView, seen: LineSeen, counters: FrameCounters, seconds: float
    ) -> Iterator[Finding]:
        if not view.frames:
            yield _silence(view, counters, seconds)
            return
        yield self._gateway(view, seen)
        yield _check_sums(view, counters)
        yield from _status(view, seen, seconds)
        if view.foreign:
            yield self._guessed_time(view)
        yield from self._delay(view, seen)
        yield from _round_trip(view, seen)

    def _gateway(self, view: GatewayView, seen: LineSeen) -> Finding:
        names = _listed(seen.ids)
        if not seen.ids:
            cure = "program a gateway (docs/guide/flashing.md); without one, times are estimated and the order is worse"
            return warning(LINE, "gateway", "it does not run our gateway program", cure)
        if min(seen.ids) < self.deployment.network.motes:
            cure = "gateways have ids from the number of motes up: is network.motes too large?"
            return failure(LINE, "gateway", f"gateway {names} has a mote's id", cure)
        if len(seen.ids) > 1:
            return warning(
                LINE, "gateway", f"several on one line: {names}", "restart the gateway and check again"
            )
        if seen.records and seen.out_of_sync == seen.records:
            cure = f"is the root, node {self.deployment.clock.root}, switched on and in range?"
            return failure(
                LINE, "gateway", f"gateway {names} is out of sync: no message can be ordered", cure
            )
        return good(LINE, "gateway", f"gateway {names}, {many(view.frames, 'frame')}")

    def _guessed_time(self, view: GatewayView) -> Finding:
        """Whether order holds where times of reception are guessed by beacons."""
        ms = self.deployment.late_guess * self.deployment.clock.tick_seconds * 500
        if view.promised:
            text = f"times of reception are guessed; order is kept if no beacon is more than {ms:.0f} ms late"
            return good(LINE, "guessed time", text)
        text = "times of reception are guessed, and no order is promised"
        cure = "program a gateway (docs/guide/flashing.md)"
        if self.layout.stamp.clock_bits:
            text += f": a stamp is misread if its frame or a beacon comes {ms:.0f} ms late"
            cure += f", or make room: plan --foreign-gateway allows for {GUESS_MS / 2:.0f} ms"
        return warning(LINE, "guessed time", text, cure)

    def _delay(self, view: GatewayView, seen: LineSeen) -> Iterator[Finding]:
        """The check of the line's delay, relative to the quickest frame: clocks differ, so the absolute delay is
        unknown."""
        if not seen.delays:
            return
        behind = sorted(delay for _, delay in seen.delays)
        longest, usual = (behind[-1] - behind[0]) / MS, (behind[len(behind) // 2] - behind[0]) / MS
        allowed = line_allowance_ns() / MS
        delta = self.deployment.clock.delta * self.deployment.clock.tick_seconds * 1000
        text = (
            f"frames came at most {longest:.0f} ms later than the quickest, half of them at most {usual:.0f} ms; "
            f"{allowed:.0f} ms are allowed, delta is {delta:.0f} ms"
        )
        pace = _pace(seen.delays)
        if abs(pace) > OTHER_PACE:
            cure = "is it a recording, or an emulated network that is too slow?"
            yield warning(LINE, "line delay", f"the network's time runs {1 - pace:.3f} times as fast", cure)
        elif longest > allowed:
            cure = f"listen with --allowance {longest * 1.5:.0f}, or find out what delays the line"
            yield warning(LINE, "line delay", text, cure)
        else:
            yield good(LINE, "line delay", text)

    def _strangers(self, snapshot: Snapshot, refused: int) -> Iterator[Finding]:
        """The checks of frames that could not be read or were refused, one for each reason."""
        ours = any(mote.received for mote in snapshot.motes)
        judge = warning if ours else failure
        network = self.deployment.network
        versions, groups, types = set(), set(), set()
        for tinyos, group, am_type in self.strange:
            if tinyos != network.tinyos:
                versions.add(tinyos)
            elif group != network.group:
                groups.add(group)
            elif am_type >= OWN_TYPES:
                types.add(am_type)
        if versions:
            text = (
                f"frames have the format of TinyOS {_listed(versions)}, the deployment says {network.tinyos}"
            )
            yield judge("network", "TinyOS", text, "set network.tinyos, or build the firmware again")
        if groups:
            text = f"frames have group {_listed(groups, hex)}, the deployment says {network.group:#04x}"
            yield judge(
                "network", "group", text, "there is another network in range, or network.group is wrong"
            )
        if types:
            text = f"data frames have AM type {_listed(types, hex)}, the deployment's is {self.layout.am_type:#04x}"
            cure = "these motes were built for another deployment: build and program them again"
            yield failure("network", "layout", text, cure)
        if refused:
            text = f"{many(refused, 'message')} refused: the MIC is wrong, or cannot be checked"
            cure = "have motes and base station the same key? If only a few are refused, another sender lacks the key"
            yield judge("network", "MIC", text, cure)
        if not (versions or groups or types or self.unreadable or refused):
            yield good("network", "strangers", "every frame belongs to this deployment")
        elif self.unreadable:
            yield warning("network", "strangers", f"{many(self.unreadable, 'packet')} with an unknown format")

    def _motes(self, views: Sequence[MoteView], refused: int) -> Iterator[Finding]:
        network = self.deployment.network
        heard = {view.mote for view in views}
        missing = set(range(network.motes)) - heard
        text = f"{len(heard)} of {network.motes} heard"
        if not heard:
            cure = "are they switched on, in range, and on the gateway's channel?"
            if refused:
                cure = "messages came, but none with a right MIC: have the motes this deployment's key?"
            yield failure("network", "motes", text, cure)
            return
        if missing:
            cure = f"are they switched on and in range? Listen longer (--for){', or ask them (--ask)' * self.askable}"
            yield warning("network", "motes", f"{text}, not {_listed(missing)}", cure)
        else:
            yield good("network", "motes", text)
        if self.unknown:
            cure = f"the deployment has 0 to {network.motes - 1}: raise network.motes, or give them other ids"
            yield warning("network", "unknown motes", _listed(self.unknown), cure)
        yield from self._health(views)

    def _health(self, views: Sequence[MoteView]) -> Iterator[Finding]:
        healths = {view.mote: view.health for view in views if view.health is not None}
        wrong = {mote for mote, health in healths.items() if health.layout != self.layout.hash}
        low = {m for m, h in healths.items() if (h.battery_mv or LEAST_BATTERY_MV) < LEAST_BATTERY_MV}
        if wrong:
            cure = "build for this deployment and program them again (docs/guide/flashing.md)"
            yield failure("network", "layout", f"built for another deployment: {_listed(wrong)}", cure)
        if low:
            text = f"under {LEAST_BATTERY_MV / 1000:g} V: {_listed(low)}"
            yield warning("network", "batteries", text, "change them")
        if not healths:
            every = self.deployment.health_seconds
            often = "once a minute" if every == 60 else f"every {every // 60} minutes"
            cure = f"motes report {often}: --for {every * 7 // 6}{', or --ask' * self.askable}"
            yield warning("network", "health", "no report yet: layout and batteries are unknown", cure)
        elif not wrong and not low:
            text = f"{many(len(healths), 'report')}: layout and batteries are fine"
            yield good("network", "health", text)
        yield from self._duties(views)
        yield from self._roots(views)

    def _duties(self, views: Sequence[MoteView]) -> Iterator[Finding]:
        """The duty of radios, by the health records of motes with a schedule."""
        told = [view for view in views if view.duty is not None]
        if told:
            busiest = max(told, key=lambda view: view.duty or 0.0)
            text = (
                f"radios are on {100 * fmean(view.duty or 0.0 for view in told):.2g}% of the time, mote "
                f"{busiest.mote}'s {100 * (busiest.duty or 0.0):.2g}%: its cells, if full, last "
                f"{busiest.duty_days or 0.0:.0f} days, by a model (docs/reference/power.md)"
            )
            yield good("network", "duty", text)

    def _roots(self, views: Sequence[MoteView]) -> Iterator[Finding]:
        two = {view.mote for view in views if view.health is not None and view.health.flags & 2}
        if two:
            cure = "two nodes have the root's id: find one of them and give it another"
            yield failure("network", "root", f"{_listed(two)} heard a second root", cure)
        lost_time = {view.mote for view in views if view.received and view.out_of_sync == view.received}
        at_times = {view.mote for view in views if view.out_of_sync} - lost_time
        cure = f"is the root, node {self.deployment.clock.root}, on? A mote that has just started needs a few beacons"
        if lost_time:
            yield warning("network", "sync", f"out of sync: {_listed(lost_time)}", cure)
        elif at_times:
            yield warning("network", "sync", f"out of sync at times: {_listed(at_times)}", cure)
        elif any(view.received for view in views):
            yield good("network", "sync", "every mote heard is in sync")

    def _orders(self, snapshot: Snapshot) -> Iterator[Finding]:
        """The checks of faults that break the order, or the log."""
        full = {view.mote for view in snapshot.motes if view.saturated}
        received = sum(view.received for view in snapshot.motes)
        lost = sum(view.lost for view in snapshot.motes)
        late = sum(view.late for view in snapshot.motes)
        if full:
            cure = "motes send more often than planned: raise stamp.counter_bits, or lower their rate"
            yield warning("network", "stamps", f"full counters from {_listed(full)}", cure)
        if lost > LOST_SHARE * (received + lost):
            cure = "find a better place for the gateway, allow more hops, or add a second gateway"
            yield warning("network", "loss", f"{lost} of {received + lost} messages did not arrive", cure)
        elif received:
            yield good("network", "loss", f"{lost} of {received + lost} messages did not arrive")
        if late:
            cure = "delta is too small for this network: see `basestation plan`"
            yield warning("network", "late", f"{late} of {received} messages took longer than delta", cure)

    def _host_clock(self) -> Iterator[Finding]:
        if self.wall is None:
            return
        step = (self.wall[1] - self.wall[0]) / MS
        if abs(step) > WALL_STEP_MS:
            cure = "the order is not affected, but dates in the log jump: let NTP slew the clock"
            yield warning(
                "machine", "clock steps", f"the wall clock was set by {step:.0f} ms meanwhile", cure
            )


def _refused(snapshot: Snapshot) -> int:
    """The messages that the guard of a network with a key refused for their MIC.

    Some arrive before the network's time is known and cannot be checked; they count if no others arrive.
    """
    refused = snapshot.refused or {}
    unchecked = 0 if any(mote.received for mote in snapshot.motes) else refused.get("unchecked", 0)
    return refused.get("forged", 0) + unchecked


def _silence(view: GatewayView, counters: FrameCounters, seconds: float) -> Finding:
    if not counters.fed:
        cure = "is the gateway switched on, and is this its port? A MIB520 uses its second port"
        return failure(LINE, "gateway", f"no byte in {seconds:g} s", cure)
    cure = "try another speed (serial@PORT:57600); or the other end runs no TinyOS program"
    return failure(LINE, "gateway", f"{many(counters.fed, 'byte')} but no frame", cure)


def _check_sums(view: GatewayView, counters: FrameCounters) -> Finding:
    bad = sum(drop.count for name, drop in counters.drops().items() if name not in ("noise", "partial"))
    text = f"{bad} of {many(counters.frames + bad, 'frame')} damaged on the line"
    if bad > BAD_SHARE * (counters.frames + bad):
        cure = "use a shorter cable or another adapter; check that no other program reads the same port"
        return warning(LINE, "check sums", text, cure)
    lost = view.records_lost + view.orphans
    return good(LINE, "check sums", f"{text}, {many(lost, 'record')} missing")


# The meaning of a counter in a gateway's status, and its cure.
COMPLAINTS: dict[str, tuple[str, str]] = {
    "up_full": (
        "{} frames did not fit into its queue",
        "the line is too slow for this network: lower the rate, or add gateways",
    ),
    "radio_overrun": (
        "its radio lost {} frames",
        "there is more traffic than one radio can take: lower the rate",
    ),
    "line_crc": ("it lost {} of our packets", "use another cable or adapter"),
    "line_refused": ("it refused {} of our packets", "a client of `--serve` sends invalid messages"),
    "down_full": (
        "it could not send {} of our messages",
        "the channel is busy, or too much was sent at once",
    ),
}


def _status(view: GatewayView, seen: LineSeen, seconds: float) -> Iterator[Finding]:
    status = view.status
    if status is None:
        if seen.ids and seconds > STATUS_SECONDS:
            yield warning(LINE, "status", f"none in {seconds:g} s, though one is due every 10 s")
        return
    complaints = [(name, getattr(status, name)) for name in COMPLAINTS if getattr(status, name)]
    for name, count in complaints:
        text, cure = COMPLAINTS[name]
        yield warning(LINE, "status", text.format(count) + " since it started", cure)
    if not complaints:
        yield good(
            LINE,
            "status",
            f"{status.heard} frames heard, {status.forwarded} sent up, {status.radio_crc} with a bad CRC, "
            f"{status.down_sent} sent for us",
        )


def _round_trip(view: GatewayView, seen: LineSeen) -> Iterator[Finding]:
    if seen.asked_ns is None:
        return
    if seen.answered_ns is None:
        cure = "does the line work in both directions? `basestation send report` tries it again"
        yield warning(LINE, "downwards", "our packet was not acknowledged", cure)
    else:
        took = (seen.answered_ns - seen.asked_ns) / MS
        yield good(LINE, "downwards", f"acknowledged after {took:.0f} ms")


def _pace(delays: Sequence[tuple[int, int]]) -> float:
    """The growth of the delay, from the quickest early and late frames; 0 if there are too few."""
    half = len(delays) // 2
    times = [when for when, _ in delays]
    if half < LEAST_FOR_PACE or times[-1] - times[0] < 3 * 10**9:
        return 0.0
    early, late = list(delays)[:half], list(delays)[half:]
    first, last = (min(part, key=lambda item: item[1]) for part in (early, late))
    return (last[1] - first[1]) / max(last[0] - first[0], 10**9)


def _listed(items: Iterable[int], form: Callable[[int], str] = str) -> str:
    shown = sorted(items)
    return ", ".join(map(form, shown[:20])) + (f" and {len(shown) - 20} more" if len(shown) > 20 else "")
