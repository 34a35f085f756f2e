"""`continuum`: the result of each stamp, policy and phi on the messages of a trace.

Each configuration has a row with its violations by every figure, its hold, and its bytes on the wire. A configuration
that a trace can't answer has a row with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from basestation.causality.order import Ties
from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.schemes import TimedScheme
from basestation.causality.violations import Violations
from basestation.deployed import timed_scheme_of
from packet_formats.deployment import CRYSTAL_HZ
from packet_formats.schemes import LEDGER, TIMED_POLICIES, descriptor
from spark_jobs.engine import Engine, EngineOptions, Spread, chosen
from spark_jobs.measuring.choices import (
    Candidate,
    Choice,
    NamedCandidate,
    candidates,
    is_exact,
    missing_in,
    named_candidates,
    own_layout,
    refused,
    stamp_name,
)
from spark_jobs.measuring.front import on_front
from spark_jobs.measuring.measure import (
    LedgerTask,
    Measured,
    MeasureTask,
    StampReading,
    Tally,
    deliver_whole,
    measure,
    total,
)
from spark_jobs.measuring.named import PlayedRule, play_all
from spark_jobs.measuring.restamp import Restamped, RestampTask, differing, restamp
from spark_jobs.measuring.uncertainty import FIGURES, HOLD, Uncertain, clumping
from spark_jobs.session import JobError, note, prepare
from spark_jobs.storage import Place
from spark_jobs.tables.stored import MANIFEST, StoredRun, manifest
from spark_jobs.traces.field import with_causes
from spark_jobs.traces.files import TraceFault, TraceFiles, open_trace
from spark_jobs.traces.segments import ROWS, Plan, cut, plan

SMALL = 2_000_000  # messages up to which Spark is not worth its start


@dataclass(frozen=True, slots=True)
class ContinuumRow:
    """One configuration on one trace. Unknown values are None; `reason` says why a configuration has no answer.

    Violations are in per cent of the messages delivered (`related`: of the related pairs), holds in ticks. There are at
    least so many, and at most as many as `_most` says: they differ where not all causes are known. `complete` is the
    share of messages whose causes are, in per cent. `low` and `high` are the 95% interval of `mean`. `front`: no other
    configuration is better in bytes, hold and `mean`. `exact`: its order is causal by proof at phi 100.
    """

    run: str
    scheme: str
    entries: int
    count: str
    carry: str
    packing: str
    counter_bits: int
    own: bool
    stamp_bits: int
    stamp_bytes: int
    payload_bytes: int
    air_bytes: int
    fits: bool
    policy: str
    phi: int
    answered: str
    reason: str | None
    tolerate: float | None = None  # of the ledger, in per cent
    sent: int | None = None
    arrived: int | None = None
    out_of_sync: int | None = None
    delivered: int | None = None
    pairs: float | None = None
    backward: float | None = None
    forward: float | None = None
    mean: float | None = None
    any: float | None = None
    related: float | None = None
    pairs_most: float | None = None
    backward_most: float | None = None
    forward_most: float | None = None
    mean_most: float | None = None
    any_most: float | None = None
    related_most: float | None = None
    complete: float | None = None
    violated_pairs: int | None = None
    backward_messages: int | None = None
    forward_messages: int | None = None
    any_messages: int | None = None
    related_pairs: int | None = None
    hold_mean: float | None = None
    hold_p50: float | None = None
    hold_p95: float | None = None
    hold_p99: float | None = None
    hold_mean_ms: float | None = None
    hold_p99_ms: float | None = None
    late: int | None = None
    saturated: int | None = None
    max_c: int | None = None
    max_kn: int | None = None
    bounded: int | None = None
    wrong_unwraps: int | None = None
    wire_bytes: int | None = None
    bytes_mean: float | None = None  # of a stamp whose length varies
    exact: bool = False
    front: bool = False
    low: float | None = None
    high: float | None = None
    hold_low_ms: float | None = None
    hold_high_ms: float | None = None
    uncertain: Uncertain | None = field(default=None, repr=False, compare=False, metadata={"inside": True})

    def interval(self, figure: str) -> tuple[float | None, float | None]:
        """Between what a figure lies, at 95% confidence. A row from a table knows it of `mean` alone."""
        if self.uncertain is not None:
            return self.uncertain.interval(figure) or (None, None)
        return (self.low, self.high) if figure == "mean" else (None, None)

    @property
    def mean_bytes(self) -> float:
        return float(self.stamp_bytes) if self.bytes_mean is None else self.bytes_mean

    @property
    def has_own_rule(self) -> bool:
        return not descriptor(self.scheme).is_ordered

    @property
    def guaranteed(self) -> bool:
        """Whether it is exact while G1 and G2 hold: no stamp was full, cut or misread on this trace."""
        strained = self.saturated or self.bounded or self.wrong_unwraps
        waits = self.policy == self.scheme or (self.policy in TIMED_POLICIES and self.phi == 100)
        return self.is_answered and self.exact and waits and not strained

    @property
    def is_answered(self) -> bool:
        return self.answered != "no"

    @property
    def stamp(self) -> str:
        return stamp_name(self)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The file to read a scheme's stamps from, or the reason why there is none."""

    reading: StampReading | None
    how: str
    reason: str | None
    made: Restamped | None


