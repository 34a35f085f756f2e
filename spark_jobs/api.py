"""The analysis as functions on DataFrames. `basestation analyse` calls what these call.

    from spark_jobs import Choice, continuum, frames, links, messages, recommend, runs, session

    spark = session.start("my analysis", "local[*]")
    links(frames(spark, "logs")).motes.orderBy("delivery").show()        # which mote loses the most?
    found = continuum(spark, "tables", Choice(tolerates=[0.5]))          # each stamp, policy and wait
    recommend(found, runs(spark, "tables"), tolerance=0.5).show()        # the smallest stamp that will do

`paths` are journals, folders of them, or tables that `ingest` wrote; on any file system (docs/analysis.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from basestation.analysis import advice
from basestation.analysis.choices import Choice as Choice
from basestation.analysis.clocks import MOMENT_S
from basestation.analysis.links import WINDOW_S
from basestation.analysis.outcome import ContinuumRow
from basestation.analysis.rows import columns_of, table_of
from basestation.comparing.catalogue import NAMES, Terms
from basestation.comparing.comparison_columns import table_of as table_of_compared
from basestation.comparing.spread import compare as compare_spots
from packet_formats import deployment as deployments
from packet_formats.deployment import Deployment
from spark_jobs import comparing
from spark_jobs.engine import EngineOptions, Spark
from spark_jobs.health import clocks as clock_bounds
from spark_jobs.health import links as link_health
from spark_jobs.health import watch as watching
from spark_jobs.journals import rows as journals
from spark_jobs.measuring import continuum as measuring
from spark_jobs.session import JobError
from spark_jobs.storage import Place, UriPath, path_of
from spark_jobs.tables import ingest as ingesting
from spark_jobs.tables.inputs import find
from spark_jobs.tables.stored import MANIFEST, Piece, StoredRun, manifest, names_of, pieces, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Paths = str | Place | Sequence[str | Place]


class LinkTables(NamedTuple):
    """How well each mote and each link worked in each window of time."""

    motes: DataFrame
    links: DataFrame


def read_journals(spark: SparkSession, paths: Paths) -> DataFrame:
    """Every record of journals as it was written. `spark.read.format("causeway")` gives the same, more slowly."""
    found: DataFrame = journals.records(Spark(spark), _places(paths))
    return found


def runs(spark: SparkSession, paths: Paths, deployment: str = "") -> DataFrame:
    """The runs: name, site, the text of the deployment, when and how large."""
    return spark.createDataFrame(_runs(_places(paths), deployment))


def frames(spark: SparkSession, paths: Paths, deployment: str = "") -> DataFrame:
    """Every record that came, and what became of it. `deployment` is the text of one, for journals that have none."""
    return _rows(spark, paths, deployment, "frames")


def messages(spark: SparkSession, paths: Paths, deployment: str = "") -> DataFrame:
    """The data messages, each once. Tables also have the causal graph, as vector clocks."""
    return _rows(spark, paths, deployment, "messages")


def ingest(spark: SparkSession, paths: Paths, tables: str | Place, deployment: str = "") -> dict[str, Any]:
    """Put journals, traces and testbed logs into tables; how much there was, and what was refused."""
    found = find(_places(paths), deployment)
    return ingesting.ingest(found, path_of(tables), Spark(spark)).totals


def links(frames: DataFrame, window_s: float = WINDOW_S) -> LinkTables:
    """Deliveries, losses, copies, reboots and signal strength, of `frames`."""
    _check_seconds(window_s=window_s)
    return LinkTables(*link_health.links(Spark(frames.sparkSession), frames, window_s))


def clocks(frames: DataFrame, messages: DataFrame, runs: DataFrame, moment_s: float = MOMENT_S) -> DataFrame:
    """Which epsilon and delta each run really kept: a row each, with lists of bounds, motes and breaks."""
    _check_seconds(moment_s=moment_s)
    spark, told = frames.sparkSession, _deployments(runs)
    found = clock_bounds.clocks(Spark(spark), frames, messages, told, moment_s).toArrow()
    if faults := found["fault"].drop_null().to_pylist():
        raise JobError("; ".join(faults))
    return spark.createDataFrame(found.drop(["fault"]))


def continuum(
    spark: SparkSession, traces: Paths, choice: Choice | None = None, scratch: Path | None = None
) -> DataFrame:
    """Violations, hold and bytes of each stamp, policy and wait on each trace: a row each.

    `scratch` is a folder that all workers share.
    """
    found = measuring.analyse(_places(traces), choice or Choice(), _on(spark), scratch=scratch)
    return spark.createDataFrame(table_of(found.rows))


def recommend(
    continuum: DataFrame,
    runs: DataFrame,
    tolerance: float = 0.0,
    figure: str = "mean",
    guaranteed: bool = False,
) -> DataFrame:
    """The smallest stamp and the shortest wait of each run within a tolerance in per cent, and what more bytes buy.

    The command also tries ledgers: `continuum` does with `Choice(tolerates=[tolerance])`.
    """
    if not 0 <= tolerance <= 100:  # as the command takes it, and in its words
        raise JobError(f"tolerance: {float(tolerance)} is not in the range 0<=x<=100.")
    told, rows = _deployments(runs), [_row(one.asDict()) for one in continuum.collect()]
    names = dict.fromkeys(row.run for row in rows)
    if unknown := [run for run in names if run not in told]:
        raise JobError(f"`runs` does not have {', '.join(unknown)}: read both from the same place")
    asked = advice.Question(figure, tolerance, guaranteed)
    each = [advice.recommend([row for row in rows if row.run == run], told[run], asked) for run in names]
    found = [one for several in each for one in several]
    return continuum.sparkSession.createDataFrame(table_of(found, advice.Advice))


def compare(
    spark: SparkSession, traces: Paths, schemes: Sequence[str] = NAMES, terms: Terms | None = None
) -> DataFrame:
    """Every scheme on the same events: a row for each scheme and trace."""
    chosen = terms or Terms()
    spots, faults = comparing.trace_spots(_places(traces))
    if faults:
        raise JobError("; ".join(faults))
    found = list(compare_spots(spots, list(schemes), chosen, Spark(spark).each))
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

    Without `every_s`, take what is there and return. Returns what could not be read.
    """
    _check_seconds(window_s=window_s)
    return watching.watch(
        Path(logs), Path(out), _on(spark), lambda number, found: None, window_s=window_s, every_s=every_s
    )


