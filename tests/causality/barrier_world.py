"""A network at its limits, for the barrier: clocks exactly epsilon apart, copies in the last tick that is allowed.

Time is a step count. A clock is the step plus an offset in 0..epsilon, those of gateways too. A copy arrives while some
mote's clock is at most l + delta, since whoever passes it on drops it after that. Receivers see what the wire carries.
Each gateway hands on what it heard by a line of its own, in order. The observer's clock is the slowest line's: what
came last, or what must have come by now, since no line takes longer than `line` steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from basestation.causality.order import Message
from basestation.causality.rules import Delivery, Rule
from basestation.causality.schemes.barrier import Barrier, BarrierProgram
from basestation.causality.truth import Send, VectorTruth
from basestation.causality.violations import find_violations


@dataclass(frozen=True, slots=True)
class Limits:
    """How the network behaves. Chances are per mote and step, or per copy."""

    motes: int = 4
    steps: int = 250
    rate: float = 0.1
    loss: float = 0.1
    bursts: bool = False  # losses come together
    late_share: float = 0.2  # of all copies, in the last steps that are allowed
    mean_delay: float = 0.25  # of the others, as a share of delta
    hears: float = 1.0  # the share of peers that hear a mote
    reboots: float = 0.0
    lost_syncs: float = 0.0
    damage: float = 0.0  # chance that a mote's memory is overwritten
    gateways: int = 1
    line: int = 0  # steps that a line may take


@dataclass(slots=True)
class Line:
    """A gateway's line: what is under way on it, and the newest time that came by it."""

    gateway: int
    queue: deque[tuple[int, Message]] = field(default_factory=deque)
    heard: int = -1
    last_out: int = 0


class Observed(NamedTuple):
    """The observer's arrivals by its clock, in order, and the truth about all that was sent in sync."""

    arrivals: list[tuple[int, Message]]
    sends: dict[tuple[int, int], Send]
    faults: list[int]  # the observer's clock at each damage


