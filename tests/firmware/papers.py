"""The papers' stamps that the firmware has, twice: the base station's programs, and what they must be on the wire.

The programs know no wire: their counters have no end and their times no top code. What becomes of them in a message is
written down here once more, from docs/formats.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from basestation.causality.order import Message, Stamp, unwrap
from basestation.causality.schemes.base import Method, Setting
from basestation.causality.schemes.deadline import LONG_AGO
from basestation.causality.schemes.delta_causal import DeltaCausal
from basestation.causality.schemes.last_sender import LastSender
from basestation.causality.schemes.matrix import sent_to_observer
from basestation.causality.schemes.sequence import Sequence as SequenceOnly
from basestation.causality.schemes.vector import Vector
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of

# Under broadcast all columns of delta-causal's matrix are the same: delta-vector is one of them.
METHODS: dict[str, type[SequenceOnly | LastSender | Vector | DeltaCausal]] = {
    "sequence": SequenceOnly,
    "last-sender": LastSender,
    "vector": Vector,
    "delta-vector": DeltaCausal,
}


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
        self.epsilon = clock.epsilon
        method: Method = METHODS[self.scheme](Setting(self.motes, clock.epsilon, clock.delta))
        self.program = method.start(me)
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
            ages = [rt - sent + self.epsilon for sent in sent_to_observer(kn, self.motes)]
            return rt % self.stamp.modulus, *(min(age, self.stamp.entry_max) for age in ages)
        return ()

    def _read(self, rt: int, sent: Sent) -> Message:
        """The message as its ages tell it at clock `rt`. What cannot have been sent yet was not."""
        r = unwrap(sent.fields[0], rt, self.epsilon, self.stamp.modulus)
        times = [self._time(r, age) for age in sent.fields[1:]]
        impossible = [time > rt + self.epsilon for time in times]
        self.bounded += any(impossible)
        return Message(sent.source, sent.message.sequence, Stamp(r, 0, self._matrix(times, impossible)))

    def _time(self, r: int, age: int) -> int:
        return LONG_AGO if age == self.stamp.entry_max else r + self.epsilon - age

    def _matrix(self, times: Sequence[int], impossible: Sequence[bool]) -> tuple[int, ...]:
        """Row by row, the observer's column among them."""
        rows = [LONG_AGO if wrong else time for time, wrong in zip(times, impossible, strict=True)]
        return tuple(time for time in rows for _ in range(self.motes + 1))
