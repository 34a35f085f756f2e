"""Draws a comparison. Needs the extra `analysis`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from .catalogue import NAMES
from .comparison import HEADER_BYTES, PAYLOAD_BYTES, ComparisonRow, SweepPoint

AXES = ("motes", "loss", "rate", "epsilon", "delta")
TITLES = {"motes": "motes", "loss": "copies lost", "rate": "rate", "epsilon": "ε", "delta": "δ"}
MARKERS = "osD^vPX*"
ROOM = PAYLOAD_BYTES - HEADER_BYTES


def _lost(row: ComparisonRow) -> float:
    return 100 * (row.gave_up + row.discarded + row.stuck) / max(row.arrived, 1)


# What a column of panels shows, and the value from which its axis is logarithmic.
PANELS: tuple[tuple[str, Callable[[ComparisonRow], float], float], ...] = (
    ("violations (mean, %)", lambda row: row.violations.percent()["mean"], 0.1),
    ("mean hold (ticks)", lambda row: row.hold_mean, 1),
    ("gave up, discarded, stuck (%)", _lost, 1),
    ("bytes of the stamp", lambda row: row.size, 1),
)


def draw(rows: Sequence[ComparisonRow], path: Path) -> None:
    """Draw a sweep: a line for each scheme, a dot for each value of the varied setting."""
    metadata = {"Software": None} if path.suffix == ".png" else None
    picture(rows).savefig(path, dpi=90, metadata=metadata)


def picture(rows: Sequence[ComparisonRow]) -> Figure:
    """The picture of a sweep: the first varied setting makes the dots of a line, the others the rows of panels."""
    varied = [axis for axis in AXES if len({getattr(row.place, axis) for row in rows}) > 1] or ["motes"]
    along, *others = varied
    values = sorted({_place(row, along) for row in rows})
    names = sorted({row.scheme for row in rows}, key=NAMES.index)
    groups = list(dict.fromkeys(_rest(row.place, others) for row in rows))
    height = (0.24 * len(names) + 0.9) * len(groups) + 0.5
    figure = Figure(figsize=(13, height), layout="constrained")
    grid = figure.subplots(len(groups), len(PANELS), squeeze=False, sharey=True)
    for line, group in zip(grid, groups, strict=True):
        here = [row for row in rows if _rest(row.place, others) == group]
        where = ", ".join(f"{TITLES[axis]}: {_value(axis, v)}" for axis, v in zip(others, group, strict=True))
        line[0].set_ylabel(where)
        for axes, (title, figure_of, least) in zip(line, PANELS, strict=True):
            _panel(axes, here, names, along, values, figure_of)
            _axis(axes, least, max(map(figure_of, rows)))
            axes.set_xlabel(title)
        line[-1].axvline(ROOM, color="grey", linestyle=":", linewidth=1)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, title=TITLES[along], loc="outside right upper", frameon=False)
    return figure


def _panel(
    axes: Any,
    rows: Sequence[ComparisonRow],
    names: Sequence[str],
    along: str,
    values: Sequence[float],
    figure_of: Callable[[ComparisonRow], float],
) -> None:
    for height, name in enumerate(names):
        line = [figure_of(row) for row in rows if row.scheme == name]
        axes.plot([min(line), max(line)], [height, height], color="lightgrey", linewidth=3, zorder=1)
    colours = matplotlib.colormaps["viridis_r"]
    for number, value in enumerate(values):
        here = [row for row in rows if _place(row, along) == value]
        axes.scatter(
            [figure_of(row) for row in here],
            [names.index(row.scheme) for row in here],
            marker=MARKERS[number % len(MARKERS)],
            color=colours(0.15 + 0.8 * number / max(len(values) - 1, 1)),
            s=26,
            label=_value(along, value),
            zorder=2 + number,
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)


def _axis(axes: Any, least: float, most: float) -> None:
    """Make an axis logarithmic from `least` on, with room for zero."""
    axes.set_xscale("symlog", linthresh=least)
    axes.set_xlim(-0.2 * least, 2 * max(most, least))
    axes.set_xticks([0, *(least * 10**power for power in range(9) if least * 10**power <= 2 * most)])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.grid(axis="x", color="gainsboro", linewidth=0.6)
    axes.set_axisbelow(True)


def _place(row: ComparisonRow, axis: str) -> float:
    return getattr(row.place, axis) or 0


def _rest(place: SweepPoint, others: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(place, axis) for axis in others)


def _value(axis: str, value: Any) -> str:
    return f"{value:.0%}" if axis == "loss" else f"{value:g}"
