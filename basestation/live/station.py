"""The station: packets in, happenings out. It orders, counts and explains, and never reads a clock.

Everything follows from the lines and the host's times that came with them, so a log that is played back gives the same
deliveries: before the station takes a packet it delivers what is due by then, whether a timer called or not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from basestation.arrivals import Arrival, Gap, Line, LineCount
from basestation.causality.order import Message as Ordered
from basestation.journal.decision import Decision, Fate, Noted
from basestation.live.alarms import Alarms
from basestation.live.commands import speaker
from basestation.live.counters import MoteCounts, Rate, Snapshot, is_relayed
from basestation.live.delivering import Deliveries, HeldMessage
from basestation.live.evidence import SECOND
from basestation.live.fates import data_decision, fate_of, plain_decision
from basestation.live.guard import WORDS, Verdict
from basestation.live.happenings import (
    Acknowledged,
    Alarm,
    Arrived,
    ClockChanged,
    Happening,
    LineChanged,
    Name,
    PolicyChanged,
    Reboot,
    Strange,
)
from basestation.live.health_reports import HealthReports
from basestation.live.picture import take_picture
from basestation.live.timeline import TimedFrame, Timeline
from basestation.observer import Observer, Reception
from packet_formats.ages import UNITS_LOG2, is_again
from packet_formats.deployment import Deployment
from packet_formats.framing import FrameCounters
from packet_formats.layout import layout_of
from packet_formats.messages import Data, Unknown, data_digest
from packet_formats.records import RSSI_UNKNOWN, Health, Heard, Idle
from packet_formats.schemes import LEDGER
from packet_formats.tinyos import Ack, ActiveMessage

OLD = (1 << UNITS_LOG2) * 9 // 8  # an age in units of a period: the next window should have taken it
SLEEP_NS = 5 * SECOND  # of this machine; a busy one may rest for less
NOTHING_NOTED = Noted()


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
        self.deployment, self.layout = deployment, layout_of(deployment)
        self.policy = policy or deployment.observer.policy
        self.phi = deployment.observer.phi if phi is None else phi
        self.tolerate = self._tolerated(self.policy, tolerate)
        self.earlier: dict[tuple[str, int, float | None], None] = {}  # policies before
        self._needs_time = deployment.scheme.has_clock
        self._is_scheduled = deployment.radio.period_ms > 0
        self.timeline = Timeline(deployment, allowance_ns)
        self.observer = Observer(deployment, self.policy, self.phi, self.tolerate)
        self.motes: defaultdict[int, MoteCounts] = defaultdict(MoteCounts)
        self.leaving = Deliveries(deployment, self.observer, self.timeline, self.motes)
        self.violations = self.leaving.violations
        self.alarms = Alarms(
            self.motes,
            self.timeline.gateways,
            deployment.network.motes,
            deployment.mote_name,
            deployment.health_seconds * SECOND,
            deployment.radio.period_ms * SECOND // 1000,
        )
        self.received, self.rate = 0, Rate()
        self.reasons: Counter[str] = Counter()
        self.decision: Decision | None = None  # on the last packet; None: a heard record, or not a packet
        self._reports = HealthReports(deployment, self.motes, self.alarms)
        self._asked: int | None = None  # the tick in which the rule was last asked what is due
        self._jumped = self._jumped_ticks = 0  # of the clock, as far as the observer knows

    # ---- What the runner calls ----

    def add_gateway(self, gateway: int, name: str, line: FrameCounters | None = None) -> None:
        """A gateway's line is open: the name of its source, and the counters of the line's errors."""
        self.timeline.clock.expect(gateway)
        counts = self.timeline.gateway(gateway)
        counts.name, counts.line = name, line

    def take(self, line: Line | LineCount, noted: Noted = NOTHING_NOTED) -> list[Happening]:
        """Take a packet, a gap or a look at a line; `decision` is then set. `noted`: what a log notes of the packet."""
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
                found = self.leaving.deliver(due)
        if alarms.next_check is not None and self.timeline.mono_ns >= alarms.next_check:
            for alarm in alarms.check(*self.timeline.now):
                found.append(alarm)
                if isinstance(alarm, Alarm) and alarm.what == "gateway" and alarm.raised:
                    self.timeline.clock.lose(alarm.subject)
        return found

    def next_due(self) -> int | None:
        """The host's time at which `advance` should be called if nothing comes before."""
        tick = self.observer.next_due()
        at = None if tick is None else self.timeline.when(tick)
        alarm = self.alarms.next_check
        return min((time for time in (at, alarm) if time is not None), default=None)

    def set_policy(self, name: str, phi: int, tolerate: float | None = None) -> list[Happening]:
        """Deliver by another policy from now on; what is held moves over, and a ledger begins anew."""
        now = self.timeline.tick(self.timeline.reached or 0)
        held = [pending.message for pending in self.observer.pending()]
        held.sort(key=lambda message: int(message.token.number))
        tolerate = self._tolerated(name, tolerate)
        discarded = self.observer.change_policy(name, phi, held, now, tolerate)
        self.earlier[self.policy, self.phi, self.tolerate] = None
        self.policy, self.phi, self.tolerate = name, phi, tolerate
        found: list[Happening] = [PolicyChanged(*self.timeline.now, name, phi, len(held), tolerate)]
        found += [self.leaving.drop(message.token, message) for message in discarded]
        found += self.leaving.deliver(self.observer.due(now))
        if self.observer.waits_by_name:
            found += self.leaving.show_all()
        return found

    def finish(self) -> list[Happening]:
        """The end: all that is held leaves in order, without its wait."""
        return self.leaving.finish()

    def snapshot(self, mono_ns: int) -> Snapshot:
        """All that views show, as it is at `mono_ns`."""
        return take_picture(self, mono_ns)

    def _tolerated(self, policy: str, asked: float | None) -> float | None:
        """The share that a ledger tolerates: as asked, as deployed, or 0; None under other policies."""
        if policy != LEDGER:
            return None
        return (self.deployment.observer.tolerate or 0.0) if asked is None else asked

    # ---- Lines ----

    def _take_gap(self, gap: Gap) -> list[Happening]:
        counts = self.timeline.take_gap(gap)
        changed = LineChanged(*self.timeline.now, gap.gateway, gap.back, gap.reason)
        return [changed, *self.alarms.line(gap.gateway, counts, gap, *self.timeline.now)]

    def _take_count(self, count: LineCount) -> list[Happening]:
        """From its opening on a gateway should be heard; while this machine slept none could be."""
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
        if read.happenings:
            found += self._note_jump(read.happenings)
        frame, message = read.frame, read.message
        if isinstance(message, Idle) and not read.posed:
            found += [*read.happenings, *self.advance(arrival.mono_ns)]
            self.decision = Decision(Fate.RECORD, is_long=True, clock=timeline.reached)
            return found
        counts.rate.add(arrival.mono_ns)
        is_known = read.verdict.is_let_in and not read.posed
        if is_known and isinstance(message, Data) and isinstance(frame, ActiveMessage):
            found += read.happenings
            found += self._take_data(arrival, frame, message, read)
            return found
        if not (is_known and isinstance(message, Heard)):
            self.decision = plain_decision(fate_of(read), read)
        if is_known:
            found += self._take_record(arrival, read)
            return found
        return [*found, *read.happenings, *self._refuse(arrival, read)]

    def _take_record(self, arrival: Arrival, read: TimedFrame) -> list[Happening]:
        """Take a packet that is let in and holds no data of a mote."""
        frame, message, now = read.frame, read.message, self.timeline.now
        if isinstance(frame, Ack):
            return [Acknowledged(*now, arrival.gateway, frame.token)]
        if frame is None or message is None:
            return [self._strange(arrival, "no packet", read.error)]
        if isinstance(message, Unknown):
            return [self._strange(arrival, message.reason.name.lower(), str(message))]
        arrived = Arrived(*now, arrival.gateway, frame, message, read.heard, read.cycles)
        arrived.proves = read.proves
        if not isinstance(message, Health):
            return [arrived, *read.happenings]
        arrived.copy = self._reports.is_copy(message)
        if (
            arrived.copy or read.verdict is Verdict.UNPROTECTED
        ):  # the first of its node, and it may be an old one
            return [arrived, *read.happenings]
        return [arrived, *read.happenings, *self._reports.take(message, *now)]

    def _note_afresh(self) -> None:
        """Time has started afresh: copies of earlier messages stay copies."""
        jumped, self._jumped = self.timeline.clock.jumped, self.timeline.clock.jumped
        before, self._jumped_ticks = self._jumped_ticks, self.timeline.tick(jumped)
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

    def _refuse(self, arrival: Arrival, read: TimedFrame) -> list[Happening]:
        """Count and report a message that the guard refuses, or a record that came by radio."""
        verdict, now = read.verdict, self.timeline.now
        if verdict.is_let_in:
            text = "a record that only a gateway makes came by radio; it is not believed"
            counts = self.timeline.gateway(arrival.gateway)
            strange = self._strange(arrival, "gateway's record", text)
            return [strange, *self.alarms.posed(arrival.gateway, counts, *now)]
        what = speaker(read.message, self.deployment)
        strange = self._strange(arrival, verdict.value, f"{verdict.value} {what}: {WORDS[verdict]}")
        return [strange, *self.alarms.refused(verdict.value, what, *now)]

    # ---- Messages ----

    def _take_data(
        self, arrival: Arrival, frame: ActiveMessage, data: Data, read: TimedFrame
    ) -> list[Happening]:
        network, timeline = self.deployment.network, self.timeline
        if data.source >= network.motes:
            self.decision = plain_decision(Fate.STRANGER, read)
            text = f"source {data.source} is not a mote of this deployment, which has 0..{network.motes - 1}"
            return [self._strange(arrival, "source", text)]
        # The log has `reached` and when the message was heard, so a replay gives the rule the same tick. A line that
        # lagged has set the clock back to when the message was heard.
        heard, cycles, reached = read.heard, read.cycles, timeline.reached
        timed, tick = cycles is not None, timeline.tick(reached or 0)
        heard_tick = tick if cycles is None else timeline.tick(cycles)
        tick = min(tick, heard_tick)
        held = HeldMessage(data, arrival.mono_ns, tick, cycles, data.in_sync and timed)
        digest, guessed = data_digest(frame.data, self.layout), heard is None and timed
        reception = self.observer.receive(data, tick, heard_tick, held, timed, guessed, digest)
        if tick != self._asked:  # a timer has run ahead: in its tick this message may be due
            self._asked = None
        self.decision = data_decision(read, reception, held.in_sync, reached, timeline.guard is not None)
        counts, message = self.motes[data.source], reception.message
        found = self._count_boot(counts, data, reception)
        if heard is not None and heard.rssi != RSSI_UNKNOWN:
            counts.rssi = heard.rssi
            counts.relayed = is_relayed(data, frame.source, counts.health, network)
        here = (*timeline.now, arrival.gateway, frame, data, heard, cycles, reached)
        if message is None:
            counts.duplicates += 1
            return [*found, Arrived(*here, copy=True)]
        self.received += 1
        held.name = Name(data.source, data.boot, message.sequence)
        held.number, held.late, held.differs = self.received, reception.late, reception.numbered.differs
        found.append(Arrived(*here, held.name, self.received, False, held.differs))
        if held.differs:
            found += self.alarms.imitated(data.source, counts, *timeline.now)
        counts.bounded, counts.untimed = counts.bounded + reception.bounded, counts.untimed + (not timed)
        found += self._count_arrival(counts, held, message, heard_tick, reception.stray)
        found += self._go_on(held, message, reception)
        return found

    def _count_boot(self, counts: MoteCounts, data: Data, reception: Reception) -> list[Happening]:
        before, now = reception.numbered.before, self.timeline.now
        if counts.boot is None and not reception.stray:
            counts.boot = data.boot
        if before is None:
            return []
        counts.reboot(data.boot, now[0])
        reboot = Reboot(*now, data.source, data.boot, before)
        self._reports.note(reboot)
        return [reboot, *self.alarms.mote_changed(data.source, counts, *now)]

    def _count_arrival(
        self, counts: MoteCounts, held: HeldMessage, message: Ordered, heard: int, stray: bool
    ) -> list[Happening]:
        """Count a message. When a stray was sent is unknown, so it says nothing of the time or of causes."""
        data, mono_ns = held.data, held.mono_ns
        self.rate.add(mono_ns)
        counts.take(data, held.name.sequence, mono_ns, stray, held.differs)
        counts.late += held.late
        if stray:
            return self.alarms.mote_seen(data.source, counts, *self.timeline.now, stray=True)
        if self._needs_time:
            counts.sync.update(data.in_sync, mono_ns)
        if self._is_scheduled and not is_again(data.age):
            counts.backlog.add(data.age >= OLD)
        found = self.alarms.mote_seen(data.source, counts, *self.timeline.now)
        now = self.timeline.present or 0
        held.out, overtakings = self.violations.arrived(message, held.name, data, heard, now)
        return found + self.leaving.violated(overtakings) if overtakings else found

    def _go_on(self, held: HeldMessage, message: Ordered, reception: Reception) -> list[Happening]:
        """What the rule makes of a new message: it holds or discards it, and others may leave."""
        leaving, found = self.leaving, list[Happening]()
        if reception.discarded:
            found.append(leaving.discard(held, message))
        else:
            leaving.hold(held)
        if reception.deliveries:
            found += leaving.deliver(reception.deliveries)
        found += leaving.make_room()
        if self.observer.waits_by_name and not reception.discarded:
            found += leaving.show(held)
        return found
