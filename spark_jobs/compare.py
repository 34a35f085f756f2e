"""`compare`: our schemes and the other papers', on the same recorded or simulated streams, spread over all workers.

A task is one scheme on one stream. Each worker makes or reads the streams it plays. `basestation.comparing` plays,
counts and combines the trials, so the rows are those of `basestation compare`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

from rich.console import Console

from basestation.causality.rules import RULES
from basestation.comparing.catalogue import NAMES, Terms, build
from basestation.comparing.comparison import (
    ComparisonRow,
    KnownStream,
    SweepPoint,
    Trial,
    attempt,
    place_of,
    seeded,
    simulated,
    summed,
)
from basestation.comparing.comparison_options import FIXED, SWEPT, default, give_up_ticks, networks
from basestation.comparing.comparison_table import COLUMNS as SHOWN
from basestation.comparing.comparison_table import LEGEND, about, cells, show_places
from basestation.comparing.recorded_run import COLUMNS, FIELD_COLUMNS, options_in, place_in, recorded_in
from basestation.simulator.options import OptionError, WorldOptions
from basestation.traces.files import TraceError
from basestation.traces.schema import LATER
from spark_jobs import session
from spark_jobs.advice import report
from spark_jobs.engine import Cores, Spark, Spread
from spark_jobs.measuring.continuum import open_traces, positive
from spark_jobs.session import JobError, WrongOption, note
from spark_jobs.traces.field import causes_in
from spark_jobs.traces.files import TraceFiles, read_whole

Stream = WorldOptions | TraceFiles


@dataclass(frozen=True, slots=True)
class CompareTask:
    """One scheme on one stream."""

    stream: Stream
    scheme: str
    terms: Terms


@dataclass(frozen=True, slots=True)
class TrialOrFault:
    """A trial, or the reason why there is none: the other streams are compared all the same."""

    trial: Trial | None
    fault: str = ""


def take(task: CompareTask) -> TrialOrFault:
    try:
        return TrialOrFault(attempt(_recorded(task.stream), task.scheme, task.terms))
    except JobError as fault:
        return TrialOrFault(None, str(fault))


@lru_cache(maxsize=1)
def _recorded(stream: Stream) -> KnownStream:
    """The recorded stream. A worker plays several schemes on it, and reads it once."""
    if isinstance(stream, WorldOptions):
        return simulated(stream)
    try:
        if stream.events is not None:
            return recorded_in(read_whole(stream, list(COLUMNS)))
        return recorded_in(causes_in(read_whole(stream, [*FIELD_COLUMNS, LATER])))
    except TraceError as error:
        raise JobError(f"{stream.folder}: {error}") from None


@dataclass(frozen=True, slots=True)
class Spot:
    """One place of the comparison: a recorded run, or a network with one stream for each seed."""

    run: str | None
    place: SweepPoint
    streams: tuple[Stream, ...]


def spot_of_network(options: WorldOptions, seeds: int) -> Spot:
    return Spot(None, place_of(options), tuple(seeded(options, seeds)))


def spot_of_trace(trace: TraceFiles) -> Spot:
    return Spot(trace.run, place_in(trace.deployment), (trace,))


def compare(
    spots: Sequence[Spot], names: Sequence[str], terms: Terms, spread: Spread
) -> tuple[list[tuple[Spot, list[ComparisonRow]]], list[str]]:
    """Make a row for each scheme at each spot, and list the faults of the spots that have none.

    The largest networks begin first, so that nobody waits for one at the end.
    """
    asked = [(at, name, stream) for at, spot in enumerate(spots) for stream in spot.streams for name in names]
    begun = sorted(range(len(asked)), key=lambda number: -spots[asked[number][0]].place.motes)
    tasks = [CompareTask(asked[number][2], asked[number][1], terms) for number in begun]
    outcomes: list[TrialOrFault] = [TrialOrFault(None)] * len(asked)
    for number, outcome in zip(begun, spread(take, tasks), strict=True):
        outcomes[number] = outcome
    found, faults = [], []
    for at, spot in enumerate(spots):
        mine = [(name, o) for (where, name, _), o in zip(asked, outcomes, strict=True) if where == at]
        wrong = [outcome.fault for _, outcome in mine if outcome.fault]
        if wrong:
            faults.append(wrong[0])
        else:
            found.append((spot, _rows(spot, names, mine)))
    return found, faults


def _rows(
    spot: Spot, names: Sequence[str], outcomes: Sequence[tuple[str, TrialOrFault]]
) -> list[ComparisonRow]:
    return [
        summed(spot.place, name, [o.trial for n, o in outcomes if n == name and o.trial]) for name in names
    ]


# ---- The job ----


@dataclass(frozen=True, slots=True)
class Compared:
    """A row of the table of results. A trace has `run`; a simulation has rate, loss and seeds."""

    run: str | None
    scheme: str
    motes: int
    epsilon: int
    delta: int
    rate: float | None
    loss: float | None
    seeds: int | None
    policy: str
    phi: int
    messages: int
    arrived: int
    delivered: int
    pairs: float
    backward: float
    forward: float
    mean: float
    any: float
    related: float
    violated_pairs: int
    mean_most: float | None
    any_most: float | None
    pairs_most: float | None
    hold_mean: float
    hold_p99: float
    hold_max: int
    late: int
    gave_up: int
    discarded: int
    concurrent: int
    stuck: int
    bits_mean: float
    bits_max: int
    stamp_bytes: int
    fits: bool
    mote_us: float
    observer_us: float


def compared(spot: Spot, row: ComparisonRow, terms: Terms) -> Compared:
    same = {name: getattr(row, name) for name in Compared.__slots__ if hasattr(row, name)}
    most = row.violations_most.percent() if row.violations_most else {}
    figures: dict[str, Any] = asdict(row.place) | row.violations.percent() | same
    figures |= {f"{name}_most": most.get(name) for name in ("mean", "any", "pairs")}
    return Compared(
        run=spot.run,
        seeds=None if spot.run is not None else len(spot.streams),
        policy=terms.policy,
        phi=terms.phi,
        delivered=row.violations.delivered,
        violated_pairs=row.violations.pairs,
        stamp_bytes=row.size,
        **figures,
    )


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "traces",
        nargs="*",
        type=Path,
        metavar="TRACE",
        help="traces, or the tables that ingest wrote; without any, networks are simulated",
    )
    parser.add_argument(
        "--scheme", action="append", choices=NAMES, help="stamp with its delivery rule; repeatable (all)"
    )
    _add_network_options(parser)
    parser.add_argument("--seeds", type=positive, help="networks at each point (1)")
    parser.add_argument(
        "--give-up",
        type=_give_up,
        metavar="TICKS|never",
        help="how long to wait for a missing message, where a rule waits for one (delta + epsilon)",
    )
    parser.add_argument(
        "--min-wait", type=int, help="two-hop: hold every message at least so long (the least allowed)"
    )
    parser.add_argument(
        "--policy", choices=list(RULES), default="cbd", help="of our own stamps (%(default)s)"
    )
    parser.add_argument(
        "--phi",
        type=int,
        default=100,
        choices=range(101),
        metavar="0..100",
        help="share of the safe wait in per cent, for our own stamps (%(default)s)",
    )
    parser.add_argument("--workers", type=positive, help="without Spark: cores to use (all)")
    parser.add_argument("--out", type=Path, help="write compare.parquet, compare.csv and report.html here")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    session.add_choice(parser, "on this machine's cores")


def _add_network_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a simulation. Their default is None: a recorded run sets them itself."""
    hints = get_type_hints(WorldOptions)
    for name, text in (SWEPT | FIXED).items():
        choices = get_args(hints[name]) or None
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=str if choices else hints[name],
            choices=choices,
            action="append" if name in SWEPT else "store",
            help=f"{text} ({default(name)})",
        )


