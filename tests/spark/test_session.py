"""Starting: Java is looked for first, and every fault is one line."""

import stat

import pytest

from spark_jobs import run, session


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


def test_spark_is_for_those_who_ask_or_have_much_to_do(monkeypatch):
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    parser = run.parser_for("links")

    def wanted(*options, large=False):
        return session.is_wanted(parser.parse_args(["tables", *options]), large)

    assert [wanted(), wanted("--spark"), wanted("--master", "local[2]"), wanted(large=True)] == [
        False,
        True,
        True,
        True,
    ]
    assert not wanted("--no-spark", "--master", "local[2]", large=True)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # as spark-submit does
    assert wanted()
    assert not wanted("--no-spark")


def test_a_fault_is_one_line(monkeypatch, capsys):
    class Broken:
        @staticmethod
        def configure(parser):
            parser.add_argument("--deep", action="store_true")

        @staticmethod
        def main(arguments):
            assert arguments.job == "broken"
            raise session.JobError("the folder is empty")

    monkeypatch.setattr(run, "JOBS", {"broken": ("nowhere", "breaks")})
    monkeypatch.setattr(run, "import_module", lambda name: Broken)
    assert run.main(["broken", "--deep"]) == 1
    assert capsys.readouterr().err == "broken: the folder is empty\n"
    with pytest.raises(SystemExit) as refused:
        run.main(["unknown"])
    assert refused.value.code == 2


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
