"""Writes the results of an analysis: Parquet and CSV tables, lines on the terminal, and one HTML file.

The HTML contains its pictures as SVG and needs no other file.
"""

from __future__ import annotations

import html
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from io import BytesIO, StringIO
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from basestation.causality.policy_choice import policy_label
from packet_formats.schemes import ordered
from spark_jobs.storage import Place, write_whole
from spark_jobs.traces.files import TraceFiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from spark_jobs.measuring.continuum import ContinuumRow

MARKERS = dict(zip(ordered(), ("x", "P", "^", "s", "o", "D", "v", "*"), strict=False))
ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; font-size: 13px; margin: 1em 0 }
td, th { padding: 2px 8px; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left }
tr.own { background: #eef6ff }
svg { max-width: 100%; height: auto }
p.note { color: #666 }
"""


def table_of(rows: Sequence[Any]) -> pa.Table:
    """A table from rows of one dataclass, with a column for each field."""
    kind = type(rows[0])
    hints = typing.get_type_hints(kind)
    schema = pa.schema([pa.field(field.name, _arrow(hints[field.name])) for field in fields(kind)])
    return pa.Table.from_pylist([asdict(row) for row in rows], schema=schema)


def _arrow(hint: Any) -> pa.DataType:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = (one for one in typing.get_args(hint) if one is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        return pa.list_(ARROW[typing.get_args(hint)[0]])
    return ARROW[hint]


def write_tables(out: Place, name: str, rows: Sequence[Any]) -> None:
    """Write the tables. Each file appears completely or not at all. In CSV, a list is its values with blanks
    between."""
    put_table(out, name, table_of(rows))


def put_table(out: Place, name: str, table: pa.Table) -> None:
    out.mkdir(parents=True, exist_ok=True)
    _put(out / f"{name}.parquet", lambda path: pq.write_table(table, path, compression="zstd"))
    _put(out / f"{name}.csv", lambda path: pa_csv.write_csv(_flat(table), path))


def _flat(table: pa.Table) -> pa.Table:
    for place, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            words = [" ".join(map(str, value)) for value in table[field.name].to_pylist()]
            table = table.set_column(place, field.name, pa.array(words))
    return table


def _put(path: Place, write: Callable[[Any], Any]) -> None:
    sink = BytesIO()
    write(sink)
    write_whole(path, sink.getvalue())


def write_html(path: Place, title: str, parts: Iterable[str]) -> None:
    body = "\n".join(parts)
    text = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body><h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n"
    )
    write_whole(path, text.encode())


def paragraph(text: str, kind: str = "") -> str:
    mark = f' class="{kind}"' if kind else ""
    return f"<p{mark}>{html.escape(text)}</p>"


def heading(text: str) -> str:
    return f"<h2>{html.escape(text)}</h2>"


def sheet(columns: Sequence[str], rows: Iterable[Sequence[str]], marked: Sequence[bool] = ()) -> str:
    """An HTML table; `marked` rows are highlighted."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    lines = []
    for number, row in enumerate(rows):
        own = ' class="own"' if number < len(marked) and marked[number] else ""
        lines.append(f"<tr{own}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>")
    return f"<table><tr>{head}</tr>\n" + "\n".join(lines) + "</table>"


def svg(figure: Figure, name: str) -> str:
    """A picture for the page. `name` keeps its references apart from those of other pictures."""
    from matplotlib import rc_context

    out = StringIO()
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)


def write_continuum(out: Place, traces: Sequence[TraceFiles], rows: Sequence[ContinuumRow]) -> None:
    """Write `continuum.parquet`, `continuum.csv` and `report.html`."""
    write_tables(out, "continuum", rows)
    parts = [
        part for trace in traces for part in continuum_parts(trace, [r for r in rows if r.run == trace.run])
    ]
    write_html(out / "report.html", "The continuum of timestamp widths", parts)


def continuum_parts(trace: TraceFiles, rows: Sequence[ContinuumRow]) -> list[str]:
    """The part of the report for one trace."""
    if not rows:
        return [heading(f"Run {trace.run}"), paragraph("This trace could not be analysed.")]
    parts = [heading(f"Run {trace.run}"), *_facts(trace, rows)]
    answered = [row for row in rows if row.is_answered]
    if answered and answered[0].mean is not None:
        parts += [svg(_by_bytes(answered), f"bytes-{trace.run}"), svg(_by_phi(answered), f"phi-{trace.run}")]
        parts.append(svg(_hold(answered), f"hold-{trace.run}"))
        parts.append(paragraph(known_causes(answered[0])))
    elif answered:
        parts.append(paragraph(why_no_violations(trace)))
    columns = (
        "stamp",
        "bytes",
        "policy",
        "φ",
        "mean %",
        "any %",
        "pairs %",
        "related %",
        "hold",
        "p99",
        "late",
    )
    shown = _without_repeats(answered)
    parts.append(sheet(columns, [_cells(row) for row in shown], [row.own for row in shown]))
    parts.append(
        paragraph(
            "Violations in per cent of the messages delivered, related of the causally related pairs; hold in ticks "
            "from arrival to delivery, its mean and its 99th percentile. Marked: the stamp that the trace carries.",
            "note",
        )
    )
    refused = {row.stamp: row.reason or "" for row in rows if not row.is_answered}
    if refused:
        parts += [paragraph("What this trace can't answer:"), sheet(("stamp", "why"), refused.items())]
    return parts


def bounds(row: ContinuumRow, figure: str) -> str:
    """A figure in words: what it is, or between what it lies."""
    least, most = getattr(row, figure), getattr(row, f"{figure}_most")
    if most is None or most == least:
        return f"{percent(least)}%"
    return f"at least {percent(least)}%, at most {percent(most)}%"


def known_causes(row: ContinuumRow) -> str:
    """A sentence on how much of happened-before is known, and what follows."""
    text = f"All causes are known of {row.complete:.1f}% of the messages."
    if row.complete == 100:
        return text
    return f"{text} Where two numbers stand, violations lie between them."


def why_no_violations(trace: TraceFiles) -> str:
    return (
        f"Violations are unknown: {trace.untold} of {trace.rows} messages came without the truth of what happened "
        "before what. The holds are known."
    )


def _facts(trace: TraceFiles, rows: Sequence[ContinuumRow]) -> list[str]:
    deployment = trace.deployment
    clock, first = deployment.clock, next((row for row in rows if row.is_answered), None)
    facts = [
        f"{trace.origin}; network {deployment.network.name}: {deployment.network.motes} motes, ε = {clock.epsilon}, "
        f"δ = {clock.delta} ticks of {1000 * 2**clock.tick_log2 / 32768:.3g} ms.",
        f"{trace.rows} messages arrived",
    ]
    if first is not None and first.out_of_sync:
        facts[1] += f", {first.out_of_sync} of them out of sync and not counted in any figure"
    return [paragraph(facts[0]), paragraph(facts[1] + ".")]


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
        "" if arrival else str(row.stamp_bytes),
        policy_label(row.policy, row.tolerate),
        "" if arrival else f"{row.phi}%",
        *(_between(row, figure) for figure in ("mean", "any", "pairs", "related")),
        "" if row.hold_mean is None else f"{row.hold_mean:.1f}",
        "" if row.hold_p99 is None else f"{row.hold_p99:.0f}",
        "" if arrival else str(row.late),
    ]


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


