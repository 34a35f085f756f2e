"""What rules wait for, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from basestation.causality.rules import NEVER
from packet_formats.schemes import descriptor

SHOWN = 8  # names of different motes

Named = Callable[[int, int], tuple[int, int]]  # a source and a number to its boot and sequence number


def shown_names(missing: Iterable[tuple[int, int]], policy: str, named: Named) -> tuple[str, ...]:
    """The messages that a rule names, as people know them; several in a row of one mote together."""
    if descriptor(policy).one_send_a_tick:  # it names messages by the time of their sending
        return tuple(f"what mote {source} sent at tick {sent}" for source, sent in sorted(missing))
    runs: list[tuple[int, int, int]] = []
    for source, number in sorted(missing):
        if runs and runs[-1][0] == source and runs[-1][2] == number - 1:
            runs[-1] = (source, runs[-1][1], number)
        else:
            runs.append((source, number, number))
    if policy == "scalar":
        return tuple(f"number {_span(first, last)}" for _, first, last in runs)
    return tuple(
        f"{source}#{_span(named(source, first)[1], named(source, last)[1])}" for source, first, last in runs
    )


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def listed(names: tuple[str, ...]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names if more <= 0 else (*names[:SHOWN], f"{more} more"))


def why_waits(names: tuple[str, ...], leaves: int) -> str:
    """`leaves`: the tick in which it leaves whether they have come or not."""
    until = "" if leaves >= NEVER else f"until tick {leaves - 1} is over"
    return f"for {listed(names)}{', at most ' if until else ''}{until}" if names else until
