"""The continuum of a trace in words, pictures and tables: on a page, and on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from basestation.analysis.choices import NAMED
from basestation.analysis.front import able, most, on_front
from basestation.analysis.page import folded, heading, paragraph, pictures, sheet, svg
from basestation.causality.policy_choice import policy_label
from basestation.traces.schema import value_of
from basestation.traces.value_summary import ValueSummary
from packet_formats.deployment import Deployment
from packet_formats.phrases import many
from packet_formats.schemes import ordered

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from basestation.analysis.outcome import ContinuumRow

MARKERS = dict(
    zip((*ordered(), *NAMED), ("X", "P", "^", "s", "o", "D", "v", "<", ">", "*", "p"), strict=False)
)

WIDTH = 6.0  # inches of a picture: at a phone's width its letters keep two thirds of their size
LEGEND_COLUMNS = 3
RING = {
    "s": 320, "facecolors": "none", "edgecolors": "firebrick", "linewidths": 2, "zorder": 4, "clip_on": False,
}  # fmt: skip


NO_VIOLATIONS = "Violations are unknown: these messages have no known causes. The holds are known."


class TraceFacts(Protocol):
    """The facts about a trace in a report."""

    @property
    def run(self) -> str: ...
    @property
    def deployment(self) -> Deployment: ...
    @property
    def rows(self) -> int: ...
    @property
    def origin(self) -> str: ...
    def tables(self, columns: list[str]) -> Iterator[pa.Table]: ...


def continuum_parts(trace: TraceFacts, rows: Sequence[ContinuumRow]) -> list[str]:
    """The part of the report for one trace."""
    if not rows:
        return [heading(f"Run {trace.run}"), paragraph("This trace could not be analysed.")]
    answered = [row for row in rows if row.is_answered]
    parts = [heading(f"Run {trace.run}"), *facts(trace, rows)]
    if answered and answered[0].mean is not None:
        parts.append(svg(front_picture(answered, "mean"), f"front-{trace.run}"))
    elif answered:
        parts.append(paragraph(NO_VIOLATIONS))
    return [*parts, *details_of(trace, rows)]


def details_of(
    trace: TraceFacts, rows: Sequence[ContinuumRow], chosen: ContinuumRow | None = None
) -> list[str]:
    """All configurations of one trace, folded. What was `chosen` is marked wherever it is shown."""
    answered = [row for row in rows if row.is_answered]
    parts = []
    if answered and answered[0].mean is not None:
        drawn = [
            svg(draw(answered, policy, chosen), f"{name}-{policy}-{trace.run}")
            for name, draw in (("phi", _by_phi), ("hold", _hold))
            for policy in _policies(answered)
        ]
        parts.append(folded("Violations and hold against φ", [pictures(drawn)]))
    columns = (
        "stamp", "bytes", "policy", "φ", "mean %", "any %", "pairs %", "related %", "hold ms", "p99 ms", "late",
    )  # fmt: skip
    shown = _without_repeats(answered)
    said = (
        "Violations in per cent of the messages delivered, related of the causally related pairs; hold from arrival to "
        "delivery, its mean and its 99th percentile. Blue: the stamp that the trace carries."
    )
    said += " Red: what to take. A click on a heading sorts." if chosen else " A click on a heading sorts."
    marks = [row.own for row in shown], [row is chosen for row in shown]
    table = sheet(columns, [_cells(row) for row in shown], *marks)
    known = [paragraph(known_causes(answered[0]))] if answered and answered[0].complete is not None else []
    parts.append(
        folded(f"All {len(shown)} configurations", [*known, table, paragraph(said, "note"), _ticks(trace)])
    )
    if refused := _refused(rows):
        table = sheet(("configurations", "why"), [(said, why) for why, said in refused.items()])
        parts.append(folded("What this trace can't answer", [table]))
    return [*parts, *_values(trace)]


def _values(trace: TraceFacts) -> list[str]:
    """The values in the messages' data, if the deployment names them."""
    found = {value: ValueSummary() for value in trace.deployment.data}
    for table in trace.tables(["values"]) if found else ():
        for value, summary in found.items():
            summary.add(value_of(table["values"].drop_null(), value.name).to_numpy())
    cells = [
        (value.column, *map(value.digits, (summary.least, summary.mean, summary.most)))
        for value, summary in found.items()
        if summary.count
    ]
    return [folded("Values", [sheet(("value", "least", "mean", "most"), cells)])] if cells else []


