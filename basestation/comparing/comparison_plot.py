"""A comparison as a picture. Needs the extra `analysis`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from .catalogue import NAMES
from .comparison import PAYLOAD_BYTES, ComparisonRow, SweepPoint

AXES = ("motes", "loss", "rate", "epsilon", "delta")
TITLES = {"motes": "motes", "loss": "copies lost", "rate": "rate", "epsilon": "ε", "delta": "δ"}
MARKERS = "osd^v<>PXD*x+1"


def _lost(row: ComparisonRow) -> float:
    return 100 * (row.gave_up + row.discarded + row.stuck) / max(row.arrived, 1)


PANELS: tuple[tuple[str, Callable[[ComparisonRow], float], float], ...] = (
    ("violations (mean, %)", lambda row: row.violations.percent()["mean"], 0.01),
    ("mean hold (ticks)", lambda row: row.hold_mean, 0.1),
    ("gave up, discarded, stuck (%)", _lost, 0.1),
    ("bytes of the stamp", lambda row: row.size, 1),
)


def draw(rows: Sequence[ComparisonRow], path: Path) -> None:
    metadata = {"Software": None} if path.suffix == ".png" else None
    picture(rows).savefig(path, dpi=90, metadata=metadata)


def picture(rows: Sequence[ComparisonRow]) -> Figure:
    """What is varied first goes along each panel; each combination of the rest has a line of panels."""
    varied = [axis for axis in AXES if len({getattr(row.place, axis) for row in rows}) > 1] or ["motes"]
    along, *others = varied
    groups = list(dict.fromkeys(_rest(row.place, others) for row in rows))
    figure = Figure(figsize=(4.2 * len(PANELS), 3.2 * len(groups) + 0.9), layout="constrained")
    grid = figure.subplots(len(groups), len(PANELS), squeeze=False)
    for line, group in zip(grid, groups, strict=True):
        here = [row for row in rows if _rest(row.place, others) == group]
        where = ", ".join(f"{TITLES[axis]} {_value(axis, v)}" for axis, v in zip(others, group, strict=True))
        for axes, (title, figure_of, least) in zip(line, PANELS, strict=True):
            _panel(axes, here, along, figure_of, least)
            axes.set_ylabel(title)
            axes.set_title(where, fontsize="small")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=7, fontsize="small", frameon=False)
    return figure


def _panel(
    axes: Any,
    rows: Sequence[ComparisonRow],
    along: str,
    figure_of: Callable[[ComparisonRow], float],
    least: float,
) -> None:
    places = sorted({getattr(row.place, along) or 0 for row in rows})
    for name in dict.fromkeys(row.scheme for row in rows):
        line = sorted((row for row in rows if row.scheme == name), key=lambda r: getattr(r.place, along) or 0)
        number = NAMES.index(name)
        x = [places.index(getattr(row.place, along) or 0) for row in line]
        axes.plot(
            x,
            [figure_of(row) for row in line],
            marker=MARKERS[number % len(MARKERS)],
            color=f"C{number % 10}",
            linestyle="-" if number < 10 else "--",
            linewidth=1,
            label=name,
        )
    axes.set_yscale("symlog", linthresh=least)
    axes.set_ylim(bottom=-0.3 * least)
    axes.set_xticks(range(len(places)), [_value(along, place) for place in places])
    axes.set_xlabel(TITLES[along])
    if figure_of is PANELS[-1][1]:
        axes.axhline(PAYLOAD_BYTES, color="grey", linestyle=":", linewidth=1)


def _rest(place: SweepPoint, others: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(place, axis) for axis in others)


def _value(axis: str, value: Any) -> str:
    return f"{value:.0%}" if axis == "loss" else f"{value:g}"
