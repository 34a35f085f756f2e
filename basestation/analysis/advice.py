"""What to take: the smallest stamp and the shortest wait that keep a trace's violations within a tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from basestation.analysis import page, report
from basestation.analysis.choices import own_layout, sizes
from basestation.analysis.details import DetailRow
from basestation.analysis.front import able, least, most
from basestation.analysis.outcome import ContinuumRow
from basestation.analysis.pooled import pool, worst
from basestation.analysis.report import TraceFacts
from basestation.analysis.sensitivity import Limit, Strained
from basestation.causality.policy_choice import levelled
from packet_formats import power
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment
from packet_formats.phrases import many

VOLTS = 3.0
SOME_YEARS_S = 10**9  # a time below it is the network's own
SHORT = 1.0  # per cent: a log that bounds violations no better is short
WORST = 10  # motes, links or hours in the report
WORTH_IT = 0.95  # of the hold, for more bytes
SAME = (
    "run", "stamp", "scheme", "entries", "count", "packing", "counter_bits", "policy", "phi", "tolerate", "exact",
    "guaranteed", "hold_low_ms", "hold_high_ms",
)  # fmt: skip
"""What an advice takes over from its row."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: how violations are counted, how many are tolerated, and what else is wanted.

    `guaranteed` leaves only what is exact while G1 and G2 hold, and was never full, cut or misread on this trace.
    """

    figure: str = "mean"
    tolerance: float = 0.0
    guaranteed: bool = False
    sensitivity: bool = False


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


def recommend(rows: Sequence[ContinuumRow], deployment: Deployment, asked: Question) -> list[Advice]:
    """For each size of stamp, the shortest hold within the tolerance, while more bytes give a clearly shorter one.

    The first is the choice. The list is empty if nothing is good enough.
    """
    return advise(frontier(rows, asked), rows, deployment, asked.figure)


def frontier(rows: Sequence[ContinuumRow], asked: Question) -> list[ContinuumRow]:
    """The rows that `recommend` names, in its order.

    Against what is proven only violations that surely were speak, not those that may have been.
    """
    seen = least if asked.guaranteed else most
    there = [row for row in rows if able(row) and (row.guaranteed or not asked.guaranteed)]
    good = [row for row in there if seen(row, asked.figure) <= asked.tolerance]
    found: list[ContinuumRow] = []
    holds = levelled((row.mean_bytes, row.hold_mean_ms or 0.0) for row in good)
    shortest = math.inf
    for row, hold in sorted(zip(good, holds, strict=True), key=lambda pair: _cost(*pair)):
        if hold < WORTH_IT * shortest:
            found.append(row)
            shortest = hold
    return found


def _cost(row: ContinuumRow, hold: float) -> tuple[float, ...]:
    """The key for sorting: bytes, then hold; among equals what is provable, then fewer full fields, then the wider
    stamp, which is full later."""
    return row.mean_bytes, hold, not row.guaranteed, not row.exact, row.saturated or 0, -row.stamp_bits


def advise(
    found: Sequence[ContinuumRow], rows: Sequence[ContinuumRow], deployment: Deployment, figure: str
) -> list[Advice]:
    """What these configurations, of all `rows`, would save. The first is the choice."""
    return [_advice(row, rows, deployment, figure, chosen=number == 0) for number, row in enumerate(found)]


def _advice(
    row: ContinuumRow, rows: Sequence[ContinuumRow], deployment: Deployment, figure: str, *, chosen: bool
) -> Advice:
    causal = next((r for r in rows if r.stamp == row.stamp and r.policy == "causal" and r.is_answered), None)
    own, board = sizes(deployment, own_layout(deployment)), deployment.network.board
    shorter = next((r.stamp_bytes - r.mean_bytes for r in rows if r.own and r.bytes_mean), 0.0)
    spared, hold = row.stamp_bytes - row.mean_bytes, row.hold_mean_ms or 0.0
    uses, used = energy(row.air_bytes - spared, board), energy(own.air_bytes - shorter, board)
    low, high = row.interval(figure)
    return Advice(
        **{name: getattr(row, name) for name in SAME},
        chosen=chosen,
        figure=figure,
        violations=float(getattr(row, figure)),
        violations_most=most(row, figure),
        low=low,
        high=high,
        stamp_bytes=row.mean_bytes,
        payload_bytes=row.payload_bytes - spared,
        bytes_saved=own.payload_bytes - shorter - (row.payload_bytes - spared),
        microjoules=uses,
        microjoules_saved=used - uses,
        hold_mean_ms=hold,
        hold_p99_ms=row.hold_p99_ms or 0.0,
        hold_saved_ms=None if causal is None else (causal.hold_mean_ms or 0.0) - hold,
        saturated=row.saturated or 0,
        late=row.late or 0,
    )


def over_all_runs(rows: Sequence[ContinuumRow], deployment: Deployment, asked: Question) -> list[Advice]:
    """The same over several runs of one deployment together, with the worst run of each configuration."""
    together = pool(rows)
    named = frontier(together, asked)
    bad = [worst(rows, row, asked.figure) for row in named]
    return [
        replace(one, worst_run=row.run, worst=most(row, asked.figure))
        for one, row in zip(advise(named, together, deployment, asked.figure), bad, strict=True)
    ]


def energy(air_bytes: float, board: str) -> float:
    """The energy in microjoules that a radio needs to send so many bytes: mA, volts and ms. NaN for another's radio."""
    if board not in BOARDS:
        return math.nan
    return power.currents(board).radio["sending"].ma * VOLTS * air_bytes * BOARDS[board].radio.byte_ms