def _panels(rows: Sequence[ContinuumRow], title: str) -> tuple[Figure, list[tuple[str, Any]]]:
    from matplotlib.figure import Figure

    policies = _policies(rows)
    figure = Figure(figsize=(5.6 * len(policies), 4.4), layout="constrained")
    figure.suptitle(title)
    axes = figure.subplots(1, len(policies), squeeze=False)[0]
    for policy, one in zip(policies, axes, strict=True):
        one.set_title(policy.upper(), fontsize="medium")
    return figure, list(zip(policies, axes, strict=True))


def _colour(phi: int) -> Any:
    from matplotlib import colormaps

    return colormaps["turbo"](phi / 100)


def _log_but_zero(set_scale: Any, values: Iterable[float | None]) -> None:
    shown = [value for value in values if value]
    if shown:
        set_scale("symlog", linthresh=min(shown))


def _by_bytes(rows: Sequence[ContinuumRow]) -> Figure:
    figure, panels = _panels(rows, "Violations against bytes of the stamp; colour: φ")
    arrival = next((row for row in rows if row.policy == "none"), None)
    for policy, axes in panels:
        shown = [row for row in rows if row.policy == policy]
        for row in shown:
            place = row.stamp_bytes + 0.1 * (list(MARKERS).index(row.scheme) - 2)
            axes.scatter(
                [place], [row.mean], marker=MARKERS[row.scheme], color=[_colour(row.phi)], clip_on=False
            )
        if arrival is not None:
            axes.axhline(arrival.mean, color="grey", linestyle=":", label="arrival order")
        for scheme in dict.fromkeys(row.scheme for row in shown):
            axes.scatter([], [], marker=MARKERS[scheme], color="black", label=scheme)
        for phi in sorted({row.phi for row in shown}):
            axes.scatter([], [], marker=".", color=[_colour(phi)], label=f"φ {phi}%")
        _log_but_zero(axes.set_yscale, (row.mean for row in shown))
        axes.set_xlabel("bytes")
        axes.set_ylabel("violations (mean, %)")
        _legend_below(axes)
    return figure


