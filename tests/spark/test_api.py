"""The functions that analysts call: DataFrames in and out, equal to what the commands make."""

import json
import re
from dataclasses import fields
from textwrap import dedent

import pyarrow.parquet as pq
import pytest

import spark_jobs
from basestation.analysis.advice import Advice
from basestation.cli import main as basestation
from basestation.comparing.catalogue import Terms
from spark_jobs.journals.source import register
from spark_jobs.session import JobError

CHOICE = spark_jobs.Choice(schemes=["shlc"], policies=["none", "cbd"], phis=[40, 100])
CHOSEN = ["--scheme", "shlc", "--policy", "none", "--policy", "cbd", "--phi", "40", "--phi", "100"]


def command(*words):
    assert basestation([*map(str, words)]) == 0


@pytest.fixture(scope="module")
def place(root, tmp_path_factory):
    """A log of ten simulated motes with barrier stamps, and the tables that `ingest` makes of it."""
    folder = tmp_path_factory.mktemp("api")
    line = "simulate@?messages=400&rate=0.0156&loss=0.05&pace=0"
    deployment = root / "examples" / "barrier.toml"
    command("listen", line, "-d", deployment, "--log", folder / "logs", "--view", "none")
    command("analyse", "ingest", folder / "logs", "--tables", folder / "tables", "--no-spark")
    return folder


@pytest.fixture(scope="module")
def measured(spark, place):
    """The continuum of these tables."""
    return spark_jobs.continuum(spark, str(place / "tables"), CHOICE)


def rows_of(frame):
    return sorted(map(str, frame.toArrow().to_pylist()))


def test_a_log_is_read_as_records_frames_and_messages(spark, place):
    logs, tables = str(place / "logs"), str(place / "tables")
    register(spark)
    records = spark_jobs.read_journals(spark, logs)
    assert records.count() > 1000
    assert rows_of(records) == rows_of(spark.read.format("causeway").load(logs).select(records.columns))
    assert rows_of(spark_jobs.frames(spark, logs)) == rows_of(spark_jobs.frames(spark, tables))
    of_log, of_tables = spark_jobs.messages(spark, logs), spark_jobs.messages(spark, tables)
    assert rows_of(of_log) == rows_of(of_tables.select(of_log.columns))


@pytest.mark.wide
def test_links_and_clocks_are_those_of_the_commands(spark, place, capsys):
    tables = str(place / "tables")
    frames, runs = spark_jobs.frames(spark, tables), spark_jobs.runs(spark, tables)
    command("analyse", "links", tables, "--out", place / "report", "--no-spark")
    found = spark_jobs.links(frames)
    for name in ("motes", "links"):
        wanted = pq.read_table(place / "report" / f"{name}.parquet").to_pylist()
        assert rows_of(getattr(found, name)) == sorted(map(str, wanted))
    capsys.readouterr()
    command("analyse", "clocks", tables, "--no-spark", "--json")
    told = json.loads(capsys.readouterr().out)
    (row,) = spark_jobs.clocks(frames, spark_jobs.messages(spark, tables), runs).collect()
    (stamped,) = (bound for bound in row.clocks if bound.bound == "stamped")
    assert stamped.measured == told["stamped"]["measured"] > 300
    assert stamped.covers_100 == told["stamped"]["covers_100"]


def test_a_recommendation_follows_from_a_continuum(spark, place, measured, capsys):
    tables = str(place / "tables")
    capsys.readouterr()
    command("analyse", "continuum", tables, *CHOSEN, "--json", "--no-spark")
    wanted = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows_of(measured) == sorted(map(str, wanted))
    advice = spark_jobs.recommend(measured, spark_jobs.runs(spark, tables), tolerance=100).collect()
    command("analyse", "recommend", tables, *CHOSEN, "--tolerance", "100", "--json", "--no-spark")
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row.asDict() for row in advice] == told
    assert advice[0].chosen


def test_nothing_good_enough_is_an_empty_table(spark, place, measured):
    found = measured.where("policy = 'none'")
    advice = spark_jobs.recommend(found, spark_jobs.runs(spark, str(place / "tables")))
    assert advice.count() == 0
    assert set(advice.columns) == {field.name for field in fields(Advice)}


