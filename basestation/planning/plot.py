"""The comparison as a picture. Needs the extra `analysis`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import colormaps
from matplotlib.figure import Figure

from .budget import Budget
from .choose import Comparison, Row

MARKERS = {"shlc": "o", "hlc": "s", "kn": "^", "dpc1": "x", "dpc2": "+"}
SPREAD = 0.11  # bytes that schemes of the same size stand apart


def draw(comparison: Comparison, budget: Budget, path: Path) -> None:
    """Violations against bytes, and hold against violations, of every row worth a look under the best policy."""
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    policy = comparison.choice.policy if comparison.choice else comparison.measured[0].policy
    rows = [row for row in comparison.rows if row.policy == policy]
    _violations_by_bytes(left, comparison, rows)
    _hold_by_violations(right, comparison, rows, budget.clock.tick_ms)
    network = budget.network
    figure.suptitle(
        f"{network.motes} {network.board}, {network.hops} hops, {network.rate:g} messages/s each, policy {policy}"
    )
    figure.savefig(path, dpi=130)


def _violations_by_bytes(axes: Any, comparison: Comparison, rows: list[Row]) -> None:
    names = list(MARKERS)
    for row in rows:
        shift = SPREAD * (names.index(row.candidate.layout.scheme) - 2)
        _mark(axes, row, row.candidate.layout.size + shift, comparison.of(row))
    axes.axhline(comparison.of(comparison.arrival), color="grey", linestyle=":", label="arrival order")
    axes.axhline(comparison.tolerance, color="black", linewidth=0.8, label="tolerated")
    if comparison.choice is not None:
        row = comparison.choice
        shift = SPREAD * (names.index(row.candidate.layout.scheme) - 2)
        _ring(axes, row.candidate.layout.size + shift, comparison.of(row))
    axes.set_xlabel("bytes of the stamp")
    axes.xaxis.get_major_locator().set_params(integer=True)
    _violation_axis(axes.set_yscale, axes.set_ylabel, comparison, rows)
    for scheme, marker in MARKERS.items():
        axes.scatter([], [], marker=marker, color="black", label=scheme)
    axes.legend(fontsize="small")


def _hold_by_violations(axes: Any, comparison: Comparison, rows: list[Row], tick_ms: float) -> None:
    for row in rows:
        _mark(axes, row, comparison.of(row), row.hold_mean * tick_ms)
    if comparison.choice is not None:
        _ring(axes, comparison.of(comparison.choice), comparison.choice.hold_mean * tick_ms)
    axes.set_ylabel("mean hold [ms]")
    _violation_axis(axes.set_xscale, axes.set_xlabel, comparison, rows)
    for phi in sorted({row.phi for row in rows}):
        axes.scatter([], [], color=_colour(phi), label=f"phi {phi}")
    axes.legend(fontsize="small")


def _violation_axis(set_scale: Any, set_label: Any, comparison: Comparison, rows: list[Row]) -> None:
    """Logarithmic, but for 0, which is what matters most and has a place of its own."""
    shown = [value for row in rows if (value := comparison.of(row)) > 0]
    if shown:
        set_scale("symlog", linthresh=min(shown))
    set_label(f"violations, {comparison.figure} [% of messages]")


def _mark(axes: Any, row: Row, x: float, y: float) -> None:
    marker = MARKERS[row.candidate.layout.scheme]
    face = {} if marker in "x+" else {"edgecolors": "none"}
    alpha = 0.8 if row.candidate.left >= 0 else 0.25  # pale: does not fit the payload
    axes.scatter([x], [y], marker=marker, color=[_colour(row.phi)], alpha=alpha, clip_on=False, **face)


def _ring(axes: Any, x: float, y: float) -> None:
    axes.scatter(
        [x], [y], s=170, facecolors="none", edgecolors="red", label="chosen", clip_on=False, zorder=5
    )


def _colour(phi: int) -> Any:
    return colormaps["viridis"](phi / 110)
