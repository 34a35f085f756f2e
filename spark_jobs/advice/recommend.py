"""`recommend`: the smallest stamp and the shortest wait that keep a trace's violations within a tolerance.

It is about this trace. `basestation plan` is for a network that is not built yet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from basestation.analysis.choices import (
    candidates,
    own_layout,
    sizes,
)
from basestation.analysis.details import DetailRow
from basestation.analysis.front import able, least, most
from basestation.analysis.outcome import ContinuumRow
from basestation.causality.policy_choice import PolicyChoice
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment
from packet_formats.phrases import many
from spark_jobs.advice import fit, report
from spark_jobs.advice.facts import arrivals_in
from spark_jobs.advice.pooled import pool, worst
from spark_jobs.advice.sensitivity import Limit, Strained, sensitivity
from spark_jobs.engine import Engine
from spark_jobs.measuring.details import details, only
from spark_jobs.session import JobError
from spark_jobs.storage import Place
from spark_jobs.traces.files import TraceFiles

VOLTS = 3.0
SOME_YEARS_S = 10**9  # a time below it is the network's own
WORST = 10  # motes, links or hours in the report
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
    """The rows that `recommend` names, in its order.

    Against what is proven only violations that surely were speak, not those that may have been.
    """
    seen = least if guaranteed else most
    good = [
        row
        for row in rows
        if able(row) and (row.guaranteed or not guaranteed) and seen(row, figure) <= tolerance
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
    low, high = row.interval(figure)
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
    """The energy in microjoules that a radio needs to send so many bytes: mA, volts and ms. NaN for another's radio."""
    if board not in BOARDS:
        return math.nan
    radio = BOARDS[board].radio
    return radio.sending_ma * VOLTS * air_bytes * radio.byte_ms


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: how violations are counted, how many are tolerated, and what else is wanted."""

    figure: str = "mean"
    tolerance: float = 0.0
    guaranteed: bool = False
    sensitivity: bool = False


@dataclass(frozen=True, slots=True)
class Advised:
    """A trace, its continuum, and what to take for it: nothing, if nothing will do; then who, when, and how near the
    limits the choice is."""

    trace: TraceFiles
    rows: list[ContinuumRow]
    advice: list[Advice]
    details: list[DetailRow] = field(default_factory=list)
    strained: list[Strained] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)


class Adviser:
    """Answers a question for each trace while its engine is there."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.advised: list[Advised] = []

    def take(self, trace: TraceFiles, rows: list[ContinuumRow], engine: Engine, scratch: Path) -> None:
        asked = self.question
        found = frontier(rows, asked.figure, asked.tolerance, guaranteed=asked.guaranteed)
        advice = [
            _advice(row, rows, trace.deployment, asked.figure, chosen=number == 0)
            for number, row in enumerate(found)
        ]
        more: dict[str, Any] = {}
        if found:
            more["details"] = details(trace, found[0], engine.each, scratch, workers=engine.workers)
        if found and asked.sensitivity:
            more["strained"], more["limits"] = strain(trace, found[0], asked, engine)
        self.advised.append(Advised(trace, rows, advice, **more))

    @property
    def together(self) -> list[Advice]:
        """The advice over all runs, if there are several of one deployment."""
        asked, deployments = self.question, {one.trace.deployment.to_toml() for one in self.advised}
        if len(self.advised) < 2 or len(deployments) > 1:
            return []
        rows = [row for one in self.advised for row in one.rows]
        first = self.advised[0].trace.deployment
        return over_all_runs(rows, first, asked.figure, asked.tolerance, guaranteed=asked.guaranteed)


def strain(
    trace: TraceFiles, row: ContinuumRow, asked: Question, engine: Engine
) -> tuple[list[Strained], list[Limit]]:
    """Which assumption breaks a configuration first; nothing where the log does not show its network."""
    try:
        network = fit.fitted(arrivals_in(trace), trace.deployment)
    except JobError:
        return [], []
    stamps = candidates(trace.deployment, only(row))
    delivery = PolicyChoice(row.policy, row.phi, row.tolerate)
    return sensitivity(network, stamps[0].scheme, delivery, asked.tolerance, asked.figure, engine.each)


