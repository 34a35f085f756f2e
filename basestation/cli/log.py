"""`basestation log`: verify, repair, convert and sum up the logs of runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ParamSpec

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table

from basestation.cli import SuggestingGroup, common
from basestation.journal.reader import (
    UNMARKED,
    Finding,
    Journal,
    JournalHole,
    JournalNote,
    JournalSegment,
    deeper_runs,
    find_journals,
    read_journal,
    read_segment,
)
from basestation.journal.record_format import Ending, JournalError
from packet_formats.phrases import many

if TYPE_CHECKING:
    from basestation.journal.summary import Summary
    from basestation.traces.files import Trace
    from packet_formats.deployment import Deployment
    from packet_formats.values import Value

P = ParamSpec("P")
FAULTS_SHOWN = 10
NOT_CHECKED = "no MIC was checked: `basestation log decide --key FILE` checks them"
DECIDED = "only html plays the run again: for the other forms `basestation log decide --key FILE` checks MICs"
FORMATS = ("parquet", "ndjson", "csv", "pcap", "shiviz", "dot", "html")
HOLES_SHOWN = 5
folder_argument = click.argument("folder", type=click.Path(path_type=Path))


@click.group(
    cls=SuggestingGroup,
    epilog=common.example(
        """
        basestation log list logs
        basestation log summary logs/20250301T120000Z-1f2e3d
        basestation log verify logs
        basestation log convert --to pcap -o run.pcap logs/20250301T120000Z-1f2e3d
        """
    ),
)
def command() -> None:
    """Verify, repair, convert and sum up the logs of runs.

    FOLDER is one run's log, or a folder with the logs of many.
    """


def _speaks_plainly(function: Callable[P, None]) -> Callable[P, None]:
    """Make a command end with one line if a journal can't be read."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        from basestation.traces.files import TraceError

        try:
            function(*args, **kwargs)
        except (JournalError, TraceError) as error:
            common.fail(str(error))

    return run


def _runs(folder: Path) -> list[Path]:
    found = find_journals(folder)
    if not found:
        raise JournalError(f"{folder}: no logs in it{deeper_runs(folder)}")
    return found


def _each(folder: Path, work: Callable[[Path], None]) -> None:
    """Do it for each run in a folder. What can't be read at all keeps nobody from the others."""
    _fail_for(_tried(folder, work))


def _tried(folder: Path, work: Callable[[Path], None]) -> list[str]:
    odd = []
    for path in _runs(folder):
        try:
            work(path)
        except JournalError as error:
            odd.append(str(error))
    return odd


def _fail_for(odd: list[str]) -> None:
    if odd:
        for error in odd[:-1]:
            common.note(error, style="red")
        common.fail(odd[-1])


class _LogFaults:
    """Reports the first faults and counts the others. Holes are kept."""

    def __init__(self) -> None:
        self.count = 0
        self.holes: list[JournalHole] = []

    def __call__(self, fault: Finding) -> None:
        if isinstance(fault, JournalNote):
            common.note(str(fault))
            return
        if isinstance(fault, JournalHole):
            self.holes.append(fault)
            return
        self.count += 1
        if self.count <= FAULTS_SHOWN:
            common.note(str(fault))
        elif self.count == FAULTS_SHOWN + 1:
            common.note("more faults are counted and not shown")

    @property
    def lacks(self) -> str:
        """What the log lacks, in words; empty if nothing."""
        told = []
        if known := sum(hole.last - hole.first + 1 for hole in self.holes if hole.last is not None):
            told.append(f"{many(known, 'record')} missing")
        if any(hole.last is None for hole in self.holes):
            told.append("its end missing")
        if self.count:
            told.append(f"{many(self.count, 'place')} that can't be read")
        return " and ".join(told)


# ---- list ----


@command.command(
    "list",
    epilog=common.example(
        """
        basestation log list logs
        basestation log list logs --json | jq -r 'select(.state == "torn").folder'
        """
    ),
)
@folder_argument
@common.json_option
@_speaks_plainly
def list_(folder: Path, as_json: bool) -> None:
    """List the runs in FOLDER."""
    rows: list[dict[str, Any]] = []
    odd = _tried(folder, lambda path: rows.append(_listed(path)))
    if as_json:
        for row in rows:
            common.emit_json(row)
        _fail_for(odd)
        return
    table = _table("run", "site", "began (UTC)", "records", "MB", "state", right=("records", "MB"))
    for row in rows:
        megabytes = f"{row['bytes'] / 1e6:.1f}"
        table.add_row(
            row["run"], row["site"], _when(row["began_wall_ns"]), str(row["records"]), megabytes, row["state"]
        )
    common.out.print(table)
    _fail_for(odd)


