"""Draws the comparison of a plan. Needs the extra `analysis`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import colormaps
from matplotlib.figure import Figure

from packet_formats.schemes import ordered

from .budget import Budget
from .candidates import PHIS, CandidateRow, Comparison, named_schemes

MARKERS = dict(zip((*ordered(), *named_schemes()), ("x", "+", "^", "s", "o", "D", "*", "v"), strict=False))
SPREAD = 0.11  # bytes between schemes of the same size


def draw(comparison: Comparison, choice: CandidateRow | None, budget: Budget, path: Path) -> None:
    """Draw violations against bytes, and hold against violations, for every row worth showing under one policy.

    Stamps that name causes, which have rules of their own, are always in it.
    """
    timed = choice if choice and choice not in comparison.named else comparison.measured[0]
    drawn = ("dapw", "causal") if timed.policy in ("dapw", "causal") else (timed.policy,)
    rows = [row for row in comparison.rows if row.policy in drawn and row is not choice]
    rows += [choice] if choice and choice is timed else []
    rows += comparison.named
    figure = Figure(figsize=(11, 5.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _violations_by_bytes(left, comparison, choice, rows)
    _hold_by_violations(right, comparison, choice, rows, budget.clock.tick_ms)
    network = budget.network
    measured = {row.policy for row in comparison.measured}
    shown, others = [one for one in drawn if one in measured], measured.difference(drawn)
    unseen = f" (not drawn: {', '.join(sorted(others))})" if others else ""
    figure.suptitle(
        f"{network.motes} {network.board}, hops: {network.hops}, each sends {network.rate:g}/s: "
        f"delivery by {' and '.join(shown)}{unseen}"
    )
    figure.savefig(path, dpi=130)


def _violations_by_bytes(
    axes: Any, comparison: Comparison, choice: CandidateRow | None, rows: list[CandidateRow]
) -> None:
    axes.axhline(comparison.of(comparison.arrival), color="grey", linestyle=":", label="arrival order")
    axes.axhline(comparison.tolerance, color="grey", linewidth=0.8, label="tolerated")
    for row in rows:
        _mark(axes, row, _bytes_place(row), comparison.of(row))
    if choice is not None:
        _ring(axes, _bytes_place(choice), comparison.of(choice))
    for scheme, marker in MARKERS.items():
        axes.scatter([], [], marker=marker, color="black", label=scheme)
    sizes = sorted({row.candidate.layout.size for row in rows})
    for edge in range(sizes[0], sizes[-1]):
        axes.axvline(edge + 0.5, color="lightgrey", linewidth=0.8)
    axes.set_xlim(sizes[0] - 0.5, sizes[-1] + 0.5)
    axes.set_xticks(range(sizes[0], sizes[-1] + 1))
    axes.set_xlabel("bytes of the stamp (all between two lines have the same size)")
    _violation_axis(axes.set_yscale, axes.set_ylabel, axes.set_ylim, comparison, rows)
    _legend_below(axes)


def _hold_by_violations(
    axes: Any, comparison: Comparison, choice: CandidateRow | None, rows: list[CandidateRow], tick_ms: float
) -> None:
    for row in rows:
        _mark(axes, row, comparison.of(row), row.hold_mean * tick_ms)
    if choice is not None:
        _ring(axes, comparison.of(choice), choice.hold_mean * tick_ms)
    for phi in sorted({row.phi for row in rows}):
        axes.scatter([], [], color=_colour(phi), label=f"phi {phi}")
    axes.set_ylabel("mean hold [ms]")
    _violation_axis(axes.set_xscale, axes.set_xlabel, axes.set_xlim, comparison, rows)
    _legend_below(axes)


def _bytes_place(row: CandidateRow) -> float:
    layout = row.candidate.layout
    return layout.size + SPREAD * (list(MARKERS).index(layout.scheme) - 2)


def _violation_axis(
    set_scale: Any, set_label: Any, set_limits: Any, comparison: Comparison, rows: list[CandidateRow]
) -> None:
    """Make an axis logarithmic, with a place of its own for 0, which matters most."""
    shown = [value for row in rows if (value := comparison.of(row)) > 0]
    if shown:
        set_scale("symlog", linthresh=min(shown))
        set_limits(-0.3 * min(shown))
    set_label(f"violations, {comparison.figure} [%]")


def _legend_below(axes: Any) -> None:
    axes.legend(fontsize="small", ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.13), frameon=False)


def _mark(axes: Any, row: CandidateRow, x: float, y: float) -> None:
    marker = MARKERS[row.candidate.layout.scheme]
    alpha = 0.85 if row.candidate.left >= 0 else 0.25  # pale: does not fit the payload
    axes.scatter([x], [y], marker=marker, color=[_colour(row.phi)], alpha=alpha, clip_on=False)


def _ring(axes: Any, x: float, y: float) -> None:
    axes.scatter(
        [x], [y], s=170, facecolors="none", edgecolors="red", label="chosen", clip_on=False, zorder=5
    )


def _colour(phi: int) -> Any:
    return colormaps["turbo"](PHIS.index(phi) / (len(PHIS) - 1))
