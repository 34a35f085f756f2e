"""Draws the figures with the paper's panels (a) to (d) and the spread over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from basestation.simulator.options import DelayLaw

from .grid import CURVES, LAWS, PHIS, TITLES, FigurePoint, Policy, policies_of

LAW_NAMES = {"half": "N(δ/2, δ/4)", "quarter": "N(δ/4, δ/8)"}
# What the paper's text says about a panel, drawn into it: (figure, policy, law) -> (low, high, words).
STATED: dict[tuple[int, Policy, DelayLaw | None], tuple[float, float, str]] = {
    (4, "cbd", "quarter"): (0, 2, "paper: 0–2%"),
    (5, "cbd", "quarter"): (0, 3, "paper: 0–3%"),
}
# Our line lies on another one at zero: it is dashed so that both are visible.
OURS = {"marker": "*", "markersize": 9, "color": "black", "linestyle": "--", "zorder": 4}
STATED_AT_100 = {"DPC1": (30, 50), "2 kn entries": (10, 15)}


def draw(figure: int, points: Sequence[FigurePoint], folder: Path) -> Path:
    """Draw one figure into `folder`."""
    fig = picture(figure, points)
    path = folder / f"figure{figure}.png"
    fig.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(fig)
    return path


def picture(figure: int, points: Sequence[FigurePoint]) -> Figure:
    policies = policies_of(figure)
    fig, axes = plt.subplots(
        len(LAWS), len(policies), figsize=(5.2 * len(policies), 7.2), squeeze=False, layout="constrained"
    )
    fig.suptitle(f"Figure {figure}. {TITLES[figure]}")
    for row, law in enumerate(LAWS):
        for column, policy in enumerate(policies):
            shown = [p for p in points if (p.curve.figure, p.law, p.policy) == (figure, law, policy)]
            _panel(axes[row][column], figure, law, policy, shown)
    return fig


def _panel(axes: Axes, figure: int, law: DelayLaw, policy: Policy, points: Sequence[FigurePoint]) -> None:
    labels = [curve.label for curve in CURVES if curve.figure == figure]
    for number, label in enumerate(labels):
        line = sorted((p for p in points if p.curve.label == label), key=lambda p: p.phi)
        phis = [p.phi for p in line]
        look = OURS if "(ours)" in label else {"marker": "osd^vx"[number % 6], "color": f"C{number}"}
        axes.plot(phis, [p.mean for p in line], label=label, **look)
        lows, highs = ([end(p.values) for p in line] for end in (min, max))
        axes.fill_between(phis, lows, highs, color=look["color"], alpha=0.2)
    _stated(axes, figure, policy, law)
    axes.set_title(f"{policy.upper()}, delay {LAW_NAMES[law]}", fontsize="medium")
    axes.set_xlabel("φ (% of the safe wait)")
    axes.set_ylabel("violations (mean, %)")
    axes.set_xlim(min(PHIS) - 3, max(PHIS) + 3)
    top = axes.get_ylim()[1]
    many = len(labels) > 4
    axes.set_ylim(-0.03 * top, top * (1.5 if many else 1))  # a long legend needs room above the lines
    axes.legend(fontsize="small", ncols=2 if many else 1, loc="upper right" if many else "best")


def _stated(axes: Axes, figure: int, policy: Policy, law: DelayLaw) -> None:
    if (figure, policy, law) in STATED:
        low, high, words = STATED[figure, policy, law]
        axes.axhspan(low, high, color="grey", alpha=0.15, label=words)
    if figure in (6, 7):
        for label, (low, high) in STATED_AT_100.items():
            axes.plot([100, 100], [low, high], color="black", linewidth=4, alpha=0.4)
            axes.annotate(
                f"paper, {label}", (98, (low + high) / 2), fontsize="x-small", va="center", ha="right"
            )
