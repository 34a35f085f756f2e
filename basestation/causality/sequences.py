"""Sequence numbers unwrapped per source, and duplicates dropped, before a message meets a policy."""

from __future__ import annotations

from typing import NamedTuple

ROUND = 256  # numbers of a sequence field


class SequenceUnwrapper:
    """One source's numbers, each heard at a tick of the observer's clock.

    Copies that took different ways arrive out of order, but not long apart: within `patience` ticks of the newest
    number a field is read as the nearest one, and the same one twice is a duplicate. After a longer silence
    everything older is settled, and the next number is a later one, however many were lost.
    """

    def __init__(self, patience: int, bits: int = 8) -> None:
        self._patience = patience
        self._modulus = 1 << bits
        self._newest: int | None = None
        self._heard = 0
        self._seen: set[int] = set()

    def accept(self, field: int, now: int) -> int | None:
        """The unwrapped sequence number, or None for a duplicate."""
        sequence = self._read(field, now)
        if sequence in self._seen:
            return None
        self._seen.add(sequence)
        if self._newest is None or sequence > self._newest:
            self._newest, self._heard = sequence, now
            self._forget(sequence - self._modulus // 2)
        return sequence

    def _read(self, field: int, now: int) -> int:
        if self._newest is None:
            return field
        back = 0 if now - self._heard > self._patience else self._modulus // 2
        oldest = self._newest + 1 - back
        return oldest + (field - oldest) % self._modulus

    def _forget(self, oldest: int) -> None:
        if len(self._seen) > self._modulus:
            self._seen = {sequence for sequence in self._seen if sequence >= oldest}


class Numbered(NamedTuple):
    """A message's sequence number in its boot, its number among all of its mote, and whether it opens a boot."""

    sequence: int
    number: int
    fresh: bool


class Numbers:
    """Numbers all messages of each mote, boot after boot, such that no two share one.

    A boot's numbers begin at one more than a multiple of 256, so that a sequence field is always one less than the
    number modulo 256; and at least 256 after those of the boot before, so that a counter of that one, read as the
    nearest to the new numbers, is none of them.
    """

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._unwrappers: dict[tuple[int, int], SequenceUnwrapper] = {}
        self._bases: dict[int, dict[int, int]] = {}  # by source and boot
        self._newest: dict[int, int] = {}

    def accept(
        self, source: int, boot: int, field: int, now: int, known: int | None = None
    ) -> Numbered | None:
        """None for a duplicate. `known`: the newest of that mote that others are known to have heard of."""
        origin = source, boot
        fresh = origin not in self._unwrappers
        if fresh:
            self._unwrappers[origin] = SequenceUnwrapper(self._patience)
            newest = self._newest.get(source)
            base = 0 if newest is None else (newest // ROUND + 2) * ROUND
            self._bases.setdefault(source, {})[boot] = base
        sequence = self._unwrappers[origin].accept(field, now)
        if sequence is None:
            return None
        number = self._bases[source][boot] + sequence + 1
        if known is not None and not fresh and known - number >= ROUND // 2:
            # So many were lost that the field has gone round unseen.
            rounds = (known - number + ROUND // 2) // ROUND * ROUND
            self._bases[source][boot] += rounds
            number += rounds
        self._newest[source] = max(number, self._newest.get(source, number))
        return Numbered(sequence, number, fresh)

    def forget(self, source: int, boot: int) -> None:
        """The same boot count, modulo 8, eight boots ago has nothing to do with this one."""
        self._unwrappers.pop((source, boot), None)

    def named(self, source: int, number: int) -> tuple[int, int]:
        """The boot and the sequence number in it that a number means."""
        boots = self._bases.get(source, {0: 0})
        boot = max(boots, key=lambda boot: (boots[boot] < number, boots[boot]))
        return boot, number - boots[boot] - 1
