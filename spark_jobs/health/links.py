"""`links`: how well each mote and each link to a gateway worked over time (`basestation/analysis/links.py`).

Pieces of a run are counted side by side. Their tallies come together in one task for each mote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from basestation.analysis.columns import Ints, column
from basestation.analysis.links import COLUMNS, LINKS, MOTES, WINDOW_S, health, seen_in, tallies
from packet_formats.deployment import Deployment
from spark_jobs.engine import Engine, Frame
from spark_jobs.health import told
from spark_jobs.session import JobError
from spark_jobs.tables.stored import Piece, StoredRun, pieces

TABLES = {"motes": MOTES, "links": LINKS}
# The rows of both tables side by side, so that one pass over the frames makes them.
ROWS = told.schema_of(
    [("table", pa.string()), *{item.name: item for table in TABLES.values() for item in table}.values()]
)


def links(engine: Engine, frames: Frame, window_s: float = WINDOW_S) -> tuple[Frame, Frame]:
    """The tables of motes and of links, of frames with the columns `site`, `run` and `COLUMNS`."""

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for names, rows in told.by_run(batches):
            yield from told.packed_by_mote(names, tallies(seen_in(rows), window_s))

    named = engine.where(frames, "source", None).select(["site", "run", *COLUMNS])
    found = _together(engine, engine.mapped(named, tell, told.PACKED), window_s)
    motes, of_links = (engine.where(found, "table", name).select(_names(name)) for name in TABLES)
    return motes, of_links


def _together(engine: Engine, tally: Frame, window_s: float) -> Frame:
    return engine.grouped(tally, ["site", "run", "mote"], lambda rows: _of_mote(rows, window_s), ROWS)


def _of_mote(batches: Iterator[pa.RecordBatch], window_s: float) -> Iterator[pa.RecordBatch]:
    rows = pa.Table.from_batches(batches)
    names = {name: rows[name][0].as_py() for name, _ in told.NAMED}
    if fault := told.fault_in(rows):
        yield from told.fault(names, fault, ROWS)
        return
    for name, table in zip(TABLES, health(told.unpacked(rows), window_s), strict=True):
        yield from told.named(names | {"table": name}, table, ROWS)


def _names(table: str) -> list[str]:
    return ["site", "run", *TABLES[table].names]


def of_runs(
    engine: Engine, runs: Sequence[StoredRun], window_s: float
) -> tuple[dict[str, pa.Table], dict[str, str]]:
    """The tables of stored runs, sorted, and what is wrong with the runs that are not in them."""

    def tell(piece: Piece) -> Iterator[pa.Table]:
        yield tallies(pa.concat_tables(_seen(piece)), window_s)

    tasks, faults = pieces(runs, "frames")
    tally = engine.rows(lambda piece: told.of_piece(piece, tell, told.packed_by_mote), tasks, told.PACKED)
    found = engine.collect(_together(engine, tally, window_s))
    wrong = found.filter(found[told.FAULT].is_valid())
    faults |= dict(zip(wrong["run"].to_pylist(), wrong[told.FAULT].to_pylist(), strict=True))
    told.note_all(faults)
    sound = pa.array([run.name for run in runs if run.name not in faults], pa.string())
    order = [(name, "ascending") for name in ("site", "run", "mote", "start", "gateway", "line")]
    tables = {}
    for name in TABLES:
        mine = pc.and_(pc.equal(found["table"], name), pc.is_in(found["run"], sound))
        names = _names(name)
        tables[name] = found.filter(mine).select(names).sort_by([item for item in order if item[0] in names])
    return tables, faults


def _seen(piece: Piece) -> Iterator[pa.Table]:
    for rows in piece.batches(COLUMNS):
        seen = seen_in(rows)
        check_motes(column(seen, "mote"), piece.run.deployment, str(piece.path))
        yield seen


def check_motes(mote: Ints, deployment: Deployment, where: str) -> None:
    strangers = mote[mote >= deployment.network.motes]
    if len(strangers):
        raise JobError(
            f"{where}: mote {strangers[0]}, but the deployment has {deployment.network.motes} motes"
        )