@dataclass(frozen=True, slots=True)
class Advised:
    """A trace, its continuum, and what to take for it: nothing, if nothing will do; then who, when, and how near the
    limits the choice is."""

    trace: TraceFacts
    rows: list[ContinuumRow]
    advice: list[Advice]
    details: list[DetailRow] = field(default_factory=list)
    strained: list[Strained] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)


def lines(one: Advised, asked: Question) -> list[str]:
    """The recommendation for a trace in words."""
    told = [f"run {one.trace.run}: at most {asked.tolerance:g}% of messages violated ({asked.figure})"]
    if not one.advice:
        return [*told, "  " + why_nothing(one.rows, asked.figure)]
    for advice in one.advice:
        told.append(f"  {'take' if advice.chosen else 'or  '} {sentence(advice, asked.tolerance)}")
    return [*told, *(f"  {said}" for said in strain_in_words(one, asked.tolerance))]


def strain_in_words(one: Advised, tolerance: float) -> list[str]:
    """What each assumption that is off does to the choice; once, if the simulated network itself breaks it."""
    same = [row.violations for row in one.strained if row.factor == 1 and row.breaks]
    if not same:
        return [in_words(limit, tolerance) for limit in one.limits]
    return [
        "networks like this one, simulated, break the tolerance already "
        f"({report.percent(max(same))}%): the choice is not sure"
    ]


def in_words(limit: Limit, tolerance: float) -> str:
    """What an assumption that is off does to the choice."""
    even, much = ("", "too many") if limit.breaks_at is not None else ("even ", "not too many")
    return (
        f"{limit.assumption}: {even}if it were {limit.factor:g} times what this log shows, "
        f"{report.percent(limit.violations)}% would be violated; that is {much}, since {tolerance:g}% is tolerated"
    )


def sentence(one: Advice, tolerance: float) -> str:
    """A recommendation in one line."""
    proof = ", in causal order by proof" if one.guaranteed else ""
    bound = f", at most {one.at_most:.2g}% at 95% confidence" if _has_bound(one) else ""
    doubt = f", {_doubt(one, tolerance)}" if _is_doubtful(one, tolerance) else ""
    wait = "" if not one.hold_saved_ms else f", {one.hold_saved_ms:.1f} ms less than causal delivery"
    bad = "" if not one.worst else f"; worst run {one.worst_run}: {report.percent(one.worst)}%"
    return (
        f"{one.stamp}, {report.by(one)}: {one.stamp_bytes:.3g}-byte stamp{proof}, "
        f"{_shown(one)}% violations{bound}{doubt}; held {one.hold_mean_ms:.1f} ms{wait}; {_saved(one)}{bad}"
    )


def answer(one: Advice, tolerance: float) -> str:
    """The answer in a few words: what to take, and its bytes, wait and violations."""
    proof = "causal order by proof; " if one.guaranteed else ""
    doubt = _doubt(one, tolerance).capitalize() + ". " if _is_doubtful(one, tolerance) else ""
    most = f"at most {report.percent(one.violations_most)}%" if one.violations_most else "no"
    return (
        f"{doubt}Take {one.stamp}, {report.by(one)}: a stamp of {_bytes(one.stamp_bytes)}, held "
        f"{one.hold_mean_ms:.0f} ms on average, {proof}{most} violations{_surely(one)}."
    )


def _surely(one: Advice) -> str:
    return f" here ({one.at_most:.2g}% at 95% confidence)" if _has_bound(one) else ""


def _has_bound(one: Advice) -> bool:
    """Whether a bound of chance is worth telling: beside a proof that nothing speaks against, it is not."""
    return one.high is not None and not _is_proven(one)


def _is_proven(one: Advice) -> bool:
    return one.guaranteed and not one.violations


def _is_doubtful(one: Advice, tolerance: float) -> bool:
    """Whether more violations than are tolerated would not be a surprise."""
    return not _is_proven(one) and (one.high is None or one.at_most > tolerance)


