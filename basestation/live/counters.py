"""A station's counters, of constant size, and the frozen pictures of them that views take."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from basestation.causality.boots import may_be_anew
from basestation.live.evidence import SECOND, Backlog, Drain, Lasting, Losses, Pauses, Times
from basestation.live.pairing import Pairing
from packet_formats.deployment import NetworkSettings
from packet_formats.framing import FrameCounters
from packet_formats.messages import Data
from packet_formats.power import days_at_duty
from packet_formats.records import Health, Status

MOST_HOPS = 3  # in a message's field: 3 means 3 or more
RATE_SECONDS = 10
RECENT_HOLDS = 256
LOW_MV, CHARGED_MV = 2800, 2900  # a MICA mote's processor needs 2.7 V


class Rate:
    """Events a second, over the last ten whole seconds."""

    def __init__(self) -> None:
        self._last, self._over_ns = [-1, 0], 0  # a second, and the events in it; when it is over
        self._seconds: deque[list[int]] = deque(maxlen=RATE_SECONDS + 1)

    def add(self, mono_ns: int) -> None:
        if mono_ns >= self._over_ns:
            second = mono_ns // SECOND
            self._over_ns, self._last = (second + 1) * SECOND, [second, 0]
            self._seconds.append(self._last)
        self._last[1] += 1

    def at(self, mono_ns: int) -> float:
        now = mono_ns // SECOND
        found = [(second, count) for second, count in self._seconds if now - RATE_SECONDS <= second < now]
        if not found:
            return 0.0
        return sum(count for _, count in found) / min(RATE_SECONDS, now - found[0][0])


@dataclass(frozen=True, slots=True)
class HoldView:
    """Milliseconds that messages were held: mean and maximum of all, percentiles of the last few hundred."""

    count: int = 0
    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    max: float = 0.0


class Holds:
    def __init__(self) -> None:
        self._count, self._sum, self._max = 0, 0.0, 0.0
        self._recent: deque[float] = deque(maxlen=RECENT_HOLDS)

    def add(self, ms: float) -> None:
        self._count += 1
        self._sum += ms
        if ms > self._max:
            self._max = ms
        self._recent.append(ms)

    def view(self) -> HoldView:
        if not self._count:
            return HoldView()
        recent = sorted(self._recent)
        p50, p95 = (recent[(len(recent) - 1) * percent // 100] for percent in (50, 95))
        return HoldView(self._count, self._sum / self._count, p50, p95, self._max)


@dataclass(slots=True)
class BootSpan:
    """One boot's sequence numbers: between the first and the newest, what has not come is lost so far."""

    first: int
    newest: int
    received: int = 0

    def add(self, sequence: int) -> None:
        if sequence > self.newest:
            self.newest = sequence
        elif sequence < self.first:
            self.first = sequence
        self.received += 1


@dataclass(slots=True)
class MoteCounts:
    """One mote, as it is counted."""

    received: int = 0
    duplicates: int = 0
    delivered: int = 0
    late: int = 0
    held: int = 0
    reboots: int = 0
    reboots_reported: int = 0  # of those, before its last health report
    out_of_sync: int = 0
    untimed: int = 0
    saturated: int = 0
    bounded: int = 0
    lost_before: int = 0  # in boots that are over
    span: BootSpan | None = None
    boot: int | None = None
    seen_ns: int = 0
    expected_ns: int = 0  # since then it could have been heard again
    health: Health | None = None
    wrong_layout: bool = False
    low_reports: int = 0  # of a low battery, since one of a full one
    rssi: int | None = None  # in dBm, of the newest frame that holds a message of its
    relayed: bool | None = None  # that frame came from a relay; None: perhaps
    rate: Rate = field(default_factory=Rate)
    holds: Holds = field(default_factory=Holds)
    pauses: Pauses = field(default_factory=Pauses)  # between its messages and reports, as they came
    losses: Losses = field(default_factory=Losses)
    sync: Lasting = field(default_factory=Lasting)
    restarts: Times = field(default_factory=Times)
    strays: int = 0  # of those received: messages whose MIC holds no time
    strayed: bool = False  # since its newest number: how many were lost meanwhile nobody knows
    imitated: Times = field(default_factory=Times)  # messages with the number of another one of its
    drain: Drain = field(default_factory=Drain)
    backlog: Backlog = field(default_factory=Backlog)

    @property
    def lost(self) -> int:
        span = self.span
        return (
            self.lost_before
            if span is None
            else self.lost_before + span.newest - span.first + 1 - span.received
        )

    @property
    def battery_mv(self) -> int | None:
        """From its last health report, if that has it."""
        return self.health.battery_mv if self.health else None

    def take(self, data: Data, sequence: int, mono_ns: int, stray: bool, differs: bool) -> None:
        """Count a message that is not a copy. When a stray was sent is unknown, so it says nothing of losses."""
        self.rate.add(mono_ns)
        self.received += 1
        self.out_of_sync += not data.in_sync
        self.saturated += data.saturated
        if stray:
            self.strays, self.strayed = self.strays + 1, True
            return
        if data.boot == self.boot and not differs:
            ahead = sequence - self.span.newest if self.span else 0
            if may_be_anew(data.boot, data.sequence, ahead):
                self.losses.deaf = True  # perhaps nothing was lost, and no alarm is due
            self._add(sequence)
        self.losses.update(self.received - self.strays, self.lost)

    def take_health(self, health: Health, layout: int, mono_ns: int) -> None:
        self.health, self.wrong_layout = health, health.layout != layout
        if health.battery_mv is not None:
            self.low_reports += health.battery_mv <= LOW_MV
            self.low_reports *= health.battery_mv < CHARGED_MV
            self.drain.add(health.battery_mv, mono_ns)

    def reboot(self, boot: int, mono_ns: int) -> None:
        """Its messages show that it has started."""
        self.boot = boot
        self.reboots += 1
        self.restarts.add(mono_ns)
        self._begin_span()

    def _begin_span(self) -> None:
        self.lost_before, self.span = self.lost, None

    def _add(self, sequence: int) -> None:
        """Count a number of the present boot."""
        span = self.span
        if self.strayed and span is not None and sequence > span.newest:
            if sequence > span.newest + 1:
                self._begin_span()
            self.strayed = False
        if self.span is None:
            self.span = BootSpan(sequence, sequence)
        self.span.add(sequence)


