"""Starting: Java is looked for first, and every fault is one line."""

import os
import stat
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from basestation.cli import main
from spark_jobs import run, session
from spark_jobs.engines import EngineOptions, Spark, chosen
from spark_jobs.tables import stored


def fake_java(folder, version):
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return java


def test_without_java_it_says_so(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(session.JobError, match="Java 17 or later, and there is none on PATH"):
        session.check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(session.JobError, match="none in JAVA_HOME"):
        session.check_java()


@pytest.mark.parametrize(("told", "version"), [("1.8.0_292", 8), ("11.0.2", 11), ("17.0.15", 17), ("21", 21)])
def test_an_old_java_is_refused(monkeypatch, tmp_path, told, version):
    java = fake_java(tmp_path, told)
    assert session.java_version(str(java)) == version
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if version < 17:
        with pytest.raises(session.JobError, match=f"is Java {version}"):
            session.check_java()
    else:
        session.check_java()


def test_settings_of_spark():
    assert session.settings_of(["spark.a=b=c"]) == {"spark.a": "b=c"}
    with pytest.raises(session.JobError, match="executor"):
        session.settings_of(["memory=4g"])


def test_a_master_that_is_none_is_refused_in_one_line(tmp_path):
    words = ["simulate", "--messages", "20", "--scheme", "shlc", "--trace", str(tmp_path / "run")]
    assert main(words) == 0
    job = [sys.executable, "-m", "basestation", "analyse", "continuum", str(tmp_path / "run"), "--spark"]
    done = subprocess.run([*job, "--master", "x"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert said.startswith("Error: --master x: should be local[N], spark://HOST:PORT"), said


def test_spark_is_for_those_who_ask_or_have_much_to_do(monkeypatch, capsys):
    class Started:
        version = "0"

        class sparkContext:
            defaultParallelism = 7
            getLocalProperty = staticmethod(lambda key: None)
            setLocalProperty = staticmethod(lambda key, value: None)

    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(session, "started", lambda *asked: nullcontext(Started))

    def wanted(large=False, **options):
        with chosen("job", EngineOptions(**options), large=large) as engine:
            said = capsys.readouterr().err
            assert said.startswith(
                "job: on Spark 0, 7 tasks" if isinstance(engine, Spark) else "job: without"
            )
            return isinstance(engine, Spark)

    assert not wanted()
    assert wanted(spark=True)
    assert wanted(master="local[2]")
    assert wanted(large=True)
    assert not wanted(spark=False, master="local[2]", large=True)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # as spark-submit does
    assert wanted()
    assert not wanted(spark=False)


class Py4JJavaError(Exception):
    __module__ = "py4j.protocol"
    java_exception = "org.apache.Broken: no more memory\n\tat org.apache"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (session.JobError("the folder is empty"), "Error: the folder is empty\n"),
        (OSError(13, "Permission denied", "f"), "Error: f: Permission denied\n"),
        ("\udcff".encode, "Error: '\\udcff': a name that is not UTF-8\n"),
        (Py4JJavaError(), "Error: Spark says: org.apache.Broken: no more memory\n"),
        (ZeroDivisionError(), None),
    ],
    ids=["job", "file", "name", "Spark", "bug"],
)
def test_a_fault_is_one_line(monkeypatch, capsys, fault, told):
    def broken(*given, **options):
        if callable(fault):
            fault()
        raise fault

    monkeypatch.setattr(stored, "select_runs", broken)
    if told is None:
        with pytest.raises(ZeroDivisionError):
            run.main(["links", "tables"])
        return
    assert run.main(["links", "tables"]) == 1
    assert capsys.readouterr().err == told


def test_an_unknown_job_is_wrong_usage(capsys):
    assert run.main(["unknown"]) == 2
    assert "No such command 'unknown'" in capsys.readouterr().err


@pytest.mark.wide
def test_notes_go_to_standard_error_under_spark_submit(require_tool, root, tmp_path):
    """It prints all that Python says to its own standard output."""
    require_tool("java")
    pyspark = pytest.importorskip("pyspark")
    told = subprocess.run(
        [
            Path(pyspark.__file__).parent / "bin/spark-submit",
            root / "spark_jobs/run.py",
            "links",
            tmp_path / "no",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
    )
    assert told.returncode == 1
    assert told.stdout == ""
    assert f"Error: {tmp_path / 'no'}: there is no such folder\n" in told.stderr


def square(batches):
    import pyarrow as pa

    from spark_jobs import session as there

    for batch in batches:
        squares = [number**2 for number in batch["id"].to_pylist()]
        yield pa.RecordBatch.from_pydict({"square": squares, "where": [there.__name__] * len(squares)})


def test_workers_find_our_packages(spark):
    rows = spark.range(0, 4, 1, 2).mapInArrow(square, "square long, where string").collect()
    assert sorted(row.square for row in rows) == [0, 1, 4, 9]
    assert {row["where"] for row in rows} == {"spark_jobs.session"}
