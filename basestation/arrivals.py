"""What comes from a line: packets, the gaps between them, and its counters."""

from __future__ import annotations

from typing import NamedTuple


class Arrival(NamedTuple):
    """A packet as it came, from its type byte on: unescaped, its check sum found right and taken off."""

    gateway: int  # which of the sources, counted from 0
    mono_ns: int  # the host's clocks when its last byte had come
    wall_ns: int
    packet: bytes


class Gap(NamedTuple):
    """The line was lost, or is back: between the two anything may have been missed."""

    gateway: int
    mono_ns: int
    wall_ns: int
    back: bool
    reason: str


Line = Arrival | Gap


class LineCount(NamedTuple):
    """A look at a line: it was opened, the run ends, or `unread` bytes came for a while and no frame. Or this machine
    fell asleep at that time, and read no line while it slept. `suspended_ns`: the part of the sleep in which the
    monotonic clock stood still."""

    gateway: int
    mono_ns: int
    wall_ns: int
    unread: int = 0
    slept_ns: int = 0
    suspended_ns: int = 0


class PolicyChange(NamedTuple):
    """Somebody chose another policy while it ran."""

    mono_ns: int
    wall_ns: int
    policy: str
    phi: int
    tolerate: float | None = None
