"""Programs of Spark's that tests start beside themselves, and end."""

import os
import signal
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 900  # a busy machine takes minutes to start Java


def spark_home():
    import pyspark

    return Path(pyspark.__file__).parent


def without_python():
    """An environment in which nothing says where our packages are."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))
    }
    return kept | {"SPARK_LOCAL_IP": "127.0.0.1"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(command, environment, log, folder=None):
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        end(process)


def end(process):
    """Kill a process that we started, with its own children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
