"""The emulator: builds the C program of firmware/testbed if needed and runs it on a scenario."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

from .build_lock import locked, silent
from .images import PROJECT
from .truth_log import Event, read

SOURCES = PROJECT / "firmware" / "testbed"
DEBIAN = "gcc make pkg-config libsimavr-dev libelf-dev"
PATIENCE = 20.0  # seconds that an interrupted engine gets to write its last lines
TAIL = 1 << 14  # bytes; no line is longer
INTERRUPTED = 128 + signal.SIGINT


class EmulatorError(Exception):
    """An engine that could not be built, or that refused its scenario."""


@dataclass(frozen=True, slots=True)
class OpenPort:
    """The addresses of a node's UART."""

    node: int
    tcp: int | None
    pty: str | None


def build(folder: Path | None = None, say: Callable[[str], None] = silent) -> Path:
    """Build the program if it is not up to date; `folder` replaces firmware/testbed/build. `say` reports a wait."""
    for tool in ("make", "gcc"):
        if shutil.which(tool) is None:
            raise EmulatorError(
                f"{tool} is missing: the testbed is compiled before it runs (on Debian, install {DEBIAN})"
            )
    if not SOURCES.is_dir():
        raise EmulatorError(f"no {SOURCES}: the testbed only runs in a checkout of the repository")
    place = (folder or SOURCES / "build").absolute()
    command = ["make", "-s", "-C", str(SOURCES), f"BUILD={place}"]
    with locked(place, "the testbed", say):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        needs = f" (it needs Debian's {DEBIAN})" if "simavr" in done.stderr or "libelf" in done.stderr else ""
        raise EmulatorError(f"the testbed did not build{needs}:\n{done.stderr.strip()}")
    return place / "testbed"


class TestbedRun:
    """A running engine. It writes the truth into a file that can be read meanwhile."""

    def __init__(self, process: subprocess.Popen[bytes], truth: Path, complaints: IO[bytes]) -> None:
        self._process, self._truth, self._complaints = process, truth, complaints

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def ports(self, count: int) -> list[OpenPort]:
        """Wait until all `count` ports are known, and return them."""
        while True:
            ended = not self.running
            ports = self._ports()
            if len(ports) >= count or ended:
                return ports
            time.sleep(0.01)

    def _ports(self) -> list[OpenPort]:
        found = []
        with suppress(FileNotFoundError), self._truth.open() as log:
            for line in log:
                if not line.endswith("\n"):
                    break
                event = json.loads(line)
                if event["is"] == "port":
                    found.append(OpenPort(event["node"], event["tcp"], event["pty"]))
                elif event["is"] != "start":
                    break
        return found

    def seconds(self) -> float:
        """The true time so far, from the last whole line."""
        with suppress(FileNotFoundError), self._truth.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL))
            lines = log.read().split(b"\n")[1:-1]
            if lines:
                return float(json.loads(lines[-1])["t"]) / 1e9
        return 0.0

    def wait(self, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def finish(self) -> bool:
        """Wait for the end: True if the run was complete, False if interrupted; `EmulatorError` if it failed."""
        code = self._process.wait()
        if code in (0, INTERRUPTED):
            return code == 0
        self._complaints.seek(0)
        why = self._complaints.read().decode(errors="replace").strip()
        raise EmulatorError(f"the testbed ended with status {code}: {why or 'it gave no reason'}")

    def interrupt(self) -> None:
        if self.running:
            self._process.send_signal(signal.SIGINT)

    def _end(self) -> None:
        """Leave no process behind."""
        self.interrupt()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def events_of(scenario: str, program: Path | None = None) -> list[Event]:
    """Run a scenario to its end and return all events. The program is built unless it is given."""
    with TemporaryDirectory() as folder, start(program or build(), scenario, Path(folder) / "truth") as run:
        run.finish()
        return list(read(Path(folder) / "truth"))


@contextmanager
def start(program: Path, scenario: str, truth: Path) -> Iterator[TestbedRun]:
    """Run an engine on a scenario. When the block is left early, it is interrupted and writes its last lines."""
    with TemporaryFile() as given, TemporaryFile() as complaints:
        given.write(scenario.encode())
        given.seek(0)
        if truth.exists() and not truth.is_file():
            raise EmulatorError(f"{truth} is no file: the testbed could not read its truth log back from it")
        truth.unlink(missing_ok=True)  # an older run's log must not be taken for this one's
        process = subprocess.Popen(
            [program, "-", truth], stdin=given, stdout=subprocess.DEVNULL, stderr=complaints
        )
        run = TestbedRun(process, truth, complaints)
        try:
            yield run
        finally:
            run._end()
