"""The papers' stamps that the firmware has, twice: the base station's programs, and what they must be on the wire.

The papers' programs know no wire: their counters have no end and their times no top code. What becomes of them in a
message is written down here once more, from docs/reference/formats.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from basestation.causality.order import Message, Stamp, unwrap
from basestation.causality.schemes import make_scheme
from basestation.causality.schemes.barrier import Barrier, BarrierProgram
from basestation.causality.schemes.barrier_stamp import NO_AGE
from basestation.causality.schemes.scheme import LONG_AGO, Setting
from basestation.deployed import scheme_of
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of


@dataclass(frozen=True, slots=True)
class Sent:
    """A message: number `number` of its source, from 1; as the programs have it, and its stamp's fields on the wire."""

    message: Message
    fields: tuple[int, ...]
    saturated: bool = False

    @property
    def source(self) -> int:
        return self.message.source

    @property
    def sequence(self) -> int:
        """In the header."""
        return (self.message.sequence - 1) % 256


class Reference:
    """One mote of the base station's program, for all but barrier."""

    def __init__(self, deployment: Deployment, me: int) -> None:
        clock, self.stamp = deployment.clock, layout_of(deployment).stamp
        self.scheme, self.me, self.motes = deployment.stamp.scheme, me, deployment.network.motes
        self.epsilon, self.oldest = clock.epsilon, clock.delta + 3 * clock.epsilon
        scheme = make_scheme(self.scheme, Setting(self.motes, clock.epsilon, clock.delta))
        self.program = scheme.start(me)
        self.bounded = 0

    def start(self, rt: int) -> None:
        """Names and numbers outlast an epoch."""

    def has_time(self, rt: int, in_sync: bool) -> None:
        """Names and numbers need no clock."""

    def send(self, rt: int, number: int) -> Sent:
        message = Message(self.me, number, self.program.on_send(rt, number))
        return Sent(message, self._fields(rt, message))

    def receive(self, rt: int, sent: Sent) -> None:
        self.program.on_receive(rt, [self._read(rt, sent) if self.scheme == "delta-vector" else sent.message])

    def _fields(self, rt: int, message: Message) -> tuple[int, ...]:
        kn = message.stamp.kn
        if self.scheme == "last-sender":
            source, number = kn or (self.me, message.sequence)
            return source, (number - 1) % 256
        if self.scheme == "vector":
            return tuple(known % 256 for mote, known in enumerate(kn) if mote != self.me)
        if self.scheme == "delta-vector":
            ages = [rt - sent + self.epsilon for sent in kn]
            top = self.stamp.entry_max
            return rt % self.stamp.modulus, *(age if age <= self.oldest else top for age in ages)
        return ()

    def _read(self, rt: int, sent: Sent) -> Message:
        """The message that these ages encode, at clock `rt`. A time in the future counts as never."""
        r = unwrap(sent.fields[0], rt, self.epsilon, self.stamp.modulus)
        times = [self._time(r, age) for age in sent.fields[1:]]
        known = tuple(time if time <= rt + self.epsilon else LONG_AGO for time in times)
        self.bounded += known != tuple(times)
        return Message(sent.source, sent.message.sequence, Stamp(r, 0, known))

    def _time(self, r: int, age: int) -> int:
        return LONG_AGO if age == self.stamp.entry_max else r + self.epsilon - age


class BarrierReference:
    """One mote of the base station's program for barrier, which starts and falls silent as a mote does."""

    def __init__(self, deployment: Deployment, me: int) -> None:
        scheme = scheme_of(deployment)
        assert isinstance(scheme, Barrier)
        self.scheme, self.me, self.codec = scheme, me, scheme.codec()
        self.program: BarrierProgram = scheme.start(me)
        self.lost = False

    @property
    def bounded(self) -> int:
        return self.program.bounded

    def start(self, rt: int) -> None:
        self.lost = False
        self.program.restart(rt)

    def has_time(self, rt: int, in_sync: bool) -> None:
        """Take note, before an event, whether the clock is in sync; who regains the time starts anew."""
        if not in_sync:
            self.lost = True
        elif self.lost:
            self.start(rt)

    def send(self, rt: int, number: int) -> Sent:
        silent = self.lost or self.program.is_silent(rt)
        stamp = Stamp(rt, 0, (0, 0, 0, NO_AGE)) if silent else self.program.on_send(rt, number)
        message = Message(self.me, number, stamp, in_sync=not silent)
        return Sent(message, self.codec.encode(stamp, self.me, number), self.codec.saturated(stamp))

    def receive(self, rt: int, sent: Sent) -> None:
        stamp = self.scheme.as_read(Stamp(sent.fields[0], 0, sent.fields[1:]), rt)
        self.program.on_receive(rt, [Message(sent.source, sent.message.sequence, stamp)])


def reference_of(deployment: Deployment, me: int) -> Reference | BarrierReference:
    return (BarrierReference if deployment.stamp.scheme == "barrier" else Reference)(deployment, me)
