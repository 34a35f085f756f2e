"""`recommend`: the smallest stamp and the shortest wait that keep a trace's violations within a tolerance.

It is about this trace. `basestation plan` is for a network that is not built yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from basestation.causality.policy_choice import policy_label
from packet_formats.boards import BOARDS
from packet_formats.phrases import many
from spark_jobs.advice import report
from spark_jobs.measuring.continuum import Analysed, ContinuumRow
from spark_jobs.storage import Place
from spark_jobs.traces.files import TraceFiles

VOLTS = 3.0
WORTH_IT = 0.95  # of the hold, for more bytes


@dataclass(frozen=True, slots=True)
class Advice:
    """A recommended configuration, and what it saves against the trace's own stamp.

    Energy is the sender's radio alone, for one transmission; `hold_saved_ms` is against this stamp's causal delivery.
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
    figure: str
    violations: float
    violations_most: float
    at_most: float
    stamp_bytes: int
    payload_bytes: int
    bytes_saved: int
    microjoules: float
    microjoules_saved: float
    hold_mean_ms: float
    hold_p99_ms: float
    hold_saved_ms: float | None
    saturated: int
    late: int


def recommend(rows: Sequence[ContinuumRow], board: str, figure: str, tolerance: float) -> list[Advice]:
    """For each size of stamp, the shortest hold within the tolerance, while more bytes give a clearly shorter one.

    The first is the choice. The list is empty if nothing is good enough.
    """
    good = [
        row
        for row in rows
        if row.is_answered and row.fits and row.policy != "none" and _most(row, figure) <= tolerance
    ]
    frontier: list[ContinuumRow] = []
    for row in sorted(good, key=_cost):
        if not frontier or (row.hold_mean or 0.0) < WORTH_IT * (frontier[-1].hold_mean or 0.0):
            frontier.append(row)
    own = next((row for row in rows if row.own), None)
    return [_advice(row, own, rows, board, figure, chosen=number == 0) for number, row in enumerate(frontier)]


def _of(row: ContinuumRow, figure: str) -> float:
    value = getattr(row, figure)
    return float("inf") if value is None else float(value)


def _most(row: ContinuumRow, figure: str) -> float:
    """The most that it can be: not all causes may be known."""
    most = getattr(row, f"{figure}_most")
    return _of(row, figure) if most is None else float(most)


def _cost(row: ContinuumRow) -> tuple[int, float, int, int]:
    """The key for sorting: bytes, then hold, then fewer full fields, then the wider stamp, which is full later."""
    return row.stamp_bytes, round(row.hold_mean or 0.0, 9), row.saturated or 0, -row.stamp_bits


def _advice(
    row: ContinuumRow,
    own: ContinuumRow | None,
    rows: Sequence[ContinuumRow],
    board: str,
    figure: str,
    *,
    chosen: bool,
) -> Advice:
    causal = next((r for r in rows if r.stamp == row.stamp and r.policy == "causal" and r.is_answered), None)
    before = own or row
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
        figure=figure,
        violations=_of(row, figure),
        violations_most=_most(row, figure),
        at_most=upper_bound(row, figure),
        stamp_bytes=row.stamp_bytes,
        payload_bytes=row.payload_bytes,
        bytes_saved=before.payload_bytes - row.payload_bytes,
        microjoules=energy(row.air_bytes, board),
        microjoules_saved=energy(before.air_bytes, board) - energy(row.air_bytes, board),
        hold_mean_ms=row.hold_mean_ms or 0.0,
        hold_p99_ms=row.hold_p99_ms or 0.0,
        hold_saved_ms=None if causal is None else (causal.hold_mean_ms or 0.0) - (row.hold_mean_ms or 0.0),
        saturated=row.saturated or 0,
        late=row.late or 0,
    )


def upper_bound(row: ContinuumRow, figure: str) -> float:
    """The upper bound, at 95% confidence, if none was seen in N messages: 3 in N."""
    seen = _most(row, figure)
    return seen if seen or not row.delivered else 300 / row.delivered


def energy(air_bytes: int, board: str) -> float:
    """The energy in microjoules that a radio needs to send so many bytes: mA, volts and ms."""
    radio = BOARDS[board].radio
    return radio.sending_ma * VOLTS * air_bytes * radio.byte_ms


@dataclass(frozen=True, slots=True)
class Advised:
    """A trace, its continuum, and what to take for it: nothing, if nothing will do."""

    trace: TraceFiles
    rows: list[ContinuumRow]
    advice: list[Advice]