def _check_seconds(**told: float) -> None:
    for name, seconds in told.items():
        if not 0.001 <= seconds <= 1e9:  # as the commands take it
            raise JobError(f"{name} is {seconds}: from 0.001 to 1e9 seconds")


def _on(spark: SparkSession) -> EngineOptions:
    return EngineOptions(engine=Spark(spark))


def _places(paths: Paths) -> list[Path]:
    return [path_of(path) for path in ([paths] if isinstance(paths, str | Path | UriPath) else paths)]


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
    tasks, faults = pieces(held, table)
    if faults:
        raise JobError("; ".join(faults.values()))
    columns = schema_of(table)
    return engine.rows(partial(_of_piece, columns.names), tasks, pa.schema([*journals.WHERE, *columns]))


def _of_piece(columns: list[str], piece: Piece) -> Iterator[pa.RecordBatch]:
    named = names_of(piece.run)
    for rows in piece.batches(columns):
        where = {field.name: pa.repeat(named[field.name], len(rows)) for field in journals.WHERE}
        yield from pa.table(where | {name: rows[name] for name in columns}).to_batches()


def _deployments(runs: DataFrame) -> dict[str, Deployment]:
    return {row.run: deployments.parse(row.deployment) for row in runs.select("run", "deployment").collect()}


def _row(plain: dict[str, Any]) -> ContinuumRow:
    return ContinuumRow(**{name: plain[name] for name in columns_of(ContinuumRow)})
