"""Sequence numbers unwrapped per source, and duplicates dropped, before a message meets a policy."""

from __future__ import annotations


class SequenceUnwrapper:
    """One source's numbers. A number is read as the nearest to the newest seen; the same one twice is a duplicate.

    Copies that took different ways arrive out of order, so the newest half of the number range stays open.
    """

    def __init__(self, bits: int = 8) -> None:
        self._modulus = 1 << bits
        self._newest: int | None = None
        self._seen: set[int] = set()

    def accept(self, field: int) -> int | None:
        """The unwrapped sequence number, or None for a duplicate."""
        sequence = self._nearest(field)
        if sequence in self._seen:
            return None
        self._seen.add(sequence)
        if self._newest is None or sequence > self._newest:
            self._newest = sequence
            self._forget(sequence - self._modulus // 2)
        return sequence

    def _nearest(self, field: int) -> int:
        if self._newest is None:
            return field
        half = self._modulus // 2
        return self._newest + (field - self._newest + half) % self._modulus - half

    def _forget(self, oldest: int) -> None:
        if len(self._seen) > self._modulus:
            self._seen = {sequence for sequence in self._seen if sequence >= oldest}
