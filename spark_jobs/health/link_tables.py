"""`links`: how well each mote and each link to a gateway worked, by the SQL of `basestation/analysis/link_health.py`.

The frames are read, compared and added up once. Both tables are made of that tally, which is small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from basestation.analysis.columns import Ints, column
from basestation.analysis.link_health import (
    COLUMNS,
    LINKS,
    LINKS_OF,
    MOTES,
    MOTES_OF,
    SEEN_IN,
    TALLY,
    WINDOW_S,
    in_order,
)
from packet_formats.deployment import Deployment
from spark_jobs.engines import Engine, Frame, Spark
from spark_jobs.session import JobError, note
from spark_jobs.tables.stored import NAMED, StoredRun, names_of, pieces, read, schema_of

TABLES = {name: pa.schema([*NAMED, *table]) for name, table in (("motes", MOTES), ("links", LINKS))}


def links(engine: Engine, frames: Frame, window_s: float = WINDOW_S) -> tuple[Frame, Frame]:
    """The tables of motes and of links, of frames with the columns `site`, `run` and `COLUMNS`."""
    tally = engine.kept(engine.sql(TALLY, seen=engine.sql(SEEN_IN, frames=frames), window_s=window_s))
    motes, of_links = (engine.sql(text, tally=tally, window_s=window_s) for text in (MOTES_OF, LINKS_OF))
    return motes.select(TABLES["motes"].names), of_links.select(TABLES["links"].names)


def of_runs(
    engine: Engine, runs: Sequence[StoredRun], window_s: float
) -> tuple[dict[str, pa.Table], dict[str, str]]:
    """The tables of stored runs, sorted, and the faults of the other runs."""
    faults = pieces(runs, "frames")[1]
    sound = [run for run in runs if run.name not in faults]
    found = [{name: table.empty_table() for name, table in TABLES.items()}]
    for group in [sound] if isinstance(engine, Spark) else [[run] for run in sound]:
        found += _counted(engine, group, window_s, faults)
    for why in faults.values():
        note(why)
    return {
        name: in_order(pa.concat_tables(tables[name] for tables in found), TABLES[name]) for name in TABLES
    }, faults


def _counted(
    engine: Engine, runs: Sequence[StoredRun], window_s: float, faults: dict[str, str]
) -> Iterator[dict[str, pa.Table]]:
    """The tables of these runs. If one of them can't be read, the others are counted without it."""
    try:
        motes, of_links = links(engine, _frames(engine, runs), window_s)
        found = {"motes": engine.collect(motes), "links": engine.collect(of_links)}
    except JobError as error:
        if len(runs) == 1:
            faults[runs[0].name] = str(error)
        for run in runs if len(runs) > 1 else ():
            yield from _counted(engine, [run], window_s, faults)
        return
    for run in runs:
        try:
            mine = pc.equal(found["motes"]["run"], run.name)
            check_motes(
                column(found["motes"].filter(mine), "mote"), run.deployment, str(run.folder("frames"))
            )
        except JobError as error:
            faults[run.name] = str(error)
    sound = pa.array([run.name for run in runs if run.name not in faults], pa.string())
    yield {
        name: table.filter(pc.is_in(table["run"], sound)).cast(TABLES[name]) for name, table in found.items()
    }


def _frames(engine: Engine, runs: Sequence[StoredRun]) -> Frame:
    if isinstance(engine, Spark):
        return read(engine.spark, runs, "frames")
    batches = [
        rows for run in runs for piece in run.pieces("frames") for rows in _named(run, piece.batches(COLUMNS))
    ]
    fields = [schema_of("frames").field(name) for name in COLUMNS]
    return pa.concat_tables(
        [pa.schema([*NAMED, *fields]).empty_table(), *batches], promote_options="permissive"
    )


def _named(run: StoredRun, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    for rows in tables:
        kept = rows.filter(rows["source"].is_valid())
        where = {name: pa.repeat(word, len(kept)) for name, word in names_of(run).items()}
        yield pa.table(where | {name: kept[name] for name in COLUMNS})


def check_motes(mote: Ints, deployment: Deployment, where: str) -> None:
    strangers = mote[mote >= deployment.network.motes]
    if len(strangers):
        raise JobError(
            f"{where}: mote {strangers[0]}, but the deployment has {deployment.network.motes} motes"
        )