def _ticks(trace: TraceFacts) -> str:
    clock = trace.deployment.clock
    tick = 1000 * clock.tick_seconds
    return paragraph(f"A tick is {tick:.3g} ms; ε = {clock.epsilon} and δ = {clock.delta} ticks.", "note")


def bounds(row: ContinuumRow, figure: str) -> str:
    """A figure in words: its value, or its bounds."""
    least, most = getattr(row, figure), getattr(row, f"{figure}_most")
    if most is None or most == least:
        return f"{percent(least)}%"
    return f"at least {percent(least)}%, at most {percent(most)}%"


def known_causes(row: ContinuumRow) -> str:
    """Sentences on how much of happened-before is known, and what follows."""
    text = (
        f"All causes are known of {row.complete:.1f}% of the messages, except for causes that had come before the "
        "message was sent: stamps need not name those, and under every timed policy they leave first."
    )
    if row.complete != 100:
        text += " Where two numbers stand, violations lie between them."
    if row.unknown:
        text += f" {many(row.unknown, 'message')} in no figure: their causes are unknown."
    return text


def facts(trace: TraceFacts, rows: Sequence[ContinuumRow]) -> list[str]:
    """A paragraph on the network and the run."""
    deployment = trace.deployment
    clock, first = deployment.clock, next((row for row in rows if row.is_answered), None)
    tick = 1000 * clock.tick_seconds
    facts = (
        f"{trace.origin}; network {deployment.network.name}: {deployment.network.motes} motes, "
        f"ε = {clock.epsilon * tick:.1f} ms, δ = {clock.delta * tick:.1f} ms. {trace.rows} messages arrived"
    )
    if first is not None and first.out_of_sync:
        facts += f", {first.out_of_sync} of them out of sync and not counted in any figure"
    if first is not None and first.unknown:
        facts += f", {first.unknown} left out of all figures since their causes are unknown"
    return [paragraph(facts + ".", "note")]


def _without_repeats(rows: Sequence[ContinuumRow]) -> list[ContinuumRow]:
    """The rows with arrival order only once: it is the same under every stamp."""
    seen = False
    out = []
    for row in rows:
        if row.policy == "none":
            if seen:
                continue
            seen = True
        out.append(row)
    return out


def _cells(row: ContinuumRow) -> list[str]:
    arrival = row.policy == "none"
    return [
        "(arrival order)" if arrival else row.stamp,
        "" if arrival else size(row),
        policy_label(row.policy, row.tolerate),
        "" if arrival or row.has_own_rule else f"{row.phi}%",
        *(_between(row, figure) for figure in ("mean", "any", "pairs", "related")),
        "" if row.hold_mean_ms is None else f"{row.hold_mean_ms:.1f}",
        "" if row.hold_p99_ms is None else f"{row.hold_p99_ms:.1f}",
        "" if arrival else str(row.late),
    ]


def size(row: ContinuumRow) -> str:
    """The bytes of a stamp: the mean of one whose length varies."""
    return str(row.stamp_bytes) if row.bytes_mean is None else f"{row.bytes_mean:.1f}"


def _between(row: ContinuumRow, figure: str) -> str:
    least, most = percent(getattr(row, figure)), percent(getattr(row, f"{figure}_most"))
    return least if most in ("?", least) else f"{least}..{most}"


def percent(value: float | None) -> str:
    """A share in per cent, never rounded down to nothing."""
    if value is None:
        return "?"
    return "0" if value == 0 else f"{value:.2f}" if value >= 0.01 else "<0.01"


