"""What all searches share: pieces one after another, results that outlive the process, rows of counts.

A search is a function that does one piece of work, by its number, and says what it counted. Its results are a file in
`tests/soak/results`, which is committed: a search that is started again, on any machine, goes on with the next piece.
It ends with its aim, with `--minutes`, with `--pieces`, or with Ctrl-C; a piece that was interrupted is done again.
What helps a search (inputs, crashes) is in `.soak`, which is not committed.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS_KEPT = 20
SEARCHED = ("basestation", "firmware", "packet_formats", "spark_jobs")


def state_folder() -> Path:
    """For corpora and crashes."""
    return Path(os.environ.get("CAUSEWAY_SOAK", ROOT / ".soak"))


def results_folder() -> Path:
    return Path(os.environ.get("CAUSEWAY_SOAK_RESULTS", ROOT / "tests" / "soak" / "results"))


@cache
def version() -> str:
    """The last commit that changed the searched folders."""
    words = ["git", "-C", str(ROOT), "log", "-1", "--format=%h", "--abbrev=8", "--", *SEARCHED]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    return said or "unknown"


@dataclass
class Piece:
    """What one piece found: to which row it belongs, its counts, and what went wrong."""

    row: str
    counts: Mapping[str, int]
    faults: list[str] = field(default_factory=list)


@dataclass
class State:
    """What a search has done so far, by row. `faults` keeps the first ones; the rows count all.

    All pieces below `pieces` are done. `versions`: how many units were done on which commit.
    """

    pieces: int = 0
    seconds: float = 0.0
    versions: dict[str, int] = field(default_factory=dict)
    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def add(self, piece: Piece, seconds: float, units: int = 0) -> None:
        row = self.rows.setdefault(piece.row, {})
        for name, counted in {**piece.counts, "faults": len(piece.faults)}.items():
            row[name] = row.get(name, 0) + counted
        self.faults = [*self.faults, *piece.faults][:FAULTS_KEPT]
        self.versions[version()] = self.versions.get(version(), 0) + units
        self.seconds = round(self.seconds + seconds, 1)
        self.pieces += 1

    def total(self, name: str) -> int:
        return sum(row.get(name, 0) for row in self.rows.values())


@dataclass(frozen=True)
class Search:
    """`unit` is the count that the aim is about. `piece` is called with the number of the piece."""

    name: str
    unit: str
    aim: int
    piece: Callable[[int], Piece]

    @property
    def path(self) -> Path:
        return results_folder() / f"{self.name}.json"

    def load(self) -> State:
        try:
            return State(**json.loads(self.path.read_text()))
        except FileNotFoundError:
            return State()

    def save(self, state: State) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".new")
        partial.write_text(json.dumps(asdict(state), indent=1) + "\n")
        partial.replace(self.path)

    def run(self, minutes: float = 1e9, pieces: int = sys.maxsize) -> State:
        end, state = time.monotonic() + 60 * minutes, self.load()
        last = state.pieces + pieces
        while state.pieces < last and time.monotonic() < end and state.total(self.unit) < self.aim:
            began = time.monotonic()
            piece = self.piece(state.pieces)
            state.add(piece, time.monotonic() - began, piece.counts.get(self.unit, 0))
            self.save(state)
        return state

    def again(self, number: int) -> State:
        """One piece, which is not counted."""
        state, began = State(), time.monotonic()
        state.add(self.piece(number), time.monotonic() - began)
        return state

    def main(self) -> int:
        """The command line of a search: 0 if it found no fault, 1 if it did, 130 if it was interrupted."""
        module = f"python -m tests.soak.{self.name}"
        reader = argparse.ArgumentParser(
            prog=module,
            epilog=f"Example: {module} --minutes 10 --json. It goes on where it ended the last time.",
        )
        reader.add_argument("--minutes", type=float, default=1e9, help="end after this time")
        reader.add_argument("--pieces", type=int, default=sys.maxsize, help="end after this number of pieces")
        reader.add_argument(
            "--piece", type=int, metavar="N", help="do piece N again, by itself: it is not counted"
        )
        reader.add_argument("--json", action="store_true", help="print one object for each row")
        asked = reader.parse_args()
        try:
            state, code = (
                self.run(asked.minutes, asked.pieces) if asked.piece is None else self.again(asked.piece),
                0,
            )
        except KeyboardInterrupt:
            state, code = self.load(), 130
        self.tell(state, asked.json)
        return code or int(state.total("faults") > 0)

    def tell(self, state: State, as_json: bool) -> None:
        for row, counts in sorted(state.rows.items()):
            print(json.dumps({"search": self.name, "row": row} | counts) if as_json else f"{row}: {counts}")
        done, share = state.total(self.unit), 100 * state.total(self.unit) / self.aim
        said = f"{self.name}: {done:,} of {self.aim:,} {self.unit} ({share:.3g}%) in {state.seconds:,.0f} s"
        print(f"{said}, {state.total('faults')} faults", file=sys.stderr)
        for fault in state.faults:
            print(f"  {fault}", file=sys.stderr)


def kept_folder(prefix: str) -> Path:
    """A folder for as long as this process runs."""
    place = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def draw_of(search: str, piece: int) -> random.Random:
    """Random numbers of a piece: the same whenever it is done again."""
    return random.Random(f"{search} {piece}")