def _by_phi(rows: Sequence[ContinuumRow]) -> Figure:
    figure, panels = _panels(rows, "Violations against φ")
    for policy, axes in panels:
        for stamp, line in _lines(rows, policy):
            axes.plot([row.phi for row in line], [row.mean for row in line], marker=".", label=stamp)
        axes.set_xlim(103, -3)
        axes.set_ylim(0)
        axes.set_xlabel("φ (% of the safe wait)")
        axes.set_ylabel("violations (mean, %)")
        _legend_below(axes)
    return figure


def _hold(rows: Sequence[ContinuumRow]) -> Figure:
    figure, panels = _panels(rows, "Hold against violations; along a line φ changes")
    for policy, axes in panels:
        for stamp, line in _lines(rows, policy):
            axes.plot([row.mean for row in line], [row.hold_mean_ms for row in line], alpha=0.4, label=stamp)
            axes.scatter(
                [row.mean for row in line],
                [row.hold_mean_ms for row in line],
                color=[_colour(row.phi) for row in line],
                s=14,
                zorder=3,
            )
        _log_but_zero(axes.set_xscale, (row.mean for row in rows if row.policy == policy))
        axes.set_xlabel("violations (mean, %)")
        axes.set_ylabel("mean hold (ms)")
        _legend_below(axes)
    return figure


def _legend_below(axes: Any) -> None:
    axes.legend(fontsize="x-small", ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False)


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
            if answered[0].complete not in (None, 100):
                console.print(known_causes(answered[0]))
            console.print(_terminal_table(answered))
        refused = {row.stamp: row.reason for row in mine if not row.is_answered}
        for stamp, reason in refused.items():
            console.print(f"{stamp}: can't be answered: {reason}", style="dim", markup=False)


def _terminal_table(rows: Sequence[ContinuumRow]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=0)
    table.add_column("stamp", no_wrap=True)
    for name in ("B", "policy", "phi", "mean %", "any %", "pairs %", "hold, ticks", "p99", "late"):
        table.add_column(name, justify="right")
    for row in rows:
        cells = _cells(row)
        table.add_row(*cells[:7], *cells[8:])  # the share of related pairs is next to nothing in a long trace
    return table