def write(out: Place, rows: Sequence[ContinuumRow], adviser: Adviser) -> None:
    """Write the tables of the continuum and of the recommendation, and the report."""
    advised, together = adviser.advised, adviser.together
    tables = {
        "continuum": rows,
        "recommend": [*together, *(advice for one in advised for advice in one.advice)],
        "details": [row for one in advised for row in one.details],
        "sensitivity": [row for one in advised for row in one.strained],
    }
    for name, found in tables.items():
        if found:
            report.write_tables(out, name, found)
    parts = [
        *all_runs_parts(together),
        *(part for one in advised for part in answer_parts(one, adviser.question)),
    ]
    report.write_html(out / "report.html", "A stamp and a wait for this network", parts)


def lines(one: Advised, asked: Question) -> list[str]:
    """The recommendation for a trace in words."""
    told = [f"run {one.trace.run}: at most {asked.tolerance:g}% of messages violated ({asked.figure})"]
    if not one.advice:
        return [*told, "  " + why_nothing(one.trace, one.rows, asked.figure)]
    told += [f"  {'take' if advice.chosen else 'or  '} {sentence(advice)}" for advice in one.advice]
    return [*told, *(f"  {_in_words(limit)}" for limit in one.limits)]


def _in_words(limit: Limit) -> str:
    if limit.breaks_at is None:
        return f"{limit.assumption}: holds at every factor that was tried, with {report.percent(limit.violations)}%"
    return f"{limit.assumption}: too many violations at {limit.breaks_at:g} times, {report.percent(limit.violations)}%"


def sentence(one: Advice) -> str:
    """A recommendation in one line."""
    proof = ", in causal order by proof" if one.guaranteed else ""
    bound = "" if one.high is None else f", at most {one.at_most:.2g}% at 95% confidence"
    wait = "" if not one.hold_saved_ms else f", {one.hold_saved_ms:.1f} ms less than causal delivery"
    bad = "" if one.worst_run is None else f"; worst run {one.worst_run}: {report.percent(one.worst)}%"
    return (
        f"{one.stamp}, {report.by(one)}: {one.stamp_bytes:.3g}-byte stamp{proof}, "
        f"{_shown(one)}% violations{bound}; held {one.hold_mean_ms:.1f} ms{wait}; {_saved(one)}{bad}"
    )


def answer(one: Advice) -> str:
    """The answer in a few words: what to take, and its bytes, wait and violations."""
    proof = "causal order by proof; " if one.guaranteed else ""
    return (
        f"Take {one.stamp}, {report.by(one)}: {_bytes(one.stamp_bytes)}, {one.hold_mean_ms:.0f} ms, "
        f"{proof}at most {report.percent(one.violations_most)}% violations{_surely(one)}."
    )


def _surely(one: Advice) -> str:
    return "" if one.high is None else f" here ({one.at_most:.2g}% at 95% confidence)"


def _bytes(size: float) -> str:
    return many(int(size), "byte") if size == int(size) else f"{size:.1f} bytes"


def _saved(one: Advice) -> str:
    if not one.bytes_saved:
        return "no bytes saved"
    word = "saves" if one.bytes_saved > 0 else "costs"
    energy_too = "" if math.isnan(one.microjoules) else f" and {abs(one.microjoules_saved):.1f} uJ"
    return f"{word} {_bytes(abs(one.bytes_saved))}{energy_too} a message"


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
        f"{report.by(best)}; --tolerance {max(0.01, round(most(best, figure) + 0.005, 2)):g} would take it"
    )


