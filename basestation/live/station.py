"""The station: packets in, happenings out. It orders, counts and explains, and never asks what time it is.

Everything follows from the lines and the host's times that came with them, so a log played back gives the same
deliveries: before a packet is looked at, what time alone has made due is delivered, whether a timer was there or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from basestation.arrivals import Arrival, Gap, Line, LineCount
from basestation.causality.boots import BOOTS, may_be_anew
from basestation.causality.order import Message as Ordered
from basestation.causality.rules import Delivery, Pending
from basestation.journal.decision import (
    BOUNDED,
    CHECKED,
    DIFFERS,
    DISCARDED,
    FRESH,
    GUESSED,
    IN_SYNC,
    LATE,
    REBOOTED,
    STRAY,
    Decision,
    Fate,
    Noted,
)
from basestation.live.alarms import CHARGED_MV, LOW_MV, Alarms
from basestation.live.commands import name_of
from basestation.live.counters import Holds, MoteCounts, Rate, Snapshot, is_relayed
from basestation.live.evidence import SECOND
from basestation.live.guard import WORDS, Verdict, limit_others
from basestation.live.happenings import (
    Acknowledged,
    Alarm,
    Arrived,
    ClockChanged,
    Delivered,
    Discarded,
    GaveUp,
    Happening,
    LineChanged,
    Name,
    PolicyChanged,
    Reboot,
    Restarted,
    Strange,
    Tentative,
    Violation,
)
from basestation.live.overtakings import Out, Overtaking, Overtakings
from basestation.live.picture import take_picture
from basestation.live.timeline import TimedFrame, Timeline
from basestation.live.wait_reasons import listed, shown_names, why_waits
from basestation.observer import Observer, Reception
from packet_formats.ages import UNITS_LOG2, is_again
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.framing import FrameCounters
from packet_formats.layout import layout_of
from packet_formats.messages import Data, Message, Unknown, data_digest
from packet_formats.phrases import many
from packet_formats.records import RSSI_UNKNOWN, Downlink, Health, Heard, Idle
from packet_formats.schemes import LEDGER
from packet_formats.tinyos import Ack, ActiveMessage

MOST_HELD = 10_000  # messages; a queue that grows beyond lets the first go early, and counts it
MOST_NAMED = 1_000  # under a rule that waits for messages by name: each of them may name all the others
MOST_PLACED = 100  # tentative rows: to say where a message stands among more takes too long
MS = 1_000_000
OLD = (1 << UNITS_LOG2) * 9 // 8  # an age in units of a period: the next window should have taken it
SLEEP_NS = 5 * SECOND  # of this machine; a busy one may rest for less
LONG_WAY_NS = 60_000_000_000  # no relay keeps a report for so long
NO_NAME = Name(0, 0, 0)
NOTHING_NOTED = Noted()
REFUSED = {
    Verdict.FORGED: Fate.FORGED,
    Verdict.REPLAYED: Fate.REPLAYED,
    Verdict.LATE: Fate.LATE,
    Verdict.UNCHECKED: Fate.UNCHECKED,
}


@dataclass(slots=True)
class HeldMessage:
    """A message between its arrival and its delivery."""

    data: Data
    mono_ns: int
    arrived: int  # ticks
    cycles: int | None  # when it was heard
    in_sync: bool  # and heard at a known time: otherwise nobody can order it
    # Known once the observer has taken it:
    name: Name = NO_NAME
    number: int = 0
    late: bool = False
    differs: bool = False
    out: Out | None = None  # as it is counted; None for a stray
    tentative: bool = False  # a `Tentative` was told of it
    gone: bool = False  # delivered


class Station:
    """`policy`, `phi` and `tolerate` replace the deployment's. `allowance_ns`: see `live.clock`."""

    def __init__(
        self,
        deployment: Deployment,
        policy: str | None = None,
        phi: int | None = None,
        tolerate: float | None = None,
        *,
        allowance_ns: int | None = None,
    ) -> None:
        self.deployment = deployment
        self.policy = policy or deployment.observer.policy
        self.phi = deployment.observer.phi if phi is None else phi
        self.tolerate = self._tolerated(self.policy, tolerate)
        self.earlier: dict[tuple[str, int, float | None], None] = {}  # policies before
        self.layout = layout_of(deployment)
        self._needs_time = deployment.scheme.has_clock
        self._is_scheduled = deployment.radio.period_ms > 0
        self.timeline = Timeline(deployment, allowance_ns)
        self.observer = Observer(deployment, self.policy, self.phi, self.tolerate)
        self.received = self.delivered = self.held = self.forced = 0
        # What came under a rule that waits by name, and what of it had to wait.
        self.named = self.tentative = 0
        self.motes: dict[int, MoteCounts] = {}
        self.violations = Overtakings(self.observer, deployment.network.motes)
        self.alarms = Alarms(
            self.motes,
            self.timeline.gateways,
            deployment.network.motes,
            deployment.mote_name,
            deployment.health_seconds * SECOND,
            deployment.radio.period_ms * SECOND // 1000,
        )
        self.holds, self.rate = Holds(), Rate()
        self.noticed: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.decision: Decision | None = (
            None  # on the packet taken last; None: a heard record, or not a packet
        )
        self._asked: int | None = None  # the tick in which the rule was last asked what is due
        self._boots: dict[int, int] = {}  # of each node, as its health told it,
        self._booted_ns: dict[int, int] = {}  # and when it last did
        self._jumped = self._jumped_ticks = 0  # of the clock, as far as the observer knows
        self._anew: set[int] = set()  # motes that count from 0 again, as messages show and no health does yet

    # ---- What the runner calls ----

    def add_gateway(self, gateway: int, name: str, line: FrameCounters | None = None) -> None:
        """A gateway's line is open: what its source is called, and who counts the line's errors."""
        self.timeline.clock.expect(gateway)
        counts = self.timeline.gateway(gateway)
        counts.name, counts.line = name, line

    def take(self, line: Line | LineCount, noted: Noted = NOTHING_NOTED) -> list[Happening]:
        """What a packet, a gap or a look at a line leads to; `decision` is then what became of a packet. `noted`: what
        a log has of it."""
        self.decision = None
        self.timeline.wall_ahead = line.wall_ns - line.mono_ns
        found = self.advance(line.mono_ns, noted.clock)
        if isinstance(line, Arrival):
            found += self._take_packet(line, noted.guess)
        else:
            found += self._take_gap(line) if isinstance(line, Gap) else self._take_count(line)
        return found

    def advance(self, mono_ns: int, clock: int | None = None) -> list[Happening]:
        """Time has passed: deliver all that is due. `clock`: how far a log says the clock had got by then."""
        tick, alarms = self.timeline.advance(mono_ns, clock), self.alarms
        found: list[Happening] = []
        if (
            tick is not None and tick != self._asked
        ):  # a rule that was asked in a tick has nothing more due in it
            self._asked = tick
            if due := self.observer.due(tick):
                found = self._deliver(due)
        if alarms.next_check is not None and self.timeline.mono_ns >= alarms.next_check:
            for alarm in alarms.check(*self.timeline.now):
                found.append(alarm)
                if isinstance(alarm, Alarm) and alarm.what == "gateway" and alarm.raised:
                    self.timeline.clock.lose(alarm.subject)
        return found

    def note_disk(self, fault: str, mono_ns: int, wall_ns: int) -> list[Happening]:
        """What the runner found wrong with the disk that holds the log; empty if nothing is."""
        return self.alarms.disk(fault, mono_ns, wall_ns)

    def next_due(self) -> int | None:
        """The host's time at which `advance` should be called if nothing comes before."""
        tick = self.observer.next_due()
        at = None if tick is None else self.timeline.when(tick)
        alarm = self.alarms.next_check
        return min((time for time in (at, alarm) if time is not None), default=None)

    def set_policy(self, name: str, phi: int, tolerate: float | None = None) -> list[Happening]:
        """Deliver by another policy from now on; what is held moves over, and a ledger begins anew."""
        now = self._tick(self.timeline.reached)
        held = [pending.message for pending in self.observer.pending()]
        held.sort(key=lambda message: int(message.token.number))
        tolerate = self._tolerated(name, tolerate)
        discarded = self.observer.change_policy(name, phi, held, now, tolerate)
        self.earlier[self.policy, self.phi, self.tolerate] = None
        self.policy, self.phi, self.tolerate = name, phi, tolerate
        found: list[Happening] = [PolicyChanged(*self.timeline.now, name, phi, len(held), tolerate)]
        for message in discarded:
            self.held -= 1
            self._mote(message.source).held -= 1
            found.append(self._discard(message.token, message))
        found += self._deliver(self.observer.due(now))
        if self.observer.waits_by_name:
            found += self._tell_tentative()
        return found

    def finish(self) -> list[Happening]:
        """The end: whatever is held leaves in order, without its wait."""
        found: list[Happening] = []
        while (tick := self.observer.next_due()) is not None:
            found += self._deliver(self.observer.due(tick))
        self.violations.finish()
        return found

    def snapshot(self, mono_ns: int) -> Snapshot:
        """All that views show, as it is at `mono_ns`."""
        return take_picture(self, mono_ns)

    def _tolerated(self, policy: str, asked: float | None) -> float | None:
        """The share that a ledger tolerates, as asked or as deployed, or else 0; None where there is no ledger."""
        if policy != LEDGER:
            return None
        return (self.deployment.observer.tolerate or 0.0) if asked is None else asked

    # ---- Lines ----

    def _tick(self, cycles: int | None) -> int:
        return self.timeline.tick(cycles or 0)

    def _take_gap(self, gap: Gap) -> list[Happening]:
        counts = self.timeline.take_gap(gap)
        changed = LineChanged(*self.timeline.now, gap.gateway, gap.back, gap.reason)
        return [changed, *self.alarms.line(gap.gateway, counts, gap, *self.timeline.now)]

    def _take_count(self, count: LineCount) -> list[Happening]:
        """From its opening on a gateway should be heard of; while this machine slept nobody could be."""
        if count.slept_ns:
            awake_ns = count.mono_ns + count.slept_ns - count.suspended_ns
            self.timeline.clock.pause(count.mono_ns, awake_ns, count.slept_ns)
            if count.slept_ns < SLEEP_NS:
                return []
            self.alarms.slept(awake_ns)
            return [self.timeline.note_sleep(count.slept_ns)]
        counts = self.timeline.gateway(count.gateway)
        if not counts.seen_ns:
            self.alarms.expect_gateway(counts, count.mono_ns)
        if not count.unread:
            return []
        return self.alarms.unread(count.gateway, counts, count.unread, *self.timeline.now)

    def _take_packet(self, arrival: Arrival, guess: int | None) -> list[Happening]:
        timeline = self.timeline
        counts = timeline.gateway(arrival.gateway)
        found = self.alarms.gateway_seen(arrival.gateway, counts, *timeline.now)
        read = timeline.read(arrival, guess)
        if timeline.clock.jumped != self._jumped:
            self._note_afresh()
        frame, message = read.frame, read.message
        if isinstance(message, Idle) and not read.posed:
            found += [
                *self._note_jump(read.happenings),
                *read.happenings,
                *self.advance(arrival.mono_ns),
            ]
            self.decision = Decision(Fate.RECORD, is_long=True, clock=self.timeline.reached)
            return found
        counts.rate.add(arrival.mono_ns)
        if read.happenings:
            found += self._note_jump(read.happenings)
        if not read.verdict.is_let_in:
            self.decision = Decision(REFUSED[read.verdict], read.cycles, read.heard)
            return [*found, *read.happenings, *self._refuse(arrival, message, read.verdict)]
        if read.posed:
            self.decision = Decision(Fate.POSED, read.cycles, read.heard)
            text = "a record that only a gateway makes came by radio; it is not believed"
            found += [*read.happenings, self._strange(arrival, "gateway's record", text)]
            return [*found, *self.alarms.posed(arrival.gateway, counts, *timeline.now)]
        if isinstance(message, Data) and isinstance(frame, ActiveMessage):
            found += read.happenings
            found += self._take_data(arrival, frame, message, read)
            return found
        if not isinstance(message, Heard):
            self.decision = _plain_decision(read)
        if isinstance(frame, Ack):
            return [*found, Acknowledged(*timeline.now, arrival.gateway, frame.token)]
        if frame is None or message is None:
            return [*found, self._strange(arrival, "no packet", read.error)]
        if isinstance(message, Unknown):
            return [*found, self._strange(arrival, message.reason.name.lower(), str(message))]
        arrived = Arrived(*timeline.now, arrival.gateway, frame, message, read.heard, read.cycles)
        if read.proves is not None:
            arrived.proves = read.proves
        if isinstance(message, Health):
            if self._is_copy(message):
                return [*found, replace(arrived, copy=True), *read.happenings]
            if read.verdict is Verdict.UNPROTECTED:  # the first that is heard of, and it may be an old one
                return [*found, arrived, *read.happenings]
            return [*found, arrived, *read.happenings, *self._take_health(message)]
        found.append(arrived)
        found += read.happenings
        return found

    def _note_afresh(self) -> None:
        """Time has started afresh: copies of what was heard before are still copies."""
        jumped, self._jumped = self.timeline.clock.jumped, self.timeline.clock.jumped
        before, self._jumped_ticks = self._jumped_ticks, self._tick(jumped)
        self.observer.shift(self._jumped_ticks - before)

    def _note_jump(self, happenings: Iterable[Happening]) -> list[Happening]:
        """The alarm for a time that has started afresh."""
        found: list[Happening] = []
        for one in happenings:
            if isinstance(one, ClockChanged) and one.what in ("epoch", "restart"):
                found += self.alarms.time_jumped(one.text, *self.timeline.now)
        return found

    def _strange(self, arrival: Arrival, reason: str, text: str) -> Strange:
        self.timeline.gateway(arrival.gateway).strange += 1
        self.reasons[reason] += 1
        return Strange(*self.timeline.now, arrival.gateway, text, arrival.packet)

    def _refuse(
        self, arrival: Arrival, message: Message | Unknown | None, verdict: Verdict
    ) -> list[Happening]:
        """A message that the guard does not let in: it is counted and told of, and nothing is made of it."""
        name = type(message).__name__.lower()
        node = next(
            (getattr(message, at) for at in ("source", "target", "sender") if hasattr(message, at)), 0
        )
        speaker = "to" if isinstance(message, Downlink) else "of"
        what = f"{name} {speaker} {name_of(node, self.deployment)}"
        strange = self._strange(arrival, verdict.value, f"{verdict.value} {what}: {WORDS[verdict]}")
        return [strange, *self.alarms.refused(verdict.value, what, *self.timeline.now)]

    def _is_copy(self, health: Health) -> bool:
        """The same report over another way; relays change nothing in it but how often it may be passed on."""
        counts = self.motes.get(health.source)
        known = counts.health if counts else None
        return known is not None and replace(known, flags=health.flags) == health

    def _take_health(self, health: Health) -> list[Happening]:
        found = self._note_start(health)
        if health.source >= self.deployment.network.motes:
            return found
        counts, now = self._mote(health.source), self.timeline.now
        counts.health, counts.wrong_layout = health, health.layout != self.layout.hash
        if health.battery_mv is not None:
            counts.low_reports += health.battery_mv <= LOW_MV
            counts.low_reports *= health.battery_mv < CHARGED_MV
            counts.drain.add(health.battery_mv, now[0])
        if self._needs_time:
            counts.sync.update(health.in_sync, now[0])
        found += self.alarms.mote_seen(health.source, counts, *now)
        found += self.alarms.mote_changed(health.source, counts, *now)
        return found

    def _note_start(self, health: Health) -> list[Happening]:
        """Tell of a new boot, which its messages may have shown already: only health knows why it started."""
        node, boots = health.source, health.boots
        before = self._boots.get(node)
        counts = self.motes.get(node)
        if before is None:
            times = int(counts is not None and counts.reboots > 0 and counts.boot == boots % 8)
        else:
            times = (boots - before) % 65536
        if (node in self._anew and boots % BOOTS == 0) or (counts and _counts_anew(health, counts.health)):
            self._anew.discard(node)
            times = times if 0 < times < 32768 else 1
        again = 0 < times < 32768  # else the same, or an older one on a long way
        if times >= 32768 and self.timeline.mono_ns - self._booted_ns[node] > LONG_WAY_NS:
            again, times = True, 1  # it has lost count, or is another mote in its place
        if before is None or again or times == 0:
            self._boots[node], self._booted_ns[node] = boots, self.timeline.mono_ns
            limit_others(self.deployment.network.motes, self._boots, self._booted_ns)
        if again and counts is not None:
            unseen = times - (counts.reboots - counts.reboots_reported)
            counts.restarts.add(self.timeline.now[0], max(0, unseen))
            counts.reboots_reported = counts.reboots
        return [Restarted(*self.timeline.now, node, boots, health.start_cause.words)] if again else []

    # ---- Messages ----

    def _take_data(
        self, arrival: Arrival, frame: ActiveMessage, data: Data, read: TimedFrame
    ) -> list[Happening]:
        network, timeline = self.deployment.network, self.timeline
        motes = network.motes
        if data.source >= motes:
            self.decision = Decision(Fate.STRANGER, read.cycles, read.heard)
            text = f"source {data.source} is no mote of this deployment, which has 0..{motes - 1}"
            return [self._strange(arrival, "source", text)]
        # The log has `reached` and when the message was heard, so a replay gives the rule the same tick. A line that
        # lagged has set the clock back to when the message was heard.
        heard, cycles, reached = read.heard, read.cycles, timeline.reached
        timed = cycles is not None
        tick = self._tick(reached)
        heard_tick = tick if cycles is None else timeline.tick(cycles)
        tick = heard_tick if heard_tick < tick else tick
        held = HeldMessage(data, arrival.mono_ns, tick, cycles, data.in_sync and timed)
        digest, guessed = data_digest(frame.data, self.layout), heard is None and timed
        reception = self.observer.receive(data, tick, heard_tick, held, timed, guessed, digest)
        if tick != self._asked:  # a timer has run ahead: in its tick this message may be due
            self._asked = None
        counts, message, numbered = self._mote(data.source), reception.message, reception.numbered
        self.decision = self._decide(read, reception, held.in_sync)
        found = self._count_boot(counts, data, numbered.before, reception.stray)
        if heard is not None and heard.rssi != RSSI_UNKNOWN:
            counts.rssi = heard.rssi
            counts.relayed = is_relayed(data, frame.source, counts.health, network)
        here = (*timeline.now, arrival.gateway, frame, data, heard, cycles, reached)
        if message is None:
            counts.duplicates += 1
            return [*found, Arrived(*here, copy=True)]
        self.received += 1
        held.name = Name(data.source, data.boot, message.sequence)
        held.number, held.late, held.differs = self.received, reception.late, numbered.differs
        found.append(Arrived(*here, held.name, self.received, False, held.differs))
        if held.differs:
            found += self.alarms.imitated(data.source, counts, *self.timeline.now)
        counts.bounded += reception.bounded
        counts.untimed += cycles is None
        found += self._count_arrival(counts, held, message, heard_tick, reception.stray)
        found += self._go_on(counts, held, message, reception)
        return found

    def _decide(self, read: TimedFrame, reception: Reception, in_sync: bool) -> Decision:
        """The decision on a data message of one of our motes."""
        life, sequence, number, fresh, before, differs = reception.numbered
        cycles, clock = read.cycles, self.timeline.reached
        timed, guessed = cycles is not None, read.heard is None and cycles is not None
        fate = (
            Fate.DUPLICATE
            if reception.message is None
            else Fate.MESSAGE
            if timed or clock is not None
            else Fate.UNTIMED
        )
        marks = (
            IN_SYNC * in_sync
            | LATE * reception.late
            | BOUNDED * reception.bounded
            | DIFFERS * differs
            | STRAY * reception.stray
            | FRESH * fresh
            | DISCARDED * reception.discarded
            | REBOOTED * (before is not None)
        )
        bits = GUESSED * guessed | CHECKED * (self.timeline.guard is not None)
        kept = 0 if number is None or reception.stray else number
        return Decision(fate, cycles, read.heard, bits, True, clock, sequence, kept, life, marks)

    def _go_on(
        self, counts: MoteCounts, held: HeldMessage, message: Ordered, reception: Reception
    ) -> list[Happening]:
        """What the rule makes of a new message: it holds or discards it, and others may leave."""
        found: list[Happening] = []
        if reception.discarded:
            found.append(self._discard(held, message))
        else:
            self.held += 1
            counts.held += 1
        if reception.deliveries:
            found += self._deliver(reception.deliveries)
        if self.held > self._room:
            found += self._make_room()
        if self.observer.waits_by_name and not reception.discarded:
            found += self._show_at_once(held)
        return found

    def _show_at_once(self, held: HeldMessage) -> list[Happening]:
        """Tell of a message that waits by name, unless it has left already."""
        self.named += 1
        if held.gone:
            return []
        self.tentative += 1
        if self.held > MOST_PLACED:
            return [self._tentative(held, 0, (), f"is one of {self.held} that wait")]
        return self._tell_tentative()

    def _tell_tentative(self) -> list[Happening]:
        """Tell of all that is held and was not told of, each where it stands now."""
        found: list[Happening] = []
        for place, pending in enumerate(self.observer.pending(), self.delivered + 1):
            if not pending.message.token.tentative:
                names = self.names(pending.missing)
                text = f"waits {self.why_waits(pending, names)}"
                found.append(self._tentative(pending.message.token, place, names, text))
        return found

    def why_waits(self, pending: Pending, names: tuple[str, ...]) -> str:
        """What a message that is held by name waits for, in words; `names`: the messages, as people know them."""
        heard = pending.message.heard
        if not names and heard is not None and heard > self._tick(self.timeline.present):
            slowest = self.timeline.clock.slowest()
            name = self.timeline.gateway(slowest).name if isinstance(slowest, int) else ""
            return f"for the line of {name or f'gateway {slowest}'}"
        return why_waits(names, pending.leaves)

    def _tentative(self, held: HeldMessage, place: int, missing: tuple[str, ...], text: str) -> Tentative:
        held.tentative = True
        return Tentative(*self.timeline.now, held.name, held.data, held.number, place, missing, text)

    def _count_boot(self, counts: MoteCounts, data: Data, before: int | None, stray: bool) -> list[Happening]:
        if counts.boot is None and not stray:
            counts.boot = data.boot
        if before is None:
            return []
        now = self.timeline.now
        counts.boot = data.boot
        counts.reboots += 1
        counts.restarts.add(now[0])
        counts.begin_span()
        reboot = Reboot(*now, data.source, data.boot, before)
        if reboot.is_anew and (before == 0 or self._boots.get(data.source, before) % BOOTS):
            self._anew.add(data.source)
        return [reboot, *self.alarms.mote_changed(data.source, counts, *now)]

    def _count_arrival(
        self, counts: MoteCounts, held: HeldMessage, message: Ordered, heard: int, stray: bool
    ) -> list[Happening]:
        """Of a stray nobody knows when it was sent: it tells nothing of losses, of the time, or of causes."""
        data, name = held.data, held.name
        self.rate.add(held.mono_ns)
        counts.rate.add(held.mono_ns)
        counts.received += 1
        counts.late += held.late
        counts.out_of_sync += not data.in_sync
        counts.saturated += data.saturated
        if stray:
            counts.strays, counts.strayed = counts.strays + 1, True
            return self.alarms.mote_seen(data.source, counts, *self.timeline.now, stray=True)
        if data.boot == counts.boot and not held.differs:
            if may_be_anew(data.boot, data.sequence, counts.ahead(name.sequence)):
                counts.losses.deaf = True  # perhaps nothing was lost, and no alarm is due
            counts.add(name.sequence)
        counts.losses.update(counts.received - counts.strays, counts.lost)
        if self._needs_time:
            counts.sync.update(data.in_sync, held.mono_ns)
        if self._is_scheduled and not is_again(data.age):
            counts.backlog.add(data.age >= OLD)
        found = self.alarms.mote_seen(data.source, counts, *self.timeline.now)
        now = self.timeline.present or 0
        held.out, overtakings = self.violations.arrived(message, name, data, heard, now)
        return found + self._told(overtakings) if overtakings else found

    @property
    def _room(self) -> int:
        """How many messages may be held."""
        return MOST_HELD if self.observer.timed else MOST_NAMED

    def _make_room(self) -> list[Happening]:
        found: list[Happening] = []
        while self.held > self._room and (tick := self.observer.next_due()) is not None:
            before = self.held
            found += self._deliver(self.observer.due(tick))
            self.forced += before - self.held
        return found

    def _discard(self, held: HeldMessage, message: Ordered) -> Discarded:
        self.noticed["discarded"] += 1
        sent, clock = message.stamp.r, self.deployment.clock
        text = f"sent at tick {sent}, of use until {sent + clock.delta + clock.epsilon}, heard of at {held.arrived}"
        return Discarded(*self.timeline.now, held.name, text)

    def _deliver(self, deliveries: Iterable[Delivery]) -> list[Happening]:
        found: list[Happening] = []
        for delivery in deliveries:
            held: HeldMessage = delivery.message.token
            if delivery.missing:
                found.append(self._gave_up(held.name, delivery.missing))
            found.append(self._delivered(delivery, held))
            left = delivery.left << self.deployment.clock.tick_log2
            if held.out is not None and (overtakings := self.violations.delivered(held.out, left)):
                found += self._told(overtakings)
        return found

    def _delivered(self, delivery: Delivery, held: HeldMessage) -> Delivered:
        counts = self._mote(held.name.source)
        self.delivered += 1
        self.held -= 1
        counts.delivered += 1
        counts.held -= 1
        held.gone = True
        timed = self.observer.timed
        late = delivery.late and not timed  # a timed rule knew it when the message came
        counts.late += late
        if delivery.concurrent:
            self.noticed["concurrent"] += 1
        mono_ns, wall_ns = self.timeline.now
        held_ms = max(0, mono_ns - held.mono_ns) / MS
        due_ns = self.timeline.when(delivery.left + 1 if timed else delivery.left)
        overdue_ns = 0 if due_ns is None else max(0, mono_ns - max(due_ns, held.mono_ns))
        counts.holds.add(held_ms)
        self.holds.add(held_ms)
        return Delivered(  # by place: names take as long again, and every message makes one
            mono_ns,
            wall_ns,
            held.name,
            held.data,
            held.number,
            self.delivered,
            held.arrived,
            delivery.left,
            held_ms,
            overdue_ns / MS,
            held.late or late,
            held.in_sync,
            delivery.concurrent,
            held.tentative,
            held.differs,
        )

    def _gave_up(self, name: Name, missing: Iterable[tuple[int, int]]) -> GaveUp:
        self.noticed["gave_up"] += 1
        names = self.names(missing)
        return GaveUp(*self.timeline.now, name, names, f"leaves without {listed(names)}")

    def names(self, missing: Iterable[tuple[int, int]]) -> tuple[str, ...]:
        """What a rule waits for, as people know it."""
        rule = self.deployment.stamp.scheme if self.policy == LEDGER else self.policy
        return shown_names(missing, rule, self.observer.named)

    def _told(self, overtakings: Iterable[Overtaking]) -> list[Happening]:
        return [self._violation(overtaking) for overtaking in overtakings]

    def _violation(self, found: Overtaking) -> Violation:
        ticks, ms = self.timeline.tick(found.cycles), found.cycles * 1000 / CRYSTAL_HZ
        how = "arrived" if found.order == "arrival" else "was delivered"
        text = (
            f"{found.message} {how} before its cause {found.cause}, by {many(ticks, 'tick')} ({ms:.1f} ms): "
            f"{found.because}"
        )
        return Violation(*self.timeline.now, found.order, found.message, found.cause, ticks, ms, text)

    def _mote(self, mote: int) -> MoteCounts:
        counts = self.motes.get(mote)
        if counts is None:
            counts = self.motes[mote] = MoteCounts()
        return counts


def _plain_decision(read: TimedFrame) -> Decision:
    """The decision on a packet that is neither data nor a heard record, and was let in."""
    if not isinstance(read.frame, ActiveMessage):
        return Decision(Fate.NO_MESSAGE)
    return Decision(
        Fate.FOREIGN if isinstance(read.message, Unknown) else Fate.RECORD, read.cycles, read.heard
    )


def _counts_anew(health: Health, last: Health | None) -> bool:
    """Whether a mote that has not booted has sent less than it had: its memory was erased in between."""
    if last is None or (health.boots, health.epoch) != (last.boots, last.epoch):
        return False
    is_later = health.in_sync and last.in_sync and (health.time - last.time) % 2**32 < 2**31
    return is_later and (health.sent - last.sent) % 65536 >= 32768
