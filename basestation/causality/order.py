"""Stamps as the observer reads them, the clock modulo B, and the total order `less`.

Every scheme's stamp is one plain value (r, c, kn). kn holds the entries that travel, from the top down: kn[c], kn[c-1],
... in the paper's indices. The hybrid clocks are the case of a single entry, their counter; DPC has none.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Ties = Literal["sequence", "arrival"]


class Stamp(NamedTuple):
    """Clock of the sender, how far the largest clock it knew of was ahead, and event counts from that clock down."""

    r: int
    c: int
    kn: tuple[int, ...]

    @property
    def top(self) -> int:
        """L = r + c, the largest clock value known to the sender."""
        return self.r + self.c


class Message(NamedTuple):
    """What a rule orders: who sent it, its sequence number unwrapped in its boot, its stamp unwrapped at receipt.

    Rules name messages by their `number`, which goes on over all boots of a mote and is `above` its sequence number.
    `token` is whatever the caller wants to find again when the message leaves.
    """

    source: int
    sequence: int
    stamp: Stamp
    in_sync: bool = True
    data: bytes = b""
    above: int = 0
    token: Any = None

    @property
    def number(self) -> int:
        return self.sequence + self.above


def key(message: Message, ties: Ties = "sequence") -> tuple[int, ...]:
    """The lexicographic key of `less`; without the sequence ("arrival") the paper's, which is no total order."""
    stamp = message.stamp
    tail = (message.source, message.sequence) if ties == "sequence" else (message.source,)
    return (stamp.top, *stamp.kn, *tail)


def unwrap(field: int, now: int, epsilon: int, modulus: int) -> int:
    """The value congruent to `field` modulo B in [now + epsilon - B + 1, now + epsilon]."""
    latest = now + epsilon
    return latest - (latest - field) % modulus


def deadline(stamp: Stamp, phi: int, epsilon: int, delta: int) -> int:
    """D = r + ceil(phi * (c + delta + epsilon) / 100), phi a whole percentage: the tick that must be over."""
    return stamp.r - (-phi * (stamp.c + delta + epsilon) // 100)