@pytest.mark.parametrize("tolerance", [500, -1, float("nan")])
def test_a_tolerance_is_refused_in_the_command_s_words(tolerance, capsys):
    with pytest.raises(JobError) as refused:
        spark_jobs.recommend(None, None, tolerance=tolerance)
    assert f"{float(tolerance)} is not in the range 0<=x<=100." in str(refused.value)
    if tolerance == 500:
        assert basestation(["analyse", "recommend", "tables", "--tolerance", "500"]) == 2
        assert "500.0 is not in the range 0<=x<=100." in " ".join(capsys.readouterr().err.split())


def test_a_run_without_a_deployment_is_named(spark, place, measured):
    with pytest.raises(JobError, match="`runs` does not have 2"):
        spark_jobs.recommend(measured, spark_jobs.runs(spark, str(place / "tables")).limit(0))
    frames, messages = (
        read(spark, str(place / "tables")) for read in (spark_jobs.frames, spark_jobs.messages)
    )
    with pytest.raises(JobError, match="`runs` does not have 2"):
        spark_jobs.clocks(frames, messages, spark_jobs.runs(spark, str(place / "tables")).limit(0))


def test_schemes_are_compared_on_a_table(spark, place):
    rows = spark_jobs.compare(spark, str(place / "tables"), ["none", "barrier"]).collect()
    assert [row.scheme for row in rows] == ["none", "barrier"]
    assert rows[1].pairs == 0 < rows[0].pairs


def test_ingest_and_watch_say_what_they_could_not_read(spark, place, tmp_path):
    done = spark_jobs.ingest(spark, [str(place / "logs")], tmp_path / "again")
    assert done["refused"] == {}
    assert done["messages"] == spark_jobs.messages(spark, tmp_path / "again").count()
    assert spark_jobs.watch(spark, place / "logs", tmp_path / "health") == {}
    assert any((tmp_path / "health" / "health").iterdir())


def test_tables_and_logs_are_not_mixed(spark, place):
    with pytest.raises(JobError, match="name one kind at a time"):
        spark_jobs.frames(spark, [place / "logs", place / "tables"])


@pytest.mark.wide
def test_the_manual_goes_from_logs_to_an_answer_as_printed(
    root, spark, place, tmp_path, monkeypatch, require_module, capsys
):
    monkeypatch.chdir(tmp_path)  # Spark stays where it was started
    (tmp_path / "logs").symlink_to(place / "logs")
    page = (root / "docs" / "guide" / "analysis.md").read_text()
    section = page.split("## From Python\n")[1].split("\n## ")[0]
    found = {name: require_module(name) for name in ("duckdb", "pandas", "polars")}
    answer, source, others = re.findall(r"(?:^    .+\n|^\n(?=    ))+", section, re.MULTILINE)
    exec(dedent(answer), found)
    assert "|  true|" in capsys.readouterr().out  # a chosen row
    exec(dedent(source).replace('"logs"', f'"{place}/logs"'), found)
    assert found["records"].count() > 1000
    assert found["growing"].isStreaming
    counts = [eval(line.strip(), found) for line in others.splitlines() if line]
    messages = spark_jobs.messages(spark, "tables").count()
    assert sum(row[-1] for row in counts[0].fetchall()) == messages
    assert len(counts[1]) == len(counts[2].collect()) == messages


def test_there_is_nothing_else_in_the_package(spark):
    with pytest.raises(AttributeError, match="spark_jobs has no nonsense"):
        _ = spark_jobs.nonsense


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_length_of_time_that_is_none_is_refused(seconds):
    with pytest.raises(JobError, match="window_s is"):
        spark_jobs.links(None, seconds)
    with pytest.raises(JobError, match="moment_s is"):
        spark_jobs.clocks(None, None, None, seconds)
    with pytest.raises(JobError, match="window_s is"):
        spark_jobs.watch(None, "logs", "out", window_s=seconds)


