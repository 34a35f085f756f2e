"""A policy with its phi or its tolerance, as planning, figures, comparisons and the analysis ask for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SAME_MS = 1.0  # holds so near to one another are equal to people


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy and its phi in per cent. Arrival order has phi 0 only, causal delivery and the ledger 100 only.

    The ledger alone has a share of messages to `tolerate` in a violation, in per cent.
    """

    policy: str
    phi: int
    tolerate: float | None = None


def levelled(costs: Iterable[tuple[float, float]]) -> list[float]:
    """The holds of pairs of a stamp's size and a hold in ms, those within `SAME_MS` of the shortest of their size made
    equal to it: among stamps of one size, less than that shall not decide."""
    pairs = list(costs)
    shortest: dict[float, float] = {}
    for size, hold in pairs:
        shortest[size] = min(hold, shortest.get(size, hold))
    return [shortest[size] if hold <= shortest[size] + SAME_MS else hold for size, hold in pairs]


def policy_label(policy: str, tolerate: float | None) -> str:
    """A policy's name for tables, with what the ledger tolerates."""
    return policy if tolerate is None else f"{policy} {tolerate:g}%"
