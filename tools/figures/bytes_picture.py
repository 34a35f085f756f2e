"""Violations against the bytes of the stamp, for all schemes on one network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from basestation.comparing.comparison import ComparisonRow
from basestation.comparing.comparison_plot import ROOM

OURS = ("shlc", "delta-vector", "barrier")


def draw_bytes(rows: Sequence[ComparisonRow], path: Path) -> None:
    bytes_picture(rows).savefig(path, dpi=90, metadata={"Software": None})


def bytes_picture(rows: Sequence[ComparisonRow]) -> Figure:
    """A dot for each scheme; labels of exact schemes go below the zero line. A stamp that only grows is left out."""
    shown = [row for row in rows if row.scheme != "history"]
    widest = 1.8 * max(row.size for row in shown)
    top = max(*(row.violations.percent()["mean"] for row in shown), 1.0)
    figure = Figure(figsize=(8.6, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.axhline(0, color="grey", linewidth=0.8, zorder=1)
    for row in shown:
        _labelled(axes, row)
    axes.set_xscale("symlog", linthresh=1, base=2)
    axes.set_xlim(-0.25, widest)
    axes.set_xticks([0, *(2**i for i in range(12) if 2**i <= widest)])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylim(-0.42 * top, 1.1 * top)
    axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= 1.1 * top])
    axes.axvspan(ROOM, widest, color="grey", alpha=0.12, zorder=0)
    axes.annotate(f"does not fit\n({ROOM} bytes are free)", (ROOM * 1.08, 1.08 * top), va="top")
    place = shown[0].place
    where = f"{place.motes} motes, ε = {place.epsilon} ticks, δ = {place.delta} ticks"
    axes.set_title(f"{where}, {place.loss or 0:.0%} of copies lost", fontsize="medium")
    axes.set_xlabel(
        "bytes of the stamp in each message on average; held: mean ticks from arrival to delivery"
    )
    axes.set_ylabel("violations (mean, % of messages)")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _labelled(axes: Any, row: ComparisonRow) -> None:
    ours, percent = row.scheme in OURS, row.violations.percent()["mean"]
    above = percent > 0 or row.scheme == "delta-vector"  # vector's label is below the same dot
    axes.scatter(
        row.mean_bytes,
        percent,
        s=130 if ours else 45,
        marker="*" if ours else "o",
        color="tab:red" if ours else "tab:blue",
        zorder=4 if ours else 3,
    )
    axes.annotate(
        f"{row.scheme}{' (ours)' if ours else ''}{f', held {row.hold_mean:.0f}' if not percent else ''}",
        (row.mean_bytes, percent),
        xytext=(5, 5) if above else (2, -7),
        textcoords="offset points",
        va="bottom" if above else "top",
        rotation=25 if above else -35,
        rotation_mode="anchor",
        color="tab:red" if ours else "black",
        fontweight="bold" if ours else "normal",
    )
