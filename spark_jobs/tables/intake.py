"""`ingest`: turn journals, traces and testbed logs into tables that the other jobs read.

    TABLES/frames/site=.../date=.../run=.../000000.parquet ... all raw frames
    TABLES/messages/...                                        data messages, each once
    TABLES/events/...                                          what the motes did, where known
    TABLES/quarantine/...                                      what was refused, and why
    TABLES/causes/...                                          the causal graph of a run, once a job has asked for it
    TABLES/manifest/...                                        what each run was made from

`staging` writes a run in parts, into a staging folder, and this moves the result into place. The manifest names the run
before it is moved. So the next job completes the tables of a job that was killed, whatever it is given, and
running it twice changes nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from basestation.journal import locking
from basestation.journal.decision import DECIDER, MICS_CHECKED, MICS_UNCHECKED
from basestation.journal.frame_table import FORGED, UNCHECKED
from basestation.journal.record_format import JournalError
from packet_formats.keys import Key
from packet_formats.phrases import many
from spark_jobs.engines import Engine, EngineOptions, chosen
from spark_jobs.session import JobError, note, prepare
from spark_jobs.storage import is_local, parquet, path_of, remove_tree, write_whole
from spark_jobs.tables.inputs import FoundInputs, Group, Input, distinct, find, grouped
from spark_jobs.tables.staging import Done, staged
from spark_jobs.tables.stored import CAUSES, ENTRY, MANIFEST, UNFINISHED, StoredRun, manifest

TABLES = ("frames", "messages", "events", "quarantine")
STAGE = ".stage"
WORDS = {"frames": "record", "messages": "message", "events": "event", "quarantine": "refused record"}
SMALL = 1 << 28  # bytes up to which Spark is not worth its start
QUICK = 1 << 24  # bytes up to which other processes are not worth theirs
REASONS = 2  # most reasons reported of a run's refused records
TOGETHER = 256  # runs that are taken in before they are put in place


def take_in(
    inputs: Sequence[Path],
    tables: Path,
    options: EngineOptions,
    *,
    deployment: str = "",
    gateways: int = 1,
    again: bool = False,
    key: Key | None = None,
) -> IngestReport:
    """Find what is in these files and folders, and update the tables with it. Refused inputs are noted.

    Messages with MICs are checked by `key`; without it they are taken unchecked, and that is noted.
    """
    prepare(tables, "--tables")
    found = find(inputs, deployment, gateways, key)
    if not found.inputs and not found.refused:
        places = ", ".join(map(str, inputs))
        raise JobError(f"{places}: no journal, no trace and no log of the testbed in it")
    for item in found.inputs:
        for remark in item.remarks:
            note(f"{item.path}: {remark}")
    size = sum(item.size for item in found.inputs)
    with chosen("ingest", options, large=size > SMALL, processes=size > QUICK) as engine:
        report = ingest(found, tables, engine, again)
    for path, why in report.refused.items():
        note(f"{path}: {why}")
    return report


# ---- The tables as a whole ----


@dataclass(slots=True)
class IngestReport:
    done: list[Done]
    refused: dict[str, str]
    unchanged: int
    mics: Counter[str] = field(default_factory=Counter)  # of messages with MICs: forged, unchecked

    @property
    def totals(self) -> dict[str, Any]:
        """The counts of what was taken in and refused, as plain values."""
        total: Counter[str] = Counter()
        for done in self.done:
            total.update(done.counts)
        told: dict[str, Any] = {"runs": len(self.done), "unchanged": self.unchanged}
        return told | {table: total[table] for table in TABLES} | self.mics | {"refused": self.refused}


def ingest(found: FoundInputs, tables: Path, engine: Engine, again: bool = False) -> IngestReport:
    """Update the tables with what was found; they keep what they hold."""
    tables = tables.resolve()  # workers may be in another folder
    tables.mkdir(parents=True, exist_ok=True)
    try:
        with locking.locked(tables) if is_local(tables) else nullcontext():  # object stores have no locks
            return _ingest(found, tables, engine, again)
    except JournalError as error:
        raise JobError(
            str(error).replace("the journal is being written by", "another ingest is at work:")
        ) from None


def _ingest(found: FoundInputs, tables: Path, engine: Engine, again: bool) -> IngestReport:
    given = {item.run for item in found.inputs}
    remove_tree(tables / STAGE)
    stored = {run.name: run for run in manifest(tables)}
    held = {name: run.group for name, run in stored.items()}
    unfinished = [run.group for run in manifest(tables, UNFINISHED)]
    _sweep(tables, {group.place for group in held.values()})
    found = _with_held(found, [item for group in [*unfinished, *held.values()] for item in group.inputs])
    groups = grouped(found.inputs)
    todo = [
        group
        for group in groups
        if held.get(group.run) != group
        or _has_new_key(group, stored[group.run])
        or (again and any(item.run in given for item in group.inputs))
    ]
    report = IngestReport([], dict(found.refused), len(groups) - len(todo))
    stage = tables / STAGE
    stage.mkdir(exist_ok=True)
    if todo:
        note(f"{many(len(todo), 'run')} to take in, {report.unchanged} unchanged")
    for done in _staged(todo, stage, engine):
        if done.fault:
            report.refused[" + ".join(item.path for item in done.group.inputs)] = done.fault
        else:
            _commit(done, held, tables)
            remove_tree(path_of(done.stage))
            report.done.append(done)
            _tell(done, _reasons(tables / "quarantine" / done.group.place), report)
    remove_tree(stage)
    for group in unfinished:  # made again by now, or refused
        _entry(tables, group, UNFINISHED).unlink(missing_ok=True)
    return report


def _tell(done: Done, reasons: Counter[str], report: IngestReport) -> None:
    """Note what was taken in of a run and what was refused, and count forged and unchecked messages."""
    note(f"  {done.group.run}: {_counted(done.counts)}")
    if done.decider.mics == MICS_UNCHECKED:
        unchecked, is_log = done.counts.get("messages", 0), done.group.inputs[0].kind == "journal"
        cure = "--key FILE names the network's key" if is_log else "only a log can be checked"
        note(f"    {many(unchecked, 'message')} taken unchecked: {cure}")
        report.mics["unchecked"] += unchecked
    elif done.decider.mics == MICS_CHECKED:
        report.mics.update(forged=reasons[FORGED], unchecked=reasons[UNCHECKED])
    if 0 < done.decider.rules < DECIDER:
        note(
            f"    decided by rules {done.decider.rules}, and now there are {DECIDER}: `basestation log decide`"
        )
    if reasons:
        note(f"    refused: {_told(reasons)}")


def _staged(todo: list[Group], stage: Path, engine: Engine) -> Iterator[Done]:
    """Stage a few runs at a time, so that a killed job has put the others in place."""
    for at in range(0, len(todo), TOGETHER):
        yield from staged(todo[at : at + TOGETHER], stage, engine)


def _sweep(tables: Path, places: set[str]) -> None:
    """Remove runs without an entry: a job was killed while it moved or removed them."""
    for table in TABLES:
        for folder in (tables / table).glob("site=*/date=*/run=*"):
            if str(folder.relative_to(tables / table)) not in places:
                remove_tree(folder)


def _with_held(found: FoundInputs, held: list[Input]) -> FoundInputs:
    """The inputs found, and the inputs of the tables, unless they are the same or gone."""
    paths = {item.path for item in found.inputs}
    runs = {item.run for item in found.inputs}
    kept = [
        item
        for item in held
        if item.path not in paths and (item.run not in runs or path_of(item.path).exists())
    ]
    return distinct(FoundInputs([*kept, *found.inputs], found.refused))


def _entry(tables: Path, group: Group, suffix: str = ENTRY) -> Path:
    return tables / MANIFEST / f"{group.run.replace('/', '_')}{suffix}"


def _commit(done: Done, held: dict[str, Group], tables: Path) -> None:
    """Replace all runs that were made from any of these inputs. Their entries are removed first; the new one comes
    last."""
    group, runs = done.group, set(done.group.names)
    entry = {"run": group.run, "place": group.place, "counts": done.counts, "mics": done.decider.mics}
    text = json.dumps(entry | {"inputs": [item.to_plain() for item in group.inputs]}, indent=1).encode()
    write_whole(_entry(tables, group, UNFINISHED), text)
    replaced = [other for other in held.values() if runs & set(other.names)]
    for other in replaced:
        _entry(tables, other).unlink(missing_ok=True)
    for old in {other.place for other in [*replaced, group]}:
        for table in (*TABLES, CAUSES):
            remove_tree(tables / table / old)
    for table in TABLES:
        staged = path_of(done.stage) / table
        if staged.exists():
            place = tables / table / group.place
            place.parent.mkdir(parents=True, exist_ok=True)
            staged.rename(place)
    write_whole(_entry(tables, group), text)
    _entry(tables, group, UNFINISHED).unlink()


def _has_new_key(group: Group, stored: StoredRun) -> bool:
    """Whether a run's unchecked MICs can be checked now. Only a log has the frames for that."""
    item = group.inputs[0]
    return stored.mics == MICS_UNCHECKED and item.kind == "journal" and item.key is not None


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(many(counts[table], WORDS[table]) for table in TABLES if counts.get(table))


def _reasons(folder: Path) -> Counter[str]:
    """How often each reason is in a run's quarantine."""
    found: Counter[str] = Counter()
    for path in folder.glob("*.parquet"):
        with parquet(path) as file:
            for one in pc.value_counts(file.read(["reason"])["reason"]).to_pylist():
                found[one["values"]] += one["counts"]
    return found


def _told(found: Counter[str]) -> str:
    """The most frequent reasons."""
    told = [f"{count} × {reason}" for reason, count in found.most_common(REASONS)]
    others = found.total() - sum(count for _, count in found.most_common(REASONS))
    return "; ".join([*told, *([f"{others} for other reasons"] if others else [])])