def _listed(path: Path) -> dict[str, Any]:
    journal = read_journal(path)
    journal.tell_remarks(_LogFaults())
    last = read_segment(journal.paths[-1])
    records = last.header.first if last.header else 0
    if last.scan.starts:
        records = int(last.records.head["number"][-1]) + 1
    if last.scan.mark is not None:
        records = max(records, last.scan.mark.number)
    state = _state(path, last)
    return {
        "folder": str(path),
        "run": journal.header.run,
        "site": journal.header.site,
        "began_wall_ns": journal.header.started_wall_ns,
        "segments": len(journal.paths),
        "records": records,
        "bytes": sum(segment.stat().st_size for segment in journal.paths),
        "state": state,
    }


def _state(path: Path, last: JournalSegment) -> str:
    """How the run ended, if it has. A writer that was killed leaves its lock behind, and no end mark."""
    from basestation.journal import locking

    if locking.is_taken(path):
        return "being written"
    if last.torn:
        return "torn"
    unmarked = last.salt and (last.scan.mark is None or last.scan.mark.how != Ending.CLOSED)
    return "interrupted" if unmarked or locking.was_interrupted(path) else "closed"


def _table(*names: str, right: tuple[str, ...] = ()) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1))
    for name in names:
        table.add_column(name, justify="right" if name in right else "left")
    return table


def _when(wall_ns: int) -> str:
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")


# ---- verify and repair ----


@command.command(
    epilog=common.example(
        """
        basestation log verify logs
        """
    )
)
@folder_argument
@click.option(
    "--again", is_flag=True, help="Decide every frame again, and compare with the decisions in the log."
)
@common.deployment_option(required=False)
@common.key_option(beside=False)
@common.json_option
@_speaks_plainly
def verify(folder: Path, again: bool, deployment: Path | None, key: Path | None, as_json: bool) -> None:
    """Check every byte of the logs in FOLDER, and whether all records are there. Nothing is changed.

    The exit code is 1 if anything in them can't be read, or if records, segments or the end are missing. A run that is
    being written may end in half a record. With --again it is 1 too if a decision in the log differs from the one that
    this version makes; a network with a key needs --key FILE for that.
    """
    found: list[Summary] = []
    _each(folder, lambda path: found.append(_verify(path, as_json)))
    if again:
        _each(folder, lambda path: _verify_again(path, deployment, key, as_json))
    faults = [fault for summary in found for fault in summary.faults]
    if any(not fault.intact for fault in faults):
        common.fail("not everything can be read; basestation log repair moves the damage aside")
    if faults:
        common.fail(
            "not everything can be read, and no repair changes that: the bytes are as they were written"
        )
    if holes := [hole for summary in found for hole in summary.missing]:
        common.fail(f"not everything is there; {_cure(holes)}")


def _cure(holes: Sequence[JournalHole]) -> str:
    """What helps against holes."""
    if any(hole.gone for hole in holes):
        return "put the segments that are gone back, from a copy: nothing else brings their records back"
    if any(hole.reason == UNMARKED for hole in holes):
        return "basestation log repair marks the end; what is missing can't be brought back"
    return "what is missing can't be brought back"


def _verify(path: Path, as_json: bool) -> Summary:
    from basestation.journal import locking
    from basestation.journal.summary import summarise

    live = locking.is_taken(path)
    summary = summarise(journal := read_journal(path), _own_deployment(journal))
    summary.faults = [fault for fault in summary.faults if not (live and fault.tail)]
    tell = _LogFaults()
    _tell_all(summary, tell)
    if as_json:
        common.emit_json(
            {
                "folder": path,
                "run": summary.header.run,
                "format": summary.header.version,
                "records": summary.records,
                "segments": summary.segments,
                "undecided": summary.undecided,
                **_holes(summary),
                "faults": [asdict(fault) for fault in summary.faults],
                "end": _end(summary, live),
                "being_written": live,
            }
        )
        return summary
    whole = "all is there" if summary.header.salt else "all can be read"
    common.echo(
        f"{path}: {many(summary.records, 'record')} in {many(summary.segments, 'segment')}, "
        f"{_end(summary, live)}: {tell.lacks or whole}"
    )
    for line in _missing(summary.missing):
        common.echo(line)
    if summary.undecided:
        common.echo(
            f"  {many(summary.undecided, 'frame')} undecided: `basestation log decide {path}` decides all"
        )
    return summary


