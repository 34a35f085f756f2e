"""The fields of a barrier stamp, and the constants that motes and observer derive from epsilon and delta."""

from __future__ import annotations

from dataclasses import dataclass

from basestation.causality.order import Stamp

NAMES = 6
RESIDUES = 16  # of sequence numbers in names
NO_AGE = 31  # the code of the age for "none"
HEAD = 4  # fields before the names: counter, cut, close, age


@dataclass(frozen=True, slots=True)
class BarrierConstants:
    """Constants that motes and observer derive from epsilon and delta, in ticks, with names in the papers' manner.

    W: how long the observer waits for a missing message. Z: how much older than its namer a named message may be. WIN:
    the age from which a cause needs no name, since it has arrived or is lost. Y: how far l may be ahead of a clock.
    u: the unit of ages. Age codes below P are of the sender's previous message; the others, if any, are of the newest
    named message, in units of v.
    """

    W: int
    Z: int
    WIN: int
    Y: int
    u: int
    P: int
    v: int
    epsilon: int

    @classmethod
    def of(cls, epsilon: int, delta: int) -> BarrierConstants:
        Z, WIN = delta + epsilon, delta + 2 * epsilon
        u = 1 << (WIN // NO_AGE).bit_length()
        P = WIN // u + 1
        v = 1 << (Z // (NO_AGE - P)).bit_length() if P < NO_AGE else 0
        return cls(Z, Z, WIN, 2 * epsilon, u, P, v, epsilon)

    def newest_named(self, stamp: Stamp) -> int:
        """A bound on the l of the named messages: the stamp's own l, unless it has the age of the newest."""
        _, cut, _, age = stamp.kn[:HEAD]
        return stamp.top if cut or not self.P <= age < NO_AGE else stamp.top - (age - self.P) * self.v

    def has_previous(self, stamp: Stamp) -> bool:
        """Whether a stamp has the age of its sender's previous message."""
        return not stamp.kn[1] and stamp.kn[3] < self.P


def names_of(stamp: Stamp) -> list[tuple[int, int]]:
    """The (source, residue) of each message that a stamp names."""
    return list(zip(stamp.kn[HEAD::2], stamp.kn[HEAD + 1 :: 2], strict=True))