def _doubt(one: Advice, tolerance: float) -> str:
    """No log proves 0%; but one that does not even bound it well is short."""
    few = tolerance or one.high is None or one.at_most > SHORT
    return "too few messages to be sure" if few else "no log is long enough to be sure of 0%"


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


def why_nothing(rows: Sequence[ContinuumRow], figure: str) -> str:
    """A sentence on why nothing is recommended: the best there is, or what is missing."""
    there = [row for row in rows if able(row)]
    if not there:
        return "no configuration could be answered"
    if there[0].mean is None:
        return report.NO_VIOLATIONS
    best = min(there, key=lambda row: (most(row, figure), *_cost(row, row.hold_mean or 0.0)))
    return (
        f"nothing will do; the fewest violations are {report.bounds(best, figure)} by {best.stamp}, "
        f"{report.by(best)}; --tolerance {max(0.01, round(most(best, figure) + 0.005, 2)):g} would take it"
    )


def answer_parts(one: Advised, asked: Question) -> list[str]:
    """The report on one run: the answer, the front as a picture, and the rest folded."""
    trace, rows, advice = one.trace, one.rows, one.advice
    parts = [page.heading(f"Run {trace.run}")]
    answered = [row for row in rows if row.is_answered]
    if not advice:
        parts.append(page.paragraph(why_nothing(rows, asked.figure), "answer"))
    else:
        parts.append(page.paragraph(answer(advice[0], asked.tolerance), "answer"))
        parts.append(page.paragraph(_because(advice[0], asked.tolerance)))
    parts += report.facts(trace, rows)
    chosen = next(iter(frontier(rows, asked)), None)
    if answered and answered[0].mean is not None:
        picture = report.front_picture(answered, asked.figure, chosen, asked.tolerance)
        parts.append(page.svg(picture, f"front-{trace.run}"))
        said = "Large: no other configuration is better in bytes, hold and violations. Red: what to take."
        parts.append(page.paragraph(said, "note"))
    if advice:
        parts.append(page.folded("The choice in numbers", _numbers(advice)))
    if one.limits:
        words = [page.paragraph(said) for said in strain_in_words(one, asked.tolerance)]
        parts.append(page.folded("Which assumption breaks first", [*words, _strained(one.strained)]))
    if one.details:
        parts.append(
            page.folded("When and who", map(_detail_sheet, ("mote", "link", "hour"), 3 * [one.details]))
        )
    return [*parts, *report.details_of(trace, rows, chosen)]


def _strained(rows: Sequence[Strained]) -> str:
    cells = [
        (row.assumption, f"{row.factor:g}", report.percent(row.violations), f"{row.hold_ms:.1f}")
        for row in rows
    ]
    return page.sheet(
        ("assumption", "times what this log shows", "violations %", "hold ms"),
        cells,
        [row.breaks for row in rows],
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
    return page.sheet((by, "messages", "in a violation %", "hold ms"), cells)


def _who_or_when(row: DetailRow) -> str:
    if row.hour is not None:
        wall = row.hour > SOME_YEARS_S
        return f"{datetime.fromtimestamp(row.hour, UTC):%Y-%m-%d %H:%M} UTC" if wall else f"{row.hour} s"
    return f"{row.mote}" if row.gateway is None else f"{row.mote} to gateway {row.gateway}"


def all_runs_parts(together: Sequence[Advice], tolerance: float, left_out: Sequence[str] = ()) -> list[str]:
    """The answer over all runs of one deployment, before those of each, and which runs are in neither, and why."""
    parts = [page.heading("All runs together")] if together or left_out else []
    if together:
        first = together[0]
        parts.append(page.paragraph(answer(first, tolerance), "answer"))
        if first.worst:
            said = f"The worst run is {first.worst_run}, with {report.percent(first.worst)}%."
            parts.append(page.paragraph(said))
    return [*parts, *(page.paragraph(f"Left out: {why}.", "note") for why in left_out)]


def _because(one: Advice, tolerance: float) -> str:
    share = f"{_shown(one)}%" if one.violations_most else "None"
    seen = f"{share} of the messages were violated here ({one.figure}), {tolerance:g}% is tolerated"
    sure = f"; at 95% confidence it is {_interval(one)}%" if _has_bound(one) else ""
    saved = f"It {_saved(one)}." if one.bytes_saved else "It has as many bytes as now."
    return f"{seen}{sure}. {saved}{_in_name(one)}"


def _in_name(one: Advice) -> str:
    """What the settings in a stamp's name mean; empty if there are none that need it."""
    if " bits" not in one.stamp:
        return ""
    how = (
        "r and c are sent as one number, their sum"
        if one.stamp.endswith(" sum")
        else "r and c are sent apart"
    )
    return f" In its name, the bits are those of its counter; {how}."


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
    return [page.sheet(columns, cells, (), [one.chosen for one in advice]), page.paragraph(said, "note")]
