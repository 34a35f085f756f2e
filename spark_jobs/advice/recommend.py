"""`recommend`: the smallest stamp and the shortest wait that keep a trace's violations within a tolerance.

It is about this trace. `basestation plan` is for a network that is not built yet.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console

from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment
from packet_formats.phrases import many
from spark_jobs.advice import report
from spark_jobs.advice.pooled import ALL, pool, worst
from spark_jobs.measuring import continuum
from spark_jobs.measuring.choices import own_layout, sizes
from spark_jobs.measuring.continuum import ContinuumRow
from spark_jobs.measuring.front import able, most
from spark_jobs.measuring.uncertainty import FIGURES
from spark_jobs.session import note
from spark_jobs.traces.files import TraceFiles

VOLTS = 3.0
WORTH_IT = 0.95  # of the hold, for more bytes


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommended configuration, and what it saves against the deployment's own stamp.

    Violations lie between `low` and `high` at 95% confidence; unknown if the run is too short to say. `guaranteed`: in
    causal order by proof, while clocks and delays keep epsilon and delta. Energy is the sender's radio alone, for one
    transmission; `hold_saved_ms` is against this stamp's causal delivery. Bytes of a stamp whose length varies are
    means.
    """

    run: str
    chosen: bool
    stamp: str
    scheme: str
    entries: int
    count: str
    packing: str
    counter_bits: int
    policy: str
    phi: int
    tolerate: float | None
    exact: bool
    guaranteed: bool
    figure: str
    violations: float
    violations_most: float
    low: float | None
    high: float | None
    stamp_bytes: float
    payload_bytes: float
    bytes_saved: float
    microjoules: float
    microjoules_saved: float
    hold_mean_ms: float
    hold_low_ms: float | None
    hold_high_ms: float | None
    hold_p99_ms: float
    hold_saved_ms: float | None
    saturated: int
    late: int
    worst_run: str | None = None
    worst: float | None = None

    @property
    def at_most(self) -> float:
        return self.violations_most if self.high is None else max(self.high, self.violations_most)


def recommend(
    rows: Sequence[ContinuumRow],
    deployment: Deployment,
    figure: str = "mean",
    tolerance: float = 0.0,
    *,
    guaranteed: bool = False,
) -> list[Advice]:
    """For each size of stamp, the shortest hold within the tolerance, while more bytes give a clearly shorter one.

    The first is the choice. The list is empty if nothing is good enough. `guaranteed` leaves only what is exact while
    G1 and G2 hold, and was never full, cut or misread on this trace.
    """
    return [
        _advice(row, rows, deployment, figure, chosen=number == 0)
        for number, row in enumerate(frontier(rows, figure, tolerance, guaranteed=guaranteed))
    ]


def frontier(
    rows: Sequence[ContinuumRow], figure: str, tolerance: float, *, guaranteed: bool = False
) -> list[ContinuumRow]:
    """The rows that `recommend` names, in its order."""
    good = [
        row
        for row in rows
        if able(row) and most(row, figure) <= tolerance and (row.guaranteed or not guaranteed)
    ]
    found: list[ContinuumRow] = []
    for row in sorted(good, key=_cost):
        if not found or (row.hold_mean or 0.0) < WORTH_IT * (found[-1].hold_mean or 0.0):
            found.append(row)
    return found


def _cost(row: ContinuumRow) -> tuple[float, float, bool, bool, int, int]:
    """The key for sorting: bytes, then hold; among equals what is provable, then fewer full fields, then the wider
    stamp, which is full later."""
    hold = round(row.hold_mean or 0.0, 6)
    return row.mean_bytes, hold, not row.guaranteed, not row.exact, row.saturated or 0, -row.stamp_bits


def _advice(
    row: ContinuumRow, rows: Sequence[ContinuumRow], deployment: Deployment, figure: str, *, chosen: bool
) -> Advice:
    causal = next((r for r in rows if r.stamp == row.stamp and r.policy == "causal" and r.is_answered), None)
    own = sizes(deployment, own_layout(deployment))
    shorter = next((r.stamp_bytes - r.mean_bytes for r in rows if r.own and r.bytes_mean), 0.0)
    before, spared = own.payload_bytes - shorter, row.stamp_bytes - row.mean_bytes
    board = deployment.network.board
    uses, used = energy(row.air_bytes - spared, board), energy(own.air_bytes - shorter, board)
    low, high = (row.uncertain.interval(figure) if row.uncertain else None) or (None, None)
    return Advice(
        run=row.run,
        chosen=chosen,
        stamp=row.stamp,
        scheme=row.scheme,
        entries=row.entries,
        count=row.count,
        packing=row.packing,
        counter_bits=row.counter_bits,
        policy=row.policy,
        phi=row.phi,
        tolerate=row.tolerate,
        exact=row.exact,
        guaranteed=row.guaranteed,
        figure=figure,
        violations=float(getattr(row, figure)),
        violations_most=most(row, figure),
        low=low,
        high=high,
        stamp_bytes=row.mean_bytes,
        payload_bytes=row.payload_bytes - spared,
        bytes_saved=before - (row.payload_bytes - spared),
        microjoules=uses,
        microjoules_saved=used - uses,
        hold_mean_ms=row.hold_mean_ms or 0.0,
        hold_low_ms=row.hold_low_ms,
        hold_high_ms=row.hold_high_ms,
        hold_p99_ms=row.hold_p99_ms or 0.0,
        hold_saved_ms=None if causal is None else (causal.hold_mean_ms or 0.0) - (row.hold_mean_ms or 0.0),
        saturated=row.saturated or 0,
        late=row.late or 0,
    )


