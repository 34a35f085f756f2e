"""`clocks`: the epsilon and the delta that a deployment really held (`basestation/analysis/clock_bounds.py`).

Pieces of a run are read side by side. What they tell of clocks comes together in one task for each run, which holds the
run's beacons and health messages and nothing of its other frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from basestation.analysis.clock_bounds import (
    COLUMNS,
    MOMENT_S,
    STAMPS,
    TABLES,
    TIMES,
    clocks_of,
    delays_in,
    times_in,
)
from packet_formats.deployment import Deployment
from spark_jobs.engines import Batches, Engine, Frame, Spark
from spark_jobs.health import partial_results as told
from spark_jobs.session import JobError
from spark_jobs.tables.stored import Piece, StoredRun, names_of, pieces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RESULTS = told.schema_of((name, pa.list_(pa.struct(list(table)))) for name, table in TABLES.items())
Deployments = Mapping[str, Deployment]


def clocks(
    frames: DataFrame, messages: DataFrame, deployments: Deployments, moment_s: float = MOMENT_S
) -> DataFrame:
    """A row of `RESULTS` for each run that tells something. `deployments` are by run; `messages` have the stamps."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def tell(tables: Callable[[pa.Table, Deployment], Iterator[pa.Table]]) -> Batches:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for names, rows in told.by_run(batches):
                run = names["run"]
                if run not in deployments:
                    why = f"`runs` does not have {run}: read both from the same place"
                    yield from told.fault(names, why)
                for table in tables(rows, deployments[run]) if run in deployments else ():
                    yield from told.packed(names, table)

        return work

    def delays(rows: pa.Table, deployment: Deployment) -> Iterator[pa.Table]:
        (stamps,) = rows.select(["stamp"]).flatten().select(["stamp.r"]).columns
        return delays_in(rows.append_column("stamp.r", stamps), deployment)

    stamps = ["stamp" if name == "stamp.r" else name for name in STAMPS]
    packed = from_arrow_schema(told.PACKED)
    of_frames = frames.select("site", "run", *COLUMNS).mapInArrow(tell(times_in), packed)
    stamped = messages.select("site", "run", *stamps).mapInArrow(tell(delays), packed)
    found: DataFrame = _together(Spark(frames.sparkSession), of_frames.union(stamped), deployments, moment_s)
    return found


def _together(engine: Engine, times: Frame, deployments: Deployments, moment_s: float) -> Frame:
    def of_run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(batches)
        names = {name: rows[name][0].as_py() for name, _ in told.NAMED}
        row = names | {told.FAULT: told.fault_in(rows)}
        if row[told.FAULT] is None:
            row |= clocks_of(told.unpacked(rows), deployments[names["run"]], moment_s)
        yield from pa.Table.from_pylist([row], RESULTS).to_batches()

    return engine.grouped(times, ["site", "run"], of_run, RESULTS)


def of_runs(
    engine: Engine, runs: Sequence[StoredRun], moment_s: float
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The row of `RESULTS` of each stored run, and what is wrong with the runs that have none."""
    deployments, faults = {}, {}
    for run in runs:
        try:
            deployments[run.name] = run.deployment
        except JobError as error:
            faults[run.name] = str(error)

    def tell(piece: Piece) -> Iterator[pa.Table]:
        of_frames = piece.table == "frames"
        for rows in piece.batches(COLUMNS if of_frames else STAMPS):
            yield from (times_in if of_frames else delays_in)(rows, deployments[piece.run.name])

    tasks, unreadable = pieces([run for run in runs if run.name in deployments], "frames", "messages")
    times = engine.rows(lambda piece: told.of_piece(piece, tell), tasks, told.PACKED)
    found = {
        row["run"]: row for row in engine.collect(_together(engine, times, deployments, moment_s)).to_pylist()
    }
    faults |= unreadable | {run: why for run, row in found.items() if (why := row.pop(told.FAULT))}
    told.note_all(faults)
    sound = [run for run in runs if run.name not in faults]
    for run in sound:  # nothing is known of the clocks of some
        if run.name not in found:
            nothing = clocks_of(TIMES.empty_table(), deployments[run.name], moment_s)
            found[run.name] = names_of(run) | nothing
    return [found[run.name] for run in sound], faults


def tables_of(found: Sequence[dict[str, Any]]) -> dict[str, pa.Table]:
    """The tables of all runs, from rows of `RESULTS`."""
    return {
        name: pa.Table.from_pylist(
            [{"site": row["site"], "run": row["run"]} | item for row in found for item in row[name]],
            schema=pa.schema([*told.NAMED, *columns]),
        )
        for name, columns in TABLES.items()
    }
