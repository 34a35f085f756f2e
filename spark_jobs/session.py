"""The Spark session of every job. Java is checked first, and messages are for people.

Under `spark-submit` its options decide. Otherwise the session is made here, on all cores of this machine unless a
master is named.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
QUIET = Path(__file__).with_name("log4j2.properties")
OLDEST_JAVA = 17
LEAST_S, MOST_S = 0.001, 1e9


class JobError(Exception):
    """A job that can't be done. The message says what is wrong and what to do; `run` prints it as one line."""


class WrongOption(JobError):
    """An option, or a combination of options, that can't be used."""


def one_line(error: Exception) -> str:
    """A library's error message on one line."""
    return " ".join(str(error).split())


def prepare(out: Path, option: str = "--out") -> None:
    """Make the folder of results, and check before the work that files can be written to it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise JobError(f"{option} {out}: nothing can be written there: {error.strerror or error}") from None


def seconds(text: str) -> float:
    """Read an option that is a length of time."""
    number = float(text)
    if not LEAST_S <= number <= MOST_S:
        raise argparse.ArgumentTypeError(f"seconds, from {LEAST_S} to {MOST_S:.0e}")
    return number


def note(text: str) -> None:
    """Tell the user something on standard error; it is never part of a result."""
    if is_submitted():  # spark-submit joins the driver's standard error with its output; Java's own is apart
        from pyspark import SparkContext

        SparkContext._ensure_initialized()
        java: Any = SparkContext._jvm
        java.System.err.println(text)
    else:
        print(text, file=sys.stderr, flush=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the Spark options of a job that is not started by `spark-submit`."""
    group = parser.add_argument_group("Spark")
    group.add_argument("--master", help="Spark master (local[*]); spark-submit's own --master comes first")
    group.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a Spark setting; may be repeated",
    )


def add_choice(parser: argparse.ArgumentParser, otherwise: str) -> None:
    """Add the choice whether to use Spark, and its options. `otherwise` says how the job runs without it."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--spark", action="store_const", const=True, help="use Spark in any case")
    how.add_argument(
        "--no-spark",
        action="store_const",
        const=False,
        dest="spark",
        help=f"{otherwise}, without Spark; the default if there is little to do",
    )
    add_options(parser)


def is_wanted(arguments: argparse.Namespace, large: bool) -> bool:
    """Whether to use Spark: if asked for, if a master is named, or if there is much to do. It takes long to start."""
    if arguments.spark is not None:
        return bool(arguments.spark)
    return large or arguments.master is not None or is_submitted()


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


@contextmanager
def of(arguments: argparse.Namespace) -> Iterator[SparkSession]:
    """Open a session according to the options of `add_options`."""
    with started(f"causeway {arguments.job}", arguments.master, settings_of(arguments.conf)) as spark:
        yield spark


def settings_of(given: list[str]) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in given]
    for key, equals, _ in pairs:
        if not equals or not key.startswith("spark."):
            raise JobError(f"--conf {key}: a setting of Spark's looks like spark.executor.memory=4g")
    return {key: value for key, _, value in pairs}


def start(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Make a session; `JobError` if there is no Java to run it."""
    submitted, remote = is_submitted(), master if (master or "").startswith("sc://") else None
    if not submitted and not remote and "SPARK_REMOTE" not in os.environ:
        check_java()
    from pyspark.sql import SparkSession

    builder, chosen = SparkSession.builder.appName(name), {}
    if remote:
        builder = builder.remote(remote)
    elif "SPARK_REMOTE" not in os.environ:  # to a server these settings could not be told any more
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