def _own_deployment(journal: Journal) -> Deployment | None:
    """A log's own deployment; None if there is none that can be read."""
    try:
        return journal.deployment if journal.header.deployment else None
    except JournalError:
        return None


def _verify_again(path: Path, deployment: Path | None, key: Path | None, as_json: bool) -> None:
    from basestation.live.deciding import again

    journal = read_journal(path)
    described = _to_decide(journal, deployment, key)
    if journal.header.mics == "checked" and described.key is None:
        raise JournalError(f"{path}: its MICs were checked; --key FILE names the network's key")
    found = again(journal, described, lambda fault: None)
    for line in found.differing[:FAULTS_SHOWN]:
        common.note(line)
    told = {"decisions": found.decisions, "undecided": found.undecided, "differing": len(found.differing)}
    if as_json:
        common.emit_json({"folder": path, "run": journal.header.run, **told})
    else:
        common.echo(
            f"{path}: {many(found.decisions, 'decision')} made again, {len(found.differing)} differ, "
            f"{many(found.undecided, 'frame')} undecided"
        )
    if found.differing:
        raise JournalError(
            f"{path}: decisions differ: the log was decided by other rules (decider {journal.header.decider}), or with "
            "another deployment or key; `basestation log decide` decides it by this version's"
        )


def _to_decide(journal: Journal, deployment: Path | None, key: Path | None) -> Deployment:
    described = common.load_deployment(deployment) if deployment else journal.deployment
    return common.with_key(described, deployment, key, needed=False)


@command.command(
    epilog=common.example(
        """
        basestation log decide logs/20250301T120000Z-1f2e3d
        basestation log decide logs --key site.key
        """
    )
)
@folder_argument
@common.deployment_option(required=False)
@common.key_option(beside=False)
@common.json_option
@_speaks_plainly
def decide(folder: Path, deployment: Path | None, key: Path | None, as_json: bool) -> None:
    """Decide every frame of the logs in FOLDER by this version's rules, and keep the decisions beside the log.

    For logs of older versions, for another deployment, and for a network whose key was not at hand: the station plays
    the log through and writes RUN/decisions. Tables, summaries and conversions use these from then on. The log itself
    is not changed; to go back, remove RUN/decisions.
    """
    from basestation.live import deciding

    def work(path: Path) -> None:
        journal = read_journal(path)
        with common.progress(len(journal.paths), "deciding") as advance:
            count = deciding.decide(journal, _to_decide(journal, deployment, key), _LogFaults(), advance)
        if as_json:
            common.emit_json({"folder": path, "run": journal.header.run, "decisions": count})
        else:
            common.echo(f"{path}: {many(count, 'decision')} made")

    _each(folder, work)


def _tell_all(summary: Summary, tell: _LogFaults) -> None:
    for remark in summary.remarks:
        tell(remark)
    for fault in summary.faults:
        tell(fault)
    for hole in summary.missing:
        tell(hole)


ENDS: dict[int, str] = {
    Ending.GOES_ON: "its last segment gone",
    Ending.CLOSED: "closed",
    Ending.INTERRUPTED: "interrupted",
    Ending.CUT: "its end cut off",
}


def _end(summary: Summary, live: bool) -> str:
    """How the run ended."""
    if live:
        return "being written"
    if not summary.header.salt:
        return "of version 1, which marks no end"
    if summary.end is None:
        return "without an end mark"
    return ENDS.get(summary.end.how, "ended in a way that this version does not know")


def _holes(summary: Summary) -> dict[str, Any]:
    """What is missing, as JSON tells it."""
    return {
        "missing": [(hole.first, hole.last) for hole in summary.missing],
        "holes": [asdict(hole) for hole in summary.missing],
    }


def _missing(holes: Sequence[JournalHole]) -> Iterator[str]:
    yield from map(str, holes[:HOLES_SHOWN])
    if len(holes) > HOLES_SHOWN:
        yield f"and {many(len(holes) - HOLES_SHOWN, 'more hole')}"


