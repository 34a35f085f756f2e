"""A policy with its phi or its tolerance, as planning, figures, comparisons and the analysis ask for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy and its phi in per cent. Arrival order has phi 0 only, causal delivery and the ledger 100 only.

    The ledger alone has a share of messages to `tolerate` in a violation, in per cent.
    """

    policy: str
    phi: int
    tolerate: float | None = None


def policy_label(policy: str, tolerate: float | None) -> str:
    """A policy's name for tables, with what the ledger tolerates."""
    return policy if tolerate is None else f"{policy} {tolerate:g}%"