def is_relayed(
    message: Data | Health, sender: int | None, health: Health | None, network: NetworkSettings
) -> bool | None:
    """Whether a relay sent this frame, so that its signal is the relay's; None: perhaps.

    TinyOS 2 names the sender. Else the hops that are left show it: a mote gives its messages one less than the
    distance in its health, and a relay leaves fewer.
    """
    if network.hops == 1 or sender == message.source:
        return False
    if sender is not None and sender < network.motes:
        return True
    if health is None or not health.distance:
        return None
    given = min(MOST_HOPS, health.distance - 1)
    left = message.hops_left if isinstance(message, Health) else message.hops
    return None if left == given == MOST_HOPS else left < given


@dataclass(slots=True)
class GatewayCounts:
    """One line, as it is counted."""

    name: str = ""
    frames: int = 0
    strange: int = 0
    unpaired: int = 0  # radio frames that came without their heard record
    orphans: int = 0  # heard records whose frame did not come
    records_lost: int = 0  # on the line, by their numbers
    dropped: int = 0  # by the gateway itself, its queue being full
    gaps: int = 0
    lags: int = 0
    live: bool = True
    lost_because: str = ""
    foreign: bool = False
    guesses_hold: bool = False  # times of reception may be guessed: stamps are read right
    posed: Times = field(default_factory=Times)  # records of a gateway that came by air
    seen_ns: int = 0
    unread: int = 0  # bytes that came for a while without any frame
    pauses: Pauses = field(default_factory=Pauses)  # between its packets, the short ones left out
    status: Status | None = None
    line: FrameCounters | None = None
    rate: Rate = field(default_factory=Rate)
    pairing: Pairing = field(default_factory=Pairing)


@dataclass(frozen=True, slots=True)
class MoteView:
    mote: int
    received: int
    lost: int
    duplicates: int
    imitated: int  # messages that had the number of another: one of the two is another sender's
    delivered: int
    late: int
    held: int
    reboots: int
    out_of_sync: int
    untimed: int
    saturated: int
    bounded: int
    boot: int | None
    rate: float
    hold: HoldView
    silent_s: float
    silent: bool
    health: Health | None
    wrong_layout: bool
    rssi: int | None = None  # of who sent its newest frame to the gateway
    relayed: bool | None = None  # that was a relay; None: perhaps
    alarms: tuple[str, ...] = ()  # the kinds that are raised for it
    battery_days: float | None = None  # until its cells are down to 2.7 V; None: unknown
    duty: float | None = None  # the share of time with its radio on, from its health; None: unknown
    duty_days: float | None = None  # that two full cells last at this duty