def _tell_left(path: Path) -> bool:
    """Say what a repair could not bring back; whether anything is missing."""
    tell = _LogFaults()
    for _ in read_journal(path).segments(
        lambda found: tell(found) if isinstance(found, JournalHole) else None
    ):
        pass
    for line in _missing(tell.holes):
        common.echo(line)
    if tell.holes:
        common.echo(f"{path}: {_cure(tell.holes)}")
    return bool(tell.holes)


@command.command(
    epilog=common.example(
        """
        basestation log repair logs/20250301T120000Z-1f2e3d
        """
    )
)
@folder_argument
@_speaks_plainly
def repair(folder: Path) -> None:
    """Make the logs in FOLDER readable, up to what is damaged.

    Damaged bytes are moved to files of their own: the torn end of a log (.torn), or a whole segment that has damage in
    it, or is of another run (.bad). So are the Parquet parts of a changed segment and of those after it, which may hold
    messages that the log has lost; `basestation log parts` makes new ones. Nothing is thrown away. What is missing
    stays missing, and is told; then the exit code is 1.
    """
    from basestation.journal.parquet_parts import PARTS
    from basestation.journal.recovery import repair as repair_journal

    def repair_one(path: Path) -> None:
        recovery = repair_journal(path)
        tell = _LogFaults()
        for fault in recovery.faults:
            tell(fault)
        parts = [kept for kept in recovery.aside if kept.parent.name == PARTS]
        done = []
        left = sum(fault.intact for fault in recovery.faults)
        if tell.count > left:
            aside = ", ".join(kept.name for kept in recovery.aside if kept not in parts)
            done.append(f"{many(tell.count - left, 'fault')} put aside in {aside}")
        if left:
            done.append(f"{many(left, 'file')} left under a wrong name")
        if recovery.marked:
            done.append("its end marked")
        if parts:
            names = ", ".join(str(kept.relative_to(path)) for kept in parts)
            done.append(
                f"the messages made before put aside in {names}; basestation log parts makes new parts"
            )
        common.echo(f"{path}: {'; '.join(done) or 'nothing to repair'}")
        if _tell_left(path):
            incomplete.append(path)
        if left:
            misplaced.append(path)

    incomplete: list[Path] = []
    misplaced: list[Path] = []
    _each(folder, repair_one)
    if incomplete:
        common.fail(f"{many(len(incomplete), 'run')} can be read now, but not everything is there")
    if misplaced:
        common.fail("rename what has a wrong name, or remove it if it is a copy")


@command.command(
    epilog=common.example(
        """
        basestation log parts logs
        basestation log parts logs --again
        """
    )
)
@folder_argument
@click.option("--again", is_flag=True, help="Make all parts again, not only those that are missing.")
@common.deployment_option(required=False)
@_speaks_plainly
def parts(folder: Path, again: bool, deployment: Path | None) -> None:
    """Make the Parquet parts of all closed segments in FOLDER, as the base station decided on their frames."""
    from basestation.journal.parquet_parts import make_parts

    described = common.load_deployment(deployment) if deployment else None

    def make(path: Path) -> None:
        made = make_parts(path, _LogFaults(), again=again, deployment=described)
        common.echo(f"{path}: {many(len(made), 'part')} made")

    _each(folder, make)


# ---- convert ----


