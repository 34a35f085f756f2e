"""`clocks`: the epsilon and the delta that a deployment really kept (`basestation/analysis/clock_bounds.py`).

Pieces of a run are read side by side. Their beacons and health messages come together in this process, which holds
nothing of the other frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

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
from basestation.analysis.columns import filled
from packet_formats.deployment import Deployment
from spark_jobs.engines import Engine
from spark_jobs.session import JobError, note
from spark_jobs.tables.stored import NAMED, Piece, StoredRun, names_of, pieces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAMED_TIMES = pa.schema([*NAMED, *TIMES])
RESULTS = pa.schema([*NAMED, *((name, pa.list_(pa.struct(list(table)))) for name, table in TABLES.items())])
Deployments = Mapping[str, Deployment]
Find = Callable[[pa.Table, Deployment], Iterator[pa.Table]]


def clocks(
    frames: DataFrame, messages: DataFrame, deployments: Deployments, moment_s: float = MOMENT_S
) -> pa.Table:
    """A row of `RESULTS` for each run. `deployments` are by run; `messages` have the stamps."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def finding(find: Find) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield from _named_times(pa.Table.from_batches([batch]), deployments, find)

        return work

    stamps = ["stamp" if name == "stamp.r" else name for name in STAMPS]
    schema = from_arrow_schema(NAMED_TIMES)
    of_frames = frames.select("site", "run", *COLUMNS).mapInArrow(finding(times_in), schema)
    of_messages = messages.select("site", "run", *stamps).mapInArrow(finding(_delays), schema)
    found, rows = of_frames.union(of_messages).toArrow(), []
    for names in found.select(["site", "run"]).group_by(["site", "run"]).aggregate([]).to_pylist():
        if names["run"] not in deployments:
            raise JobError(f"`runs` does not have {names['run']}: read both from the same place")
        times = _of_run(found, names).select(TIMES.names)
        rows.append(names | clocks_of(times, deployments[names["run"]], moment_s))
    return pa.Table.from_pylist(rows, RESULTS)


def _named_times(rows: pa.Table, deployments: Deployments, find: Find) -> Iterator[pa.RecordBatch]:
    """The times in rows of several runs. Of a run without a deployment one empty row, as `clocks` refuses it."""
    for names in rows.select(["site", "run"]).group_by(["site", "run"]).aggregate([]).to_pylist():
        deployment = deployments.get(names["run"])
        tables: Iterable[pa.Table] = (
            [filled({}, TIMES, 1)] if deployment is None else find(_of_run(rows, names), deployment)
        )
        for table in tables:
            columns = dict(zip(table.column_names, table.columns, strict=True))
            yield from filled(names | columns, NAMED_TIMES, len(table)).to_batches()


def _of_run(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return rows.filter(pc.and_(*(pc.equal(rows[name], word) for name, word in names.items())))


def _delays(rows: pa.Table, deployment: Deployment) -> Iterator[pa.Table]:
    (stamps,) = rows.select(["stamp"]).flatten().select(["stamp.r"]).columns
    return delays_in(rows.append_column("stamp.r", stamps), deployment)


def of_runs(
    engine: Engine, runs: Sequence[StoredRun], moment_s: float
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The row of `RESULTS` of each stored run, and why other runs have none."""
    deployments, faults = {}, {}
    for run in runs:
        try:
            deployments[run.name] = run.deployment
        except JobError as error:
            faults[run.name] = str(error)
    tasks, unreadable = pieces([run for run in runs if run.name in deployments], "frames", "messages")
    faults |= unreadable
    times: dict[str, list[pa.Table]] = {run: [TIMES.empty_table()] for run in deployments}
    for piece, (fault, tables) in zip(tasks, engine.each(_times_of, tasks), strict=True):
        times[piece.run.name] += tables
        if fault:
            faults.setdefault(piece.run.name, fault)
    for why in faults.values():
        note(why)
    return [
        names_of(run) | clocks_of(pa.concat_tables(times[run.name]), deployments[run.name], moment_s)
        for run in runs
        if run.name not in faults
    ], faults


def _times_of(piece: Piece) -> tuple[str, list[pa.Table]]:
    """The fault of a piece, or its times."""
    columns, find = (COLUMNS, times_in) if piece.table == "frames" else (STAMPS, delays_in)
    deployment = piece.run.deployment
    try:
        return "", [table for rows in piece.batches(columns) for table in find(rows, deployment)]
    except JobError as error:
        return str(error), []


def tables_of(found: Sequence[dict[str, Any]]) -> dict[str, pa.Table]:
    """The tables of all runs, from rows of `RESULTS`."""
    return {
        name: pa.Table.from_pylist(
            [{"site": row["site"], "run": row["run"]} | item for row in found for item in row[name]],
            schema=pa.schema([*NAMED, *columns]),
        )
        for name, columns in TABLES.items()
    }
