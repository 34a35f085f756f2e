"""Jobs on other file systems: the same results, wherever tables and traces are."""

import shutil
from pathlib import Path

import pytest

from spark_jobs.run import run
from spark_jobs.storage import place, write_whole
from tests.bench import big_journal
from tests.spark.test_package import files


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A log, its tables, and what the jobs make of them on this machine."""
    folder = tmp_path_factory.mktemp("local")
    big_journal.write_big_journal(folder / "logs/run", 9_000, segment_bytes=1 << 18)
    assert run("ingest", [str(folder / "logs"), "--tables", str(folder / "tables"), "--no-spark"]) == 0
    jobs(folder)
    return folder


def jobs(at):
    """What reads tables, and writes results, at a path or a URI."""
    for job, *more in (
        ("continuum", "--phi", "50"),
        ("recommend", "--tolerance", "99"),
        ("links",),
        ("clocks",),
    ):
        assert run(job, [f"{at}/tables", "--out", f"{at}/{job}", *more, "--no-spark"]) == 0


@pytest.fixture(params=["file", "s3"])
def elsewhere(request, tmp_path, local, s3):
    """Another place that holds the same tables, as its user names it."""
    if request.param == "file":
        shutil.copytree(local / "tables", tmp_path / "tables")
        return tmp_path.as_uri()
    for name, content in files(local / "tables", ".parquet", ".json").items():
        write_whole(place(f"{s3}/all/tables/{name}"), content)
    return f"{s3.replace('s3://', 's3a://')}/all"


def content(at, name):
    folder = place(f"{at}/{name}")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_results_are_those_of_this_machine(local, elsewhere):
    jobs(elsewhere)
    for job in ("continuum", "recommend", "links", "clocks"):
        found, wanted = content(elsewhere, job), content(local, job)
        assert found.keys() == wanted.keys()
        for name in wanted:
            if not name.endswith(".html"):  # it names the folder
                assert found[name] == wanted[name], name


def test_an_unknown_kind_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("continuum", ["ftp://host/tables"]) == 2
    assert "ftp:// is not a file system that we know" in " ".join(capsys.readouterr().err.split())
    assert run("links", ["s3://nobody/tables", "--no-spark"]) == 1
    assert "s3://nobody/tables" in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_what_must_be_mounted_is_told(capsys):
    assert run("watch", ["s3://bucket/logs", "--out", "health"]) == 2
    assert "must be a folder of this machine" in " ".join(capsys.readouterr().err.split())
