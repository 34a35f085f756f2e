"""The papers' stamps that the firmware has, twice: the base station's programs, and what they must be on the wire.

The programs know no wire: their counters have no end and their times no top code. What becomes of them in a message is
written down here once more, from docs/formats.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from basestation.causality.order import Message, Stamp, unwrap
from basestation.causality.schemes import make_scheme
from basestation.causality.schemes.scheme import LONG_AGO, Setting
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of

NAMES = ("sequence", "last-sender", "vector", "delta-vector")


@dataclass(frozen=True, slots=True)
class Sent:
    """A message: number `number` of its source, from 1; as the programs have it, and its stamp's fields on the wire."""

    message: Message
    fields: tuple[int, ...]

    @property
    def source(self) -> int:
        return self.message.source

    @property
    def sequence(self) -> int:
        """In the header."""
        return (self.message.sequence - 1) % 256


class Reference:
    """One mote of the base station's program."""

    def __init__(self, deployment: Deployment, me: int) -> None:
        clock, self.stamp = deployment.clock, layout_of(deployment).stamp
        self.scheme, self.me, self.motes = deployment.stamp.scheme, me, deployment.network.motes
        self.epsilon, self.oldest = clock.epsilon, clock.delta + 3 * clock.epsilon
        scheme = make_scheme(self.scheme, Setting(self.motes, clock.epsilon, clock.delta))
        self.program = scheme.start(me)
        self.bounded = 0

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
        """The message as its ages tell it at clock `rt`. What cannot have been sent yet was not."""
        r = unwrap(sent.fields[0], rt, self.epsilon, self.stamp.modulus)
        times = [self._time(r, age) for age in sent.fields[1:]]
        known = tuple(time if time <= rt + self.epsilon else LONG_AGO for time in times)
        self.bounded += known != tuple(times)
        return Message(sent.source, sent.message.sequence, Stamp(r, 0, known))

    def _time(self, r: int, age: int) -> int:
        return LONG_AGO if age == self.stamp.entry_max else r + self.epsilon - age