def refused(call):
    """The message of the one error that a caller has to know."""
    with pytest.raises(spark_jobs.JobError) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize(
    ("setting", "values", "said"),
    [
        ("policies", ["dwap"], "policies: 'dwap' is not one of none, causal, dapw, cbd, own"),
        ("phis", [40, 140], "phis: 140 is not a whole number from 0 to 100"),
        ("phis", [-50], "phis: -50 is not"),
        ("phis", [50.5], "phis: 50.5 is not"),
        ("phis", 50, "phis is 50: give a list of values"),
        ("schemes", ["foo"], "schemes: 'foo' is not one of dpc1,"),
        ("schemes", "shlc", "schemes is 'shlc': give a list of values"),
        ("entries", [0], "entries: 0 is not a whole number from 1, or all"),
        ("entries", ["some"], "entries: 'some' is not"),
        ("packings", ["bit"], "packings: 'bit' is not one of bits, bytes"),
        ("counts", ["receives"], "counts: 'receives' is not one of events, sends"),
        ("counter_bits", [17], "counter_bits: 17 is not a whole number from 1 to 16"),
        ("tolerates", [float("nan")], "tolerates: nan is not a number from 0 to 100"),
    ],
)
def test_a_choice_of_what_there_is_not_is_refused(setting, values, said):
    assert refused(lambda: spark_jobs.Choice(**{setting: values})).startswith(said)


def test_what_is_asked_wrongly_is_one_kind_of_error(spark, place, measured, capsys):
    tables, trace = str(place / "tables"), str(place / "trace")
    runs = spark_jobs.runs(spark, tables)
    assert "figure: 'men' is not one of mean," in refused(
        lambda: spark_jobs.recommend(measured, runs, figure="men")
    )
    assert "`continuum` has no column scheme" in refused(lambda: spark_jobs.recommend(runs, runs))
    assert "`runs` has no column deployment" in refused(lambda: spark_jobs.recommend(measured, measured))
    assert "`frames` has no column fate" in refused(lambda: spark_jobs.links(runs))
    assert "schemes: 'foo' is not one of none," in refused(
        lambda: spark_jobs.compare(spark, tables, schemes=["foo"])
    )
    assert "name one at least" in refused(lambda: spark_jobs.compare(spark, tables, schemes=[]))
    for terms in (Terms(policy="dwap"), Terms(phi=140)):
        assert str(terms.policy if terms.phi == 100 else terms.phi) in refused(
            lambda terms=terms: spark_jobs.compare(spark, tables, ["shlc"], terms)
        )
    assert "no path is given" in refused(lambda: spark_jobs.compare(spark, []))
    command("simulate", "--scheme", "kn", "--messages", 200, "--trace", trace)
    capsys.readouterr()
    assert "a trace, not a log: `ingest` puts it into tables" in refused(
        lambda: spark_jobs.messages(spark, trace)
    )
    assert "there is no log" in refused(lambda: spark_jobs.read_journals(spark, trace))
    nowhere = str(place / "nope")
    assert refused(lambda: spark_jobs.continuum(spark, nowhere)) == f"{nowhere} does not exist"
    assert f"{nowhere} does not exist" in refused(
        lambda: spark_jobs.continuum(spark, [tables, nowhere], CHOICE)
    )


def test_each_docstring_names_the_columns(spark, place, measured):
    """Each docstring names the columns, and says whether the function is eager."""
    tables = str(place / "tables")
    frames, messages, runs = (
        read(spark, tables) for read in (spark_jobs.frames, spark_jobs.messages, spark_jobs.runs)
    )
    made = [
        (spark_jobs.read_journals, spark_jobs.read_journals(spark, str(place / "logs"))),
        (spark_jobs.frames, frames),
        (spark_jobs.messages, messages),
        (spark_jobs.runs, runs),
        *((spark_jobs.links, table) for table in spark_jobs.links(frames)),
        (spark_jobs.clocks, spark_jobs.clocks(frames, messages, runs)),
        (spark_jobs.continuum, measured),
        (spark_jobs.recommend, spark_jobs.recommend(measured, runs)),
        (spark_jobs.compare, spark_jobs.compare(spark, tables, ["none"])),
    ]
    for function, frame in made:
        words = set(re.findall(r"\w+", function.__doc__))
        assert set(frame.columns) <= words, function.__name__
    for name in spark_jobs.__all__:
        function = getattr(spark_jobs, name)
        if not isinstance(function, type):
            assert re.search("eager|lazy", function.__doc__, re.IGNORECASE), name
