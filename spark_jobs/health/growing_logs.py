"""`watch`: follow a growing folder of logs with Structured Streaming, and keep the link health of each run up to date.

    LOGS/RUN/messages/000000.parquet ...  parts, as the base station rolls them
    OUT/health/RUN/motes.parquet          motes over time windows, from all parts of the run so far
    OUT/links/RUN/links.parquet           links, the same
    OUT/continuum/RUN.parquet             with --continuum: the result of each stamp and policy so far
    OUT/checkpoint/                       Spark's own

Spark carries the names of new parts, and its checkpoint remembers them. A batch counts the runs that have new parts
once more, from the parts in the folder, by the SQL of `links`. Nothing is kept between batches, and each file appears
completely: a batch that is repeated after a crash writes the same, and a part may come late.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from basestation.analysis.choices import Choice
from basestation.analysis.columns import column
from basestation.analysis.dataclass_tables import table_of
from basestation.analysis.link_health import LINKS, MOTES, PARTS_AS_FRAMES, WINDOW_S, in_order, summary
from basestation.analysis.sql import query
from basestation.journal.decision import MICS_UNCHECKED
from basestation.journal.parquet_parts import PARTS, mics_in, part_paths
from basestation.journal.recovery import write_whole
from basestation.traces.files import TraceError, open_table
from basestation.traces.footers import Footer
from basestation.traces.present import present, wrong_column
from basestation.traces.schema import messages_schema
from packet_formats.phrases import many
from spark_jobs.engines import Cores, Engine, EngineOptions, Spark, chosen
from spark_jobs.health.link_tables import check_motes, links
from spark_jobs.measuring.measured_traces import continuum
from spark_jobs.session import JobError, note, one_line, prepare
from spark_jobs.traces.trace_files import open_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMED = f"*/{PARTS}/[0-9]*.parquet"
COLUMNS = ("source", "boot", "sequence", "heard", "gateway", "rssi", "lqi", "wall_ns")
FILES = "path string, modificationTime timestamp, length long, content binary"


# ---- One run ----


@dataclass(frozen=True, slots=True)
class RunHealth:
    """The tables of a run, from the parts that could be read, and the reason for each part that could not."""

    run: str
    parts: tuple[Path, ...]
    motes: pa.Table
    links: pa.Table
    faults: dict[str, str]

    @property
    def total(self) -> dict[str, Any]:
        return summary(self.motes)


def health_of(run: Path, window_s: float) -> RunHealth:
    """Count a run from all of its parts."""
    tables: dict[Path, pa.Table] = {}
    faults, known = {}, ""
    for path in filter(_is_part, part_paths(run)):
        try:
            table, name = _read(path)
            if name != (known := known or name):
                raise JobError(f"a part of another run, {name}")
            tables[path] = table
        except JobError as error:
            faults[str(path)] = str(error)
    try:
        motes, of_links = _counted(list(tables.values()), window_s)
    except JobError as error:
        faults[str(run)] = str(error)
        motes, of_links = MOTES.empty_table(), LINKS.empty_table()
    return RunHealth(run.name, tuple(tables), motes, of_links, faults)


def _counted(tables: Sequence[pa.Table], window_s: float) -> tuple[pa.Table, pa.Table]:
    if not tables:
        return MOTES.empty_table(), LINKS.empty_table()
    rows = pa.concat_tables(tables)
    rows = rows.append_column("place", pa.array(np.arange(len(rows))))
    motes, of_links = links(Cores(1), query(PARTS_AS_FRAMES, parts=rows), window_s)
    return in_order(motes, MOTES), in_order(of_links, LINKS)


def _read(path: Path) -> tuple[pa.Table, str]:
    """The messages of a part and the name of its run."""
    try:
        with path.open("rb") as raw, open_table(raw) as file:
            footer = Footer(file.metadata, lambda column: 0)
            footer.check_format()
            for name in COLUMNS:  # the statistics of a damaged footer would end this process
                if fault := wrong_column(file.schema_arrow, name, messages_schema()):
                    raise JobError(f"a foreign schema: {fault}")
            table = present(file.read(columns=list(COLUMNS)), COLUMNS, messages_schema())
            deployment = footer.deployment()
            check_motes(column(table, "source"), deployment, "can't be counted")
            if deployment.security.mic:  # a stray has no life, so it shows no losses
                table = table.filter(file.read(columns=["in_sync"])["in_sync"])
            return table.replace_schema_metadata(), footer.run
    except TraceError as error:
        raise JobError(str(error)) from None
    except (OSError, pa.ArrowException) as error:
        raise JobError(f"can't be read, it may have been cut off: {one_line(error)}") from None


def _is_part(path: Path) -> bool:
    return path.stem.isdecimal() and path.is_file() and path.stat().st_size > 0


def continuum_of(run: str, parts: Sequence[Path], engine: Engine, choice: Choice | None = None) -> pa.Table:
    """The continuum of these parts only: links to them make a run of their own."""
    with TemporaryDirectory() as place:
        linked = Path(place) / run
        (linked / PARTS).mkdir(parents=True)
        for path in parts:
            (linked / PARTS / path.name).symlink_to(path)
        return table_of(continuum(open_trace(linked), choice or Choice(), engine.each, Path(place)))


# ---- Batches ----

Report = Callable[[int, Sequence[RunHealth]], None]
"""Called after each batch, with its number and the runs that changed."""


def take_batch(
    runs: Sequence[Path], out: Path, window_s: float, engine: Engine, with_continuum: bool = False
) -> list[RunHealth]:
    """Write the tables of these runs anew. Doing it twice gives the same."""
    found: list[RunHealth] = list(engine.each(partial(health_of, window_s=window_s), runs))
    for one in found:
        _write(out / "health" / one.run / "motes.parquet", one.motes)
        _write(out / "links" / one.run / "links.parquet", one.links)
        if with_continuum and one.parts:
            try:
                _write(out / "continuum" / f"{one.run}.parquet", continuum_of(one.run, one.parts, engine))
            except JobError as error:
                one.faults[f"{one.run}, continuum"] = str(error)
    return found


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_whole(path, sink.getvalue().to_pybytes())


# ---- The job ----


def watch(
    logs: Path,
    out: Path,
    options: EngineOptions,
    report: Report,
    *,
    window_s: float = WINDOW_S,
    every_s: float | None = None,
    with_continuum: bool = False,
) -> dict[str, str]:
    """Check the folders, and `follow` on Spark. Return the reason for each path that could not be read."""
    if not logs.is_dir():
        raise JobError(f"{logs}: there is no such folder")
    prepare(out)
    if every_s is None and not any(logs.glob(NAMED)):
        raise JobError(f"{logs}: no part of a log in it, which would be called {NAMED}")
    _check_same(out, logs, window_s)
    if unchecked := sum(mics_in(path) == MICS_UNCHECKED for path in logs.glob(NAMED) if path.is_file()):
        note(
            f"{logs}: the MICs in {many(unchecked, 'part')} are unchecked; `basestation log decide --key FILE` "
            "checks them, then `log parts --again` makes these parts anew"
        )
    with chosen("watch", options) as engine:
        if not isinstance(engine, Spark):
            raise JobError("it needs Spark, which streams")
        faults = follow(engine.spark, logs, out, window_s, every_s, with_continuum, report)
    skipped = {str(path): why for path in sorted(logs.glob(NAMED)) if (why := _why_skipped(path))}
    for path, why in skipped.items():
        note(f"{path}: {why}")
    return faults | skipped


def _why_skipped(path: Path) -> str:
    """Why a file that is named like a part is not counted."""
    if not path.is_file():
        return "not a file, or a broken link"
    if not path.stat().st_size:
        return "empty, it may have been cut off"
    return "" if _is_part(path) else "its name is not a number, so it is not a part"


def _check_same(out: Path, logs: Path, window_s: float) -> None:
    """Check that the checkpoint belongs to this folder of logs, and the tables to this window."""
    if (out / "state").exists() or any((out / "health").glob("*.parquet")):
        raise JobError(f"{out} was written by an older version; take another --out")
    for name, here in (("logs", os.fsencode(logs.resolve())), ("window", f"{window_s:g} s".encode())):
        noted = out / name
        if noted.exists() and (watched := noted.read_bytes()) != here:
            was = f"{out} holds what was watched with {name} {watched.decode(errors='replace')}"
            raise JobError(f"{was}; another {'folder' if name == 'logs' else name} needs another --out")
        write_whole(noted, here)


def follow(
    spark: SparkSession,
    logs: Path,
    out: Path,
    window_s: float,
    every_s: float | None,
    with_continuum: bool = False,
    report: Report = lambda number, found: None,
) -> dict[str, str]:
    """Watch until interrupted; if `every_s` is None, take the parts in the folder and return. Return the faults."""
    faults: dict[str, dict[str, str]] = {}
    broken: list[Exception] = []

    def batch(frame: DataFrame, number: int) -> None:
        paths = [Path(_local(row.path)) for row in frame.select("path").collect()]
        runs = sorted({path.parent.parent for path in paths if path.stem.isdecimal()})
        try:
            found = take_batch(runs, out, window_s, Spark(spark), with_continuum)
        except (JobError, OSError) as error:
            broken.append(error)  # Java would print a page about it
            raise
        report(number, found)
        for one in found:
            for path in one.faults.keys() - faults.get(one.run, {}).keys():
                note(f"{path}: {one.faults[path]}")
            faults[one.run] = one.faults

    parts = (
        spark.readStream.format("binaryFile").schema(FILES).load(f"{logs.resolve()}/{NAMED}").select("path")
    )
    writer = parts.writeStream.foreachBatch(batch).option("checkpointLocation", str(out / "checkpoint"))
    every = {"availableNow": True} if every_s is None else {"processingTime": f"{every_s} seconds"}
    stream = writer.trigger(**every).start()
    try:
        stream.awaitTermination()
    except Exception as error:
        raise (broken or [error])[0] from None
    finally:
        stream.stop()
    return {path: why for of_run in faults.values() for path, why in of_run.items()}


def _local(uri: str) -> str:
    return unquote(urlparse(uri).path) if ":" in uri else uri
