"""Jobs on other file systems: the same results, wherever tables and traces are."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from basestation.traces.files import write_trace
from spark_jobs.run import run
from spark_jobs.storage import place, write_whole
from tests.bench import big_journal
from tests.journal.logs import simulated
from tests.spark.test_package import files

JOBS = {
    "ingest": (),
    "recommend": (
        "--scheme",
        "kn",
        "--policy",
        "cbd",
        "--phi",
        "50",
        "--tolerance",
        "99",
    ),  # and the continuum
    "links": (),
    "clocks": (),
}


def work(at):
    """From the log to results, at a path or a URI."""
    for job, more in JOBS.items():
        where = [f"{at}/logs", "--tables", f"{at}/tables"] if job == "ingest" else [f"{at}/tables"]
        out = [] if job == "ingest" else ["--out", f"{at}/{job}"]
        assert run(job, [*where, *out, *more, "--no-spark"]) == 0


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A log, its tables, and what the jobs make of them on this machine."""
    folder = tmp_path_factory.mktemp("local")
    play = big_journal.play_of(replace(big_journal.WORLD, messages=1_000))
    big_journal.write_big_journal(folder / "logs/run", 3_000, play, segment_bytes=1 << 16)
    work(folder)
    return folder


@pytest.fixture(params=[pytest.param("file", marks=pytest.mark.wide), "s3"])
def elsewhere(request, tmp_path, local, s3):
    """Another place that holds the same log, as its user names it."""
    root = place({"file": tmp_path.as_uri(), "s3": f"{s3}/all"}[request.param])
    for name, content in files(local / "logs", ".cwj").items():
        write_whole(root / "logs" / name, content)
    return {"file": tmp_path.as_uri(), "s3": f"{s3.replace('s3://', 's3a://')}/all"}[request.param]


def content(at):
    root = place(str(at))
    found = [path for suffix in ("parquet", "csv") for path in root.rglob(f"*.{suffix}")]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


@pytest.mark.wide
def test_results_are_those_of_this_machine(local, elsewhere, capsys):
    work(elsewhere)
    found, wanted = content(elsewhere), content(local)
    assert found.keys() == wanted.keys()
    assert {name.partition("/")[0] for name in wanted} == {"tables", *JOBS} - {"ingest"}
    for name in wanted:
        assert found[name] == wanted[name], name
    capsys.readouterr()
    assert run("ingest", [f"{elsewhere}/logs", "--tables", f"{elsewhere}/tables"]) == 0
    assert json.loads(capsys.readouterr().out)["unchanged"] == 1


def test_a_trace_with_events_is_stamped_again(tmp_path, s3, capsys):
    trace, _ = simulated("kn", messages=300)
    write_trace(trace, tmp_path / "run")
    for name, content in files(tmp_path / "run", ".parquet").items():
        write_whole(place(f"{s3}/trace/{name}"), content)
    said = []
    for where in (tmp_path / "run", f"{s3}/trace"):
        assert run("continuum", [str(where), "--scheme", "shlc", "--phi", "50", "--json", "--no-spark"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert '"restamped"' in said[0]


def test_an_unknown_kind_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("continuum", ["ftp://host/tables"]) == 2
    assert "ftp:// is not a known file system" in " ".join(capsys.readouterr().err.split())
    assert run("links", ["s3://nobody/tables", "--no-spark"]) == 1
    assert "s3://nobody/tables" in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_a_remote_folder_that_must_be_mounted_is_refused(capsys):
    assert run("watch", ["s3://bucket/logs", "--out", "health"]) == 2
    assert "must be a folder of this machine" in " ".join(capsys.readouterr().err.split())