class BarrierWorld:
    def __init__(self, scheme: Barrier, limits: Limits, seed: int) -> None:
        self._scheme, self._limits, self._random = scheme, limits, Random(seed)
        self._epsilon, self._delta = scheme.setting.epsilon, scheme.setting.delta
        motes = range(limits.motes)
        clocks = limits.motes + limits.gateways
        self._offset = [self._random.choice((0, self._epsilon)) for _ in range(clocks)]
        self._offset[self._random.randrange(clocks)] = 0
        self._programs: list[BarrierProgram] = [scheme.start(mote) for mote in motes]
        self._peers = [[p for p in motes if p != m and self._chance(limits.hears)] for m in motes]
        self._number = [0] * limits.motes
        self._above = [0] * limits.motes
        self._synced_at = [0] * limits.motes  # the step from which its clock is right
        self._truth = VectorTruth(limits.motes)
        self._indices = [0] * limits.motes
        self._flying: dict[int, list[tuple[Message, int]]] = {}
        self._burst_until = 0
        self._seen: set[tuple[int, int]] = set()
        self._lines = [Line(motes.stop + gateway) for gateway in range(limits.gateways)]
        self.observed = Observed([], {}, [])

    def run(self) -> Observed:
        self._step = 0
        while self._step < self._limits.steps or self._flying or any(line.queue for line in self._lines):
            self._turns()
            self._step += 1
        return self.observed

    def _chance(self, chance: float) -> bool:
        return self._random.random() < chance

    def _clock(self, process: int) -> int:
        return self._step + self._offset[process]

    def _turns(self) -> None:
        """Everything of one step, in any order; what arrives with no delay comes in the same step."""
        limits = self._limits
        for mote in self._random.sample(range(limits.motes), limits.motes):
            if self._step >= limits.steps:
                break
            if self._chance(limits.reboots):
                self._restart(mote, self._step)
                self._above[mote] += 512
                self._number[mote] = 0
            if self._chance(limits.lost_syncs):
                self._restart(mote, self._step + self._random.randrange(2 * self._delta))
            if self._chance(limits.damage):
                self._overwrite(mote)
            if self._chance(limits.rate):
                self._send(mote)
            self._receive()
        self._receive()
        self._hand_on()

    def _restart(self, mote: int, step: int) -> None:
        self._synced_at[mote] = step
        self._programs[mote].restart(step + self._offset[mote])

    def _overwrite(self, mote: int) -> None:
        program, draw = self._programs[mote], self._random.randrange
        reach = 4 * self._scheme.constants.Z
        program.l, program.counter = self._clock(mote) + draw(-reach, reach), draw(8)
        program._sent = [self._clock(mote) + draw(-reach, reach) for _ in program._sent]
        program._previous = self._clock(mote) + draw(-reach, reach)
        for heard in program._heard.values():
            heard.top, heard.sequence = self._clock(mote) + draw(-reach, reach), draw(256)
            heard.close, heard.front = self._chance(0.5), self._chance(0.5)
        self._number[mote] = draw(256)
        self._above[mote] += 512
        self.observed.faults.append(self._now())

    def _send(self, mote: int) -> None:
        self._number[mote] += 1
        number = self._number[mote]
        program, now = self._programs[mote], self._clock(mote)
        if self._step < self._synced_at[mote] or program.is_silent(now):
            return  # it goes out of sync: the observer does not order it, and no peer counts it
        stamp = program.on_send(now, number)
        message = Message(mote, number, stamp, above=self._above[mote])
        self.observed.sends[mote, message.number] = self._truth.on_send(mote)
        for peer in self._peers[mote]:
            self._launch(message, peer)
        for line in self._lines:
            self._launch(message, line.gateway)

    def _launch(self, message: Message, receiver: int) -> None:
        limits, random = self._limits, self._random
        if limits.bursts:
            if self._chance(limits.loss / 10):
                self._burst_until = self._step + 20
            if self._step < self._burst_until:
                return
        elif self._chance(limits.loss):
            return
        last = message.stamp.top + self._delta - min(self._offset)
        if self._chance(limits.late_share):
            at = max(last - random.randrange(3), self._step)
        else:
            at = self._step + min(int(random.expovariate(1 / limits.mean_delay / self._delta)), self._delta)
        if self._step <= at <= last:
            self._flying.setdefault(at, []).append((message, receiver))

    def _receive(self) -> None:
        copies = self._flying.pop(self._step, [])
        self._random.shuffle(copies)
        for message, receiver in copies:
            now = self._clock(receiver)
            read = message._replace(stamp=self._scheme.as_read(message.stamp, now))
            if receiver >= self._limits.motes:
                self._queue(self._lines[receiver - self._limits.motes], read._replace(heard=now))
                continue
            self._truth.on_receive(receiver, [self.observed.sends[message.source, message.number]])
            if self._step >= self._synced_at[receiver]:
                self._programs[receiver].on_receive(now, [read])

    def _queue(self, line: Line, message: Message) -> None:
        """Lines are in order, and most are quick."""
        most = self._limits.line if self._chance(0.3) else self._limits.line // 4
        line.last_out = max(line.last_out, self._step + self._random.randint(0, most))
        line.queue.append((line.last_out, message))

    def _hand_on(self) -> None:
        """Hand over the messages of this step, line by line in any order."""
        due = [line for line in self._lines for at, _ in line.queue if at <= self._step]
        self._random.shuffle(due)
        for line in due:
            _, message = line.queue.popleft()
            assert message.heard is not None
            line.heard = max(line.heard, message.heard)
            if (message.source, message.number) not in self._seen:
                self._seen.add((message.source, message.number))
                self.observed.arrivals.append((self._now(), message))

    def _now(self) -> int:
        """The observer's clock: all that any gateway heard in earlier ticks is in."""
        return min(max(line.heard, self._clock(line.gateway) - self._limits.line) for line in self._lines)


def deliveries(rule: Rule, observed: Observed) -> Iterator[Delivery]:
    """Deliver what came, as the live observer does."""
    for now, message in observed.arrivals:
        yield from rule.due(now)
        rule.receive(message, now)
        yield from rule.due(now)
    while (at := rule.next_due()) is not None:
        yield from rule.due(at)


def violated(observed: Observed, out: list[Delivery]) -> set[tuple[int, int]]:
    """The delivered messages in a violation, as (source, how many it had sent)."""
    return find_violations([observed.sends[d.message.source, d.message.number] for d in out])[1]
