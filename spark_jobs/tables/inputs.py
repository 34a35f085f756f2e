"""Finds the inputs of `ingest`: journals, traces and testbed logs, recognised by their content."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from basestation.journal.parquet_parts import PARTS
from basestation.journal.reader import HEADLESS, read_header, segment_paths, unknown_keys
from basestation.journal.record_format import RECORD_MARK, Header, JournalError, Records, scan
from basestation.journal.sidecar import later_decisions
from basestation.traces import schema
from basestation.traces.footers import Footer
from packet_formats import deployment as deployments
from packet_formats.deployment import Deployment, DeploymentError
from packet_formats.keys import Key
from spark_jobs.session import one_line
from spark_jobs.storage import parquet, path_of

LOOK = 1 << 17  # bytes at either end of a journal in which its first and last record are looked for
UNDATED = "undated"
LONGEST_NAME = 120
MESSAGES, EVENTS = "messages.parquet", "events.parquet"


class InputError(Exception):
    """The reason why an input can't be used."""


@dataclass(frozen=True, slots=True)
class Input:
    """One run as it was found. `span` is the host's wall clock at its first and last record, if known."""

    kind: str  # journal, trace, testbed
    path: str
    run: str
    site: str
    deployment: str
    span: tuple[int, int] | None
    files: tuple[tuple[str, int, int], ...]  # name, size and time of change: whether it is still as it was
    gateways: int = 1  # of a testbed's log, which does not say how many
    key: Key | None = field(default=None, compare=False, repr=False)  # of the network; it is not in tables
    # To be reported once; they are not in tables either
    remarks: tuple[str, ...] = field(default=(), compare=False)

    @property
    def deployed(self) -> Deployment:
        """The deployment, with the key if it was given and is needed."""
        found = deployments.parse(self.deployment)
        return replace(found, key=self.key) if found.security.mic else found

    def to_plain(self) -> dict[str, Any]:
        """The entry in the manifest: all fields but the key and the remarks."""
        plain = asdict(replace(self, key=None))
        del plain["key"], plain["remarks"]
        return plain

    @property
    def date(self) -> str:
        """The day on which it began, UTC."""
        return UNDATED if self.span is None else f"{datetime.fromtimestamp(self.span[0] / 1e9, UTC):%Y-%m-%d}"

    @property
    def size(self) -> int:
        return sum(size for _, size, _ in self.files)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Input:
        span, files = plain["span"], tuple((name, size, at) for name, size, at in plain["files"])
        return cls(**plain | {"span": None if span is None else (span[0], span[1]), "files": files})


@dataclass(frozen=True, slots=True)
class Group:
    """The runs that observed one network at the same time. They make one run of the tables; mostly it is one."""

    inputs: tuple[Input, ...]

    @property
    def names(self) -> list[str]:
        return [item.run for item in self.inputs]

    @property
    def run(self) -> str:
        names = self.names
        whole = "+".join(names)
        if len(whole) <= LONGEST_NAME:
            return whole
        return f"{names[0]}+{len(names) - 1}-{hashlib.sha256(whole.encode()).hexdigest()[:12]}"

    @property
    def site(self) -> str:
        return self.inputs[0].site

    @property
    def date(self) -> str:
        return self.inputs[0].date

    @property
    def place(self) -> str:
        """The run's folder in each table."""
        return "/".join(
            f"{key}={_escaped(value)}"
            for key, value in (("site", self.site or "unknown"), ("date", self.date), ("run", self.run))
        )


def _escaped(value: str) -> str:
    """A partition's value in a path, escaped as Spark and Hive do."""
    return "".join(
        f"%{ord(char):02X}" if char in "\"#%'*/:=?\\{[]^" or ord(char) < 0x20 else char for char in value
    )


@dataclass(slots=True)
class FoundInputs:
    inputs: list[Input] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)  # path: why


