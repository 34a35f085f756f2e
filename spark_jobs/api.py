"""The analysis as functions on DataFrames. The commands of `basestation analyse` do the same work.

    from spark_jobs import Choice, continuum, frames, links, messages, recommend, runs, session

    spark = session.start("my analysis", "local[*]")
    links(frames(spark, "logs")).motes.orderBy("delivery").show()        # which mote loses the most?
    found = continuum(spark, "tables", Choice(tolerates=[0.5]))          # each stamp, policy and wait
    recommend(found, runs(spark, "tables"), tolerance=0.5).show()        # the smallest stamp that will do

`paths` are journals, folders of them, or tables that `ingest` wrote; on any file system (docs/reference/analysis.md).

What is wrong with the input, or with what is asked, raises `JobError` or a class derived from it: one line that says
what to do. A function that is *eager* does its work when it is called. A *lazy* one leaves it to Spark until rows are
needed, and Spark does it again for each use: `cache()` keeps the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from basestation.analysis import advice
from basestation.analysis.choices import Choice as Choice
from basestation.analysis.clock_bounds import COLUMNS as CLOCK_COLUMNS
from basestation.analysis.clock_bounds import MOMENT_S
from basestation.analysis.dataclass_tables import columns_of, table_of
from basestation.analysis.errors import JobError as JobError
from basestation.analysis.link_health import COLUMNS as LINK_COLUMNS
from basestation.analysis.link_health import WINDOW_S
from basestation.analysis.outcome import ContinuumRow
from basestation.comparing.catalogue import NAMES, Terms
from basestation.comparing.comparison_columns import table_of as table_of_compared
from basestation.comparing.spread import check
from basestation.comparing.spread import compare as compare_spots
from packet_formats import deployment as deployments
from packet_formats.deployment import Deployment
from spark_jobs import comparing
from spark_jobs.engines import EngineOptions, Spark
from spark_jobs.health import growing_logs as watching
from spark_jobs.health import link_tables as link_health
from spark_jobs.health import measured_clocks as clock_bounds
from spark_jobs.journals import journal_tables as journals
from spark_jobs.measuring import measured_traces as measuring
from spark_jobs.storage import Place, UriPath, path_of
from spark_jobs.tables import intake as ingesting
from spark_jobs.tables.inputs import find
from spark_jobs.tables.stored import MANIFEST, StoredRun, manifest, pieces, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Paths = str | Place | Sequence[str | Place]


class LinkTables(NamedTuple):
    """How well each mote and each link worked in each window of time."""

    motes: DataFrame
    links: DataFrame


def read_journals(spark: SparkSession, paths: Paths) -> DataFrame:
    """Every record of journals as it was written. `spark.read.format("causeway")` gives the same, more slowly.

    Lazy: Spark reads the files when the rows are needed.
    Columns: run, site, segment (its file), number (in its journal), kind, line (of which gateway), mono_ns, wall_ns,
    payload.
    """
    found: DataFrame = journals.records(Spark(spark), _places(paths))
    return found


def runs(spark: SparkSession, paths: Paths, deployment: str = "") -> DataFrame:
    """The runs in logs or tables: a row each.

    Eager: the head and the tail of each log are read here.
    Columns: run, site, path, deployment (its text), first_wall_ns, last_wall_ns, files, bytes.
    """
    return spark.createDataFrame(_runs(_places(paths), deployment))


def frames(spark: SparkSession, paths: Paths, deployment: str = "") -> DataFrame:
    """Every record, with its fate. `deployment` is the text of a deployment, for journals without one.

    Lazy: Spark reads the rows when they are needed. Of logs, headers are read here.
    Columns: run, site; of the record: journal, number, kind, line, mono_ns, wall_ns, payload; fate; of the message:
    source, boot, life, sequence, hops; of the record before it: gateway, epoch, synced, root, rssi, lqi, heard_time;
    heard (cycles of the crystal, unwrapped).
    """
    return _rows(spark, paths, deployment, "frames")


def messages(spark: SparkSession, paths: Paths, deployment: str = "") -> DataFrame:
    """The data messages of logs or tables, each once. Put a trace into tables first.

    Lazy: Spark reads the rows when they are needed. Of logs, headers are read here.
    Columns: run, site, source, boot, sequence, number, am_type, payload, heard_time, heard and clock (ticks), batch,
    fresh, gateway, rssi, lqi, mono_ns, wall_ns, in_sync, saturated, values, age_ms, age_or_more, again, stamp. Tables
    also have the causal graph: causes, sent, vector, vector_most.
    """
    return _rows(spark, paths, deployment, "messages")


def ingest(spark: SparkSession, paths: Paths, tables: str | Place, deployment: str = "") -> dict[str, Any]:
    """Put journals, traces and testbed logs into tables; return the counts, and the refused paths.

    Eager: the tables are there when this returns.
    Keys: runs, unchanged, frames, messages, events, quarantine, refused (the reason for each path).
    """
    found = find(_places(paths), deployment)
    return ingesting.ingest(found, path_of(tables), Spark(spark)).totals


def links(frames: DataFrame, window_s: float = WINDOW_S) -> LinkTables:
    """Deliveries, losses, copies, reboots and signal strength, of `frames`.

    Lazy. Columns of `motes`: site, run, start, start_utc, mote, received, lost, delivery, copies, bursts,
    longest_burst, reboots, rssi. Columns of `links`: site, run, start, start_utc, mote, gateway, line, frames,
    messages, delivery, rssi, rssi_least, rssi_most, lqi.
    """
    _check_seconds(window_s=window_s)
    _check_columns("frames", frames, ["site", "run", *LINK_COLUMNS])
    return LinkTables(*link_health.links(Spark(frames.sparkSession), frames, window_s))


def clocks(frames: DataFrame, messages: DataFrame, runs: DataFrame, moment_s: float = MOMENT_S) -> DataFrame:
    """Which epsilon and delta each run really kept: a row each.

    Eager: all frames are read here.
    Columns: site, run, and three lists of rows: clocks (a bound each), clock_motes, clock_breaks.
    """
    _check_seconds(moment_s=moment_s)
    _check_columns("frames", frames, ["site", "run", *CLOCK_COLUMNS])
    _check_columns("messages", messages, ["site", "run", "stamp"])
    spark, told = frames.sparkSession, _deployments(runs)
    return spark.createDataFrame(clock_bounds.clocks(frames, messages, told, moment_s))


def continuum(
    spark: SparkSession, traces: Paths, choice: Choice | None = None, scratch: Path | None = None
) -> DataFrame:
    """Violations, hold and bytes of each stamp, policy and wait on each trace: a row each.

    `scratch` is a folder that all workers share. `JobError` if a trace can't be analysed.
    Eager: everything is measured here.

    Columns: run; the stamp: scheme, entries, count, carry, packing, counter_bits, own; its size: stamp_bits,
    stamp_bytes, bytes_mean, payload_bytes, air_bytes, wire_bytes, fits; the delivery: policy, phi, tolerate; answered
    (how), reason (why not); messages: sent, arrived, out_of_sync, unknown, delivered; violations in per cent, at least:
    pairs, backward, forward, mean, any, related; at most: pairs_most, backward_most, forward_most, mean_most, any_most,
    related_most; at 95% confidence: low and high of mean, and pairs_high, backward_high, forward_high, any_high,
    related_high; complete; counts: violated_pairs, backward_messages, forward_messages, any_messages, related_pairs,
    related_pairs_most; holds in ticks: hold_mean, hold_p50, hold_p95, hold_p99; in ms: hold_mean_ms, hold_low_ms,
    hold_high_ms, hold_p99_ms; late, network_late, host_late; the stamp's fields: saturated, max_c, max_kn, bounded,
    wrong_unwraps; exact, front.
    """
    found = measuring.analyse(_places(traces), choice or Choice(), _on(spark), scratch=scratch)
    if found.faults:
        raise JobError("; ".join(map(str, found.faults)))
    return spark.createDataFrame(table_of(found.rows))


def recommend(
    continuum: DataFrame,
    runs: DataFrame,
    tolerance: float = 0.0,
    figure: str = "mean",
    guaranteed: bool = False,
) -> DataFrame:
    """The smallest stamp and the shortest wait of each run that is proven or surely within a tolerance in per cent, and
    what more bytes buy. `figure` is mean, any, pairs, backward, forward or related.

    The command also tries ledgers: `continuum` does with `Choice(tolerates=[tolerance])`.
    Eager: `continuum` is collected here.

    Columns: run, chosen; the configuration: stamp, scheme, entries, count, packing, counter_bits, policy, phi,
    tolerate; exact, guaranteed; figure, violations, violations_most, low, high; stamp_bytes, payload_bytes,
    bytes_saved, microjoules, microjoules_saved; hold_mean_ms, hold_low_ms, hold_high_ms, hold_p99_ms, hold_saved_ms;
    saturated, late, network_late, host_late; over several runs, which only the command has: worst_run, worst.
    """
    asked = advice.Question(figure, tolerance, guaranteed)
    _check_columns("continuum", continuum, columns_of(ContinuumRow))
    told, rows = _deployments(runs), [_row(one.asDict()) for one in continuum.collect()]
    names = dict.fromkeys(row.run for row in rows)
    if unknown := [run for run in names if run not in told]:
        raise JobError(f"`runs` does not have {', '.join(unknown)}: read both from the same place")
    each = [advice.recommend([row for row in rows if row.run == run], told[run], asked) for run in names]
    found = [one for several in each for one in several]
    return continuum.sparkSession.createDataFrame(table_of(found, advice.Advice))


def compare(
    spark: SparkSession, traces: Paths, schemes: Sequence[str] = NAMES, terms: Terms | None = None
) -> DataFrame:
    """Every scheme on the same events: a row for each scheme and trace.

    Eager: everything is played here.
    Columns: run, scheme; the network: motes, epsilon, delta, and, where it was simulated, rate, loss, seeds; policy and
    phi of the schemes with timed rules; messages, arrived, unknown, delivered; violations in per cent: pairs, backward,
    forward, mean, any, related; at most: mean_most, any_most, pairs_most; violated_pairs; stamp_bytes, fits,
    bits_mean, bits_max; holds in ticks: hold_mean, hold_p99, hold_max; late, gave_up, discarded, concurrent, stuck;
    microseconds of our Python for each message: mote_us, observer_us.
    """
    chosen, names = terms or Terms(), [schemes] if isinstance(schemes, str) else list(schemes)
    if not names:
        raise JobError("schemes: name one at least")
    if unknown := [name for name in names if name not in NAMES]:
        raise JobError(f"schemes: {unknown[0]!r} is not one of {', '.join(NAMES)}")
    spots, faults = comparing.trace_spots(_places(traces))
    if faults:
        raise JobError("; ".join(faults))
    try:
        check(spots, names, chosen)
    except ValueError as error:
        raise JobError(str(error)) from None
    found = list(compare_spots(spots, names, chosen, Spark(spark).each))
    if faults := [one.fault for one in found if one.fault]:
        raise JobError("; ".join(faults))
    return spark.createDataFrame(table_of_compared(found, chosen))


def watch(
    spark: SparkSession,
    logs: str | Path,
    out: str | Path,
    *,
    window_s: float = WINDOW_S,
    every_s: float | None = None,
) -> dict[str, str]:
    """Follow a folder of logs and keep the tables of `links` up to date in `out`, until interrupted.

    Eager. Without `every_s`, take the parts in the folder and return. Returns the reason for each unreadable path.
    """
    _check_seconds(window_s=window_s)
    return watching.watch(
        Path(logs), Path(out), _on(spark), lambda number, found: None, window_s=window_s, every_s=every_s
    )


def _check_seconds(**told: float) -> None:
    for name, seconds in told.items():
        if not 0.001 <= seconds <= 1e9:  # as the commands take it
            raise JobError(f"{name} is {seconds}: from 0.001 to 1e9 seconds")


def _check_columns(name: str, frame: DataFrame, wanted: Sequence[str]) -> None:
    if missing := [column for column in wanted if column not in frame.columns]:
        raise JobError(f"`{name}` has no column {missing[0]}: `spark_jobs.{name}` makes such a table")


def _on(spark: SparkSession) -> EngineOptions:
    return EngineOptions(engine=Spark(spark))


def _places(paths: Paths) -> list[Path]:
    found = [path_of(path) for path in ([paths] if isinstance(paths, str | Path | UriPath) else paths)]
    if not found:
        raise JobError("no path is given: name logs, traces or tables")
    return found


def _tables_in(paths: Sequence[Path]) -> list[StoredRun] | None:
    """The runs of tables that `ingest` wrote; None if the paths are journals or traces."""
    found = [path for path in paths if (path / MANIFEST).is_dir()]
    if found and len(found) < len(paths):
        raise JobError(f"{found[0]} holds tables of ingest's, and the others do not: name one kind at a time")
    return [run for path in found for run in manifest(path)] if found else None


def _runs(paths: Sequence[Path], deployment: str) -> pa.Table:
    held = _tables_in(paths)
    if held is None:
        return journals.runs(paths, deployment)
    table = journals.runs_of(run.group.inputs[0] for run in held)
    return table.set_column(0, "run", pa.array([run.name for run in held], pa.string()))


def _rows(spark: SparkSession, paths: Paths, deployment: str, table: str) -> DataFrame:
    places, engine = _places(paths), Spark(spark)
    held = _tables_in(places)
    if held is None:
        of_journals = journals.frames if table == "frames" else journals.messages
        found: DataFrame = of_journals(engine, places, deployment)
        return found
    if faults := pieces(held, table)[1]:
        raise JobError("; ".join(faults.values()))
    return read(spark, held, table)


def _deployments(runs: DataFrame) -> dict[str, Deployment]:
    _check_columns("runs", runs, ["run", "deployment"])
    return {row.run: deployments.parse(row.deployment) for row in runs.select("run", "deployment").collect()}


def _row(plain: dict[str, Any]) -> ContinuumRow:
    return ContinuumRow(**{name: plain[name] for name in columns_of(ContinuumRow)})
