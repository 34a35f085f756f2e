"""The Pareto front: the configurations that no other one beats in bytes, hold and violations at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from basestation.analysis.outcome import ContinuumRow


def most(row: ContinuumRow, figure: str) -> float:
    """The upper bound of violations, in per cent, as causes may be unknown. An unknown bound is infinite."""
    value = getattr(row, f"{figure}_most")
    return least(row, figure) if value is None else float(value)


def least(row: ContinuumRow, figure: str) -> float:
    """The sure violations, in per cent. An unknown figure is infinite."""
    value = getattr(row, figure)
    return float("inf") if value is None else float(value)


def at_most(row: ContinuumRow, figure: str) -> float:
    """The most violations at 95% confidence, in per cent. All messages, if the run is too short."""
    high = row.interval(figure)[1]
    return max(most(row, figure), 100.0 if high is None else high)


def able(row: ContinuumRow) -> bool:
    """Whether the configuration could be deployed and has an answer about at least one message."""
    return row.is_answered and row.fits and row.policy != "none" and bool(row.delivered)


def on_front(rows: Sequence[ContinuumRow], figure: str = "mean") -> list[bool]:
    """For each row, whether nothing equals or beats it in bytes, hold and violations. Of equal ones all stay."""
    points = [(row.mean_bytes, round(row.hold_mean or 0.0, 9), most(row, figure)) for row in rows]
    rivals = {point for point, row in zip(points, rows, strict=True) if able(row) and point[2] < float("inf")}
    best = {p for p in rivals if not any(q != p and all(map(float.__le__, q, p)) for q in rivals)}
    return [able(row) and point in best for point, row in zip(points, rows, strict=True)]
