"""Draws the comparison of a plan. Needs the extra `analysis`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib import colormaps
from matplotlib.figure import Figure

from packet_formats.schemes import ordered

from .budget import Budget
from .candidates import named_schemes
from .stamp_choice import FIGURE, CandidateRow, Comparison
from .stamp_trials import PHIS, POLICY
from .trade import CLOCKED, NAMED, TradeRow

MARKERS = dict(zip((*ordered(), *named_schemes()), ("x", "+", "^", "s", "o", "D", "*", "v"), strict=False))
LEAST_MS = 0.1  # a hold below it is drawn there: the axis is logarithmic
SPREAD = 0.11  # bytes between schemes of the same size


def draw(
    comparison: Comparison,
    choice: CandidateRow | None,
    budget: Budget,
    path: Path,
    trade: Sequence[TradeRow] = (),
) -> None:
    """Draw violations against bytes, and hold against violations, for the rows of the chosen policy that are worth it.

    Stamps that name causes are always drawn. Above are life against hold and against violations, if periods were
    compared.
    """
    drawn = choice.policy if choice and choice not in comparison.named else POLICY
    rows = [row for row in comparison.rows if row.policy == drawn and row is not choice]
    rows += [choice] if choice and choice not in comparison.named else []
    rows += comparison.named
    figure = Figure(figsize=(11, 10.4 if trade else 5.4), layout="constrained")
    (left, right), *above = figure.subplots(2 if trade else 1, 2, squeeze=False)[::-1]
    for axes in above:
        _hold_by_life(axes[0], trade, budget.network.period_ms)
        _violations_by_life(axes[1], trade)
    _violations_by_bytes(left, comparison, choice, rows)
    _hold_by_violations(right, comparison, choice, rows, budget.clock.tick_ms)
    network = budget.network
    figure.suptitle(
        f"{network.motes} {network.board}, hops: {network.hops}, each sends {network.rate:g}/s: "
        f"delivery by {drawn}"
    )
    figure.savefig(path, dpi=130)


ARRIVAL = "arrival order"
Way = Callable[[TradeRow], CandidateRow | None]
WAYS: dict[str, Way] = {
    ARRIVAL: lambda row: row.comparison.arrival,
    f"{CLOCKED}, whole wait": lambda row: row.whole,
    f"{CLOCKED}, shortest wait that met the tolerance": lambda row: row.short,
    NAMED: lambda row: row.named,
}


def _hold_by_life(axes: Any, trade: Sequence[TradeRow], chosen_ms: int) -> None:
    """Mean hold against life, a line for each way to deliver except arrival order, which has no hold."""
    for name, way in list(WAYS.items())[1:]:
        points = [
            (row, max(LEAST_MS, one.hold_mean * row.budget.clock.tick_ms))
            for row in trade
            if (one := way(row))
        ]
        _line_by_life(axes, points, name, named=way is WAYS[NAMED])
        for row, hold in points:
            if row.period_ms == chosen_ms:
                axes.scatter(
                    [row.life.worst_days], [hold], s=170, facecolors="none", edgecolors="red", zorder=5
                )
    axes.set_yscale("log")
    axes.set_ylabel("mean hold [ms]")
    _life_axis(axes)


def _violations_by_life(axes: Any, trade: Sequence[TradeRow]) -> None:
    for name, way in WAYS.items():
        points = [(row, one.violations[FIGURE]) for row in trade if (one := way(row))]
        _line_by_life(axes, points, name, named=name == ARRIVAL)
    axes.set_ylabel(f"violations, {FIGURE} [%]")
    _life_axis(axes)


def _line_by_life(axes: Any, points: Sequence[tuple[TradeRow, float]], name: str, named: bool) -> None:
    """A line over the days; where `named`, each point has its period beside it."""
    colour, style = ("grey", ":") if name == ARRIVAL else (f"C{list(WAYS).index(name) - 1}", "-")
    days = [row.life.worst_days for row, _ in points]
    axes.plot(days, [value for _, value in points], marker="o", label=name, color=colour, linestyle=style)
    for (row, value), x in zip(points if named else (), days, strict=False):
        axes.annotate(row.name, (x, value), textcoords="offset points", xytext=(4, -12), fontsize="small")


def _life_axis(axes: Any) -> None:
    axes.set_xscale("log")
    axes.set_xlabel("days of the mote that lasts least (a model)")
    _legend_below(axes, 2)


def _violations_by_bytes(
    axes: Any, comparison: Comparison, choice: CandidateRow | None, rows: list[CandidateRow]
) -> None:
    axes.axhline(comparison.of(comparison.arrival), color="grey", linestyle=":", label=ARRIVAL)
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
    set_label(f"violations, {FIGURE} [%]")


def _legend_below(axes: Any, columns: int = 4) -> None:
    axes.legend(
        fontsize="small", ncols=columns, loc="upper center", bbox_to_anchor=(0.5, -0.13), frameon=False
    )


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
