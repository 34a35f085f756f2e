"""Several runs as one: each configuration over all of them, and its worst run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from basestation.analysis.front import most, on_front
from basestation.analysis.outcome import ContinuumRow
from basestation.analysis.uncertainty import FIGURES, HOLD, pooled, share

ALL = "all runs"
SUMMED = (
    "sent", "arrived", "out_of_sync", "unknown", "delivered", "violated_pairs", "backward_messages", "forward_messages",
    "any_messages", "related_pairs", "related_pairs_most", "late", "network_late", "host_late", "saturated", "bounded",
    "wrong_unwraps", "wire_bytes",
)  # fmt: skip
LARGEST = ("hold_p50", "hold_p95", "hold_p99", "hold_p99_ms", "max_c", "max_kn")


def pool(rows: Sequence[ContinuumRow]) -> list[ContinuumRow]:
    """A row for each configuration that every run answers: sums and shares over all runs, the largest percentiles."""
    runs = len({row.run for row in rows})
    told = [row for row in rows if row.mean is not None]
    grouped = groupby(sorted(told, key=_configuration), _configuration)
    found = [_together(same) for _, group in grouped if len(same := list(group)) == runs]
    return [replace(row, front=best) for row, best in zip(found, on_front(found), strict=True)]


def worst(rows: Sequence[ContinuumRow], of: ContinuumRow, figure: str) -> ContinuumRow:
    """The run in which a configuration has the most violations."""
    same = [row for row in rows if _configuration(row) == _configuration(of)]
    return max(same, key=lambda row: most(row, figure))


def _configuration(row: ContinuumRow) -> tuple[str, int, str, int, float]:
    return row.stamp, row.stamp_bits, row.policy, row.phi, -1.0 if row.tolerate is None else row.tolerate


def _together(same: Sequence[ContinuumRow]) -> ContinuumRow:
    first, blocks = same[0], pooled([row.uncertain for row in same if row.uncertain])
    held = ((row.hold_mean_ms or 0.0) / row.hold_mean for row in same if row.hold_mean)
    ms = next(held, 0.0)
    changes: dict[str, Any] = {name: sum(getattr(row, name) or 0 for row in same) for name in SUMMED}
    changes |= {name: max(getattr(row, name) or 0 for row in same) for name in LARGEST}
    changes |= {figure: share(blocks.least, figure) for figure in FIGURES}
    changes |= {f"{figure}_most": share(blocks.most, figure) for figure in FIGURES}
    hold = share(blocks.least, HOLD)
    low, high = blocks.interval("mean") or (None, None)
    hold_low, hold_high = (ms * one for one in blocks.interval(HOLD) or (hold, hold))
    sizes = [row.mean_bytes for row in same]
    return replace(
        first,
        run=ALL,
        **changes,
        hold_mean=hold,
        hold_mean_ms=hold * ms,
        hold_low_ms=hold_low,
        hold_high_ms=hold_high,
        low=low,
        high=high,
        bytes_mean=None if first.bytes_mean is None else sum(sizes) / len(sizes),
        uncertain=blocks,
    )
