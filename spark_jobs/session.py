"""The Spark session of every job. Java is checked first, and each fault is one line.

Under `spark-submit` its options decide. Otherwise the session is made here, on all cores of this machine unless a
master is named.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from basestation.analysis.errors import JobError as JobError
from packet_formats.phrases import visible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.storage import Place

ROOT = Path(__file__).resolve().parents[1]
QUIET = Path(__file__).with_name("log4j2.properties")
OLDEST_JAVA = 17
MASTERS = ("local", "spark://", "k8s://", "yarn", "sc://")
LONGEST = 400  # of an error message


def one_line(error: Exception) -> str:
    """A library's error message on one line; only the first sentence of a long message."""
    text = " ".join(str(error).split())
    return text if len(text) <= LONGEST else text.partition(". ")[0][:LONGEST]


def prepare(out: Place, option: str = "--out") -> None:
    """Make the folder of results. Check before the work that files can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".probe-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        why = error.strerror or one_line(error)
        raise JobError(f"{option} {out}: nothing can be written there: {why}") from None


def note(text: str) -> None:
    """Print a line for the user on standard error; it is never part of a result."""
    print(visible(text), file=sys.stderr, flush=True)


def is_submitted() -> bool:
    """Whether `spark-submit` has started Java already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextmanager
def started(
    name: str, master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Open a session for one job. An existing one is used, and left running."""
    from pyspark.sql import SparkSession

    before = SparkSession.getActiveSession()
    if before is not None:
        yield before
        return
    spark = start(name, master, settings)
    try:
        yield spark
    finally:
        spark.stop()


def settings_of(given: list[str]) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in given]
    for key, equals, _ in pairs:
        if not equals or not key.startswith("spark."):
            raise JobError(f"--conf {key}: a setting of Spark's looks like spark.executor.memory=4g")
    return {key: value for key, _, value in pairs}


def start(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Make a session; `JobError` if Java or the master is missing, where Spark would show a stack."""
    if master is not None and not master.startswith(MASTERS):
        raise JobError(
            f"--master {master}: should be local[N], spark://HOST:PORT, k8s://..., yarn or sc://HOST"
        )
    submitted, remote = is_submitted(), master if (master or "").startswith("sc://") else None
    if not submitted and not remote and "SPARK_REMOTE" not in os.environ:
        check_java()
    from pyspark.sql import SparkSession

    builder, chosen = SparkSession.builder.appName(name), {}
    if remote:
        builder = builder.remote(remote)
    elif "SPARK_REMOTE" not in os.environ:  # a server that runs takes no such settings
        chosen = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
        chosen |= {} if submitted else _alone(master)
    for key, value in (chosen | dict(settings or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _alone(master: str | None) -> dict[str, str]:
    """The settings that `spark-submit` would pass. Nothing listens beyond this machine unless asked to."""
    settings = {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={QUIET.as_uri()}"}
    if master is not None:
        settings["spark.master"] = master
    if master is None or master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings |= {"spark.ui.enabled": "false", "spark.executorEnv.PYTHONPATH": str(ROOT)}
    return settings


def check_java() -> None:
    """Refuse a missing or old Java in one line; Spark's own message is a page."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on PATH, and JAVA_HOME is not set"
        raise JobError(
            f"Spark runs on Java {OLDEST_JAVA} or later, and there is none {where}. "
            "On Debian: apt-get install openjdk-17-jre-headless"
        )
    version = java_version(found)
    if version is not None and version < OLDEST_JAVA:
        raise JobError(f"Spark runs on Java {OLDEST_JAVA} or later; {found} is Java {version}")


def java_version(java: str) -> int | None:
    """The major version of Java; None if unknown."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JobError(f"{java} can't be run: {error}") from None
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(match[1]) if match else None