@dataclass(frozen=True, slots=True)
class GatewayView:
    gateway: int
    name: str
    live: bool
    silent: bool
    foreign: bool
    promised: bool  # that what comes from it can be ordered
    frames: int
    strange: int
    unpaired: int
    orphans: int
    posed: int  # records of a gateway that came by radio
    records_lost: int
    dropped: int
    gaps: int
    lags: int
    rate: float
    silent_s: float
    line_errors: dict[str, int]  # packets dropped by the deframer, by reason
    status: Status | None
    alarms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldView:
    """A message in the queue: until when, and why."""

    name: str
    source: int
    held_ms: float
    due_ms: float | None  # from now; None while no time is known
    why: str
    tentative: bool = False  # it was shown already


@dataclass(frozen=True, slots=True)
class OrderView:
    """One order of messages: how many in it were surely overtaken by an effect of theirs, and how many more may be."""

    messages: int
    overtaken: int
    possible: int

    @property
    def most(self) -> int:
        """The most that may have been overtaken."""
        return self.overtaken + self.possible


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """What a rule that waits for messages by name has noticed of those that it was given."""

    concurrent: int = 0
    gave_up: int = 0
    discarded: int = 0


@dataclass(frozen=True, slots=True)
class LedgerView:
    """The ledger's wait in use, how many messages it saw in a violation, and how many its promise allows so far."""

    wait_ms: float
    most_ms: float
    spent: int
    allowed: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    mono_ns: int
    wall_ns: int
    policy: str
    phi: int
    earlier: tuple[tuple[str, int, float | None], ...]  # policy, phi and tolerance before each change
    tick: int | None
    epoch: int | None
    receipts: bool
    known: (
        float | None
    )  # share of the delivered messages of which it is known whether an effect left before them
    arrival: OrderView
    delivery: OrderView
    received: int
    delivered: int
    held: int
    forced: int  # let go early because too many were held
    strange: int
    rate: float
    hold: HoldView
    motes: tuple[MoteView, ...]
    gateways: tuple[GatewayView, ...]
    queue: tuple[HeldView, ...]
    alarms: tuple[str, ...]
    policies: tuple[str, ...] = ()  # that the deployment's stamp allows
    noticed: RuleCounts = RuleCounts()
    tolerate: float | None = None  # per cent, under the ledger alone
    ledger: LedgerView | None = None
    final_on_arrival: float | None = None  # share of the messages that came under a rule that waits by name
    refused: dict[str, int] | None = None  # messages by verdict: forged, replayed, ...; None without a key
    unordered: str = ""  # why no message could be ordered, if so


def mote_view(
    mote: int,
    counts: MoteCounts,
    mono_ns: int,
    alarms: tuple[str, ...] = (),
    network: NetworkSettings | None = None,
) -> MoteView:
    duty = counts.health.duty if counts.health else None
    return MoteView(
        mote=mote,
        received=counts.received,
        lost=counts.lost,
        duplicates=counts.duplicates,
        imitated=counts.imitated.total,
        delivered=counts.delivered,
        late=counts.late,
        held=counts.held,
        reboots=counts.reboots,
        out_of_sync=counts.out_of_sync,
        untimed=counts.untimed,
        saturated=counts.saturated,
        bounded=counts.bounded,
        boot=counts.boot,
        rate=counts.rate.at(mono_ns),
        hold=counts.holds.view(),
        silent_s=max(0, mono_ns - counts.seen_ns) / SECOND,
        silent="mote" in alarms,
        health=counts.health,
        wrong_layout=counts.wrong_layout,
        rssi=counts.rssi,
        relayed=counts.relayed,
        alarms=alarms,
        battery_days=counts.drain.days_left,
        duty=duty,
        duty_days=None
        if duty is None or network is None
        else days_at_duty(network.board, duty, network.band),
    )


def gateway_view(
    gateway: int, counts: GatewayCounts, mono_ns: int, alarms: tuple[str, ...] = ()
) -> GatewayView:
    drops = counts.line.drops() if counts.line else {}
    return GatewayView(
        gateway=gateway,
        name=counts.name or f"gateway {gateway}",
        live=counts.live,
        silent="gateway" in alarms,
        foreign=counts.foreign,
        promised=counts.guesses_hold or not counts.foreign,
        frames=counts.frames,
        strange=counts.strange,
        unpaired=counts.unpaired,
        orphans=counts.orphans,
        posed=counts.posed.total,
        records_lost=counts.records_lost,
        dropped=counts.dropped,
        gaps=counts.gaps,
        lags=counts.lags,
        rate=counts.rate.at(mono_ns),
        silent_s=max(0, mono_ns - counts.seen_ns) / SECOND if counts.seen_ns else 0.0,
        line_errors={reason: drop.count for reason, drop in drops.items()},
        status=counts.status,
        alarms=alarms,
    )
