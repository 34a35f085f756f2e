"""Starts programs to be killed: a process that has imported everything, and becomes one of them by a fork.

`python -m tests.soak.zygote` reads an order a line, as JSON, and answers with the process's number. Such a program is
the same as one that was started anew, without the second that its imports take. Each is the first of its own group. Its
standard output goes to a named pipe, whose last line is its exit code, and how often it changed a folder, unless it was
killed. It may be told to kill itself and its group by SIGKILL when it changes that folder for the n-th time: opens a
file to write, makes, renames or removes one. That is exact, whatever else the machine does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link")
PRELOADED = (
    "basestation.cli.listen",
    "basestation.sources.network",
    "basestation.journal.writer",
    "basestation.live.runner",
    "basestation.views.ndjson",
    "basestation.cli.analyse.ingest",
    "spark_jobs.tables.intake",
)


@dataclass
class Started:
    """A program of the zygote's: `stdout` ends when it does."""

    pid: int
    stdout: IO[bytes]

    def kill(self) -> None:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        """Until it has ended: no other process holds its pipe."""
        while self.stdout.read(1 << 16):
            pass


class Zygote:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, words: Sequence[object], dies_at: int = 0, within: Path | None = None) -> Started:
        """`basestation WORDS`; it dies at change number `dies_at` of the folder `within`; 0: it does not die."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with tempfile.TemporaryDirectory(prefix="causeway-zygote-") as place:
            pipe = os.path.join(place, "pipe")
            os.mkfifo(pipe)
            order = {"words": [*map(str, words)], "pipe": pipe, "dies_at": dies_at, "within": str(within)}
            stdin.write(json.dumps(order) + "\n")
            stdin.flush()
            pid = int(stdout.readline())
            return Started(pid, open(pipe, "rb", buffering=0))


# ---- In the zygote ----


def _become(order: dict[str, Any]) -> None:
    from basestation import cli

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    out, nothing = os.open(order["pipe"], os.O_WRONLY), os.open(os.devnull, os.O_RDWR)
    for mine, there in ((0, nothing), (1, out), (2, nothing)):
        os.dup2(there, mine)
    os.close(out)
    changes = _watch(order["dies_at"], order["within"])
    code = cli.main(order["words"])
    sys.stdout.flush()
    os.write(1, f"\nexit {code} {changes[0]}\n".encode())
    os._exit(0)


def _watch(dies_at: int, within: str) -> list[int]:
    """The count of changes, which goes on."""
    count = [0]

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        is_write = event == "open" and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if (is_write or event in CHANGES) and str(arguments[0]).startswith(within):
            count[0] += 1
            if count[0] == dies_at:
                os.killpg(0, signal.SIGKILL)

    sys.addaudithook(look)
    return count


def _serve() -> None:
    for name in PRELOADED:
        __import__(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: the end of their pipe tells
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            try:
                _become(json.loads(line))
            finally:
                os._exit(1)
        print(pid, flush=True)


if __name__ == "__main__":
    _serve()
