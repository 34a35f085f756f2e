"""Alarms: raised once when something is amiss, over once when it is well again.

`MOTE`, `GATEWAY` and `NETWORK` are the table of all kinds. What a kind is judged by is kept in the counters, by the
classes of `evidence`. Whoever changes these facts asks for a look; what time alone changes is looked at when it is due.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from basestation.arrivals import Gap
from basestation.live.counters import CHARGED_MV, LOW_MV, GatewayCounts, MoteCounts
from basestation.live.evidence import AGES, FEW, LEAST_NS, LONG_NS, SECOND, Times
from basestation.live.happenings import Alarm, Happening

GATEWAY_SILENCE_NS = 30 * SECOND  # a gateway reports every ten seconds
SHORT_PAUSE_NS = SECOND  # on a line; shorter ones do not count for its limit
HEALTH_NS = 60 * SECOND  # between two health reports of a mote, on average
MISSING_REPORTS = 1.5  # of these times: by then each mote has reported its health
MISSING_PAUSES = 5  # longest mean pauses between a mote's messages
LOW_REPORTS = 2  # with none of a full battery between
LOSING, KEEPING = 0.2, 0.05  # shares of the messages of a window
SYNC_NS = 30 * SECOND
# Of the last 128 messages. After an outage 44 may be old: an outbox of 16 messages, and a rate of 64% of the possible.
BEHIND, ABREAST = 48, 16
REBOOTS, REBOOTS_NS = 3, 3600 * SECOND  # a mote in trouble waits up to 17 minutes before each start
OVER_NS = 300 * SECOND  # after its last sign, an alarm about strangers or a new epoch is over
LISTED = 12  # motes in a text

Facts = TypeVar("Facts")


def _never(facts: object) -> int | None:
    return None


@dataclass(frozen=True, slots=True)
class Kind(Generic[Facts]):
    """A kind of alarm. `judge`: True raises it, False ends it, None leaves it as it is.

    `due` is when time alone may change the judgement. `by_line`: it is not judged while no line is open.
    """

    what: str
    judge: Callable[[Facts, int], bool | None]
    text: Callable[[str, Facts, int], str]
    due: Callable[[Facts], int | None] = _never
    by_line: bool = False

    @classmethod
    def at_signs(
        cls, what: str, signs: Callable[[Facts], Times], text: Callable[[str, Facts, int], str]
    ) -> Kind[Facts]:
        """A kind that any sign raises, and that is over after a quiet time."""
        return cls(
            what,
            lambda facts, now: signs(facts).often(now, OVER_NS, 1),
            text,
            lambda facts: _due_after(signs(facts)),
        )


@dataclass(slots=True)
class Refusals:
    """Messages that were refused for one reason: when, and as what they came, such as `data of mote 3`."""

    times: Times = field(default_factory=Times)
    posed: list[str] = field(default_factory=list)  # each once, and not many more than are shown

    def add(self, what: str, mono_ns: int) -> None:
        self.times.add(mono_ns)
        if what not in self.posed and len(self.posed) <= LISTED:
            self.posed.append(what)

    def told(self) -> str:
        """The forged identities and, after the first message, their count."""
        count = self.times.total
        more = " and others" if len(self.posed) > LISTED else ""
        listed = ", ".join(self.posed[:LISTED]) + more
        return listed if count == 1 else f"{listed}; {count} messages so far"


@dataclass(slots=True)
class NetworkFacts:
    """The whole network, and the machine that listens to it."""

    expected: int  # motes in the deployment
    motes: Mapping[int, MoteCounts]  # that were heard
    health_ns: int = HEALTH_NS
    listening_ns: int | None = None  # since then a mote could have been heard
    epochs: Times = field(default_factory=Times)
    epoch_text: str = ""
    disk: str = ""  # what is wrong with it
    # Messages that the guard refused; only in a network with a key.
    forged: Refusals = field(default_factory=Refusals)
    replayed: Refusals = field(default_factory=Refusals)

    def missing(self) -> list[int]:
        return [mote for mote in range(self.expected) if mote not in self.motes]


# ---- Motes ----


def _mote_silent(mote: MoteCounts, mono_ns: int) -> bool:
    if mono_ns < mote.expected_ns + LEAST_NS:
        return False
    due = _mote_due(mote)
    return due is not None and mono_ns >= due


def _mote_due(mote: MoteCounts) -> int | None:
    """A mote that was heard once may send seldom: its limit is long."""
    if not mote.seen_ns:
        return None
    return mote.expected_ns + (LONG_NS if mote.pauses.limit_ns is None else mote.pauses.limit_ns)


def _mote_silence(name: str, mote: MoteCounts, mono_ns: int) -> str:
    quiet, mean = (mono_ns - mote.seen_ns) / SECOND, mote.pauses.mean_ns / SECOND
    if not mote.pauses.count:
        return f"{name} was heard once, and has been silent for {quiet:.0f} s since"
    return f"{name} has been silent for {quiet:.1f} s; it sent every {mean:.1f} s"


def _other_layout(mote: MoteCounts, mono_ns: int) -> bool:
    return mote.wrong_layout


def _battery_low(mote: MoteCounts, mono_ns: int) -> bool | None:
    """A single low reading is noise, or was taken while sending."""
    found = None if mote.battery_mv is None else _between(mote.battery_mv, CHARGED_MV, LOW_MV)
    return None if found and mote.low_reports < LOW_REPORTS else found


def _losing(mote: MoteCounts, mono_ns: int) -> bool | None:
    return None if mote.losses.share is None else _between(mote.losses.share, KEEPING, LOSING)


def _out_of_sync(mote: MoteCounts, mono_ns: int) -> bool | None:
    settled = mote.sync.settled(mono_ns, SYNC_NS)
    return None if settled is None else not settled


def _behind(mote: MoteCounts, mono_ns: int) -> bool | None:
    return _between(mote.backlog.count, ABREAST, BEHIND)


def _rebooting(mote: MoteCounts, mono_ns: int) -> bool | None:
    return mote.restarts.often(mono_ns, REBOOTS_NS, REBOOTS)


def _rebooting_due(mote: MoteCounts) -> int | None:
    return _due_after(mote.restarts, REBOOTS_NS)


def _due_after(times: Times, quiet_ns: int = OVER_NS) -> int | None:
    """When an alarm about such events is over, if none follows."""
    return times.newest[-1] + quiet_ns if times.newest else None


def _between(value: float, good: float, bad: float) -> bool | None:
    """False from `good` on, True from `bad` on, and nothing new between the two."""
    if good < bad:
        return True if value >= bad else False if value <= good else None
    return True if value <= bad else False if value >= good else None


MOTE: Sequence[Kind[MoteCounts]] = (
    Kind("mote", _mote_silent, _mote_silence, _mote_due, by_line=True),
    Kind(
        "layout",
        _other_layout,
        lambda name, mote, _: f"{name} was built for another layout than this deployment's",
    ),
    Kind("battery", _battery_low, lambda name, mote, _: f"{name}'s battery is low: {mote.battery_mv} mV"),
    Kind(
        "losing",
        _losing,
        lambda name, mote, _: (
            f"{100 * (mote.losses.share or 0):.0f}% of the last messages of {name} were lost"
        ),
    ),
    Kind(
        "sync",
        _out_of_sync,
        lambda name, mote, _: f"{name} has lost the network's time: its messages are not ordered",
    ),
    Kind(
        "backlog",
        _behind,
        lambda name, mote, _: (
            f"{name} makes more messages than its windows take: {mote.backlog.count} of the last {AGES} waited for "
            "over a period"
        ),
    ),
    Kind(
        "reboots",
        _rebooting,
        lambda name, mote, _: f"{name} starts again and again: {mote.restarts.total} times so far",
        _rebooting_due,
    ),
    Kind.at_signs(
        "imitated",
        lambda mote: mote.imitated,
        lambda name, mote, _: f"somebody else speaks as {name}: two messages of one number differ",
    ),
)


# ---- Gateways ----


def _gateway_due(gateway: GatewayCounts) -> int | None:
    """A gateway of ours reports regularly; the limit of another one comes from its own pauses."""
    if not gateway.live or not gateway.seen_ns:
        return None
    pauses = gateway.pauses
    learnt = pauses.limit_ns if gateway.status is None and pauses.count >= FEW else None
    return gateway.seen_ns + max(GATEWAY_SILENCE_NS, learnt or 0)


def _gateway_silent(gateway: GatewayCounts, mono_ns: int) -> bool:
    due = _gateway_due(gateway)
    return due is not None and mono_ns >= due


GATEWAY: Sequence[Kind[GatewayCounts]] = (
    Kind(
        "gateway",
        _gateway_silent,
        lambda name, gateway, now: f"{name} has been silent for {(now - gateway.seen_ns) / SECOND:.0f} s",
        _gateway_due,
    ),
    Kind(  # it says all, so the two above and below are over with a lost line
        "line",
        lambda gateway, _: not gateway.live,
        lambda name, gateway, _: f"the line of {name} is lost: {gateway.lost_because}",
    ),
    Kind(
        "speed",
        lambda gateway, _: gateway.live and gateway.unread > 0,
        lambda name, gateway, _: f"{name} sent {gateway.unread} bytes but no frame: wrong speed?",
    ),
    Kind.at_signs(
        "records",
        lambda gateway: gateway.posed,
        lambda name, gateway, _: (
            f"somebody sends records of a gateway by radio: {name} heard {gateway.posed.total}; none is believed"
        ),
    ),
)


# ---- The network ----


def _missing_due(network: NetworkFacts) -> int | None:
    if network.listening_ns is None or not network.missing():
        return None
    longest = max((mote.pauses.mean_ns for mote in network.motes.values()), default=0.0)
    return network.listening_ns + int(max(MISSING_REPORTS * network.health_ns, MISSING_PAUSES * longest))


def _missing(network: NetworkFacts, mono_ns: int) -> bool | None:
    if not network.missing():
        return False
    due = _missing_due(network)
    return True if due is not None and mono_ns >= due else None


def _missing_text(name: str, network: NetworkFacts, mono_ns: int) -> str:
    missing = network.missing()
    more = f" and {len(missing) - LISTED} more" if len(missing) > LISTED else ""
    listed = ", ".join(map(str, missing[:LISTED]))
    return f"{network.expected - len(missing)} of {network.expected} motes heard; missing: {listed}{more}"


def _forged_text(name: str, network: NetworkFacts, mono_ns: int) -> str:
    alone = (
        "; one alone may be a frame that was damaged on the air" if network.forged.times.total == 1 else ""
    )
    return f"somebody without the network's key forges messages: {network.forged.told()}{alone}"


def _replayed_text(name: str, network: NetworkFacts, mono_ns: int) -> str:
    return f"somebody plays old messages: {network.replayed.told()}"


NETWORK: Sequence[Kind[NetworkFacts]] = (
    Kind("missing", _missing, _missing_text, _missing_due, by_line=True),
    Kind.at_signs("epoch", lambda network: network.epochs, lambda name, network, _: network.epoch_text),
    Kind.at_signs("forged", lambda network: network.forged.times, _forged_text),
    Kind.at_signs("replayed", lambda network: network.replayed.times, _replayed_text),
    Kind("disk", lambda network, _: bool(network.disk), lambda name, network, _: network.disk),
)

KINDS = tuple(kind.what for kinds in (MOTE, GATEWAY, NETWORK) for kind in kinds)
OF_MESSAGES = tuple(kind for kind in MOTE if kind.what in ("mote", "losing", "sync", "backlog"))


def _is_well(mote: MoteCounts) -> bool:
    """Whether a message that has just come surely raises no alarm `OF_MESSAGES`; most of them do not."""
    return (mote.losses.share or 0) < LOSING and mote.sync.on and mote.backlog.count < BEHIND


class _Due(NamedTuple):
    at: int
    look: Callable[[int, int], list[Happening]]
    by_line: bool


class Alarms:
    """`next_check`: the first time at which an alarm may change though nothing comes."""

    def __init__(
        self,
        motes: Mapping[int, MoteCounts] | None = None,
        gateways: Mapping[int, GatewayCounts] | None = None,
        expected: int = 0,
        called: Callable[[int], str] = "mote {}".format,
        health_ns: int = HEALTH_NS,
        period_ns: int = 0,
    ) -> None:
        """`motes` and `gateways` are the station's counts. `expected`: the number of motes; `called`: the name of one;
        `health_ns`: between two of its health reports. With a schedule motes send all they have once a period."""
        self.next_check: int | None = None
        self._motes: Mapping[int, MoteCounts] = {} if motes is None else motes
        self._gateways: Mapping[int, GatewayCounts] = {} if gateways is None else gateways
        self._network = NetworkFacts(expected, self._motes, health_ns)
        self._called = called
        self._short_ns = period_ns // 2  # a shorter pause is one between messages of a window
        self._raised: dict[tuple[str, int], str] = {}
        self._deaf = False  # all lines are gone or silent: no mote is to blame

    def texts(self) -> tuple[str, ...]:
        return tuple(self._raised.values())

    def of(self, subject: int, kinds: Sequence[Kind[Facts]]) -> tuple[str, ...]:
        """Which of these kinds are raised for a mote or a gateway."""
        return (
            tuple(kind.what for kind in kinds if (kind.what, subject) in self._raised) if self._raised else ()
        )

    # ---- What the station saw ----

    def gateway_seen(
        self, gateway: int, counts: GatewayCounts, mono_ns: int, wall_ns: int
    ) -> list[Happening]:
        if counts.seen_ns and mono_ns - counts.seen_ns > SHORT_PAUSE_NS:
            counts.pauses.add(mono_ns - counts.seen_ns)
        counts.seen_ns, counts.unread = mono_ns, 0
        if self._network.listening_ns is None:
            self._network.listening_ns = mono_ns
            self._expect(_missing_due(self._network))
        self._expect(mono_ns + GATEWAY_SILENCE_NS)
        if not self._raised:
            return []
        found = self._look(GATEWAY, gateway, counts, mono_ns, wall_ns)
        self._note_lines(mono_ns)
        return found

    def expect_gateway(self, counts: GatewayCounts, mono_ns: int) -> None:
        """From now on a gateway should be heard of."""
        counts.seen_ns = mono_ns
        self._expect(_gateway_due(counts))

    def slept(self, mono_ns: int) -> None:
        """This machine slept until then."""
        for gateway in self._gateways.values():
            self.expect_gateway(gateway, mono_ns)
        self._expect_motes(mono_ns)

    def line(
        self, gateway: int, counts: GatewayCounts, gap: Gap, mono_ns: int, wall_ns: int
    ) -> list[Happening]:
        counts.lost_because, counts.unread = gap.reason, 0
        if gap.back:
            self.expect_gateway(counts, mono_ns)
        found = self._look(GATEWAY, gateway, counts, mono_ns, wall_ns)
        self._note_lines(mono_ns)
        return found

    def unread(
        self, gateway: int, counts: GatewayCounts, unread: int, mono_ns: int, wall_ns: int
    ) -> list[Happening]:
        """So many bytes came on a line for a while, and no frame."""
        counts.unread = unread
        return self._look(GATEWAY, gateway, counts, mono_ns, wall_ns)

    def posed(self, gateway: int, counts: GatewayCounts, mono_ns: int, wall_ns: int) -> list[Happening]:
        """A record of a gateway came by air."""
        counts.posed.add(mono_ns)
        self._expect(_due_after(counts.posed))
        return self._look(GATEWAY, gateway, counts, mono_ns, wall_ns)

    def mote_seen(
        self, mote: int, counts: MoteCounts, mono_ns: int, wall_ns: int, stray: bool = False
    ) -> list[Happening]:
        """A message or a health report of a mote came, and its counters have it.

        A stray, which may be an old one, is a sign of life; but nothing is learnt from when it came.
        """
        first = not counts.seen_ns
        if stray and not first:
            counts.expected_ns = mono_ns
            return self._look(OF_MESSAGES, mote, counts, mono_ns, wall_ns)
        pause_ns = mono_ns - counts.seen_ns
        listened = counts.expected_ns == counts.seen_ns
        if not first and listened and pause_ns >= self._short_ns:
            counts.pauses.add(pause_ns)
        counts.seen_ns = counts.expected_ns = mono_ns
        if self.next_check is None or self.next_check > mono_ns + LEAST_NS:  # no mote is due sooner
            self._expect(_mote_due(counts))
        if not self._raised and not first and _is_well(counts):
            return []
        found = self._look(OF_MESSAGES, mote, counts, mono_ns, wall_ns)
        return found + self._look(NETWORK, 0, self._network, mono_ns, wall_ns) if first else found

    def imitated(self, mote: int, counts: MoteCounts, mono_ns: int, wall_ns: int) -> list[Happening]:
        """Two messages of a mote have one number and differ."""
        counts.imitated.add(mono_ns)
        self._expect(_due_after(counts.imitated))
        return self._look(MOTE, mote, counts, mono_ns, wall_ns)

    def mote_changed(self, mote: int, counts: MoteCounts, mono_ns: int, wall_ns: int) -> list[Happening]:
        """A mote reported its health, or has started again."""
        self._expect(_rebooting_due(counts))
        return self._look(MOTE, mote, counts, mono_ns, wall_ns)

    def time_jumped(self, text: str, mono_ns: int, wall_ns: int) -> list[Happening]:
        """The network's time has started afresh."""
        self._network.epochs.add(mono_ns)
        self._network.epoch_text = text
        self._expect(_due_after(self._network.epochs))
        return self._look(NETWORK, 0, self._network, mono_ns, wall_ns)

    def refused(self, verdict: str, what: str, mono_ns: int, wall_ns: int) -> list[Happening]:
        """The guard refused a message that came as `what`; a message that cannot be checked raises no alarm."""
        refusals = {"forged": self._network.forged, "replayed": self._network.replayed}.get(verdict)
        if refusals is None:
            return []
        refusals.add(what, mono_ns)
        self._expect(_due_after(refusals.times))
        return self._look(NETWORK, 0, self._network, mono_ns, wall_ns)

    def disk(self, fault: str, mono_ns: int, wall_ns: int) -> list[Happening]:
        """What is wrong with the disk that holds the log; empty if nothing is."""
        self._network.disk = fault
        return self._look(NETWORK, 0, self._network, mono_ns, wall_ns)

    # ---- What time brings ----

    def check(self, mono_ns: int, wall_ns: int) -> list[Happening]:
        """Look at what is due, each at its own time, so that a late timer changes nothing."""
        if self.next_check is None or mono_ns < self.next_check:
            return []
        self.next_check = None
        found: list[Happening] = []
        for due in sorted(self._dues(), key=lambda due: due.at):
            if due.at > mono_ns:
                self._expect(due.at)
            elif not (due.by_line and self._deaf):
                found += due.look(due.at, due.at + wall_ns - mono_ns)
                self._note_lines(due.at)
        return found

    def look_back(self, mono_ns: int) -> None:
        """A log ends. Silence after its last packet, at `mono_ns`, means nothing: withdraw those alarms."""
        self._take_back(MOTE, self._motes, mono_ns)
        self._take_back(GATEWAY, self._gateways, mono_ns)

    def _take_back(self, kinds: Sequence[Kind[Facts]], subjects: Mapping[int, Facts], mono_ns: int) -> None:
        for kind in kinds:
            for subject, facts in subjects.items():
                if kind.judge(facts, mono_ns) is False:
                    self._raised.pop((kind.what, subject), None)

    def _dues(self) -> list[_Due]:
        network = self._dues_of(NETWORK, {0: self._network})
        return network + self._dues_of(GATEWAY, self._gateways) + self._dues_of(MOTE, self._motes)

    def _dues_of(self, kinds: Sequence[Kind[Facts]], subjects: Mapping[int, Facts]) -> list[_Due]:
        found = []
        for kind in kinds:
            for subject, facts in subjects.items():
                at = kind.due(facts)
                if at is not None and kind.judge(facts, at) != self._is_raised(kind.what, subject):
                    found.append(_Due(at, self._looking((kind,), subject, facts), kind.by_line))
        return found

    def _looking(
        self, kinds: Sequence[Kind[Facts]], subject: int, facts: Facts
    ) -> Callable[[int, int], list[Happening]]:
        return lambda mono_ns, wall_ns: self._look(kinds, subject, facts, mono_ns, wall_ns)

    def _note_lines(self, mono_ns: int) -> None:
        """While all lines are gone or silent motes are not judged; their silence counts from the return of a line."""
        before, self._deaf = (
            self._deaf,
            not any(
                gateway.live and not self._is_raised("gateway", number)
                for number, gateway in self._gateways.items()
            ),
        )
        if before and not self._deaf:
            self._expect_motes(mono_ns)

    def _expect_motes(self, mono_ns: int) -> None:
        """From now on motes can be heard again."""
        for mote in self._motes.values():
            mote.expected_ns, mote.losses.deaf = mono_ns, True
        self._network.listening_ns = mono_ns
        self._expect(mono_ns)

    def _expect(self, mono_ns: int | None) -> None:
        if mono_ns is not None and (self.next_check is None or mono_ns < self.next_check):
            self.next_check = mono_ns

    # ---- Raised and over ----

    def _is_raised(self, what: str, subject: int) -> bool:
        return (what, subject) in self._raised

    def _look(
        self, kinds: Sequence[Kind[Facts]], subject: int, facts: Facts, mono_ns: int, wall_ns: int
    ) -> list[Happening]:
        found: list[Happening] = []
        for kind in kinds:
            amiss = kind.judge(facts, mono_ns)
            if amiss is None or not (amiss or self._raised):
                continue
            key = (kind.what, subject)
            if amiss and key not in self._raised:
                text = self._raised[key] = kind.text(self._name(subject, facts), facts, mono_ns)
                found.append(Alarm(mono_ns, wall_ns, kind.what, subject, True, text))
            elif not amiss and key in self._raised:
                text = f"over: {self._raised.pop(key)}"
                found.append(Alarm(mono_ns, wall_ns, kind.what, subject, False, text))
            elif amiss and isinstance(facts, NetworkFacts):  # more motes were heard, less room is left
                self._raised[key] = kind.text("", facts, mono_ns)
        return found

    def _name(self, subject: int, facts: object) -> str:
        if isinstance(facts, GatewayCounts):
            return facts.name or f"gateway {subject}"
        return self._called(subject)
