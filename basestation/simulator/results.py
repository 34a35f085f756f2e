"""The results of both engines: stamps on a stream, and deliveries at the observer."""

from __future__ import annotations

from dataclasses import dataclass

from basestation.causality.stream import Int64


@dataclass(frozen=True, slots=True)
class Stamped:
    """The stamp of each message as its sender meant it, and counts of cut and misread stamps."""

    r: Int64
    c: Int64
    kn: Int64  # (messages, entries)
    bounded: int
    wrong_unwraps: int


@dataclass(frozen=True, slots=True)
class Observed:
    """The stamps as the observer read them, one row for each arrival."""

    r: Int64
    c: Int64
    kn: Int64
    bounded: int
    wrong_unwraps: int


@dataclass(frozen=True, slots=True)
class DeliveryOrder:
    """The arrivals (by number) in the order of delivery, the observer's clock when each left, and how many came
    late."""

    order: Int64
    left: Int64
    late: int
