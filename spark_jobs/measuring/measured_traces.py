"""`continuum`: the result of each stamp, policy and phi on the messages of a trace.

Each configuration has a row (`basestation.analysis.outcome`). A configuration that a trace can't answer has a row with
the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, reduce
from itertools import product
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from basestation.analysis.choices import Candidate, Choice, candidates, missing_in, refused
from basestation.analysis.deliveries import ARRIVAL, Delivery, StampReading
from basestation.analysis.front import on_front
from basestation.analysis.outcome import Answer, ContinuumRow, Outcomes
from basestation.causality.order import Ties
from basestation.causality.policy_choice import PolicyChoice
from basestation.causality.schemes import TimedScheme
from basestation.deployed import timed_scheme_of
from packet_formats.schemes import LEDGER
from spark_jobs.engines import Engine, EngineOptions, Spread, chosen
from spark_jobs.measuring.measure import LedgerTask, MeasureTask, Work, deliver_whole, measure
from spark_jobs.measuring.named import play_all
from spark_jobs.measuring.restamping import RestampTask, differing, restamp
from spark_jobs.session import JobError, note, prepare
from spark_jobs.storage import Place
from spark_jobs.traces.field import with_causes
from spark_jobs.traces.segments import ROWS, Plan, cut, plan
from spark_jobs.traces.trace_files import TraceFault, TraceFiles, open_traces

SMALL = 2_000_000  # messages up to which Spark is not worth its start


@dataclass(frozen=True, slots=True)
class Prepared:
    """A trace before its parts are counted: its missing stamps are made, its ledgers and own rules are played."""

    trace: TraceFiles
    ties: Ties
    answers: list[tuple[Candidate, PolicyChoice, Answer]]

    @property
    def work(self) -> Work:
        """The deliveries to be counted, each once. Arrival order always is."""
        found: dict[StampReading | None, dict[Delivery, None]] = {None: {ARRIVAL: None}}
        for _, _, answer in self.answers:
            found.setdefault(answer.reading, {})
            if answer.delivery is not None:
                found[answer.delivery.reading][answer.delivery] = None
        return {reading: tuple(deliveries) for reading, deliveries in found.items()}

    def counted(
        self, count: Callable[[MeasureTask], Any], work: Work, spread: Spread, workers: int, rows: int
    ) -> tuple[Plan, list[Any], list[Any]]:
        """Count each part, with the sure causes and with all possible causes of each message. The plan is for the
        latter."""
        longest = max((answer.longest for _, _, answer in self.answers), default=0)

        def of(trace: TraceFiles) -> tuple[Plan, list[Any]]:
            planned = plan(cut(trace, workers, rows), spread, longest)
            return planned, list(spread(count, [MeasureTask(one, work, self.ties) for one in planned.parts]))

        planned, least = of(self.trace)
        planned, most = of(replace(self.trace, most=True)) if self.trace.unsure else (planned, least)
        return planned, least, most


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
    if why := trace.why_empty:
        raise TraceFault(why)
    made = prepared(with_causes(trace, scratch), choice, spread, scratch, ties)
    planned, least, most = made.counted(measure, made.work, spread, workers, rows)
    known = made.trace
    found = Outcomes(
        run=known.run,
        deployment=known.deployment,
        is_field=known.is_field,
        arrived=known.rows,
        counts=planned.counts,
        has_truth=known.has_truth,
        least=reduce(add, least),
        most=reduce(add, most),
    )
    out = [found.row(*configuration) for configuration in made.answers]
    return [replace(row, front=best) for row, best in zip(out, on_front(out), strict=True)]


def prepared(trace: TraceFiles, choice: Choice, spread: Spread, scratch: Path, ties: Ties) -> Prepared:
    """Make the stamps and deliveries that the parts of a trace with known causes share."""
    no_events = lru_cache(lambda: _no_events(trace, spread))  # asked for only if something needs them
    stamps = candidates(trace.deployment, choice)
    timed = [(stamp, stamp.scheme) for stamp in stamps if isinstance(stamp.scheme, TimedScheme)]
    stamped = _stamped(trace, list(dict.fromkeys(scheme for _, scheme in timed)), no_events, spread, scratch)
    named = [
        (stamp, rule)
        for stamp in stamps[len(timed) :]  # those with a rule of their own come last
        for rule in choice.rules(stamp.layout.scheme)
    ]
    played = play_all(trace, named, no_events, spread, scratch)
    readings, rules = (
        dict.fromkeys(one.reading for one in stamped.values() if one.reading),
        choice.deliveries(),
    )
    by = deliveries(trace, readings, rules, ties, spread, scratch)
    answers = [
        (stamp, rule, replace(answer, delivery=by.get((answer.reading, rule))))
        for stamp, answer in ((stamp, stamped[scheme]) for stamp, scheme in timed)
        for rule in rules
    ]
    return Prepared(trace, ties, answers + [(*rule, one) for rule, one in zip(named, played, strict=True)])


def deliveries(
    trace: TraceFiles,
    readings: Iterable[StampReading],
    rules: Sequence[PolicyChoice],
    ties: Ties,
    spread: Spread,
    scratch: Path,
) -> dict[tuple[StampReading | None, PolicyChoice], Delivery]:
    """How each policy delivers by each stamp. Ledgers deliver the whole trace here."""
    found: dict[tuple[StampReading | None, PolicyChoice], Delivery] = {}
    ledgers: list[LedgerTask] = []
    for reading, rule in product(readings, rules):
        found[reading, rule] = _delivery(reading, rule)
        if rule.policy == LEDGER:
            path = scratch / f"ledger-{len(ledgers)}.bin"
            found[reading, rule] = Delivery(reading, rule, path)
            ledgers.append(LedgerTask(trace, reading, rule, path, ties))
    list(spread(deliver_whole, ledgers))
    return found


def _delivery(reading: StampReading, rule: PolicyChoice) -> Delivery:
    """Causal delivery is dapw at 100, and arrival order needs no stamp: each is measured once."""
    if rule.policy == "none":
        return ARRIVAL
    return Delivery(reading, PolicyChoice("dapw", 100) if rule.policy == "causal" else rule)


def _stamped(
    trace: TraceFiles,
    schemes: Sequence[TimedScheme],
    no_events: Callable[[], str | None],
    spread: Spread,
    scratch: Path,
) -> dict[TimedScheme, Answer]:
    """The source of each scheme's stamps. Stamps that the trace does not have are made."""
    own = trace.deployment.stamp.scheme
    recorded = timed_scheme_of(trace.deployment) if trace.deployment.scheme.is_ordered else None
    lacks = {one: missing_in(recorded, one) if recorded else f"the trace's stamp is {own}" for one in schemes}
    found = {one: Answer("recorded", reading=StampReading.of(one, None)) for one in schemes}
    wanted = [scheme for scheme, lack in lacks.items() if lack]
    if fault := no_events() if wanted else None:
        return found | {scheme: Answer(reason=f"{lacks[scheme]}; {fault}") for scheme in wanted}
    tasks = [RestampTask(trace, one, scratch / f"stamps-{n}.parquet") for n, one in enumerate(wanted)]
    how = "graph" if trace.events is None else "restamped"
    for task, made in zip(tasks, spread(restamp, tasks), strict=True):
        reading = StampReading.of(task.scheme, task.path)
        found[task.scheme] = Answer(how, reading=reading, figures=asdict(made))
    return found


def _no_events(trace: TraceFiles, spread: Spread) -> str | None:
    """Why stamps can't be made from the motes' events; None if they can.

    Without events, those of the causal graph serve, if its stamps name causes.
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


@dataclass(frozen=True, slots=True)
class Analysed:
    """The continuum of each trace that could be analysed, and the faults of the others."""

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
    """Compute the continuum of each trace. The faults of some are noted, those of all are raised. `after` gets the rows
    of each while the engine is there."""
    if scratch is not None:
        prepare(scratch, "--scratch")
    traces, faults = open_traces(folders)
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
    if not rows:
        raise JobError("; ".join(map(str, faults)) or "nothing was chosen to be measured")
    for why in faults:
        note(f"{job}: {why}")
    return Analysed(traces, rows, faults)
