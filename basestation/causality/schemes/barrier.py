"""The short barrier: a hybrid logical clock, and the names of the immediate causes in one byte each.

The observer delivers a message as soon as the messages that it names have left, and waits by the clock only for missing
ones. A name is a source and a sequence number modulo 16. `close` marks a message whose residue may still mean an
earlier message of its source; no stamp names it. A stamp cuts the causes that it cannot name (more than six, close or
old ones): `cut` is set, and the age is that of the newest of them. docs/evidence/algorithms.md states the algorithm
and proves it.

A stamp is `Stamp(l, 0, (counter, cut, close, age, source, sequence, source, sequence, ...))`, as on the wire except
that l is whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from basestation.causality.causal_graph import Alias, Causes
from basestation.causality.ledger import Ledger
from basestation.causality.modular import unwrap
from basestation.causality.order import Message, Stamp
from basestation.causality.rules import Rule

from .barrier_rule import BarrierRule
from .barrier_stamp import HEAD, NAMES, NO_AGE, RESIDUES, BarrierConstants, names_of
from .scheme import LONG_AGO, ROUND, Fields, PlainReader, Scheme, StampCodec, StampReader


@dataclass(frozen=True)
class Barrier(Scheme):
    """With a tolerance the observer waits by a ledger, which allows that share of messages in a violation."""

    name = "barrier"
    tolerate: float = 0.0

    def start(self, mote: int) -> BarrierProgram:
        return BarrierProgram(self, mote)

    def codec(self) -> StampCodec:
        return BarrierCodec(self)

    def rule(self) -> Rule:
        return BarrierRule(self.setting.motes, self.constants, Ledger(self.tolerate / 100, self.constants.W))

    def tolerating(self, percent: float) -> Barrier:
        return replace(self, tolerate=percent)

    def stamp_bits(self, stamp: Stamp) -> int:
        return self._bits_of(len(names_of(stamp)))

    @property
    def most_bits(self) -> int:
        return self._bits_of(NAMES)

    def _bits_of(self, names: int) -> int:
        """The bits of a stamp with this many names: whole bytes, since the length gives the number of names."""
        head = self.clock_bits + self.counter_top.bit_length() + 7
        return -(-(head + names * (self.source_bits + 4)) // 8) * 8

    def as_read(self, stamp: Stamp, now: int) -> Stamp:
        return Stamp(unwrap(stamp.r, now + self.constants.Y, self.modulus), stamp.c, stamp.kn)

    def as_observed(self, stamp: Stamp, now: int) -> Stamp:
        return self.as_read(stamp, now)

    @property
    def reach(self) -> int:
        """l never falls from a cause to its effect."""
        return 0

    def sent(self, message: Message, heard: int) -> int:
        return message.stamp.r

    def place(self, stamp: Stamp) -> tuple[int, ...]:
        return (stamp.r, stamp.kn[0])

    @property
    def settling(self) -> int:
        """A mote's messages are close for 2Z after its start: its clock may be Y ahead, and no stamp names it for
        WIN."""
        return 2 * self.constants.Z + self.constants.Y + self.constants.WIN

    def alias(self, message: Message) -> int | None:
        return None if message.stamp.kn[2] else message.sequence % RESIDUES

    def alias_of(self, sequence: int) -> int:
        return sequence % RESIDUES

    def causes(self, message: Message, sent: int) -> Causes:
        """The named causes; cut ones are as old as the age, left out ones older than WIN."""
        stamp, constants = message.stamp, self.constants
        _, cut, _, age = stamp.kn[:HEAD]
        oldest, aged = sent - constants.WIN - 1, sent - (age % NO_AGE) * constants.u
        since, newest = sent - constants.Z, constants.newest_named(stamp)
        return Causes(
            aliases=[Alias(source, residue, since, newest) for source, residue in names_of(stamp)],
            gap=aged if cut else oldest,
            own_gap=aged if cut or constants.has_previous(stamp) else oldest,
            newest_first=True,
        )

    @cached_property
    def constants(self) -> BarrierConstants:
        return BarrierConstants.of(self.setting.epsilon, self.setting.delta)

    @cached_property
    def modulus(self) -> int:
        return self.setting.modulus or 1 << (self.setting.delta + 3 * self.setting.epsilon).bit_length()

    @cached_property
    def clock_bits(self) -> int:
        return (self.modulus - 1).bit_length()

    @cached_property
    def counter_top(self) -> int:
        """The code of a counter that can count no further: messages with it may be in wrong order."""
        return (1 << max(3, 9 - self.clock_bits)) - 1

    @cached_property
    def source_bits(self) -> int:
        return next(bits for bits in (4, 6, 8, 16) if self.setting.motes <= 1 << bits)


@dataclass(slots=True)
class Heard:
    """The newest message of a source: its l (`top`), sequence and `close`; `front` until a later message covers it."""

    top: int
    sequence: int
    close: bool
    front: bool


class BarrierProgram:
    """A mote's stamp program. `restart` is called after a reboot and when the time is known again."""

    def __init__(self, scheme: Barrier, me: int) -> None:
        self._constants, self._epsilon = scheme.constants, scheme.setting.epsilon
        self._counter_top = scheme.counter_top
        self._motes, self._me = scheme.setting.motes, me
        self.bounded = 0
        self._forget()
        self.l = 0
        self._up = LONG_AGO  # a network that starts as a whole has no past to be confused with

    def restart(self, rt: int) -> None:
        """Begin with no memory at clock `rt`. Nothing in sync is sent while its old l may be ahead of the clocks."""
        self._forget()
        self.l = rt
        self._up = rt + self._constants.Y + 1
        self._first = True

    def is_silent(self, rt: int) -> bool:
        """Whether a message must go out of sync: it is numbered but bypasses the program."""
        return rt < self._up

    def on_send(self, rt: int, number: int) -> Stamp:
        self._bound(rt)
        self._step(rt)
        sequence, constants = (number - 1) % ROUND, self._constants
        named, cut = self._causes(rt)
        close = (
            self.l - self._sent[sequence % RESIDUES] <= 2 * constants.Z or rt - self._up <= 2 * constants.Z
        )
        restarted = self._first and rt - self._up <= constants.WIN
        age = 0 if restarted else self._age(rt, cut, named[0][1].top if named else None)
        self._sent[sequence % RESIDUES] = self._previous = self.l
        self._first = False
        names = (part for source, heard in named for part in (source, heard.sequence % RESIDUES))
        return Stamp(self.l, 0, (self.counter, int(bool(cut) or restarted), int(close), age, *names))

    def on_receive(self, rt: int, messages: Sequence[Message]) -> None:
        self._bound(rt)
        for message in messages:
            if message.in_sync and message.source != self._me:
                self._take(message)

    def _forget(self) -> None:
        self.counter = 0
        self._heard: dict[int, Heard] = {}
        self._sent = [LONG_AGO] * RESIDUES  # l of the last own message of each residue
        self._previous = LONG_AGO  # l of the last own message
        self._first = False

    def _bound(self, rt: int) -> None:
        """Clear an l further ahead of the clock than Y, which is a fault."""
        latest = rt + self._constants.Y
        if self.l > latest:
            self.l, self.counter = rt, 0
            self.bounded += 1
        self._heard = {source: heard for source, heard in self._heard.items() if heard.top <= latest}
        self._sent = [top if top <= latest else LONG_AGO for top in self._sent]
        self._previous = self._previous if self._previous <= latest else LONG_AGO

    def _step(self, rt: int) -> None:
        if rt > self.l:
            self.l, self.counter = rt, 0
        elif self.counter < self._counter_top - 1:
            self.counter += 1
        elif self.l < rt + self._epsilon:
            self.l, self.counter = self.l + 1, 0
        else:
            self.counter = self._counter_top

    def _causes(self, rt: int) -> tuple[list[tuple[int, Heard]], list[int]]:
        """The messages to name, the newest first, and the l of those that are cut. The program then has no new
        causes."""
        recent = [
            (source, heard)
            for source, heard in self._heard.items()
            if heard.front and rt - heard.top <= self._constants.WIN
        ]
        named: list[tuple[int, Heard]] = []
        cut: list[int] = []
        for source, heard in sorted(recent, key=lambda one: (-one[1].top, one[0])):
            if heard.close or len(named) == NAMES or self.l - heard.top > self._constants.Z:
                cut.append(heard.top)
            else:
                named.append((source, heard))
        for heard in self._heard.values():
            heard.front = False
        return named, cut

    def _age(self, rt: int, cut: Sequence[int], named: int | None) -> int:
        """The age of the newest that is cut, else of the own previous message, else of the newest that is named."""
        constants = self._constants
        if cut:
            return _code(self.l - max(*cut, self._previous), constants.u, NO_AGE)
        if rt - self._previous <= constants.WIN:
            return _code(self.l - self._previous, constants.u, constants.P)
        if named is None or constants.P == NO_AGE:
            return NO_AGE
        return constants.P + _code(self.l - named, constants.v, NO_AGE - constants.P)

    def _take(self, message: Message) -> None:
        stamp, sequence = message.stamp, (message.number - 1) % ROUND
        counter, _, close, _ = stamp.kn[:HEAD]
        self.l, self.counter = max((self.l, self.counter), (stamp.r, counter))
        for source, residue in names_of(stamp):
            heard = self._heard.get(source)
            if heard and _is_named(heard, residue) and 0 <= stamp.r - heard.top <= self._constants.Z:
                heard.front = False
        heard = self._heard.get(message.source)
        if (
            heard is None
            or stamp.r > heard.top
            or (stamp.r == heard.top and _is_later(sequence, heard.sequence))
        ):
            self._heard[message.source] = Heard(stamp.r, sequence, bool(close), True)


def _code(age: int, unit: int, codes: int) -> int:
    """An age in whole units, rounded down: too small an age only lengthens the observer's wait."""
    return min(max(age, 0) // unit, codes - 1)


def _is_named(heard: Heard, residue: int) -> bool:
    return not heard.close and heard.sequence % RESIDUES == residue


def _is_later(sequence: int, other: int) -> bool:
    return 0 < (sequence - other) % ROUND < ROUND // 2


class BarrierCodec(StampCodec):
    def __init__(self, scheme: Barrier) -> None:
        self._scheme = scheme

    def encode(self, stamp: Stamp, source: int, number: int) -> Fields:
        return (stamp.r % self._scheme.modulus, *stamp.kn)

    def saturated(self, stamp: Stamp) -> bool:
        return stamp.kn[0] == self._scheme.counter_top

    def reader(self) -> StampReader:
        return PlainReader(self._decode)

    def _decode(self, fields: Sequence[int], source: int, now: int) -> Stamp:
        return self._scheme.as_read(Stamp(fields[0], 0, tuple(fields[1:])), now)


SCHEME = Barrier
