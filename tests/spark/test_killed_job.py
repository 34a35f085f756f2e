"""A job that is killed leaves no process behind: neither its own workers nor Java."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import wait_until

WORKERS = """
import time
from spark_jobs.engines import Cores

if __name__ == "__main__":
    list(Cores(2, True).each(abs, [1, 2, 3]))
    print("ready", flush=True)
    time.sleep(600)
"""
JAVA = """
import time
from pathlib import Path
from spark_jobs.engines import Spark
from spark_jobs.session import start

def work(task):
    Path(task).touch()
    time.sleep(600)

Spark(start("killed", "local[1]")).each(work, [{mark!r}])
"""


def alive(session: int) -> list[str]:
    """The processes of a session that are not zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(its) == session and state != "Z":
            found.append((stat.parent / "cmdline").read_text().replace("\0", " ")[:100])
    return found


def killed(job: subprocess.Popen[bytes]) -> None:
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    try:
        wait_until(lambda: not alive(job.pid), lambda: f"the end of {alive(job.pid)}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)


def test_the_workers_of_a_killed_job_end(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(WORKERS)
    command = [sys.executable, str(tmp_path / "job.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"ready\n"
        assert len(alive(job.pid)) > 2
        killed(job)


@pytest.mark.wide
@pytest.mark.parametrize("busy", [False, True])
def test_the_java_of_a_killed_job_ends(
    tmp_path: Path, busy: bool, require_tool: Callable[[str], str]
) -> None:
    """Java reads the job's pipe to its end. It does so once it has started: a job that was killed before takes until
    then."""
    require_tool("java")
    mark = tmp_path / "at work"
    (tmp_path / "job.py").write_text(JAVA.format(mark=str(mark)))
    errors = tmp_path / "errors"
    with (
        errors.open("wb") as file,
        subprocess.Popen(
            [sys.executable, str(tmp_path / "job.py")], stderr=file, start_new_session=True
        ) as job,
    ):
        if busy:
            wait_until(mark.exists, errors.read_text, 120)
        else:
            wait_until(lambda: any("java" in name for name in alive(job.pid)), errors.read_text)
        killed(job)
