"""Sequence numbers unwrapped per source, and duplicates dropped, before a message meets a policy."""

from __future__ import annotations


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