def over_all_runs(
    rows: Sequence[ContinuumRow],
    deployment: Deployment,
    figure: str = "mean",
    tolerance: float = 0.0,
    *,
    guaranteed: bool = False,
) -> list[Advice]:
    """The same over several runs of one deployment together, with the worst run of each configuration."""
    together = pool(rows)
    named = frontier(together, figure, tolerance, guaranteed=guaranteed)
    advice = recommend(together, deployment, figure, tolerance, guaranteed=guaranteed)
    bad = [worst(rows, row, figure) for row in named]
    return [
        replace(one, worst_run=row.run, worst=most(row, figure)) for one, row in zip(advice, bad, strict=True)
    ]


def energy(air_bytes: float, board: str) -> float:
    """The energy in microjoules that a radio needs to send so many bytes: mA, volts and ms."""
    radio = BOARDS[board].radio
    return radio.sending_ma * VOLTS * air_bytes * radio.byte_ms


def configure(parser: argparse.ArgumentParser) -> None:
    continuum.add_trace_options(parser)
    continuum.add_choice_options(parser)
    parser.add_argument(
        "--tolerance", type=continuum.share, default=0.0, help="violations allowed, in per cent (%(default)s)"
    )
    parser.add_argument(
        "--figure", choices=FIGURES, default="mean", help="how to count violations (%(default)s)"
    )
    parser.add_argument(
        "--guaranteed", action="store_true", help="only what is exact by proof while epsilon and delta hold"
    )
    parser.add_argument("--out", type=Path, help="write tables and report.html here")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def main(options: argparse.Namespace) -> int:
    # The ledger is offered at the tolerance itself. At 0 it is causal delivery.
    options.tolerate = [options.tolerance] if options.tolerance and not options.policy else None
    traces, rows, whole = continuum.analyse(options)
    found: list[Advice] = []
    parts: list[str] = []
    for trace in traces:
        mine = [row for row in rows if row.run == trace.run]
        if not mine:
            continue
        advice = recommend(
            mine, trace.deployment, options.figure, options.tolerance, guaranteed=options.guaranteed
        )
        found += advice
        if options.out is not None:
            parts += answer_parts(trace, mine, advice, options.figure, options.tolerance, options.guaranteed)
        if options.json and not advice:
            note(f"{options.job}: run {trace.run}: {why_nothing(trace, mine, options.figure)}")
        if not options.json:
            for line in _lines(trace, mine, advice, options):
                Console(highlight=False).print(line, markup=False, soft_wrap=True)
        whole = whole and bool(advice)
    if len(groups := {trace.deployment: trace for trace in traces}) == 1 < len({row.run for row in rows}):
        (deployment,) = groups
        together = over_all_runs(
            rows, deployment, options.figure, options.tolerance, guaranteed=options.guaranteed
        )
        found += together
        parts = [*all_runs_parts(together), *parts]
        if not options.json:
            for line in [ALL, *(sentence(one) for one in together[:1])]:
                Console(highlight=False).print(line, markup=False, soft_wrap=True)
    if options.json:
        for one in found:
            print(json.dumps(asdict(one)))
    if options.out is not None:
        report.write_tables(options.out, "continuum", rows)
        if found:
            report.write_tables(options.out, "recommend", found)
        report.write_html(options.out / "report.html", "A stamp and a wait for this network", parts)
        note(f"wrote tables and report.html in {options.out}")
    return 0 if whole else 1


def _lines(
    trace: TraceFiles, rows: Sequence[ContinuumRow], advice: Sequence[Advice], options: argparse.Namespace
) -> list[str]:
    lines = [f"run {trace.run}: at most {options.tolerance:g}% of messages violated ({options.figure})"]
    if not advice:
        return [*lines, "  " + why_nothing(trace, rows, options.figure)]
    for one in advice:
        mark = "take" if one.chosen else "or  "
        lines.append(f"  {mark} {sentence(one)}")
    return lines


def sentence(one: Advice) -> str:
    """A recommendation in one line."""
    proof = ", in causal order by proof" if one.guaranteed else ""
    bound = ""
    if one.violations_most > one.violations:
        bound = f" at least, {report.percent(one.at_most)}% at most"
    elif one.high is not None:
        bound = f", at most {one.at_most:.2g}% at 95% confidence"
    wait = "" if not one.hold_saved_ms else f", {one.hold_saved_ms:.1f} ms less than causal delivery"
    bad = "" if one.worst_run is None else f"; worst run {one.worst_run}: {report.percent(one.worst)}%"
    return (
        f"{one.stamp}, {report.by(one)}: {one.stamp_bytes:.3g}-byte stamp{proof}, "
        f"{report.percent(one.violations)}% violations{bound}; held {one.hold_mean_ms:.1f} ms{wait}; {_saved(one)}{bad}"
    )