def _give_up(text: str) -> int:
    try:
        return give_up_ticks(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main(options: argparse.Namespace) -> int:
    names = list(dict.fromkeys(options.scheme or NAMES))
    terms = Terms(options.policy, options.phi, options.give_up, options.min_wait)
    if options.out is not None:
        session.prepare(options.out)
    spots, faults = _recorded_spots(options) if options.traces else (_simulated_spots(options), [])
    _check(spots, names, terms)
    if spots:
        with _spread(options) as spread:
            found, wrong = compare(spots, names, terms, spread)
            faults += wrong
    for fault in faults:
        note(f"{options.job}: {fault}")
    if not spots or not found:
        raise JobError("nothing could be compared")
    if options.out is not None:
        _write(options.out, found, terms)
        note(f"wrote compare.parquet, compare.csv and report.html in {options.out}")
    _print(found, as_json=options.json)
    return 1 if faults else 0


def _simulated_spots(options: argparse.Namespace) -> list[Spot]:
    told = {name: getattr(options, name) for name in SWEPT | FIXED}
    usual = {name: [default(name)] if name in SWEPT else default(name) for name in told}
    given = usual | {name: value for name, value in told.items() if value is not None}
    try:
        return [spot_of_network(network, options.seeds or 1) for network in networks(given)]
    except OptionError as error:
        raise WrongOption(str(error)) from None


def _recorded_spots(options: argparse.Namespace) -> tuple[list[Spot], list[str]]:
    for name in (*SWEPT, *FIXED, "seeds"):
        if getattr(options, name) is not None:
            raise WrongOption(f"--{name.replace('_', '-')}: a recorded run says that itself")
    traces, faults = open_traces(options.traces)
    spots, wrong = [], [str(fault) for fault in faults]
    for trace in traces:
        if not trace.rows:
            wrong.append(f"{trace.folder}: no message arrived in this run")
        else:
            spots.append(spot_of_trace(trace))
    return spots, wrong


def _check(spots: Sequence[Spot], names: Sequence[str], terms: Terms) -> None:
    """Refuse, before the work begins, options with which no scheme can be built."""
    for spot in spots:
        stream = spot.streams[0]
        try:
            network = (
                stream if isinstance(stream, WorldOptions) else options_in(stream.deployment, stream.rows)
            )
            for name in names:
                build(name, network, terms)
        except OptionError as error:
            raise WrongOption(str(error)) from None
        except TraceError:
            continue  # a fault of this run alone, told with its name


@contextmanager
def _spread(options: argparse.Namespace) -> Iterator[Spread]:
    if session.is_wanted(options, large=False):
        with session.of(options) as spark:
            yield Spark(spark).each
    else:
        yield Cores(options.workers, processes=True).each


def _print(found: Sequence[tuple[Spot, list[ComparisonRow]]], *, as_json: bool) -> None:
    if as_json:
        for spot, rows in found:
            named = {} if spot.run is None else {"run": spot.run}
            for row in rows:
                print(json.dumps(named | row.to_dict()))
        return
    console = Console(width=None if Console().is_terminal else 110, highlight=False)
    for spot, rows in found:
        if spot.run is not None:
            console.print(f"run {spot.run}", markup=False)
        show_places(console, rows)
    console.print("\n".join(LEGEND), style="dim")


def _write(out: Path, found: Sequence[tuple[Spot, list[ComparisonRow]]], terms: Terms) -> None:
    from basestation.comparing.comparison_plot import picture  # matplotlib, only for pictures

    report.write_tables(out, "compare", [compared(spot, row, terms) for spot, rows in found for row in rows])
    parts: list[str] = []
    for name, rows in _chapters(found):
        parts += [report.heading(name), report.svg(picture(rows), name)]
        for place in dict.fromkeys(row.place for row in rows):
            here = [row for row in rows if row.place == place]
            parts += [report.paragraph(about(here[0])), report.sheet(SHOWN, [cells(row) for row in here])]
    parts += [report.paragraph(line, "note") for line in LEGEND]
    report.write_html(out / "report.html", "Every scheme on the same events", parts)


def _chapters(found: Sequence[tuple[Spot, list[ComparisonRow]]]) -> Iterator[tuple[str, list[ComparisonRow]]]:
    """The parts of the report: one for each run, and one for all simulated networks."""
    swept: list[ComparisonRow] = []
    for spot, rows in found:
        if spot.run is not None:
            yield f"Run {spot.run}", rows
        else:
            swept += rows
    if swept:
        yield "Simulated networks", swept
