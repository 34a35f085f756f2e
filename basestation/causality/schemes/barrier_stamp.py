"""What a barrier stamp holds, and the constants that motes and observer derive from epsilon and delta."""

from __future__ import annotations

from dataclasses import dataclass

from basestation.causality.order import Stamp

NAMES = 6
RESIDUES = 16  # of sequence numbers in names
NO_AGE = 31  # the code of the age for "none"
HEAD = 4  # fields before the names: counter, cut, close, age


@dataclass(frozen=True, slots=True)
class BarrierConstants:
    """What motes and observer derive from epsilon and delta, in ticks; the papers' manner of names.

    W: how long the observer waits for what is missing. Z: how much older than its namer a named message may be. WIN:
    what was sent before that needs no mention, since it has arrived or is lost. Y: how far l may be ahead of a clock.
    u: the unit of ages.
    """

    W: int
    Z: int
    WIN: int
    Y: int
    u: int

    @classmethod
    def of(cls, epsilon: int, delta: int) -> BarrierConstants:
        WIN = delta + 2 * epsilon
        return cls(delta + epsilon, delta + epsilon, WIN, 2 * epsilon, 1 << (WIN // NO_AGE).bit_length())


def names_of(stamp: Stamp) -> list[tuple[int, int]]:
    """The (source, residue) of each message that a stamp names."""
    return list(zip(stamp.kn[HEAD::2], stamp.kn[HEAD + 1 :: 2], strict=True))
