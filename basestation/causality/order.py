"""Stamps, messages, the clock modulo B, and the total order `less`.

Every scheme's stamp is one plain value (r, c, kn). kn holds the entries that travel, from the top down: kn[c], kn[c-1],
... in the paper's indices. The hybrid clocks have a single entry, their counter; DPC has none.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from . import modular

Ties = Literal["sequence", "arrival"]


class Stamp(NamedTuple):
    """The sender's clock, how far ahead the largest clock it knew was, and event counts from that clock down."""

    r: int
    c: int
    kn: tuple[int, ...]

    @property
    def top(self) -> int:
        """L = r + c, the largest clock value known to the sender."""
        return self.r + self.c


class Message(NamedTuple):
    """A message as a rule orders it, with its sequence (in its boot) and its stamp unwrapped at receipt.

    Rules name messages by their `number`, which runs over all boots of a mote and is `above` its sequence.
    `token` is returned to the caller when the message leaves. `heard`: the tick in which a gateway heard the
    message, which may be ahead of the observer's clock where several lines are awaited; None: the observer's clock when
    it came. `guessed`: no gateway's record gives that tick.
    """

    source: int
    sequence: int
    stamp: Stamp
    in_sync: bool = True
    data: bytes = b""
    above: int = 0
    token: Any = None
    heard: int | None = None
    guessed: bool = False

    @property
    def number(self) -> int:
        return self.sequence + self.above


def key(message: Message, ties: Ties = "sequence") -> tuple[int, ...]:
    """The lexicographic key of `less`. With "arrival" it has no sequence: the paper's order, which is not total."""
    r, c, kn = message.stamp
    if ties == "sequence":
        return (r + c, *kn, message.source, message.sequence)
    return (r + c, *kn, message.source)


def unwrap(field: int, now: int, epsilon: int, modulus: int) -> int:
    """The value congruent to `field` modulo B in [now + epsilon - B + 1, now + epsilon]."""
    return modular.unwrap(field, now + epsilon, modulus)


def deadline(stamp: Stamp, phi: int, epsilon: int, delta: int) -> int:
    """The tick that must be over before the message leaves: r + ceil(phi * (c + delta + epsilon) / 100)."""
    return stamp.r - (-phi * (stamp.c + delta + epsilon) // 100)
