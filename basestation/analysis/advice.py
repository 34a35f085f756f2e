"""The recommendation: the smallest stamp and the shortest wait that keep a trace's violations within a tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from basestation.analysis import page, report
from basestation.analysis.breakdown import DetailRow
from basestation.analysis.choices import own_layout, sizes
from basestation.analysis.errors import JobError
from basestation.analysis.front import able, at_most, least, most
from basestation.analysis.outcome import ContinuumRow
from basestation.analysis.pooled import pool, worst
from basestation.analysis.report import TraceFacts
from basestation.analysis.sensitivity import Limit, Strained
from basestation.analysis.uncertainty import FIGURES
from basestation.causality.policy_choice import levelled
from packet_formats import power
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment
from packet_formats.phrases import many

VOLTS = 3.0
SOME_YEARS_S = 10**9  # a time below it is the network's own
WORST = 10  # motes, links or hours in the report
WORTH_IT = 0.95  # of the hold, for more bytes
SAME = (
    "run", "stamp", "scheme", "entries", "count", "packing", "counter_bits", "policy", "phi", "tolerate", "exact",
    "guaranteed", "hold_low_ms", "hold_high_ms", "network_late", "host_late",
)  # fmt: skip
"""What an advice takes over from its row."""


@dataclass(frozen=True, slots=True)
class Question:
    """The user's question: how violations are counted, how many are tolerated, and which answers are wanted.

    `guaranteed` leaves only what is exact while G1 and G2 hold, and was never full, cut or misread on this trace.
    """

    figure: str = "mean"
    tolerance: float = 0.0
    guaranteed: bool = False
    sensitivity: bool = False

    def __post_init__(self) -> None:
        if self.figure not in FIGURES:
            raise JobError(f"figure: {self.figure!r} is not one of {', '.join(FIGURES)}")
        if not 0 <= self.tolerance <= 100:  # as the command takes it, and in its words
            raise JobError(f"tolerance: {float(self.tolerance)} is not in the range 0<=x<=100.")


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommended configuration, and its savings against the deployment's own stamp.

    Violations lie between `low` and `high` at 95% confidence; unknown if the run is too short to say. `guaranteed`: in
    causal order by proof, while clocks and delays keep epsilon and delta, and the host reads in time: the network
    brought `network_late` messages too late, and this host read `host_late` ones too late. Energy is the sender's radio
    alone, for one transmission; `hold_saved_ms` is against this stamp's causal delivery. Bytes of a stamp whose length
    varies are means.
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
    network_late: int | None = None
    host_late: int | None = None
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
    """The rows that `recommend` names, in its order: those in causal order by proof, and those that are within the
    tolerance at 95% confidence."""
    there = [row for row in rows if able(row) and (row.guaranteed or not asked.guaranteed)]
    return _cheapest(
        row for row in there if _is_proven(row, asked.figure) or at_most(row, asked.figure) <= asked.tolerance
    )


def _is_proven(row: ContinuumRow, figure: str) -> bool:
    """Whether a row is in causal order by proof, and the network did not contradict the proof.

    Only sure violations contradict it; and not those of a host that read messages too late, while the network brought
    all of them in time.
    """
    spared = row.host_late and not row.network_late and least(row, figure) < math.inf
    return row.guaranteed and bool(spared or not least(row, figure))


def _cheapest(rows: Iterable[ContinuumRow]) -> list[ContinuumRow]:
    """For each size of stamp the shortest hold, while more bytes give a clearly shorter one."""
    good = list(rows)
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
    """The savings of these configurations, of all `rows`. The first is the choice."""
    return [_advice(row, rows, deployment, figure, chosen=number == 0) for number, row in enumerate(found)]


def _advice(
    row: ContinuumRow, rows: Sequence[ContinuumRow], deployment: Deployment, figure: str, *, chosen: bool
) -> Advice:
    causal = next((r for r in rows if r.stamp == row.stamp and r.policy == "causal" and r.is_answered), None)
    own, board = sizes(deployment, own_layout(deployment)), deployment.network.board
    shorter = next((r.stamp_bytes - r.mean_bytes for r in rows if r.own and r.bytes_mean), 0.0)
    spared, hold = row.stamp_bytes - row.mean_bytes, row.hold_mean_ms or 0.0
    uses, used = energy(row.air_bytes, board), energy(own.air_bytes - shorter, board)
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
    """The recommendation over several runs of one deployment, with the worst run of each configuration."""
    together = pool(rows)
    named = frontier(together, asked)
    bad = [worst(rows, row, asked.figure) for row in named]
    return [
        replace(one, worst_run=row.run, worst=most(row, asked.figure))
        for one, row in zip(advise(named, together, deployment, asked.figure), bad, strict=True)
    ]


def energy(air_bytes: float, board: str) -> float:
    """The energy in microjoules that a radio needs to send these bytes: mA, volts and ms. NaN for an unknown radio."""
    if board not in BOARDS:
        return math.nan
    return power.currents(board).radio["sending"].ma * VOLTS * air_bytes * BOARDS[board].radio.byte_ms


@dataclass(frozen=True, slots=True)
class Advised:
    """A trace, its continuum and its recommendations, which may be none; then the choice by mote, link and hour, and
    its limits."""

    trace: TraceFacts
    rows: list[ContinuumRow]
    advice: list[Advice]
    details: list[DetailRow] = field(default_factory=list)
    strained: list[Strained] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)


def lines(one: Advised, asked: Question) -> list[str]:
    """The recommendation for a trace in words."""
    told = [f"run {one.trace.run}: at most {asked.tolerance:g}% of messages violated ({asked.figure})"]
    told += [f"  {'take' if advice.chosen else 'or  '} {sentence(advice)}" for advice in one.advice]
    if not one.advice:
        told.append("  " + why_nothing(one.rows, asked))
    more = [said] if (said := with_more_data(one.rows, asked)) else []
    return [*told, *(f"  {said}" for said in (*more, *strain_in_words(one, asked.tolerance)))]


def with_more_data(rows: Sequence[ContinuumRow], asked: Question) -> str | None:
    """A cheaper configuration that a longer run would allow: within the tolerance here, but not surely. None without
    such a configuration, or if no number of messages makes it sure."""
    now = next(iter(frontier(rows, asked)), None)
    seen = [row for row in rows if able(row) and most(row, asked.figure) < asked.tolerance]
    best = next(iter(_cheapest(seen)), None)
    if asked.guaranteed or best is None or (now is not None and now.mean_bytes <= best.mean_bytes):
        return None
    needed = _needed(best, asked)
    enough = "a longer run" if needed is None else f"about {needed:,} messages"
    return (
        f"{enough} with as few violations would allow {best.stamp}, {report.by(best)}: {best.mean_bytes:.3g}-byte "
        f"stamp, {report.bounds(best, asked.figure)} violations here, held {best.hold_mean_ms:.1f} ms"
    )


def _needed(row: ContinuumRow, asked: Question) -> int | None:
    """How many messages bring the bound at 95% confidence down to the tolerance, in two digits; None if this run is too
    short to say. What the bound adds shrinks with the root of the messages; if none is violated, with their number."""
    seen, high = most(row, asked.figure), row.interval(asked.figure)[1]
    if high is None or row.delivered is None:
        return None
    shrinks = (high - seen) / (asked.tolerance - seen)
    needed = row.delivered * (shrinks**2 if seen else shrinks)
    unit = 10 ** max(0, len(str(int(needed))) - 2)
    return int(unit * math.ceil(needed / unit))


def strain_in_words(one: Advised, tolerance: float) -> list[str]:
    """How each wrong assumption changes the violations; one line if the simulated network breaks the tolerance."""
    same = [row.violations for row in one.strained if row.factor == 1 and row.breaks]
    if not same:
        return [in_words(limit, tolerance) for limit in one.limits]
    return [
        "networks like this one, simulated, break the tolerance already "
        f"({report.percent(max(same))}%): the choice is not sure"
    ]


def in_words(limit: Limit, tolerance: float) -> str:
    """How a wrong assumption changes the violations."""
    even, much = ("", "too many") if limit.breaks_at is not None else ("even ", "not too many")
    return (
        f"{limit.assumption}: {even}if it were {limit.factor:g} times what this log shows, "
        f"{report.percent(limit.violations)}% would be violated; that is {much}, since {tolerance:g}% is tolerated"
    )


def sentence(one: Advice) -> str:
    """A recommendation in one line."""
    wait = "" if not one.hold_saved_ms else f", {one.hold_saved_ms:.1f} ms less than causal delivery"
    bad = "" if not one.worst else f"; worst run {one.worst_run}: {report.percent(one.worst)}%"
    return (
        f"{one.stamp}, {report.by(one)}: {one.stamp_bytes:.3g}-byte stamp, {_order(one)}; "
        f"held {one.hold_mean_ms:.1f} ms{wait}; {_saved(one)}{bad}"
    )


def answer(one: Advice) -> str:
    """The answer in a few words: a stamp and a policy, with bytes, hold and violations."""
    return (
        f"Take {one.stamp}, {report.by(one)}: a stamp of {_bytes(one.stamp_bytes)}, held "
        f"{one.hold_mean_ms:.0f} ms on average, {_order(one)}."
    )


def _order(one: Advice) -> str:
    """How messages were ordered: by proof, or how many violations there were. What the network did and what this host
    did are separate."""
    if not one.guaranteed:
        bound = "" if one.high is None else f", at most {one.at_most:.2g}% at 95% confidence"
        return f"{_shown(one)}% violations{bound}"
    proof = "in causal order by proof"
    late = [
        f"{who} {many(count, 'message')} too late"
        for who, count in (("the network brought", one.network_late), ("this host read", one.host_late))
        if count
    ]
    if late:
        return f"{proof} if messages come in time; here {' and '.join(late)}: {_shown(one)}% violations"
    doubt = " as far as this log shows" if one.violations_most else ""
    return f"{proof}, {_shown(one)}% violations{doubt}"


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


def why_nothing(rows: Sequence[ContinuumRow], asked: Question) -> str:
    """A sentence on why nothing is recommended: the best there is, or what is missing."""
    there, figure = [row for row in rows if able(row)], asked.figure
    if not there:
        return "no configuration could be answered"
    if there[0].mean is None:
        return report.NO_VIOLATIONS
    best = min(
        there, key=lambda row: (at_most(row, figure), most(row, figure), *_cost(row, row.hold_mean or 0.0))
    )
    bound = at_most(best, figure)
    return (
        "nothing to recommend: no configuration is proven or surely within the tolerance; the fewest violations are "
        f"{report.bounds(best, figure)} by {best.stamp}, {report.by(best)}, at most {bound:.2g}% at 95% confidence; "
        f"--tolerance {math.ceil(100 * bound + 0.5) / 100:g} would allow it"
    )


def answer_parts(one: Advised, asked: Question) -> list[str]:
    """The report on one run: the answer, the front as a picture, and the rest folded."""
    trace, rows, advice = one.trace, one.rows, one.advice
    parts = [page.heading(f"Run {trace.run}")]
    answered = [row for row in rows if row.is_answered]
    if not advice:
        parts.append(page.paragraph(why_nothing(rows, asked), "answer"))
    else:
        parts.append(page.paragraph(answer(advice[0]), "answer"))
        parts.append(page.paragraph(_because(advice[0], asked.tolerance)))
    if said := with_more_data(rows, asked):
        parts.append(page.paragraph(said.capitalize() + "."))
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


def all_runs_parts(together: Sequence[Advice], left_out: Sequence[str] = ()) -> list[str]:
    """The answer over all runs of one deployment, before those of each, and which runs are in neither, and why."""
    parts = [page.heading("All runs together")] if together or left_out else []
    if together:
        first = together[0]
        parts.append(page.paragraph(answer(first), "answer"))
        if first.worst:
            said = f"The worst run is {first.worst_run}, with {report.percent(first.worst)}%."
            parts.append(page.paragraph(said))
    return [*parts, *(page.paragraph(f"Left out: {why}.", "note") for why in left_out)]


def _because(one: Advice, tolerance: float) -> str:
    share = f"{_shown(one)}%" if one.violations_most else "None"
    seen = f"{share} of the messages were violated here ({one.figure}), {tolerance:g}% is tolerated"
    sure = "" if one.guaranteed or one.high is None else f"; at 95% confidence it is {_interval(one)}%"
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
    return f" In its name, the bits are the width of its counter; {how}."


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
