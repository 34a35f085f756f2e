"""A policy with its phi, as planning, figures, comparisons and the analysis ask for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy and its phi in per cent. Arrival order has phi 0 only, and causal delivery 100 only."""

    policy: str
    phi: int