@command.command(
    epilog=common.example(
        """
        basestation log convert --to csv -o run.csv logs/20250301T120000Z-1f2e3d
        basestation log convert --to pcap -o run.pcap logs/20250301T120000Z-1f2e3d
        basestation log convert --to parquet -o trace logs/20250301T120000Z-1f2e3d
        basestation log convert --to html -o run.html logs/20250301T120000Z-1f2e3d
        """
    )
)
@folder_argument
@click.option("--to", "form", type=click.Choice(FORMATS), required=True, help="The form to write.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, allow_dash=True),
    default=Path("-"),
    help="File to write (parquet: a folder). [default: standard output]",
)
@common.deployment_option(required=False)
@click.option(
    "--key",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="html: the network's key, if its messages have MICs, so that the page leaves forged ones out.",
)
@_speaks_plainly
def convert(folder: Path, form: str, output: Path, deployment: Path | None, key: Path | None) -> None:
    """Turn one run's log into another form.

    parquet (a trace) and csv hold the messages; ndjson every record; pcap the frames on the air for Wireshark; shiviz
    and dot (for Graphviz) the causal graph as far as it is known; html is the live page in one file. What a form leaves
    out is printed on standard error. FOLDER may also be a trace, for csv, shiviz and dot. Forged messages are left
    out, except of ndjson and pcap, if the log says which they are: `log decide --key FILE` finds that later.
    """
    from basestation.journal.convert import HOLDS

    faults = _LogFaults()
    if (folder / "messages.parquet").exists():
        done = _convert_trace(folder, form, output)
    else:
        journal = read_journal(folder)
        described = _described(journal, deployment)
        if form == "html" and described is not None and described.security.mic:
            described = common.with_key(described, None, key, needed=False)
            if described.key is None:
                common.note(f"{folder}: forged messages are in it too: --key FILE names the network's key")
        elif key is not None:
            common.fail(DECIDED)
        done = _convert_journal(journal, form, output, described, faults)
    common.note(f"{folder}: {done}. {form} holds {HOLDS[form]}")
    for hole in faults.holes[:HOLES_SHOWN]:
        common.note(str(hole), style="yellow")
    if faults.lacks:
        common.note(
            f"{folder}: the log has {faults.lacks}: the {form} does not have it either", style="yellow"
        )


def _described(journal: Journal, path: Path | None) -> Deployment | None:
    """The deployment of a log, named or its own. It is said if nobody checked the MICs of its messages."""
    from basestation.journal.decision import MICS_UNCHECKED
    from basestation.journal.sidecar import decider_of

    deciders = map(decider_of, journal.paths)
    if any(decider is not None and decider.mics == MICS_UNCHECKED for decider in deciders):
        common.note(f"{journal.folder}: {NOT_CHECKED}")
    if path is not None:
        return common.load_deployment(path)
    return journal.deployment if journal.header.deployment else None


def _convert_trace(folder: Path, form: str, output: Path) -> str:
    from basestation.traces.files import read_trace

    if form not in ("csv", "shiviz", "dot"):
        common.fail(f"{folder}: a trace has no frames to make {form} from; a journal has")
    return _write_messages(read_trace(folder), form, output)


def _convert_journal(
    journal: Journal, form: str, output: Path, described: Deployment | None, faults: _LogFaults
) -> str:
    from basestation.journal.convert import trace_of, write_ndjson
    from basestation.journal.pcap import write_pcap

    if form == "ndjson":
        with _writing(output, "w") as file:
            return many(write_ndjson(journal, described, file, faults), "record")
    deployment = described or journal.deployment
    if form == "pcap":
        with _writing(output, "wb") as file:
            return many(write_pcap(journal, deployment, file, faults), "frame")
    if form == "html":
        return _write_html(journal, deployment, output, faults)
    trace = trace_of(journal, deployment, faults, lambda text: common.note(f"{journal.folder}: {text}"))
    return _write_messages(trace, form, output)


def _write_html(journal: Journal, deployment: Deployment, output: Path, faults: _LogFaults) -> str:
    from basestation.web.export import write_html

    with _writing(output, "w") as file:
        done = write_html(journal, deployment, file, faults)
    return f"{many(done.rows, 'row')}" + (
        ", the last ones: the run has more than a page holds" if done.cut else ""
    )


def _write_messages(trace: Trace, form: str, output: Path) -> str:
    from basestation.journal.convert import write_csv
    from basestation.journal.drawn_graph import write_dot, write_shiviz
    from basestation.traces.files import write_trace

    if form == "parquet":
        if str(output) == "-":
            common.fail("a trace is a folder: name it with --output")
        write_trace(trace, output)
        return many(len(trace.messages), "message")
    with _writing(output, "w") as file:
        if form == "csv":
            return many(write_csv(trace, file), "message")
        write = write_shiviz if form == "shiviz" else write_dot
        known = write(trace.messages, trace.deployment, file)
    if known.complete == known.messages:
        return f"{many(known.messages, 'message')}, all causes known"
    return (
        f"{many(known.messages, 'message')}, all causes known of {known.complete} of them: what nothing tells is not "
        "drawn"
    )


