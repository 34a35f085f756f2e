"""A policy with its phi or its tolerance, as planning, figures, comparisons and the analysis ask for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

SAME_MS = 1.0  # people do not notice a smaller difference between holds


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy and its phi in per cent. Arrival order has phi 0 only, causal delivery and the ledger 100 only.

    Only the ledger has a share of messages to `tolerate` in a violation, in per cent.
    """

    policy: str
    phi: int
    tolerate: float | None = None


def levelled(costs: Iterable[tuple[float, float]]) -> list[float]:
    """The holds of pairs of stamp size and hold in ms. Holds within `SAME_MS` of the shortest of their size become
    equal to it, so that a smaller difference does not decide between stamps of one size."""
    pairs = list(costs)
    shortest: dict[float, float] = {}
    for size, hold in pairs:
        shortest[size] = min(hold, shortest.get(size, hold))
    return [shortest[size] if hold <= shortest[size] + SAME_MS else hold for size, hold in pairs]


def policy_label(policy: str, tolerate: float | None) -> str:
    """A policy's name for tables, with what the ledger tolerates."""
    return policy if tolerate is None else f"{policy} {tolerate:g}%"