def advise(found: Analysed, figure: str, tolerance: float) -> list[Advised]:
    """The recommendation for each trace that could be analysed."""
    advised = []
    for trace in found.traces:
        mine = [row for row in found.rows if row.run == trace.run]
        if mine:
            board = trace.deployment.network.board
            advised.append(Advised(trace, mine, recommend(mine, board, figure, tolerance)))
    return advised


def write(
    out: Place, rows: Sequence[ContinuumRow], advised: Sequence[Advised], figure: str, tolerance: float
) -> None:
    """Write the tables of the continuum and of the recommendation, and the report."""
    report.write_tables(out, "continuum", rows)
    if found := [advice for one in advised for advice in one.advice]:
        report.write_tables(out, "recommend", found)
    parts = [
        part
        for one in advised
        for part in (*_parts(one, figure, tolerance), *report.continuum_parts(one.trace, one.rows))
    ]
    report.write_html(out / "report.html", "A stamp and a wait for this network", parts)


def lines(one: Advised, figure: str, tolerance: float) -> list[str]:
    """The recommendation for a trace in words."""
    told = [f"run {one.trace.run}: at most {tolerance:g}% of messages violated ({figure})"]
    if not one.advice:
        return [*told, "  " + why_nothing(one.trace, one.rows, figure)]
    return told + [f"  {'take' if advice.chosen else 'or  '} {_sentence(advice)}" for advice in one.advice]


def _sentence(one: Advice) -> str:
    bound = ""
    if one.violations_most > one.violations:
        bound = f" at least, {report.percent(one.at_most)}% at most"
    elif not one.violations:
        bound = f", fewer than {one.at_most:.2g}% at 95% confidence"
    saved = (
        f"saves {many(one.bytes_saved, 'byte')} and {one.microjoules_saved:.1f} uJ a message"
        if one.bytes_saved
        else "no bytes saved"
    )
    wait = "" if not one.hold_saved_ms else f", {one.hold_saved_ms:.1f} ms less than causal delivery"
    return (
        f"{one.stamp}, {_by(one)}: {one.stamp_bytes}-byte stamp, "
        f"{report.percent(one.violations)}% violations{bound}; held {one.hold_mean_ms:.1f} ms{wait}; {saved}"
    )


def _shown(one: Advice) -> str:
    if one.violations_most > one.violations:
        return f"{report.percent(one.violations)} to {report.percent(one.violations_most)}"
    return report.percent(one.violations) if one.violations else f"0 (< {one.at_most:.2g})"


def why_nothing(trace: TraceFiles, rows: Sequence[ContinuumRow], figure: str) -> str:
    """A sentence on why nothing is recommended: the best there is, or what is missing."""
    if not trace.has_truth:
        return report.why_no_violations(trace)
    able = [row for row in rows if row.is_answered and row.fits and row.policy != "none"]
    if not able:
        return "no configuration could be answered"
    best = min(able, key=lambda row: (_most(row, figure), *_cost(row)))
    return (
        f"nothing will do; the fewest violations are {report.bounds(best, figure)} by {best.stamp}, "
        f"{_by(best)}"
    )


def _by(row: Advice | ContinuumRow) -> str:
    label = policy_label(row.policy, row.tolerate)
    return label if row.tolerate is not None else f"{label} at phi {row.phi}%"


def _parts(found: Advised, figure: str, tolerance: float) -> list[str]:
    title = f"What to take: run {found.trace.run}, at most {tolerance:g}% ({figure})"
    if not found.advice:
        return [report.heading(title), report.paragraph(why_nothing(found.trace, found.rows, figure))]
    columns = (
        "stamp",
        "policy",
        "φ",
        "bytes",
        "violations %",
        "hold ms",
        "p99 ms",
        "bytes saved",
        "µJ saved",
    )
    cells = [
        (
            one.stamp,
            policy_label(one.policy, one.tolerate),
            f"{one.phi}%",
            str(one.stamp_bytes),
            _shown(one),
            f"{one.hold_mean_ms:.1f}",
            f"{one.hold_p99_ms:.1f}",
            str(one.bytes_saved),
            f"{one.microjoules_saved:.1f}",
        )
        for one in found.advice
    ]
    return [
        report.heading(title),
        report.sheet(columns, cells, [one.chosen for one in found.advice]),
        report.paragraph(
            "Marked: the smallest stamp. The others take more bytes and let messages go sooner. Saved: in each "
            "message, against the stamp that the trace carries; energy of the sender's radio for one transmission.",
            "note",
        ),
    ]