def answer_parts(one: Advised, asked: Question) -> list[str]:
    """The report on one run: the answer, the front as a picture, and the rest folded."""
    trace, rows, advice = one.trace, one.rows, one.advice
    parts = [report.heading(f"Run {trace.run}")]
    answered = [row for row in rows if row.is_answered]
    if not advice:
        parts.append(report.paragraph(why_nothing(trace, rows, asked.figure), "answer"))
    else:
        parts.append(report.paragraph(answer(advice[0]), "answer"))
        parts.append(report.paragraph(_because(advice[0], asked.tolerance)))
    parts += report.facts(trace, rows)
    chosen = next(iter(frontier(rows, asked.figure, asked.tolerance, guaranteed=asked.guaranteed)), None)
    if answered and answered[0].mean is not None:
        picture = report.front_picture(answered, asked.figure, chosen, asked.tolerance)
        parts.append(report.svg(picture, f"front-{trace.run}"))
        said = "Large: no other configuration is better in bytes, hold and violations. Red: what to take."
        parts.append(report.paragraph(said, "note"))
    if advice:
        parts.append(report.folded("The choice in numbers", _numbers(advice)))
    if one.limits:
        words = [report.paragraph(_in_words(limit)) for limit in one.limits]
        parts.append(report.folded("Which assumption breaks first", [*words, _strained(one.strained)]))
    if one.details:
        parts.append(
            report.folded("When and who", map(_detail_sheet, ("mote", "link", "hour"), 3 * [one.details]))
        )
    return [*parts, *report.details_of(trace, rows)]


def _strained(rows: Sequence[Strained]) -> str:
    cells = [
        (row.assumption, f"{row.factor:g}", report.percent(row.violations), f"{row.hold_ms:.1f}")
        for row in rows
    ]
    return report.sheet(
        ("assumption", "factor", "violations %", "hold ms"), cells, [row.breaks for row in rows]
    )


def _detail_sheet(by: str, rows: Sequence[DetailRow]) -> str:
    """The worst of the motes, links or hours."""
    mine = sorted((row for row in rows if row.by == by), key=lambda row: -(row.violations_most or 0.0))[
        :WORST
    ]
    cells = [
        (
            _who_or_when(row),
            str(row.delivered),
            report.percent(row.violations_most),
            f"{row.hold_mean_ms:.1f}",
        )
        for row in mine
    ]
    return report.sheet((by, "messages", "in a violation %", "hold ms"), cells)


def _who_or_when(row: DetailRow) -> str:
    if row.hour is not None:
        wall = row.hour > SOME_YEARS_S
        return f"{datetime.fromtimestamp(row.hour, UTC):%Y-%m-%d %H:%M} UTC" if wall else f"{row.hour} s"
    return f"{row.mote}" if row.gateway is None else f"{row.mote} to gateway {row.gateway}"


def all_runs_parts(together: Sequence[Advice]) -> list[str]:
    """The answer over all runs of one deployment, before those of each."""
    if not together:
        return []
    first = together[0]
    said = f"The worst run is {first.worst_run}, with {report.percent(first.worst)}%."
    return [
        report.heading("All runs together"),
        report.paragraph(answer(first), "answer"),
        report.paragraph(said),
    ]


def _because(one: Advice, tolerance: float) -> str:
    seen = f"{_shown(one)}% of the messages were violated here ({one.figure}), {tolerance:g}% is tolerated"
    sure = "" if one.low is None else f"; at 95% confidence it is {_interval(one)}%"
    saved = f"It {_saved(one)}." if one.bytes_saved else "It has as many bytes as now."
    return f"{seen}{sure}. {saved}"


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
            "" if math.isnan(one.microjoules) else f"{one.microjoules_saved:.1f}",
        )
        for one in advice
    ]
    said = (
        "Marked: the smallest stamp. The others take more bytes and let messages go sooner. Saved: in each message, "
        "against the deployment's own stamp; energy of the sender's radio for one transmission."
    )
    return [report.sheet(columns, cells, [one.chosen for one in advice]), report.paragraph(said, "note")]
