"""`basestation compare` over workers, on traces and on tables: the same rows, times aside."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from basestation.comparing.catalogue import NAMES
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from basestation.traces.files import write_trace
from spark_jobs.engines import Cores
from spark_jobs.run import run

OPTIONS = WorldOptions(messages=200, motes=4, loss=0.1, seed=3)
SWEEP = ["--messages", "150", "--motes", "3", "--motes", "5", "--loss", "0", "--loss", "0.2", "--seeds", "2"]
ALONE = ["--no-spark", "--workers", "1"]


def trace_with(options=OPTIONS):
    return trace_of(generate(options), deployment_for(options, build_scheme(options, "kn"), "cbd", 100))


def of_lines(text):
    rows = [json.loads(line) for line in text.splitlines()]
    for row in rows:
        assert row.pop("microseconds").keys() == {"motes", "observer"}
    return rows


@pytest.fixture
def by_job(capsys):
    def rows(*arguments, code=0):
        capsys.readouterr()
        assert run("compare", ["--json", *map(str, arguments)]) == code
        return of_lines(capsys.readouterr().out)

    return rows


@pytest.mark.wide
def test_processes_give_what_one_gives(by_job):
    assert by_job(*SWEEP, "--workers", 2) == by_job(*SWEEP, *ALONE)


def test_a_scheme_that_sends_once_a_tick_has_a_world_of_its_own(by_job):
    asked = [
        "--messages",
        "200",
        "--reading",
        "sends=any",
        "--rate",
        "0.6",
        "--reading",
        "second-send=waits",
        *ALONE,
    ]
    names = ["delta-vector", "vector"]
    found = by_job(*asked, "--scheme", names[0], "--scheme", names[1])
    apart = [row for name in names for row in by_job(*asked, "--scheme", name)]
    assert found == apart
    assert found[0]["arrived"] != found[1]["arrived"] or found[0]["hold"] != found[1]["hold"]


@pytest.mark.wide
def test_spark_gives_the_same(tmp_path, by_job, spark):
    asked = [*SWEEP, "--scheme", "scalar", "--scheme", "shlc"]
    assert by_job(*asked, "--spark") == by_job(*asked, *ALONE)
    write_trace(trace_with(), tmp_path / "run")
    write_trace(replace(trace_with(), events=None), tmp_path / "mute")
    asked = [tmp_path / "run", tmp_path / "mute", *asked[-4:]]
    found = by_job(*asked, "--spark", code=1)
    assert found == by_job(*asked, *ALONE, code=1)
    assert len(found) == 2


def test_processes_give_results_in_order():
    assert list(Cores(2, processes=True).each(abs, range(-5, 0))) == [5, 4, 3, 2, 1]
    assert list(Cores(2, processes=True).each(abs, [])) == []


def test_the_tables_of_ingest_with_numbers_that_go_on(tmp_path, by_job):
    """A log may begin in the middle of a mote's life."""
    trace = trace_with()
    later = replace(trace, messages=counted_on(trace.messages), events=counted_on(trace.events))
    write_trace(trace, tmp_path / "run")
    write_trace(later, tmp_path / "later")
    assert run("ingest", [str(tmp_path / "run"), "--tables", str(tmp_path / "tables"), "--no-spark"]) == 0
    want = by_job(tmp_path / "run", *ALONE)
    assert by_job(tmp_path / "tables", *ALONE) == want
    assert by_job(tmp_path / "later", *ALONE) == want


def counted_on(table):
    place = table.schema.get_field_index("sequence")
    on = [
        number + 7 * mote
        for number, mote in zip(table["sequence"].to_pylist(), table["source"].to_pylist(), strict=True)
    ]
    return table.set_column(place, table.schema.field(place), pa.array(on, pa.int64()))


def test_what_it_leaves(tmp_path, capsys):
    asked = ["--messages", "100", "--motes", "3", "--motes", "4", *ALONE]
    assert run("compare", [*asked, "--out", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    assert "3 motes, epsilon 10, delta 10, rate 0.1, loss 0%: 100 messages sent" in told
    assert "bytes: of the stamp" in told
    found = pq.read_table(tmp_path / "out/compare.parquet").to_pylist()
    assert [(row["motes"], row["scheme"]) for row in found] == [(n, name) for n in (3, 4) for name in NAMES]
    assert found[0]["run"] is None
    assert {row["seeds"] for row in found} == {1}
    assert len((tmp_path / "out/compare.csv").read_text().splitlines()) == len(found) + 1
    page = (tmp_path / "out/report.html").read_text()
    assert page.count("<svg") == 1
    assert page.count("<table>") == 2


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--motes", "1"], "motes = 1: causality needs at least two motes"),
        (["--loss", "1.5"], "loss = 1.5"),
        (["run", "--motes", "4"], "--motes: the recorded run has its own"),
        (["run", "--reading", "delay-law=half"], "--reading: the recorded run has its own"),
    ],
)
def test_what_no_network_could_be_is_a_wrong_option(asked, words, capsys):
    assert run("compare", [*asked, *ALONE]) == 2
    assert words in capsys.readouterr().err