@contextmanager
def _writing(output: Path, mode: str) -> Iterator[IO[Any]]:
    """Open standard output, a device or a pipe; or a file, behind a link too, that appears only when it is complete."""
    if str(output) == "-":
        yield sys.stdout.buffer if mode == "wb" else sys.stdout
        return
    output = output.resolve()
    if output.exists() and not output.is_file():
        with output.open(mode, encoding=None if mode == "wb" else "utf-8") as file:
            yield file
        return
    partial = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with partial.open(mode, encoding=None if mode == "wb" else "utf-8") as file:
            yield file
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)


# ---- summary ----


@command.command(
    epilog=common.example(
        """
        basestation log summary logs/20250301T120000Z-1f2e3d
        basestation log summary logs/20250301T120000Z-1f2e3d --json
        """
    )
)
@folder_argument
@common.deployment_option(required=False)
@common.json_option
@_speaks_plainly
def summary(folder: Path, deployment: Path | None, as_json: bool) -> None:
    """Sum up one run: its motes, its gateways, gaps, rates and times.

    Where no MIC was checked, forged messages are counted as their motes': `log decide --key FILE` checks them.
    """
    from basestation.journal.summary import summarise

    journal = read_journal(folder)
    described = _described(journal, deployment)
    found = summarise(journal, described)
    tell = _LogFaults()
    _tell_all(found, tell)
    if as_json:
        common.emit_json(_plain(found))
        return
    if described is None:
        common.note(
            "the log has no deployment, so frames are counted but not read; give one with --deployment"
        )
    _show(found)
    if described is not None and described.data and found.motes:
        _show_values(found, described.data)


def _plain(found: Summary) -> dict[str, Any]:
    plain = asdict(found)
    del plain["remarks"]
    plain |= {"motes": list(plain["motes"].values()), "lines": list(plain["lines"].values())}
    return plain | _holes(found)


def _show(found: Summary) -> None:
    header, seconds = found.header, found.span_ns / 1e9
    common.out.print(f"run {header.run}" + (f" at {header.site}" if header.site else ""))
    common.out.print(f"{_when(found.first_wall_ns)} to {_when(found.last_wall_ns)} UTC, {seconds:.1f} s")
    size = f"{found.bytes / 1e6:.1f} MB in {many(found.segments, 'segment')}"
    common.out.print(f"{many(found.records, 'record')}, {size}, {many(found.notes, 'note')}")
    for line in _missing(found.missing):
        common.out.print(line)
    _show_lines(found)
    if found.motes:
        _show_motes(found)


def _show_lines(found: Summary) -> None:
    numbers = ("frames", "a second", "gaps", "down s")
    table = _table("gateway", "source", *numbers, "what they were", right=("gateway", *numbers))
    for line in found.lines.values():
        fates = ", ".join(f"{count} {fate.replace('_', ' ')}" for fate, count in line.fates.items())
        cells = [str(line.gateway), line.source, str(line.frames), _number(line.per_second), str(line.gaps)]
        table.add_row(*cells, f"{line.down_ns / 1e9:.1f}", fates)
    common.out.print(table)


def _show_motes(found: Summary) -> None:
    names = ("mote", "messages", "a minute", "lost", "copies", "boots", "rssi", "full", "no sync")
    table = _table(*names, right=names)
    for mote in found.motes.values():
        table.add_row(
            *map(str, (mote.mote, mote.messages)),
            _number(mote.per_minute),
            *map(str, (mote.lost, mote.duplicates, mote.boots)),
            _number(mote.rssi),
            *map(str, (mote.saturated, mote.out_of_sync)),
        )
    common.out.print(table)
    common.out.print(
        "lost: numbers never seen. copies: the same message again. rssi: of who sent it last, which may be a relay. "
        "full: saturated stamps. no sync: sent or heard without network time.",
        style="dim",
    )


def _show_values(found: Summary, values: Sequence[Value]) -> None:
    """What each mote measured, the least, the mean and the most."""
    headings = [value.column for value in values]
    table = _table("mote", *headings, right=("mote", *headings))
    for mote in found.motes.values():
        cells = []
        for value in values:
            told = mote.values.get(value.name)
            spread = (told.least, told.mean, told.most) if told and told.count else ()
            cells.append(" / ".join(map(value.digits, spread)))
        table.add_row(str(mote.mote), *cells)
    common.out.print(table)
    common.out.print("of each value: the least, the mean and the most.", style="dim")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