def continuum(
    trace: TraceFiles,
    choice: Choice,
    spread: Spread,
    scratch: Path,
    *,
    workers: int = 1,
    rows: int = ROWS,
    ties: Ties = "sequence",
) -> list[ContinuumRow]:
    """Measure every configuration on one trace. `scratch` is a folder that all workers share, for computed stamps."""
    if not trace.rows:
        raise TraceFault(f"{trace.folder}: no message arrived in this run")
    made = prepared(with_causes(trace, scratch), choice, spread, scratch, ties)

    def counted(trace: TraceFiles) -> tuple[Plan, Measured]:
        planned = plan(cut(trace, workers, rows), spread, made.longest)
        tasks = [MeasureTask(part, made.readings, ties, made.whole, made.paths) for part in planned.parts]
        return planned, total(spread(measure, tasks))

    planned, least = counted(made.trace)
    most = counted(replace(made.trace, most=True))[1] if made.trace.unsure else least
    found = _MeasuredTrace(made, planned.arrived, planned.out_of_sync, (least, most))
    out = [
        found.row(stamp, made.answers[stamp.scheme], one)
        for stamp in made.stamps
        for one in choice.deliveries()
    ]
    out += [found.played_row(*rule, result) for rule, result in zip(made.rules, made.played, strict=True)]
    return [replace(row, front=best) for row, best in zip(out, on_front(out), strict=True)]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A trace with all that must be done before its parts are counted: stamps made, ledgers and own rules played."""

    trace: TraceFiles
    stamps: Sequence[Candidate]
    answers: dict[TimedScheme, _Answer]
    readings: tuple[tuple[StampReading, tuple[PolicyChoice, ...]], ...]
    whole: dict[tuple[StampReading, PolicyChoice], Path]
    rules: Sequence[tuple[NamedCandidate, PolicyChoice]]
    played: Sequence[PlayedRule]

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(rule.path for rule in self.played if rule.path)

    @property
    def longest(self) -> int:
        return max((rule.longest for rule in self.played), default=0)


def prepared(trace: TraceFiles, choice: Choice, spread: Spread, scratch: Path, ties: Ties) -> Prepared:
    """Make what the parts of a trace with known causes share."""
    stamps, named = candidates(trace.deployment, choice), named_candidates(trace.deployment, choice)
    no_events = lru_cache(lambda: _no_events(trace, spread))  # asked for only if something needs them
    schemes = list(dict.fromkeys(stamp.scheme for stamp in stamps))
    answers = _answers(trace, schemes, no_events, spread, scratch)
    rules = [(stamp, rule) for stamp in named for rule in choice.rules(stamp.layout.scheme)]
    played = play_all(trace, rules, no_events() if rules else None, spread, scratch)
    used = tuple(dict.fromkeys(answer.reading for answer in answers.values() if answer.reading))
    distinct = _distinct(choice.deliveries())
    readings = tuple((reading, tuple(distinct)) for reading in used)
    whole = ledgers(trace, used, distinct, ties, spread, scratch)
    return Prepared(trace, stamps, answers, readings, whole, rules, played)


def ledgers(
    trace: TraceFiles,
    readings: Sequence[StampReading],
    deliveries: Sequence[PolicyChoice],
    ties: Ties,
    spread: Spread,
    scratch: Path,
) -> dict[tuple[StampReading, PolicyChoice], Path]:
    """Deliver by each ledger over the whole trace, and name the file of each."""
    pairs = [(reading, one) for reading in readings for one in deliveries if one.policy == LEDGER]
    paths = {pair: scratch / f"ledger-{number}.bin" for number, pair in enumerate(pairs)}
    list(spread(deliver_whole, [LedgerTask(trace, *pair, ties, path) for pair, path in paths.items()]))
    return paths


def _distinct(deliveries: Sequence[PolicyChoice]) -> list[PolicyChoice]:
    """The distinct deliveries. Causal delivery is dapw at 100, and arrival order needs no stamp: each is measured
    once."""
    return list(dict.fromkeys(same_as(delivery) for delivery in deliveries if delivery.policy != "none"))


def same_as(delivery: PolicyChoice) -> PolicyChoice:
    """The delivery that is measured in place of this one."""
    return PolicyChoice("dapw", 100) if delivery.policy == "causal" else delivery


def _answers(
    trace: TraceFiles,
    schemes: Sequence[TimedScheme],
    no_events: Callable[[], str | None],
    spread: Spread,
    scratch: Path,
) -> dict[TimedScheme, _Answer]:
    own = trace.deployment.stamp.scheme
    recorded = timed_scheme_of(trace.deployment) if trace.deployment.scheme.is_ordered else None
    lacks = {
        scheme: missing_in(recorded, scheme) if recorded else f"the trace's stamp is {own}"
        for scheme in schemes
    }
    wanted = [scheme for scheme, lack in lacks.items() if lack]
    fault = no_events() if wanted else None
    paths = {scheme: scratch / f"stamps-{number}.parquet" for number, scheme in enumerate(wanted)}
    tasks = [] if fault else [RestampTask(trace, scheme, path) for scheme, path in paths.items()]
    made = dict(zip(wanted, spread(restamp, tasks), strict=False))
    how = "graph" if trace.events is None else "restamped"
    answers = {}
    for scheme, lack in lacks.items():
        if lack is None:
            answers[scheme] = _Answer(_reading(scheme, None), "recorded", None, None)
        elif fault:
            answers[scheme] = _Answer(None, "no", f"{lack}; {fault}", None)
        else:
            answers[scheme] = _Answer(_reading(scheme, paths[scheme]), how, None, made[scheme])
    return answers


def _no_events(trace: TraceFiles, spread: Spread) -> str | None:
    """Why stamps can't be made from the motes' events; None if they can.

    Without events, those of the causal graph serve, if its stamps were made to tell causes.
    """
    if trace.events is None and (trace.deployment.scheme.is_ordered or not trace.has_truth):
        return "and there are no events to make these stamps from"
    if trace.events is None:
        return None
    try:
        (wrong,) = spread(differing, [trace])
    except TraceFault as fault:
        return f"and of its events: {fault}"
    if wrong:
        return f"and {wrong} of {trace.rows} recorded stamps don't come out of the events, which can't be all"
    return None


def _reading(scheme: TimedScheme, path: Path | None) -> StampReading:
    return StampReading(
        path, scheme.carries_c, scheme.entries, scheme.entry_max, scheme.epsilon, scheme.delta
    )


@dataclass(frozen=True)
class _MeasuredTrace:
    """The measurements on one trace."""

    made: Prepared
    arrived: int
    out_of_sync: int
    measured: tuple[Measured, Measured]  # with what surely led to each message, and with all that may have

    @property
    def trace(self) -> TraceFiles:
        return self.made.trace

    def row(self, stamp: Candidate, answer: _Answer, delivery: PolicyChoice) -> ContinuumRow:
        figures: dict[str, Any] = {}
        if answer.reading is not None:
            fields = self.measured[0].readings[self._at(answer.reading)][0]
            tallies = [self._tally(measured, answer.reading, delivery) for measured in self.measured]
            figures = self._figures(stamp, *tallies) | asdict(fields)
            figures |= asdict(answer.made) if answer.made else {}
        return self._row(stamp, delivery, answer.how, answer.reason, figures)

    def played_row(self, stamp: NamedCandidate, rule: PolicyChoice, played: PlayedRule) -> ContinuumRow:
        if played.path is None:
            return self._row(stamp, rule, "no", played.reason, {})
        at = self.made.paths.index(played.path)
        figures = self._figures(stamp, *(measured.played[at] for measured in self.measured))
        figures |= {"late": played.late, "saturated": played.saturated}
        figures |= {"bytes_mean": played.bytes_mean} if stamp.layout.is_variable else {}
        return self._row(stamp, rule, "played", None, figures)

    def _row(
        self,
        stamp: Candidate | NamedCandidate,
        delivery: PolicyChoice,
        answered: str,
        reason: str | None,
        figures: dict[str, Any],
    ) -> ContinuumRow:
        layout, deployment = stamp.layout, self.trace.deployment
        return ContinuumRow(
            run=self.trace.run,
            scheme=layout.scheme,
            entries=layout.entries,
            count=layout.count,
            carry=layout.carry,
            packing=layout.packing,
            counter_bits=layout.entry_bits,
            own=layout == own_layout(deployment),
            stamp_bits=layout.bits,
            stamp_bytes=layout.size,
            **asdict(stamp.sizes),
            exact=is_exact(deployment, layout),
            policy=delivery.policy,
            phi=delivery.phi,
            tolerate=delivery.tolerate,
            answered=answered,
            reason=reason,
            **figures,
        )

    def _figures(self, stamp: Candidate | NamedCandidate, least: Tally, most: Tally) -> dict[str, Any]:
        trace = self.trace
        return {
            "arrived": self.arrived,
            "out_of_sync": self.out_of_sync,
            "wire_bytes": self.arrived * stamp.sizes.air_bytes,
            **_of_tally(least, trace.deployment.clock.tick_log2),
            **_bounds(least.violations, most.violations, trace.is_field),
            **self._intervals(least, most),
            "complete": 100 * (1 - trace.unsure / trace.rows) if trace.has_truth else None,
        }

    def _intervals(self, least: Tally, most: Tally) -> dict[str, Any]:
        found = Uncertain(least.blocks, most.blocks, self.clumps)
        tick_ms = 1000 * 2.0**self.trace.deployment.clock.tick_log2 / CRYSTAL_HZ
        names = ("hold_low_ms", "hold_high_ms")
        told: dict[str, Any] = {"uncertain": found}
        told |= dict(zip(names, (tick_ms * one for one in found.interval(HOLD) or ()), strict=False))
        if least.told:
            told |= dict(zip(("low", "high"), found.interval("mean") or (), strict=False))
        return told

    @cached_property
    def clumps(self) -> dict[str, float]:
        most = self.measured[1]
        tallies = [most.arrival, *(one for _, several in most.readings for one in several), *most.played]
        return {figure: clumping([one.blocks for one in tallies], figure) for figure in FIGURES}

    def _tally(self, measured: Measured, reading: StampReading, delivery: PolicyChoice) -> Tally:
        if delivery.policy == "none":
            return measured.arrival
        at = self._at(reading)
        return measured.readings[at][1][self.made.readings[at][1].index(same_as(delivery))]

    def _at(self, reading: StampReading) -> int:
        return [one for one, _ in self.made.readings].index(reading)


def _bounds(least: Violations | None, most: Violations | None, is_field: bool) -> dict[str, float]:
    """The most that each figure can be.

    A field log does not tell how many pairs are related, since a stamp need not name what was sent long ago: at least
    those that are known to be, at most all.
    """
    if least is None or most is None:
        return {}
    found = {f"{name}_most": value for name, value in most.percent().items()}
    if not is_field:
        return found
    known, every = least.related_pairs, least.delivered * (least.delivered - 1) // 2
    return found | {
        "related": 100.0 * least.pairs / every if every else 0.0,
        "related_most": min(100.0, 100.0 * most.pairs / known) if known else 0.0,
    }


def _of_tally(tally: Tally, tick_log2: int) -> dict[str, Any]:
    tick_ms = 1000 * 2.0**tick_log2 / CRYSTAL_HZ
    p50, p95, p99 = (tally.hold_percentile(percent) for percent in (50, 95, 99))
    found: dict[str, Any] = {
        "delivered": tally.delivered,
        "hold_mean": tally.hold_mean,
        "hold_p50": p50,
        "hold_p95": p95,
        "hold_p99": p99,
        "hold_mean_ms": tally.hold_mean * tick_ms,
        "hold_p99_ms": p99 * tick_ms,
        "late": tally.late,
    }
    violations = tally.violations
    if violations is None:
        return found
    return (
        found
        | violations.percent()
        | {
            "violated_pairs": violations.pairs,
            "backward_messages": violations.backward,
            "forward_messages": violations.forward,
            "any_messages": violations.any,
            "related_pairs": violations.related_pairs,
        }
    )


def open_traces(folders: Sequence[Place]) -> tuple[list[TraceFiles], list[TraceFault]]:
    """Open the traces that can be analysed, and list the faults of the others."""
    traces: dict[str, TraceFiles] = {}
    faults = []
    for folder, stored in _places(folders):
        try:
            if stored is not None and not stored.group.inputs[0].deployment:
                raise TraceFault(
                    f"run {stored.name}: its deployment is not known; ingest it with --deployment"
                )
            trace = open_trace(folder, stored.files("events")[0] if stored else None)
            if stored is not None:
                _check_stored(trace, stored)
            if trace.run in traces:
                raise TraceFault(f"{folder}: run {trace.run}, which {traces[trace.run].folder} is already")
            traces[trace.run] = trace
        except TraceFault as fault:
            faults.append(fault)
    return list(traces.values()), faults


def _places(folders: Sequence[Place]) -> Iterator[tuple[Place, StoredRun | None]]:
    """The place of the messages: of a trace, or of every run in the tables of `ingest`. A place comes once."""
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        if (folder / MANIFEST).is_dir():
            yield from ((run.folder("messages"), run) for run in manifest(folder))
        else:
            yield folder, None


def _check_stored(trace: TraceFiles, stored: StoredRun) -> None:
    """Check that these are the files that `ingest` wrote for this run, and all of them."""
    if trace.run != stored.name:
        raise TraceFault(
            f"{trace.folder}: mixed runs: it is of run {trace.run}, in the place of {stored.name}"
        )
    if trace.rows != (wrote := stored.counts.get("messages", trace.rows)):
        raise TraceFault(
            f"{trace.folder}: {trace.rows} rows, and ingest wrote {wrote}: a part is gone; "
            "ingest --again brings it back"
        )
    if trace.events is None and stored.counts.get("events"):
        raise TraceFault(f"{stored.files('events')[0]} is gone; ingest --again brings it back")


@dataclass(frozen=True, slots=True)
class Analysed:
    """The continuum of each trace that could be analysed, and what was wrong with the others."""

    traces: list[TraceFiles]
    rows: list[ContinuumRow]
    faults: list[TraceFault]


def analyse(
    folders: Sequence[Place],
    choice: Choice,
    options: EngineOptions,
    *,
    job: str = "continuum",
    scratch: Path | None = None,
    segment: int | None = None,
    ties: Ties = "sequence",
    after: Callable[[TraceFiles, list[ContinuumRow], Engine, Path], None] | None = None,
) -> Analysed:
    """Compute the continuum of each trace. Faults are noted when found. `after` is called with the rows of each, while
    the engine is there."""
    if scratch is not None:
        prepare(scratch, "--scratch")
    traces, faults = open_traces(folders)
    for fault in faults:
        note(f"{job}: {fault}")
    rows: list[ContinuumRow] = []
    large = sum(trace.rows for trace in traces) > SMALL
    if traces:
        with chosen(job, options, large=large) as engine, TemporaryDirectory(dir=scratch) as place:
            for number, trace in enumerate(traces):
                own = Path(place) / str(number)
                own.mkdir()
                for lack in refused(trace.deployment, choice):
                    note(f"{job}: run {trace.run}: {lack}")
                try:
                    found = continuum(
                        trace,
                        choice,
                        engine.each,
                        own,
                        workers=engine.workers,
                        rows=segment or ROWS,
                        ties=ties,
                    )
                    rows += found
                    if after is not None:
                        after(trace, found, engine, own)
                except TraceFault as fault:
                    faults.append(fault)
                    note(f"{job}: {fault}")
    if not rows:
        raise JobError("nothing could be analysed")
    return Analysed(traces, rows, faults)
