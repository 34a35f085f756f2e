"""The timeline: what the gateways' lines say, and when. A frame comes out of it with the time at which it was heard.

It pairs heard records with their frames, follows the root's epochs, and keeps the observer's clock.
Everything follows from the lines and the host's times that came with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from basestation.arrivals import Arrival, Gap
from basestation.causality.modular import nearest
from basestation.live.clock import BEHIND, WRAP, ClockReading, ObserverClock
from basestation.live.counters import GatewayCounts
from basestation.live.guard import WINDOWS, Guard, Verdict, rounds_ahead
from basestation.live.happenings import ClockChanged, Happening, Note
from basestation.live.pairing import Pairing
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.fast_read import MessageReader, read_packet
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, Message, Unknown, encode_message
from packet_formats.records import Beacon, Health, Heard, Idle, Proof, Status
from packet_formats.seal import reading_window
from packet_formats.tinyos import Ack, ActiveMessage, PacketError, encode_packet

FOREIGN_AFTER = 3  # radio frames of a gateway that has never sent a heard record
OLD_EPOCH_NS = (
    10_000_000_000  # after this long without a record of the present epoch, an older epoch is believed
)


# What a packet is: an acknowledgement, a frame with its message, or nothing that can be read, and why.
Packet = tuple[ActiveMessage | Ack | None, Message | Unknown | None, str]


class PacketReader:
    """Reads the packets of one layout."""

    def __init__(self, layout: DataLayout) -> None:
        self._reader = MessageReader(layout)

    def read(self, packet: bytes) -> Packet:
        try:
            frame = read_packet(packet)
        except PacketError as error:
            return None, None, str(error)
        return frame, None if isinstance(frame, Ack) else self._reader.read(frame), ""


class TimedFrame(NamedTuple):
    """A packet of a line, with its record, and the cycles at which it was heard; None if unknown.

    Without a record the cycles are a guess, which may be too early: by `Deployment.late_guess` at most, if
    `Timeline.guesses_hold`, and no beacon is later than half of that.
    In a network with a key a guess is moved to where the stamp reads as its MIC says.
    """

    frame: ActiveMessage | Ack | None
    message: Message | Unknown | None = None
    error: str = ""
    heard: Heard | None = None
    cycles: int | None = None
    happenings: Sequence[Happening] = ()  # what it shows of the clock and of its gateway
    verdict: Verdict = Verdict.GOOD  # of the guard, in a network with a key
    posed: bool = False  # a gateway's own record that came by air: it is forged
    proves: Beacon | None = None  # by a proof, in a network with a key


class Timeline:
    """The lines of a network's gateways.

    `present` is the observer's clock, in cycles: up to then everything that was heard is in. A line that lags may set
    it back. `reached`: the furthest that it had got when it was looked at, which deliveries went by.
    """

    def __init__(self, deployment: Deployment, allowance_ns: int | None = None) -> None:
        self.clock = ObserverClock(allowance_ns)
        self.gateways: dict[int, GatewayCounts] = {}
        self.epoch: int | None = None
        self.present: int | None = None
        self.reached: int | None = None
        self.mono_ns = self.wall_ahead = 0
        self.now = (0, 0)  # the host's clocks, monotonic and wall
        self._epoch_ns = 0
        self._late = deployment.late_guess << deployment.clock.tick_log2
        self.guesses_hold = self._late // 2 >= self.clock.allowance
        self._shift, self._motes = deployment.clock.tick_log2, deployment.network.motes
        self._layout, self._late_ticks = layout_of(deployment), deployment.late_guess
        self._reader = PacketReader(self._layout)
        self._idle_size = len(encode_packet(encode_message(Idle(0, 0, 0, 0), self._layout)))
        self.guard = Guard(deployment) if deployment.key is not None else None
        self._rounds: int | None = None  # of the network above those of our cycles; None: not known

    def remember(self, strays: Iterable[tuple[int, bytes]]) -> None:
        """Messages without a time that were let in before a run began; only the guard needs them."""
        if self.guard is not None:
            self.guard.remember(strays)

    def gateway(self, gateway: int) -> GatewayCounts:
        counts = self.gateways.get(gateway)
        if counts is None:
            counts = self.gateways[gateway] = GatewayCounts(guesses_hold=self.guesses_hold)
        return counts

    def tick(self, cycles: int) -> int:
        return cycles >> self._shift

    def advance(self, mono_ns: int, clock: int | None = None) -> int | None:
        """Time has passed; the tick of the clock. `clock`: cycles that a log says it had reached.

        A log may lack the idle records that moved the clock. But it does not say how far a line that lagged has set the
        clock back: then the clock goes by the line.
        """
        if mono_ns > self.mono_ns:
            self.mono_ns = mono_ns
        self.now = (self.mono_ns, self.mono_ns + self.wall_ahead)
        cycles = self.present = self.clock.at(self.mono_ns)
        if clock is not None and (self.reached is None or clock > self.reached):
            cycles = clock
        if cycles is None:
            return None
        if self.reached is None or cycles > self.reached:
            self.reached = cycles
        return cycles >> self._shift

    def when(self, tick: int) -> int | None:
        """The host's time at which the clock reaches a tick if no record comes."""
        return self.clock.when(tick << self._shift)

    def network_time(self, mono_ns: int) -> tuple[int, int] | None:
        """The root epoch, and the cycles of its time by now as far as they can be guessed; None while not known."""
        cycles = self._whole(self.clock.guess(None, mono_ns))
        return None if cycles is None or self.epoch is None else (self.epoch, cycles)

    def _whole(self, cycles: int | None) -> int | None:
        """Our cycles as the guard needs them: in a network with a key, with the network's round; None: not known."""
        if self.guard is None or cycles is None:
            return cycles
        return None if self._rounds is None else cycles + self._rounds * WRAP

    def _learn_round(self, round_: int, time: int, now: int | None) -> None:
        """The network's time is in this round when it reads `time`, which is about now."""
        if now is not None:
            self._rounds = round_ - nearest(time, now, WRAP) // WRAP

    def take_gap(self, gap: Gap) -> GatewayCounts:
        counts = self.gateway(gap.gateway)
        counts.live = gap.back
        counts.gaps += not gap.back
        counts.orphans += counts.pairing.drop()
        if gap.back and counts.foreign:  # it may be another gateway now
            counts.foreign, counts.pairing = False, Pairing()
        if gap.back:
            self.clock.expect(gap.gateway)
        else:
            self.clock.lose(gap.gateway)
        return counts

    def note_sleep(self, slept_ns: int) -> ClockChanged:
        return ClockChanged(*self.now, None, "sleep", f"this machine slept {slept_ns / 1e9:.0f} s")

    def read(self, arrival: Arrival, guess: int | None = None) -> TimedFrame:
        """A packet of a line; call `advance` before. `guess`: when it was heard, as a log notes it for a frame without
        record."""
        frame, message, error = self._reader.read(arrival.packet)
        counts = self.gateway(arrival.gateway)
        if not isinstance(frame, ActiveMessage) or message is None:
            counts.frames += 1
            return TimedFrame(frame, message, error)
        if isinstance(message, Idle):
            return self._take_idle(arrival, counts, frame, message)
        counts.frames += 1
        pairing = counts.pairing
        if isinstance(message, Heard):
            if pairing.announces(frame.data) or pairing.surely_foreign:
                return TimedFrame(frame, message, posed=True)
            return TimedFrame(frame, message, "", None, None, self._take_record(arrival, counts, message))
        heard, orphans = pairing.match(frame.data)
        counts.orphans += orphans
        counts.foreign &= not pairing.native
        if heard is None:
            read = self._unpaired(arrival, counts, frame, message)
            return read if guess is None else read._replace(cycles=guess)
        found = self._confirm(arrival, counts, heard) if pairing.doubted_ns is not None else ()
        if self.guard is None and isinstance(message, Data):
            return TimedFrame(frame, message, "", heard, pairing.cycles, found)
        verdict, proves = Verdict.GOOD, None
        if self.guard is not None:
            verdict = self.guard.judge(
                frame.data, message, heard.epoch, self._whole(pairing.cycles), arrival.mono_ns
            ).verdict
            if isinstance(message, Beacon):
                self.guard.keep_beacon(frame.data, message, arrival.gateway, arrival.mono_ns)
            elif isinstance(message, Proof):
                verdict, proves, _ = self.guard.proven(
                    message, arrival.gateway, self.network_time(arrival.mono_ns), arrival.mono_ns
                )
        posed = self._is_own(message)
        return TimedFrame(frame, message, "", heard, pairing.cycles, found, verdict, posed, proves)

    def is_idle(self, packet: bytes) -> bool:
        """Whether a packet is a gateway's idle record."""
        return len(packet) == self._idle_size and isinstance(self._reader.read(packet)[1], Idle)

    def _take_idle(
        self, arrival: Arrival, counts: GatewayCounts, frame: ActiveMessage, idle: Idle
    ) -> TimedFrame:
        """A heard record without a frame: it moves the clock, unless the record came by air."""
        if counts.pairing.announces(frame.data) or counts.pairing.surely_foreign:
            return TimedFrame(frame, idle, posed=True)
        if not idle.in_sync or not self._is_expected(arrival, idle):
            return TimedFrame(frame, idle)
        reading = self.clock.hear(arrival.gateway, idle.time, arrival.mono_ns)
        self._epoch_ns = arrival.mono_ns
        return TimedFrame(frame, idle, happenings=self._tell_reading(arrival, counts, reading))

    def _is_own(self, message: Message | Unknown) -> bool:
        """Whether only a gateway makes it, for its host: such a message heard on the air is forged."""
        return isinstance(message, Status) or (isinstance(message, Health) and message.source >= self._motes)

    def _unpaired(
        self, arrival: Arrival, counts: GatewayCounts, frame: ActiveMessage, message: Message | Unknown
    ) -> TimedFrame:
        """A frame without its record: a gateway's own report, or one whose record was lost or never made."""
        if counts.pairing.surely_foreign and self._is_own(message):
            return TimedFrame(frame, message, posed=True)
        if isinstance(message, Status):
            counts.status = message
        if self.guard is not None:
            return self._guarded(self.guard, arrival, counts, frame, message)
        if not isinstance(message, Data | Beacon | Health):
            return TimedFrame(frame, message)
        found = self._note_alone(arrival, counts, message)
        if isinstance(message, Data):
            cycles = self.clock.guess(arrival.gateway, arrival.mono_ns, self._late)
            return TimedFrame(frame, message, "", None, cycles, found)
        return TimedFrame(frame, message, happenings=found + self._take_time(arrival, counts, message))

    def _guarded(
        self,
        guard: Guard,
        arrival: Arrival,
        counts: GatewayCounts,
        frame: ActiveMessage,
        message: Message | Unknown,
    ) -> TimedFrame:
        """The same in a network with a key: a forged frame changes neither time nor gateway."""
        mono_ns, gateway = arrival.mono_ns, arrival.gateway
        cycles = self.clock.guess(gateway, mono_ns, self._late)
        latest = self._whole(None if cycles is None else cycles + self._late)
        verdict, sent = guard.judge(frame.data, message, self.epoch, latest, mono_ns, WINDOWS)
        proves, came_ns = None, 0
        if isinstance(message, Proof):
            verdict, proves, came_ns = guard.proven(message, gateway, self.network_time(mono_ns), mono_ns)
        if not verdict.is_let_in or not isinstance(message, Data | Beacon | Health | Proof):
            return TimedFrame(frame, message, verdict=verdict)
        found = self._note_alone(arrival, counts, message)
        if isinstance(message, Data):
            if message.in_sync:  # its MIC shows that the present epoch goes on
                self._epoch_ns = mono_ns
            if cycles is not None and sent is not None:
                cycles = self._within(cycles, sent)
            return TimedFrame(frame, message, "", None, cycles, found, verdict)
        if isinstance(message, Beacon):
            guard.keep_beacon(frame.data, message, gateway, mono_ns)
        elif isinstance(message, Health):
            found = found + self._take_time(arrival, counts, message)
        elif proves is not None:
            found = found + self._take_time(arrival._replace(mono_ns=came_ns), counts, proves)
        return TimedFrame(frame, message, happenings=found, verdict=verdict, proves=proves)

    def _within(self, cycles: int, sent: int) -> int:
        """A guess of when a message was heard, moved as little as needed for the observer to read its stamp's clock as
        `sent`, which its MIC showed to be right."""
        tick = self.tick(cycles)
        first, last = reading_window(self._layout, sent, tick, self._late_ticks)
        return cycles if first <= tick <= last else (first if tick < first else last) << self._shift

    def _note_alone(
        self, arrival: Arrival, counts: GatewayCounts, message: Data | Beacon | Health | Proof
    ) -> list[Happening]:
        """Count a frame that was heard on the air and has no record; whether the gateway is a foreign one."""
        if isinstance(message, Data | Beacon) or (isinstance(message, Health) and not self._is_own(message)):
            counts.unpaired += 1
            counts.pairing.alone += 1
            counts.pairing.cycles = None
        return self._note_foreign(arrival, counts)

    def _take_record(self, arrival: Arrival, counts: GatewayCounts, heard: Heard) -> list[Happening]:
        """A heard record: the next frame of this line is its own, and the clock has reached its time.

        One that surprises is believed when its frame follows: the record that would show that it came by air may have
        been lost on the line.
        """
        pairing = counts.pairing
        orphans, lost = pairing.take(heard)
        counts.orphans += orphans
        counts.records_lost += lost
        if not heard.in_sync and pairing.paired:
            counts.dropped += heard.lost
            return []
        if pairing.paired and not lost and self._is_expected(arrival, heard):
            return self._believe(arrival, counts, heard, arrival.mono_ns)
        pairing.doubted_ns = arrival.mono_ns
        return []

    def _is_expected(self, arrival: Arrival, heard: Heard | Idle) -> bool:
        """Whether a record goes on with the time as it is known."""
        now = self.clock.guess(arrival.gateway, arrival.mono_ns) if heard.epoch == self.epoch else None
        return now is not None and abs(nearest(heard.time, now, WRAP) - now) <= BEHIND

    def _confirm(self, arrival: Arrival, counts: GatewayCounts, heard: Heard) -> list[Happening]:
        """The frame of a record that was doubted has come."""
        mono_ns, counts.pairing.doubted_ns = counts.pairing.doubted_ns, None
        found = self._believe(arrival, counts, heard, arrival.mono_ns if mono_ns is None else mono_ns)
        self.advance(self.mono_ns)
        return found

    def _believe(
        self, arrival: Arrival, counts: GatewayCounts, heard: Heard, mono_ns: int
    ) -> list[Happening]:
        """What a record that came at that time says is true."""
        counts.dropped += heard.lost
        if not heard.in_sync:
            return []
        before = self._time_before(arrival.mono_ns)
        found = self._enter_epoch(arrival, heard.epoch)
        if heard.epoch == self.epoch:
            reading = self.clock.hear(arrival.gateway, heard.time, mono_ns)
            counts.pairing.cycles = reading.cycles
            if reading.led or reading.restarted:
                found += self._tell_reading(arrival, counts, reading)
            if self.guard is not None:
                self._learn_round(heard.round, heard.time, reading.cycles)
                if reading.restarted:
                    self.guard.started_afresh(arrival.mono_ns, before)
        return found

    def _take_time(
        self, arrival: Arrival, counts: GatewayCounts, message: Beacon | Health
    ) -> list[Happening]:
        """Behind a gateway that sends no heard records, the times that are sent take their place."""
        if counts.pairing.native or not message.in_sync:
            return []
        found = self._enter_epoch(arrival, message.epoch)
        if message.epoch == self.epoch:
            if isinstance(message, Beacon) and rounds_ahead(message, self._time_before(arrival.mono_ns)) > 0:
                self.clock.restart()  # what we took for the time was played again
            self.clock.suggest(arrival.gateway, message.time, arrival.mono_ns)
            if isinstance(message, Beacon):
                now = self.clock.guess(arrival.gateway, arrival.mono_ns)
                self._learn_round(message.round, message.time, now)
        return found

    def _tell_reading(
        self, arrival: Arrival, counts: GatewayCounts, reading: ClockReading
    ) -> list[Happening]:
        if reading.restarted:
            text = "the network's time has started afresh; what was held is delivered"
            return [ClockChanged(*self.now, arrival.gateway, "restart", text)]
        if self.tick(reading.led) > 0:
            counts.lags += 1
            ms = reading.led * 1000 / CRYSTAL_HZ
            text = f"the line of gateway {arrival.gateway} was {ms:.0f} ms slower than allowed for"
            return [ClockChanged(*self.now, arrival.gateway, "lag", text)]
        return []

    def _enter_epoch(self, arrival: Arrival, epoch: int) -> list[Happening]:
        """A newer root epoch is a new time; an older one is a straggler's, unless the present one has ended."""
        before = self.epoch
        if epoch == before:
            self._epoch_ns = arrival.mono_ns
            return []
        straggler = before is not None and (epoch - before) % 256 >= 128
        if straggler and arrival.mono_ns - self._epoch_ns < OLD_EPOCH_NS:
            return []
        time = self._time_before(arrival.mono_ns)
        self.epoch, self._epoch_ns, self._rounds = epoch, arrival.mono_ns, None
        if before is None:
            return []
        self.clock.restart()
        if self.guard is not None:
            self.guard.started_afresh(arrival.mono_ns, time)
        text = f"root epoch {epoch} follows {before}: time has started afresh, what was held is delivered"
        return [ClockChanged(*self.now, arrival.gateway, "epoch", text)]

    def _time_before(self, mono_ns: int) -> tuple[int, int] | None:
        """The time before a record changes it; only the guard needs it."""
        return None if self.guard is None else self.network_time(mono_ns)

    def _note_foreign(self, arrival: Arrival, counts: GatewayCounts) -> list[Happening]:
        pairing = counts.pairing
        if counts.foreign or pairing.native or pairing.alone < FOREIGN_AFTER:
            return []
        counts.foreign = True
        if pairing.paired:  # records and their frames were sent by radio, and believed
            self.epoch = None
            self.clock.restart()
        text = (
            f"{counts.name or f'gateway {arrival.gateway}'} sends no heard records: it is not Causeway's. The time is "
            f"taken from beacons and health messages. {self._guesses_said()}"
        )
        return [Note(*self.now, text)]

    def _guesses_said(self) -> str:
        """What the room for guessed times of reception is enough for."""
        if not self._layout.stamp.clock_bits:
            return "No order is promised: how long to wait for a message goes by a guess"
        ms, allowed = self._late * 500 / CRYSTAL_HZ, self.clock.allowance_ns / 1_000_000
        if self.guesses_hold:
            return f"Order is kept if no beacon is more than {ms:.0f} ms late"
        return (
            f"No order is promised: a frame may take {allowed:.0f} ms longer than the quickest on the line, and stamps "
            f"are misread from {ms:.0f} ms on"
        )