def find(
    paths: Iterable[Path], deployment: str = "", gateways: int = 1, key: Key | None = None
) -> FoundInputs:
    """Find all inputs in these files and folders. Inputs that can't be used are listed with the reason."""
    found = FoundInputs()
    for path in paths:
        for candidate, look in _candidates(path):
            try:
                found.inputs.append(replace(look(candidate, deployment, gateways), key=key))
            except (InputError, JournalError, DeploymentError, OSError, pa.ArrowException) as error:
                found.refused[str(candidate)] = one_line(error).removeprefix(f"{candidate}: ")
    return distinct(found)


Look = Callable[[Path, str, int], Input]


def _candidates(path: Path) -> Iterator[tuple[Path, Look]]:
    if path.is_file():
        yield path, _testbed
    elif segment_paths(path):
        yield path, _journal
    elif (path / MESSAGES).exists() or part_files(path):
        yield path, _trace
    elif path.is_dir():
        for inner in sorted(path.iterdir()):
            if (inner.is_dir() or inner.suffix == ".jsonl") and not inner.name.startswith("."):
                yield from _candidates(inner)
    else:
        yield path, _missing


def part_files(folder: Path) -> list[Path]:
    """The files of messages of a trace, or of a run whose journal is gone, in order."""
    whole = folder / MESSAGES
    return [whole] if whole.exists() else sorted((folder / PARTS).glob("[0-9]*.parquet"))


def _missing(path: Path, deployment: str, gateways: int) -> Input:
    raise InputError("there is no such file or folder")


def _journal(path: Path, deployment: str, gateways: int) -> Input:
    segments = segment_paths(path)
    header = _header(segments)
    text, remark = _own_or_given(header.deployment, deployment)
    first, last = _wall(segments, True, header.salt), _wall(segments[::-1], False, header.salt)
    return Input(
        kind="journal",
        path=str(path.resolve()),
        run=header.run,
        site=header.site,
        deployment=text,
        span=None if first is None or last is None else (min(first, last), max(first, last)),
        files=_signed(
            [*segments, *(later for later in map(later_decisions, segments) if later.is_file())], path
        ),
        remarks=tuple(filter(None, (unknown_keys(header), remark))),
    )


def _header(segments: Iterable[Path]) -> Header:
    """The first header that can be read. A damaged header is reported with its segment, or if all are damaged."""
    odd: JournalError | None = None
    for path in segments:
        try:
            if (header := read_header(path)) is not None:
                return header
        except JournalError as error:
            odd = odd or error
    raise odd or InputError(HEADLESS)


def _own_or_given(own: str, given: str) -> tuple[str, str]:
    """A log's own deployment, or the given one if the log's is missing or damaged; and a remark on that."""
    try:
        return _checked(own or given), ""
    except (DeploymentError, RecursionError) as error:
        why = f"its deployment can't be read: {one_line(error)}"
    if not given:
        raise InputError(f"{why}; --deployment gives another")
    return _checked(given), f"{why}; that of --deployment is used"


def _wall(segments: Iterable[Path], first: bool, salt: int) -> int | None:
    """The wall clock at the first or the last intact record."""
    for path in segments:
        with path.open("rb") as file:
            if not first:
                file.seek(max(0, path.stat().st_size - LOOK))
            raw = file.read(LOOK)
        found = scan(raw, max(0, raw.find(RECORD_MARK)), salt=salt).starts
        if found:
            return int(Records.of(raw, [found[0 if first else -1]]).head["wall_ns"][0])
    return None


def _trace(path: Path, deployment: str, gateways: int) -> Input:
    files, events = part_files(path), path / EVENTS
    footers = [_footer(file) for file in files]
    runs = {footer.run for footer in footers}
    if events.exists() or events.is_symlink():  # a link that leads nowhere is a fault
        runs.add(_footer(events).run)
    if len(runs) > 1:
        raise InputError(f"tables of {len(runs)} runs: {', '.join(sorted(runs))}")
    text = _checked(footers[0].description)
    bounds = [bound for footer in footers for bound in footer.bounds("wall_ns")]
    return Input(
        kind="trace",
        path=str(path.resolve()),
        run=runs.pop(),
        site=footers[0].origin.partition("site ")[2] or deployments.parse(text).network.name,
        deployment=text,
        span=(min(bounds), max(bounds)) if bounds else None,
        files=_signed([*files, *([events] if events.exists() else [])]),
    )