def answer(one: Advice) -> str:
    """The answer in a few words: what to take, and its bytes, wait and violations."""
    proof = "causal order by proof; " if one.guaranteed else ""
    return (
        f"Take {one.stamp}, {report.by(one)}: {_bytes(one.stamp_bytes)}, {one.hold_mean_ms:.0f} ms, "
        f"{proof}at most {one.at_most:.2g}% violations."
    )


def _bytes(size: float) -> str:
    return many(int(size), "byte") if size == int(size) else f"{size:.1f} bytes"


def _saved(one: Advice) -> str:
    if not one.bytes_saved:
        return "no bytes saved"
    word = "saves" if one.bytes_saved > 0 else "costs"
    return f"{word} {_bytes(abs(one.bytes_saved))} and {abs(one.microjoules_saved):.1f} uJ a message"


def _shown(one: Advice) -> str:
    if one.violations_most > one.violations:
        return f"{report.percent(one.violations)} to {report.percent(one.violations_most)}"
    return report.percent(one.violations)


def _interval(one: Advice) -> str:
    return "?" if one.low is None or one.high is None else f"{one.low:.2g} to {one.high:.2g}"


def why_nothing(trace: TraceFiles, rows: Sequence[ContinuumRow], figure: str) -> str:
    """A sentence on why nothing is recommended: the best there is, or what is missing."""
    if not trace.has_truth:
        return report.why_no_violations(trace)
    there = [row for row in rows if able(row)]
    if not there:
        return "no configuration could be answered"
    best = min(there, key=lambda row: (most(row, figure), *_cost(row)))
    return (
        f"nothing will do; the fewest violations are {report.bounds(best, figure)} by {best.stamp}, "
        f"{report.by(best)}"
    )


def answer_parts(
    trace: TraceFiles,
    rows: Sequence[ContinuumRow],
    advice: Sequence[Advice],
    figure: str,
    tolerance: float,
    guaranteed: bool,
) -> list[str]:
    """The report on one run: the answer, the front as a picture, and the rest folded."""
    parts = [report.heading(f"Run {trace.run}")]
    answered = [row for row in rows if row.is_answered]
    if not advice:
        parts.append(report.paragraph(why_nothing(trace, rows, figure), "answer"))
    else:
        parts += [
            report.paragraph(answer(advice[0]), "answer"),
            report.paragraph(_because(advice[0], tolerance)),
        ]
    parts += report.facts(trace, rows)
    chosen = next(iter(frontier(rows, figure, tolerance, guaranteed=guaranteed)), None)
    if answered and answered[0].mean is not None:
        picture = report.front_picture(answered, figure, chosen, tolerance)
        parts.append(report.svg(picture, f"front-{trace.run}"))
        said = "Large: no other configuration is better in bytes, hold and violations. Red: what to take."
        parts.append(report.paragraph(said, "note"))
    if advice:
        parts.append(report.folded("The choice in numbers", _numbers(advice)))
    return [*parts, *report.details_of(trace, rows)]


def all_runs_parts(together: Sequence[Advice]) -> list[str]:
    """The answer over all runs of one deployment, before those of each."""
    if not together:
        return []
    worst = f"The worst run is {together[0].worst_run}, with {report.percent(together[0].worst)}%."
    return [
        report.heading("All runs together"),
        report.paragraph(answer(together[0]), "answer"),
        report.paragraph(worst),
    ]


def _because(one: Advice, tolerance: float) -> str:
    seen = f"{_shown(one)}% of the messages were violated here ({one.figure}), {tolerance:g}% is tolerated"
    sure = "" if one.low is None else f"; at 95% confidence it is {_interval(one)}%"
    return (
        f"{seen}{sure}. It {_saved(one)}."
        if one.bytes_saved
        else f"{seen}{sure}. It has as many bytes as now."
    )


def _numbers(advice: Sequence[Advice]) -> list[str]:
    columns = (
        "stamp", "delivery", "bytes", "violations %", "95% interval", "hold ms", "p99 ms", "by proof", "bytes saved",
        "µJ saved",
    )  # fmt: skip
    cells = [
        (
            one.stamp,
            report.by(one),
            f"{one.stamp_bytes:.3g}",
            _shown(one),
            _interval(one),
            f"{one.hold_mean_ms:.1f}",
            f"{one.hold_p99_ms:.1f}",
            "yes" if one.guaranteed else "",
            f"{one.bytes_saved:.3g}",
            f"{one.microjoules_saved:.1f}",
        )
        for one in advice
    ]
    said = (
        "Marked: the smallest stamp. The others take more bytes and let messages go sooner. Saved: in each message, "
        "against the deployment's own stamp; energy of the sender's radio for one transmission."
    )
    return [report.sheet(columns, cells, [one.chosen for one in advice]), report.paragraph(said, "note")]