def _policies(rows: Sequence[ContinuumRow]) -> list[str]:
    return [policy for policy in ("dapw", "cbd") if any(row.policy == policy for row in rows)] or ["causal"]


def _panel(title: str, entries: int) -> tuple[Figure, Any]:
    """A picture with room for a legend below. The picture can still be read on a phone's width."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 4.2 + 0.24 * -(-entries // LEGEND_COLUMNS)), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, fontsize="medium")
    return figure, axes


def _looks(stamps: Sequence[tuple[str, list[ContinuumRow]]]) -> list[dict[str, Any]]:
    """A colour for each stamp that no other has, and a shape for each scheme."""
    from matplotlib import colormaps

    last = max(1, len(stamps) - 1)
    return [
        {"color": colormaps["turbo"](0.04 + 0.92 * at / last), "marker": MARKERS.get(line[0].scheme, "h")}
        for at, (_, line) in enumerate(stamps)
    ]


def _mark(axes: Any, chosen: ContinuumRow | None, policy: str, place: Callable[[ContinuumRow], Any]) -> None:
    """A ring around what was chosen, if it is delivered by this policy."""
    if chosen is not None and chosen.policy == policy:
        axes.scatter(*place(chosen), **RING, label=f"take {chosen.stamp}, {by(chosen)}")


def _log_but_zero(set_scale: Any, values: Iterable[float | None]) -> None:
    shown = [value for value in values if value]
    if shown:
        set_scale("symlog", linthresh=min(shown))


def front_picture(
    rows: Sequence[ContinuumRow],
    figure: str,
    chosen: ContinuumRow | None = None,
    tolerance: float | None = None,
) -> Figure:
    """Violations against hold, a shape for each kind of stamp and a colour for its bytes. Large: the front."""
    from matplotlib import colormaps

    shown = [row for row in rows if able(row) and most(row, figure) < float("inf")]
    best = on_front(shown, figure)
    bytes_ = sorted({round(row.mean_bytes) for row in shown})
    colours = {size: colormaps["turbo"](at / max(len(bytes_) - 1, 1)) for at, size in enumerate(bytes_)}
    picture, axes = _panel("", len(colours) + len({row.scheme for row in shown}))
    for row, front in zip(shown, best, strict=True):
        colour = colours[round(row.mean_bytes)]
        look = {"s": 70, "edgecolors": "black", "zorder": 3} if front else {"s": 16, "alpha": 0.35}
        place = [row.hold_mean_ms or 0.0], [most(row, figure)]
        axes.scatter(*place, marker=MARKERS.get(row.scheme, "h"), color=[colour], clip_on=False, **look)
    if tolerance:
        axes.axhline(
            tolerance, color="firebrick", linestyle="--", linewidth=1, label=f"tolerated: {tolerance:g}%"
        )
    if chosen is not None:
        spot = chosen.hold_mean_ms or 0.0, most(chosen, figure)
        axes.scatter(*spot, **RING)
        said = f"take {chosen.stamp}, {by(chosen)}"
        left = spot[0] > 0.6 * max(row.hold_mean_ms or 0.0 for row in shown)
        axes.annotate(
            said,
            spot,
            (-14 if left else 14, 16),
            textcoords="offset points",
            ha="right" if left else "left",
            color="firebrick",
            weight="bold",
            zorder=5,
        )
    for scheme in dict.fromkeys(row.scheme for row in shown):
        axes.scatter([], [], marker=MARKERS.get(scheme, "h"), color="black", label=scheme)
    for size_, colour in colours.items():
        axes.scatter([], [], marker="s", color=[colour], label=f"{size_} B")
    _log_but_zero(axes.set_yscale, (most(row, figure) for row in shown))
    axes.set_ylim(0)
    axes.set_xlabel("mean hold (ms)")
    axes.set_ylabel(f"violations ({figure}, at most, %)")
    _legend_below(axes)
    return picture


def by(row: Any) -> str:
    """How a configuration delivers, in words."""
    label = policy_label(row.policy, row.tolerate)
    if row.policy == row.scheme:
        return "by its own rule"
    return label if row.tolerate is not None else f"{label} at phi {row.phi}%"


def _by_phi(rows: Sequence[ContinuumRow], policy: str, chosen: ContinuumRow | None) -> Figure:
    lines = _lines(rows, policy)
    figure, axes = _panel(f"{policy.upper()}: violations against φ", len(lines) + 1)
    for (stamp, line), look in zip(lines, _looks(lines), strict=True):
        axes.plot([row.phi for row in line], [row.mean for row in line], markersize=5, label=stamp, **look)
    _mark(axes, chosen, policy, lambda row: (row.phi, row.mean or 0.0))
    axes.set_xlim(103, -3)
    axes.set_ylim(0)
    axes.set_xlabel("φ (% of the safe wait)")
    axes.set_ylabel("violations (mean, %)")
    _legend_below(axes)
    return figure


def _hold(rows: Sequence[ContinuumRow], policy: str, chosen: ContinuumRow | None) -> Figure:
    lines = _lines(rows, policy)
    title = f"{policy.upper()}: hold against violations; along a line φ changes"
    figure, axes = _panel(title, len(lines) + 1)
    for (stamp, line), look in zip(lines, _looks(lines), strict=True):
        places = [row.mean for row in line], [row.hold_mean_ms for row in line]
        axes.plot(*places, markersize=5, label=stamp, **look)
    _mark(axes, chosen, policy, lambda row: (row.mean or 0.0, row.hold_mean_ms or 0.0))
    _log_but_zero(axes.set_xscale, (row.mean for row in rows if row.policy == policy))
    axes.set_xlabel("violations (mean, %)")
    axes.set_ylabel("mean hold (ms)")
    _legend_below(axes)
    return figure


def _legend_below(axes: Any) -> None:
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "frameon": False}
    axes.legend(fontsize="small", ncols=LEGEND_COLUMNS, markerscale=0.7, **place)


def _lines(rows: Sequence[ContinuumRow], policy: str) -> list[tuple[str, list[ContinuumRow]]]:
    shown = [row for row in rows if row.policy == policy and row.packing == "bits"]
    grouped = groupby(shown, key=lambda row: row.stamp)
    return [(stamp, sorted(line, key=lambda row: row.phi)) for stamp, line in grouped]


def show(console: Console, rows: Sequence[ContinuumRow]) -> None:
    """Print rows as a table for each run."""
    for run, of_run in groupby(rows, key=lambda row: row.run):
        mine = list(of_run)
        answered = _without_repeats([row for row in mine if row.is_answered])
        if answered:
            console.print(
                f"run {run}: {answered[0].arrived} messages arrived, {answered[0].delivered} in figures"
            )
            if answered[0].complete not in (None, 100) or answered[0].unknown:
                console.print(known_causes(answered[0]))
            console.print(_terminal_table(answered))
        for reason, said in _refused(mine).items():
            console.print(f"{said} can't be answered: {reason}", style="dim", markup=False)


def _refused(rows: Sequence[ContinuumRow]) -> dict[str, str]:
    """For each reason why configurations have no answer, how many it concerns, and of which stamps."""
    stamps: dict[str, list[str]] = {}
    for row in rows:
        if not row.is_answered:
            stamps.setdefault(row.reason or "", []).append(row.stamp)
    return {
        reason: f"{many(len(found), 'configuration')} ({', '.join(dict.fromkeys(found))})"
        for reason, found in stamps.items()
    }


def _terminal_table(rows: Sequence[ContinuumRow]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0)
    table.add_column("stamp", no_wrap=True)
    for name in ("B", "policy", "phi", "mean %", "any %", "pairs %", "hold ms", "p99 ms", "late"):
        table.add_column(name, justify="right")
    for row in rows:
        cells = _cells(row)
        table.add_row(*cells[:7], *cells[8:])  # the share of related pairs is next to nothing in a long trace
    return table
