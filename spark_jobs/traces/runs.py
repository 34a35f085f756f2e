"""The traces in folders, and in the tables of `ingest`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from spark_jobs.storage import Place
from spark_jobs.tables.stored import CAUSES, MANIFEST, StoredRun, manifest
from spark_jobs.traces.trace_files import TraceFault, TraceFiles, open_trace


def open_traces(folders: Sequence[Place]) -> tuple[list[TraceFiles], list[TraceFault]]:
    """Open the traces that can be analysed, and list the faults of the others."""
    traces: dict[str, TraceFiles] = {}
    faults = []
    for folder, stored in _places(folders):
        try:
            if stored is not None and not stored.group.inputs[0].deployment:
                raise TraceFault(
                    f"run {stored.name}: its deployment is not known; ingest it with --deployment"
                )
            trace = open_trace(folder, stored.files("events")[0] if stored else None)
            if stored is not None:
                _check_stored(trace, stored)
                trace = replace(trace, refused=stored.counts.get("quarantine", 0), kept=stored.folder(CAUSES))
            if trace.run in traces:
                raise TraceFault(f"{folder}: run {trace.run}, which {traces[trace.run].folder} is already")
            traces[trace.run] = trace
        except TraceFault as fault:
            faults.append(fault)
    return list(traces.values()), faults


def _places(folders: Sequence[Place]) -> Iterator[tuple[Place, StoredRun | None]]:
    """The place of the messages: of a trace, or of every run in the tables of `ingest`. A place comes once."""
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        if (folder / MANIFEST).is_dir():
            yield from ((run.folder("messages"), run) for run in manifest(folder))
        else:
            yield folder, None


def _check_stored(trace: TraceFiles, stored: StoredRun) -> None:
    """Check that these are the files that `ingest` wrote for this run, and all of them."""
    if trace.run != stored.name:
        raise TraceFault(
            f"{trace.folder}: mixed runs: it is of run {trace.run}, in the place of {stored.name}"
        )
    if trace.rows != (wrote := stored.counts.get("messages", trace.rows)):
        raise TraceFault(
            f"{trace.folder}: {trace.rows} rows, and ingest wrote {wrote}: a part is gone; "
            "ingest --again brings it back"
        )
    if trace.events is None and stored.counts.get("events"):
        raise TraceFault(f"{stored.files('events')[0]} is gone; ingest --again brings it back")