def _footer(path: Path) -> Footer:
    with parquet(path, InputError) as file:
        found = Footer(file.metadata, lambda column: 0)
    metadata = found.said.metadata or {}
    if fault := schema.wrong_format(metadata):
        raise InputError(f"{path.name} is not a table of Causeway: {fault}")
    if schema.META_RUN not in metadata:
        raise InputError(f"{path.name} does not say of which run it is")
    return found


def _testbed(path: Path, deployment: str, gateways: int) -> Input:
    with path.open("rb") as file:
        first = file.readline(4096)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if b'"is":"start"' not in first.replace(b" ", b""):
        raise InputError("neither a folder with a journal or a trace in it, nor a log of the testbed")
    if not deployment:
        raise InputError("a log of the testbed does not name its deployment: --deployment FILE does")
    return Input(
        kind="testbed",
        path=str(path.resolve()),
        run=f"testbed-{digest[:16]}",
        site=deployments.parse(deployment).network.name,
        deployment=deployment,
        span=None,
        files=_signed([path]),
        gateways=gateways,
    )


def _checked(deployment: str) -> str:
    if deployment:
        deployments.parse(deployment)
    return deployment


def _signed(files: Iterable[Path], folder: Path | None = None) -> tuple[tuple[str, int, int], ...]:
    """The name of each file, within a folder if one is given, its size and its time of change."""
    told = [(path.name if folder is None else str(path.relative_to(folder)), path.stat()) for path in files]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in told)


def distinct(found: FoundInputs) -> FoundInputs:
    """Drop copies of a run, whole or in an earlier state: the longest is kept."""
    by_run: dict[str, Input] = {}
    for item in found.inputs:
        other = by_run.setdefault(item.run, item)
        if other.path == item.path:
            continue
        longer, shorter = (item, other) if item.size > other.size else (other, item)
        by_run[item.run] = longer
        if not is_copy(shorter, longer):
            found.refused[shorter.path] = (
                f"says that it is run {item.run}, as {longer.path} does, and holds something else"
            )
    return FoundInputs(list(by_run.values()), found.refused)


def is_copy(part: Input, whole: Input) -> bool:
    """Whether `whole` holds all of `part`, at the same places. Decisions that were made later do not count."""
    if part.kind != whole.kind:
        return False
    for name, size, _ in part.files:
        if part.kind == "journal" and Path(name).name != name:
            continue
        one, other = _file(part, name), _file(whole, name)
        if not other.exists() or not _begins_with(other, one, size):
            return False
    return True


def _file(item: Input, name: str) -> Path:
    if item.kind == "testbed":
        return path_of(item.path)
    inner = path_of(item.path) / PARTS / name
    return inner if inner.exists() and item.kind == "trace" else path_of(item.path) / name


def _begins_with(whole: Path, part: Path, size: int) -> bool:
    if whole.stat().st_size < size:
        return False
    with whole.open("rb") as one, part.open("rb") as other:
        while size > 0:
            step = min(size, 1 << 20)
            if one.read(step) != other.read(step):
                return False
            size -= step
    return True


def grouped(inputs: Iterable[Input]) -> list[Group]:
    """Group the inputs. Journals of the same site and deployment whose times overlap are one run."""
    groups: list[list[Input]] = []
    for item in sorted(inputs, key=lambda item: (item.span or (0, 0), item.run)):
        for group in groups:
            if any(_together(item, other) for other in group):
                group.append(item)
                break
        else:
            groups.append([item])
    return [Group(tuple(group)) for group in groups]


def _together(one: Input, other: Input) -> bool:
    if one.kind != "journal" or other.kind != "journal" or one.span is None or other.span is None:
        return False
    same = (one.site, one.deployment) == (other.site, other.deployment) and one.deployment != ""
    return same and one.span[0] <= other.span[1] and other.span[0] <= one.span[1]
