"""The station: packets in, happenings out. It reads, observes, counts and explains, and never asks what time it is.

Everything follows from the lines and the host's times that came with them, so a log played back gives the same
deliveries. Two rules make that so. The policy is always asked what is due before it is given a message, at the same
clock. And before a packet is looked at, what time alone has made due is delivered, whether a timer was there or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from basestation.arrivals import Arrival, Gap, Line
from basestation.causality.order import deadline, key
from basestation.causality.policies import Delivery
from basestation.causality.schemes.holding import Pending
from basestation.causality.schemes.notices import ConcurrentNotice, GiveUpNotice, Step
from basestation.causality.schemes.notices import DiscardNotice as DiscardedStep
from basestation.causality.schemes.scheme import NEVER
from basestation.live.alarms import Alarms
from basestation.live.clock import ClockReading, ObserverClock
from basestation.live.counters import (
    GatewayCounts,
    HeldView,
    Holds,
    MoteCounts,
    OrderView,
    Rate,
    RuleCounts,
    Snapshot,
    gateway_view,
    mote_view,
)
from basestation.live.explain import Causes, Overtaking
from basestation.live.happenings import (
    Acknowledged,
    Arrived,
    ClockChanged,
    Delivered,
    Discarded,
    GaveUp,
    Happening,
    LineChanged,
    Name,
    Note,
    PolicyChanged,
    Reboot,
    Strange,
    Violation,
)
from basestation.live.pairing import Pairing
from basestation.live.wait_reasons import listed, shown_names, why_waits
from basestation.observer import PATIENCE, Observer
from basestation.observer import Heard as Ordered
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.fast_read import MessageReader, read_packet
from packet_formats.framing import FrameCounters
from packet_formats.layout import layout_of
from packet_formats.messages import Data, Message, Unknown
from packet_formats.phrases import many
from packet_formats.records import Beacon, Health, Heard, Status
from packet_formats.tinyos import Ack, ActiveMessage, PacketError

MOST_HELD = 10_000  # messages; a queue that grows beyond lets the first go early, and counts it
MOST_NAMED = 1_000  # under a rule that waits for messages by name: each of them may name all the others
FOREIGN_AFTER = 3  # radio frames of a gateway that has never sent a heard record
OLD_EPOCH_NS = 10_000_000_000  # so long after the last record of the present epoch, an older one is believed
SHOWN = 200  # messages of the queue in a snapshot
MS = 1_000_000


@dataclass(slots=True)
class _Held:
    """A message between its arrival and its delivery."""

    message: Ordered
    name: Name
    data: Data
    number: int
    mono_ns: int
    arrived: int  # ticks
    cycles: int | None  # when it was heard
    in_sync: bool  # and heard at a known time: otherwise nobody can order it
    late: bool


class Station:
    """`policy` and `phi` replace the deployment's. `allowance_ns`: see `live.clock`."""

    def __init__(
        self,
        deployment: Deployment,
        policy: str | None = None,
        phi: int | None = None,
        *,
        allowance_ns: int | None = None,
    ) -> None:
        observer, clock = deployment.observer, deployment.clock
        self.deployment = deployment
        self.policy = policy or observer.policy
        self.phi = observer.phi if phi is None else phi
        self._layout = layout_of(deployment)
        self._reader = MessageReader(self._layout)
        self._shift = clock.tick_log2
        self._patience = PATIENCE * (clock.delta + 2 * clock.epsilon)
        self._earlier: dict[tuple[str, int], None] = {}
        self._observer = Observer(deployment, self.policy, self.phi)
        self.clock = ObserverClock(allowance_ns)
        self._asked: int | None = None  # cycles up to which deliveries were made
        self._epoch: int | None = None
        self._epoch_ns = 0
        self._held: dict[int, _Held] = {}
        self._steps: dict[int, list[Step]] = {}  # of what is about to leave
        self._noticed: Counter[str] = Counter()
        self._number = self._place = self._forced = 0
        self._motes: dict[int, MoteCounts] = {}
        self._gateways: dict[int, GatewayCounts] = {}
        self._pairs: dict[int, Pairing] = {}
        self._causes = Causes(deployment.network.motes)
        self._alarms = Alarms()
        self._holds, self._rate = Holds(), Rate()
        self.reasons: Counter[str] = Counter()
        self._mono_ns = self._wall_ahead = 0

    # ---- What the runner calls ----

    def add_gateway(
        self, gateway: int, name: str, mono_ns: int | None = None, line: FrameCounters | None = None
    ) -> None:
        """What a gateway's source is called, from when on it should be heard of, and who counts its line's errors."""
        counts = self._gateway(gateway)
        counts.name, counts.line = name, line
        if mono_ns is not None:
            self._alarms.expect_gateway(counts, mono_ns)

    def take(self, line: Line, clock: int | None = None) -> list[Happening]:
        """What a packet, or a gap, leads to. `clock` is what the log says of how far deliveries had got by then."""
        self._wall_ahead = line.wall_ns - line.mono_ns
        found = self._advance(line.mono_ns, clock)
        found += self._take_gap(line) if isinstance(line, Gap) else self._take_packet(line)
        return found

    def advance(self, mono_ns: int, clock: int | None = None) -> list[Happening]:
        """Time has passed. `clock`: see `take`."""
        return self._advance(mono_ns, clock)

    @property
    def reached(self) -> int | None:
        """Cycles up to which deliveries were made."""
        return self._asked

    def next_due(self) -> int | None:
        """The host's time at which `advance` should be called if nothing comes before."""
        tick = self._observer.next_due()
        at = None if tick is None else self.clock.when(tick << self._shift)
        alarm = self._alarms.next_check
        return min((time for time in (at, alarm) if time is not None), default=None)

    def set_policy(self, name: str, phi: int) -> list[Happening]:
        """Deliver by another policy from now on; what is held moves over."""
        now, held = self._tick(self._asked or 0), [held.message for held in self._held.values()]
        self._observer.change_policy(name, phi, held, now)
        self._earlier[self.policy, self.phi] = None
        self.policy, self.phi = name, phi
        changed = PolicyChanged(*self._now(), name, phi, len(held))
        return [changed, *self._notice(), *self._due(now)]

    def finish(self) -> list[Happening]:
        """The end: whatever is held leaves in order, without its wait."""
        found: list[Happening] = []
        while (tick := self._observer.next_due()) is not None:
            found += self._due(tick)
        return found

    # ---- Time ----

    def _now(self) -> tuple[int, int]:
        return self._mono_ns, self._mono_ns + self._wall_ahead

    def _tick(self, cycles: int) -> int:
        return cycles >> self._shift

    def _advance(self, mono_ns: int, clock: int | None) -> list[Happening]:
        self._mono_ns = max(self._mono_ns, mono_ns)
        reached = self.clock.at(self._mono_ns) if clock is None else clock
        found = [] if reached is None else self._ask(reached)
        return found + self._alarms.check(self._motes, self._gateways, *self._now())

    def _ask(self, cycles: int) -> list[Happening]:
        """Deliver all that is due at a time of the observer's clock, which other lines may have set back."""
        self._asked = cycles if self._asked is None else max(self._asked, cycles)
        return self._due(self._tick(cycles))

    def _due(self, tick: int) -> list[Happening]:
        deliveries = self._observer.due(tick)
        found = self._notice()
        for delivery in deliveries:
            found += self._deliver(delivery)
        return found

    # ---- Lines ----

    def _take_gap(self, gap: Gap) -> list[Happening]:
        counts, pairing = self._gateway(gap.gateway), self._pairing(gap.gateway)
        counts.live = gap.back
        counts.gaps += not gap.back
        counts.orphans += pairing.drop()
        if not gap.back:
            self.clock.lose(gap.gateway)
        changed = LineChanged(*self._now(), gap.gateway, gap.back, gap.reason)
        return [changed, *self._alarms.line(gap.gateway, counts, gap, *self._now())]

    def _take_packet(self, arrival: Arrival) -> list[Happening]:
        counts = self._gateway(arrival.gateway)
        counts.frames += 1
        counts.seen_ns = arrival.mono_ns
        counts.rate.add(arrival.mono_ns)
        found = self._alarms.gateway_seen(arrival.gateway, counts, *self._now())
        try:
            frame = read_packet(arrival.packet)
        except PacketError as error:
            return [*found, self._strange(arrival, "no packet", str(error))]
        if isinstance(frame, Ack):
            return [*found, Acknowledged(*self._now(), arrival.gateway, frame.token)]
        message = self._reader.read(frame)
        if isinstance(message, Heard):
            return found + self._take_heard(arrival, frame, message)
        heard = self._pair(arrival.gateway, frame, message)
        if isinstance(message, Unknown):
            return [*found, self._strange(arrival, message.reason.name.lower(), str(message))]
        return found + self._take_message(arrival, frame, message, heard)

    def _strange(self, arrival: Arrival, reason: str, text: str) -> Strange:
        self._gateway(arrival.gateway).strange += 1
        self.reasons[reason] += 1
        return Strange(*self._now(), arrival.gateway, text, arrival.packet)

    def _take_heard(self, arrival: Arrival, frame: ActiveMessage, heard: Heard) -> list[Happening]:
        """A heard record: the next frame of this line is its own, and the clock has reached its time."""
        arrived = Arrived(*self._now(), arrival.gateway, frame, heard)
        counts = self._gateway(arrival.gateway)
        orphans, lost = self._pairing(arrival.gateway).take(heard)
        counts.orphans += orphans
        counts.records_lost += lost
        counts.dropped += heard.lost
        if not heard.in_sync:
            return [arrived]
        found = [arrived, *self._enter_epoch(arrival, heard.epoch)]
        if heard.epoch != self._epoch:
            return found
        reading = self.clock.hear(arrival.gateway, heard.time, arrival.mono_ns)
        self._pairing(arrival.gateway).cycles = reading.cycles
        return found + self._tell_reading(arrival, reading)

    def _tell_reading(self, arrival: Arrival, reading: ClockReading) -> list[Happening]:
        changed = (*self._now(), arrival.gateway)
        if reading.restarted:
            text = "the network's time has started afresh; what was held is delivered"
            return [ClockChanged(*changed, "restart", text)]
        if self._tick(reading.led) > 0:
            self._gateway(arrival.gateway).lags += 1
            ms = reading.led * 1000 / CRYSTAL_HZ
            text = f"the line of gateway {arrival.gateway} was {ms:.0f} ms slower than allowed for"
            return [ClockChanged(*changed, "lag", text)]
        return []

    def _enter_epoch(self, arrival: Arrival, epoch: int) -> list[Happening]:
        """A newer root epoch is a new time; an older one is a straggler's, unless nobody is left of the present one."""
        before = self._epoch
        if epoch == before:
            self._epoch_ns = arrival.mono_ns
            return []
        straggler = before is not None and (epoch - before) % 256 >= 128
        if straggler and arrival.mono_ns - self._epoch_ns < OLD_EPOCH_NS:
            return []
        self._epoch, self._epoch_ns = epoch, arrival.mono_ns
        if before is None:
            return []
        self.clock.restart()
        text = f"root epoch {epoch} follows {before}: time has started afresh, what was held is delivered"
        return [ClockChanged(*self._now(), arrival.gateway, "epoch", text)]

    def _pair(self, gateway: int, frame: ActiveMessage, message: Message | Unknown) -> Heard | None:
        """The heard record that belongs to a frame."""
        counts, pairing = self._gateway(gateway), self._pairing(gateway)
        heard, orphans = pairing.match(frame.data)
        counts.orphans += orphans
        if heard is None and _from_radio(message, self.deployment.network.motes):
            counts.unpaired += 1
            pairing.cycles = None
        return heard

    # ---- Messages ----

    def _take_message(
        self, arrival: Arrival, frame: ActiveMessage, message: Message, heard: Heard | None
    ) -> list[Happening]:
        if isinstance(message, Data):
            return self._note_foreign(arrival) + self._take_data(arrival, frame, message, heard)
        cycles = self._pairing(arrival.gateway).cycles if heard else None
        arrived = Arrived(*self._now(), arrival.gateway, frame, message, heard, cycles)
        if isinstance(message, Health) and self._is_copy(message):
            return [replace(arrived, copy=True), *self._take_time(arrival, message, heard)]
        found: list[Happening] = [arrived]
        if isinstance(message, Status):
            self._gateway(arrival.gateway).status = message
        elif isinstance(message, Beacon | Health):
            found += self._note_foreign(arrival)
            found += self._take_time(arrival, message, heard)
        if isinstance(message, Health):
            found += self._take_health(message)
        return found

    def _take_time(self, arrival: Arrival, message: Beacon | Health, heard: Heard | None) -> list[Happening]:
        """Behind a gateway that sends no heard records, the times that are sent take their place."""
        pairing = self._pairing(arrival.gateway)
        if heard or pairing.native or not message.in_sync:
            return []
        found = self._enter_epoch(arrival, message.epoch)
        if message.epoch == self._epoch:
            self.clock.suggest(arrival.gateway, message.time, arrival.mono_ns)
        return found

    def _note_foreign(self, arrival: Arrival) -> list[Happening]:
        counts, pairing = self._gateway(arrival.gateway), self._pairing(arrival.gateway)
        if counts.foreign or pairing.native or counts.unpaired < FOREIGN_AFTER:
            return []
        counts.foreign = True
        text = (
            f"{counts.name or f'gateway {arrival.gateway}'} sends no heard records: it is not Causeway's. The time is "
            "taken from beacons and health messages; stamps near the edge of the clock field may be misread"
        )
        return [Note(*self._now(), text)]

    def _is_copy(self, health: Health) -> bool:
        """The same report over another way; relays change nothing in it but how often it may be passed on."""
        counts = self._motes.get(health.source)
        known = counts.health if counts else None
        return known is not None and replace(known, flags=health.flags) == health

    def _take_health(self, health: Health) -> list[Happening]:
        if health.source >= self.deployment.network.motes:
            return []
        counts = self._mote(health.source)
        counts.health = health
        return self._alarms.layout(health.source, counts, health.layout != self._layout.hash, *self._now())

    def _take_data(
        self, arrival: Arrival, frame: ActiveMessage, data: Data, heard: Heard | None
    ) -> list[Happening]:
        motes = self.deployment.network.motes
        if data.source >= motes:
            text = f"source {data.source} is no mote of this deployment, which has 0..{motes - 1}"
            return [self._strange(arrival, "source", text)]
        cycles = self._when_heard(arrival, heard)
        now = self.clock.at(arrival.mono_ns)
        found = [] if now is None else self._ask(now)
        tick = self._tick(now or 0)
        heard_tick = tick if cycles is None else self._tick(cycles)
        found += self._note_boot(data, heard_tick)
        late, bounded = self._observer.late, self._observer.bounded
        read = data if cycles is not None else replace(data, in_sync=False)
        message = self._observer.receive(read, tick, heard_tick)
        counts = self._mote(data.source)
        arrived = Arrived(*self._now(), arrival.gateway, frame, data, heard, cycles, self._asked)
        self._asked = now  # a line that lagged has set the clock back
        if message is None:
            counts.duplicates += 1
            return [*found, replace(arrived, copy=True)]
        self._number += 1
        name = Name(data.source, data.boot, message.sequence)
        found.append(replace(arrived, name=name, number=self._number))
        counts.bounded += self._observer.bounded - bounded
        counts.untimed += cycles is None
        held = _Held(
            message=message,
            name=name,
            data=data,
            number=self._number,
            mono_ns=arrival.mono_ns,
            arrived=tick,
            cycles=cycles,
            in_sync=read.in_sync,
            late=self._observer.late > late,
        )
        found += self._count_arrival(counts, held, now or 0)
        found += self._notice()
        found += self._due(tick)
        return found + self._make_room()

    def _when_heard(self, arrival: Arrival, heard: Heard | None) -> int | None:
        """Cycles at which a frame was received, unwrapped; None where nobody knows."""
        if heard is not None:
            return self._pairing(arrival.gateway).cycles
        return self.clock.guess(arrival.gateway, arrival.mono_ns)

    def _note_boot(self, data: Data, tick: int) -> list[Happening]:
        """A new boot count is a reboot; an older one soon after it is a copy that took long."""
        counts = self._mote(data.source)
        before = counts.boot
        if before == data.boot:
            return []
        older = before is not None and (data.boot - before) % 8 > 4
        if older and abs(tick - counts.booted) <= self._patience:
            return []
        counts.boot, counts.booted, counts.sent_cycles = data.boot, tick, None
        if before is None:
            return []
        counts.reboots += 1
        counts.lost_before, counts.span = counts.lost, None
        self._observer.forget(data.source, data.boot)
        self._causes.forget(data.source)
        return [Reboot(*self._now(), data.source, data.boot, before)]

    def _count_arrival(self, counts: MoteCounts, held: _Held, cycles: int) -> list[Happening]:
        data, name = held.data, held.name
        self._held[id(held.message)] = held
        self._rate.add(held.mono_ns)
        counts.rate.add(held.mono_ns)
        counts.received += 1
        counts.held += 1
        counts.late += held.late
        counts.out_of_sync += not data.in_sync
        counts.saturated += data.saturated
        if data.boot == counts.boot:
            counts.add(name.sequence, held.cycles)
        found = self._alarms.mote_seen(data.source, counts, *self._now())
        overtakings = self._causes.arrived(name, replace(data, in_sync=held.in_sync), cycles, held.mono_ns)
        return found + self._violations(overtakings)

    def _make_room(self) -> list[Happening]:
        found: list[Happening] = []
        most = MOST_NAMED if self._observer.by_name else MOST_HELD
        while len(self._held) > most and (tick := self._observer.next_due()) is not None:
            before = len(self._held)
            found += self._due(tick)
            self._forced += before - len(self._held)
        return found

    def _deliver(self, delivery: Delivery) -> list[Happening]:
        held = self._held.pop(id(delivery.message))
        counts = self._mote(held.name.source)
        steps = self._steps.pop(id(delivery.message), ())
        concurrent = any(isinstance(step, ConcurrentNotice) for step in steps)
        self._noticed["concurrent"] += concurrent
        self._place += 1
        counts.delivered += 1
        counts.held -= 1
        late = self._observer.by_name and delivery.late  # the others know it when the message comes
        counts.late += late
        left = max(delivery.left, held.arrived)
        mono_ns, wall_ns = self._now()
        held_ms = max(0, mono_ns - held.mono_ns) / MS
        due_ns = self.clock.when(left << self._shift)
        overdue_ns = 0 if due_ns is None else max(0, mono_ns - max(due_ns, held.mono_ns))
        counts.holds.add(held_ms)
        self._holds.add(held_ms)
        delivered = Delivered(
            mono_ns,
            wall_ns,
            name=held.name,
            data=held.data,
            number=held.number,
            place=self._place,
            arrived=held.arrived,
            left=left,
            held_ms=held_ms,
            overdue_ms=overdue_ns / MS,
            late=held.late or late,
            in_sync=held.in_sync,
            concurrent=concurrent,
        )
        gave_up = [self._gave_up(held.name, step) for step in steps if isinstance(step, GiveUpNotice)]
        overtakings = self._causes.delivered(held.name, left << self._shift, mono_ns)
        return [*gave_up, delivered, *self._violations(overtakings)]

    def _notice(self) -> list[Happening]:
        """What the rule noticed: kept for the message's delivery, or all that is ever heard of it."""
        found: list[Happening] = []
        for step in self._observer.steps():
            if isinstance(step, DiscardedStep):
                found.append(self._discard(self._held.pop(id(step.message))))
            else:
                self._steps.setdefault(id(step.message), []).append(step)
        return found

    def _discard(self, held: _Held) -> Discarded:
        self._mote(held.name.source).held -= 1
        self._noticed["discarded"] += 1
        sent, clock = held.message.stamp.r, self.deployment.clock
        text = f"sent at tick {sent}, of use until {sent + clock.delta + clock.epsilon}, heard of at {held.arrived}"
        return Discarded(*self._now(), held.name, text)

    def _gave_up(self, name: Name, step: GiveUpNotice) -> GaveUp:
        self._noticed["gave_up"] += 1
        missing = self._names(step.missing)
        return GaveUp(*self._now(), name, missing, f"leaves without {listed(missing)}")

    def _names(self, missing: Iterable[tuple[int, int]]) -> tuple[str, ...]:
        return shown_names(missing, self.policy, self._observer.named)

    def _violations(self, overtakings: Iterable[Overtaking]) -> list[Happening]:
        return [self._violation(overtaking) for overtaking in overtakings]

    def _violation(self, found: Overtaking) -> Violation:
        ticks, ms = self._tick(found.cycles), found.cycles * 1000 / CRYSTAL_HZ
        how = "arrived" if found.order == "arrival" else "was delivered"
        text = (
            f"{found.message} {how} before its cause {found.cause}, by {many(ticks, 'tick')} ({ms:.1f} ms): "
            f"{found.because}"
        )
        return Violation(*self._now(), found.order, found.message, found.cause, ticks, ms, text)

    # ---- Pictures ----

    def snapshot(self, mono_ns: int) -> Snapshot:
        """All that views show, as it is at `mono_ns`."""
        known = self._causes.complete / self._causes.sends if self._causes.sends else None
        receipts = self._layout.receipts > 0
        reached = self.clock.at(mono_ns)
        return Snapshot(
            mono_ns=mono_ns,
            wall_ns=mono_ns + self._wall_ahead,
            policy=self.policy,
            phi=self.phi,
            earlier=tuple(self._earlier),
            tick=None if reached is None else self._tick(reached),
            epoch=self._epoch,
            receipts=receipts,
            known=known if receipts else None,
            arrival=self._order("arrival"),
            delivery=self._order("delivery"),
            received=self._number,
            delivered=self._place,
            held=len(self._held),
            forced=self._forced,
            strange=self.reasons.total(),
            rate=self._rate.at(mono_ns),
            hold=self._holds.view(),
            motes=tuple(mote_view(mote, counts, mono_ns) for mote, counts in sorted(self._motes.items())),
            gateways=tuple(gateway_view(g, counts, mono_ns) for g, counts in sorted(self._gateways.items())),
            queue=tuple(self._queue(mono_ns)),
            alarms=self._alarms.texts(),
            policies=self.deployment.scheme.policies,
            noticed=RuleCounts(**self._noticed),
        )

    def _order(self, order: str) -> OrderView:
        return OrderView(self._causes.messages[order], self._causes.overtaken[order])

    def _queue(self, mono_ns: int) -> list[HeldView]:
        """The queue in the order in which it will leave, as far as is known now."""
        pending = self._observer.pending()
        if pending is not None:
            return [self._awaited(one, mono_ns) for one in pending[:SHOWN]]
        clock = self.deployment.clock
        phi = 100 if self.policy == "causal" else self.phi
        rows = []
        for held in self._held.values():
            last = deadline(held.message.stamp, phi, clock.epsilon, clock.delta)
            rows.append((held, max(last + 1 if phi else last, held.arrived)))
        if self.policy == "cbd":
            rows.sort(key=lambda row: key(row[0].message))
        else:
            rows.sort(key=lambda row: (row[1], key(row[0].message)))
        return self._explained(rows[:SHOWN], mono_ns)

    def _explained(self, rows: list[tuple[_Held, int]], mono_ns: int) -> list[HeldView]:
        views: list[HeldView] = []
        slowest: tuple[int, Name] | None = None
        for held, due in rows:
            why = f"until tick {due - 1} is over"
            if self.policy == "cbd" and slowest and slowest[0] > due:
                why = (
                    f"due, but {slowest[1]} comes before it"
                    if self._is_over(due)
                    else (f"{why}, and for {slowest[1]}, which comes before it")
                )
                due = slowest[0]
            else:
                slowest = (due, held.name)
            at = self.clock.when(due << self._shift)
            views.append(
                HeldView(
                    name=str(held.name),
                    source=held.name.source,
                    held_ms=max(0, mono_ns - held.mono_ns) / MS,
                    due_ms=None if at is None else (at - mono_ns) / MS,
                    why=why,
                )
            )
        return views

    def _awaited(self, one: Pending, mono_ns: int) -> HeldView:
        held = self._held[id(one.message)]
        at = None if one.leaves >= NEVER else self.clock.when(one.leaves << self._shift)
        return HeldView(
            name=str(held.name),
            source=held.name.source,
            held_ms=max(0, mono_ns - held.mono_ns) / MS,
            due_ms=None if at is None else (at - mono_ns) / MS,
            why=why_waits(self._names(one.missing), one.leaves),
        )

    def _is_over(self, due: int) -> bool:
        return self._asked is not None and self._tick(self._asked) >= due

    # ---- Tables ----

    def _mote(self, mote: int) -> MoteCounts:
        if mote not in self._motes:
            self._motes[mote] = MoteCounts()
        return self._motes[mote]

    def _gateway(self, gateway: int) -> GatewayCounts:
        if gateway not in self._gateways:
            self._gateways[gateway] = GatewayCounts()
        return self._gateways[gateway]

    def _pairing(self, gateway: int) -> Pairing:
        if gateway not in self._pairs:
            self._pairs[gateway] = Pairing()
        return self._pairs[gateway]


def _from_radio(message: Message | Unknown, motes: int) -> bool:
    """Whether a frame was heard on the air; a gateway's own reports go up the line without a heard record."""
    return isinstance(message, Data | Beacon) or (isinstance(message, Health) and message.source < motes)
