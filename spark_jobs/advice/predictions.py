"""`fit`: simulated networks like the one that a log shows, and their violations (`analysis/fitted_network.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from basestation.analysis.choices import Choice
from basestation.analysis.clock_bounds import MOMENT_S
from basestation.analysis.differences import as_deployed
from basestation.analysis.facts import facts_of
from basestation.analysis.fitted_network import (
    SEEDS,
    Check,
    Fitted,
    Predicted,
    check,
    checks,
    fitted,
    predict,
)
from basestation.analysis.uncertainty import HOLD
from packet_formats.phrases import many
from spark_jobs.engines import Engine, EngineOptions, chosen
from spark_jobs.health import measured_clocks as clocks
from spark_jobs.measuring.measured_traces import continuum
from spark_jobs.session import JobError, note
from spark_jobs.storage import Place
from spark_jobs.tables.stored import MANIFEST, manifest
from spark_jobs.traces.segments import arrivals_in
from spark_jobs.traces.trace_files import TraceFiles, located, open_traces


@dataclass(frozen=True, slots=True)
class Fit:
    """The network that a run shows, the continuum that such networks have, and how far that is from the log."""

    fitted: Fitted
    predicted: list[Predicted]
    checks: list[Check]


def fit_trace(
    trace: TraceFiles,
    choice: Choice,
    figure: str,
    engine: Engine,
    scratch: Path,
    seeds: int = SEEDS,
    epsilon: int | None = None,
) -> Fit:
    """Fit a run, predict, and compare the prediction with the log, and with its hold as deployed. `epsilon`:
    measured by `clocks`, if it was."""
    seen = arrivals_in(trace)
    with located(trace.folder):
        fit = fitted(seen, trace.deployment, trace.run, epsilon)
    rows, results = predict(fit, choice, figure, engine.each, seeds)
    found = [*checks(facts_of(seen, fit.horizon, fit.tick_ms), results, trace.run)]
    return Fit(fit, rows, [*found, *_as_deployed(trace, fit, engine, scratch, seeds)])


def _as_deployed(
    trace: TraceFiles, fit: Fitted, engine: Engine, scratch: Path, seeds: int
) -> Iterator[Check]:
    """The hold of the deployment's own stamp and policy; its violations too, where the log bounds them."""
    choice = as_deployed(trace.deployment)
    row = next((row for row in continuum(trace, choice, engine.each, scratch) if row.own), None)
    if row is None or row.uncertain is None:
        return
    (told, *_), _ = predict(fit, choice, "mean", engine.each, seeds)
    low, high = row.hold_low_ms, row.hold_high_ms
    yield check(
        trace.run,
        HOLD,
        row.hold_mean_ms or 0.0,
        (low, high),
        (told.hold_ms, told.hold_low_ms, told.hold_high_ms),
    )
    if row.mean is not None and row.mean_most is not None:
        bounds = (row.mean if row.low is None else row.low, row.mean_most if row.high is None else row.high)
        yield check(trace.run, "violations", row.mean_most, bounds, (told.violations, told.low, told.high))


def measured_epsilon(folders: Sequence[Place], engine: Engine) -> dict[str, int]:
    """The most ticks between two clocks, by run: `clocks` measures it in tables with beacons."""
    runs = [run for folder in folders if (folder / MANIFEST).is_dir() for run in manifest(folder)]
    rows = clocks.of_runs(engine, runs, MOMENT_S)[0] if runs else []
    bounds = [(row["run"], bound) for row in rows for bound in row["clocks"] if bound["bound"] == "epsilon"]
    found = {run: int(bound["covers_100"]) for run, bound in bounds if bound["measured"]}
    for run, ticks in found.items():
        note(f"fit: run {run}: its clocks were at most {many(ticks, 'tick')} apart, as beacons show")
    return found


def fit_traces(
    folders: Sequence[Place],
    choice: Choice,
    figure: str,
    options: EngineOptions,
    *,
    seeds: int = SEEDS,
    scratch: Path | None = None,
) -> tuple[list[Fit], list[JobError]]:
    """Fit each run; the second list has the faults of the others, which are noted."""
    traces, opened = open_traces(folders)
    faults: list[JobError] = [*opened]
    found = []
    with chosen("fit", options) as engine:
        apart = measured_epsilon(folders, engine)
        for trace in traces:
            try:
                with TemporaryDirectory(dir=scratch) as place:
                    found.append(
                        fit_trace(trace, choice, figure, engine, Path(place), seeds, apart.get(trace.run))
                    )
            except JobError as fault:
                named = trace.run in str(fault)
                faults.append(fault if named else type(fault)(f"run {trace.run}: {fault}"))
    for one in faults:
        note(f"fit: {one}")
    if not found:
        raise JobError("nothing could be fitted")
    return found, faults
