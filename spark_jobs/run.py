"""Run a job: `spark-submit spark_jobs/run.py JOB ...` is `basestation analyse JOB ...`, or `basestation compare ...`,
on a cluster.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OWN_COMMANDS = ("compare",)


class JavasErrors(io.RawIOBase):
    """The standard error of the Java that `spark-submit` runs in. It prints Python's to its standard output."""

    def __init__(self) -> None:
        from pyspark import java_gateway

        joined: Any = java_gateway.launch_gateway()  # type: ignore[no-untyped-call]
        self._stream = joined.jvm.java.lang.System.err

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._stream.write(bytes(data), 0, len(data))
        self._stream.flush()
        return len(data)


def main(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit code."""
    from basestation import cli

    return cli.main([*([] if arguments[:1] and arguments[0] in OWN_COMMANDS else ["analyse"]), *arguments])


def run(job: str, arguments: Sequence[str]) -> int:
    return main([job, *arguments])


if __name__ == "__main__":
    # spark-submit runs this file by its path: the packages are beside it, or in --py-files.
    root = Path(__file__).resolve().parents[1]
    if (root / "spark_jobs" / "__init__.py").exists():
        sys.path[0] = str(root)
    from spark_jobs.session import is_submitted

    if is_submitted():
        told = io.BufferedWriter(JavasErrors())
        sys.stderr = io.TextIOWrapper(told, "utf-8", "backslashreplace", line_buffering=True)
    sys.exit(main(sys.argv[1:]))
