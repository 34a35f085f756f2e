"""Whatever is wrong with what a job is given, it says so in a sentence, does the rest or nothing, and ends with 1."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from basestation.cli.analyse import JOBS
from basestation.journal.parquet_parts import make_parts
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from basestation.traces.files import write_trace
from spark_jobs.run import OWN_COMMANDS, run
from tests.journal.logs import simulated, write

ON_TRACES = {
    "continuum": ["--scheme", "dpc1", "--phi", "50", "--json"],
    "recommend": ["--scheme", "dpc1", "--phi", "50", "--tolerance", "100", "--json"],
    "compare": ["--scheme", "shlc", "--workers", "1", "--json"],
}
ON_TABLES = {"links": [], "clocks": []}
GOOD = "good"


# ---- What is whole, made once ----


def write_run(folder, seed):
    options = WorldOptions(messages=60, motes=3, seed=seed)
    trace = trace_of(generate(options), deployment_for(options, build_scheme(options, "kn"), "cbd", 100))
    write_trace(trace, folder)
    return trace.run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two traces, the tables made of them, and the logs of two runs with their parts; and the names of the traces."""
    place = tmp_path_factory.mktemp("whole")
    names = {name: write_run(place / "traces" / name, seed) for seed, name in enumerate((GOOD, "bad"))}
    assert run("ingest", [str(place / "traces"), "--tables", str(place / "tables"), "--no-spark"]) == 0
    trace, arrivals = simulated("kn", messages=200, seed=5)
    for name in (GOOD, "bad"):
        write(place / "logs" / name, arrivals, trace.deployment, name, segment_bytes=9_000)
        make_parts(place / "logs" / name, lambda fault: None)
    return place, names


@pytest.fixture
def told(capsys):
    """Run a job: its exit code, and what it said. It never answers with a stack trace."""

    def call(job, *arguments):
        capsys.readouterr()
        code = run(job, [*map(str, arguments)])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return call


# ---- What can be wrong with a file ----


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def nothing_in_it(path: Path) -> None:
    path.write_bytes(b"")


def foreign(path: Path) -> None:
    path.unlink()
    pq.write_table(pa.table({"a": [1]}), path)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_byte_changed(path: Path) -> None:
    """In the page of a column that every job reads."""
    group = pq.read_metadata(path).row_group(0)
    column = next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "heard")
    raw = bytearray(path.read_bytes())
    raw[column.data_page_offset + column.total_compressed_size - 1] ^= 0x55
    path.write_bytes(raw)


def another_run(path: Path) -> None:
    table = pq.read_table(path, partitioning=None)
    said = table.schema.metadata | {b"causeway.run": b"another"}
    pq.write_table(table.replace_schema_metadata(said), path)


def a_stranger(path: Path) -> None:
    change(path, "source", 7, 60_000)


def no_value(path: Path) -> None:
    change(path, "heard", 7, None)


def change(path: Path, name: str, row: int, value: object) -> None:
    table = pq.read_table(path, partitioning=None)
    place, said = table.schema.get_field_index(name), table.schema.metadata
    values = table[name].to_pylist()
    values[row] = value
    kind = pa.field(name, table.schema.field(place).type)
    changed = table.set_column(place, kind, pa.array(values, kind.type))
    pq.write_table(changed.replace_schema_metadata(said), path)


def a_column_twice(path: Path) -> None:
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.append_column("source", table["source"]), path)


def a_name_that_is_no_text(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"heard", b"hea\xffd"))


FILES = {
    a_name_that_is_no_text: "a column's name is no text",
    a_column_twice: "the column source is there twice|vector_most, source",
    cut_off: "cut off",
    nothing_in_it: "cut off",
    foreign: "foreign schema|not a table of Causeway|has not written this file",
    a_folder: "is a directory",
    a_byte_changed: "checksum",
    another_run: "mixed runs|of 2 runs",
    a_stranger: "mote 60000, but the deployment has 3 motes",
    no_value: "rows have no heard|heard",
}


def says(err: str, words: str) -> bool:
    return any(word in err for word in words.split("|"))


@pytest.mark.few(12)
@pytest.mark.parametrize("damage", FILES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("job", [*ON_TRACES, "ingest"])
def test_a_trace_that_is_not_sound(tmp_path, whole, told, job, damage):
    place, names = whole
    traces = tmp_path / "traces"
    shutil.copytree(place / "traces", traces)
    damage(traces / "bad" / ("events.parquet" if damage is another_run else "messages.parquet"))
    given = [traces / "bad", traces / GOOD, "--no-spark"]
    if job == "ingest":
        code, out, err = told(job, *given, "--tables", tmp_path / "tables")
        done = {path.stem for path in (tmp_path / "tables/manifest").iterdir()}
        if damage is a_stranger:  # a row alone: it is kept aside, with the reason
            assert (code, done) == (0, set(names.values()))
            (aside,) = pq.read_table(
                next((tmp_path / "tables/quarantine").rglob(f"run={names['bad']}"))
            ).to_pylist()
            assert "no mote of this deployment" in aside["reason"]
            return
        assert done == {names[GOOD]}
    else:
        code, out, err = told(job, *given, *ON_TRACES[job])
        assert {json.loads(line)["run"] for line in out.splitlines()} == {names[GOOD]}
    assert code == 1
    assert says(err, FILES[damage])
    assert "bad" in err


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "damage", [d for d in FILES if d is not no_value], ids=lambda damage: damage.__name__
)
@pytest.mark.parametrize("job", ON_TABLES)
def test_tables_that_are_not_sound(tmp_path, whole, told, job, damage):
    place, names = whole
    tables = tmp_path / "tables"
    shutil.copytree(place / "tables", tables)
    damage(next((tables / "frames").rglob(f"run={names['bad']}")) / "000000.parquet")
    code, out, err = told(job, tables, "--no-spark")
    if (job, damage) == ("clocks", a_stranger):  # nobody's times are in it
        assert code == 0
        return
    assert {json.loads(line)["run"] for line in out.splitlines()} == {names[GOOD]}
    assert code == 1
    assert says(err, FILES[damage])


def test_parts_that_are_not_sound(tmp_path, whole, told, spark):
    place, _ = whole
    logs = tmp_path / "logs"
    shutil.copytree(place / "logs", logs)
    parts = sorted((logs / "bad/messages").iterdir())
    assert len(parts) >= 2
    damages = [damage for damage in FILES if damage is not no_value]
    for number, damage in enumerate(damages):
        path = logs / f"bad/messages/{number + 100:06}.parquet"
        shutil.copy(parts[0], path)
        damage(path)
    code, out, err = told("watch", logs, "--out", tmp_path / "out", "--once")
    assert code == 1
    lines = {json.loads(line)["run"]: json.loads(line) for line in out.splitlines()}
    good = sum(pq.read_metadata(path).num_rows for path in (logs / f"{GOOD}/messages").iterdir())
    assert {run: line["received"] for run, line in lines.items()} == {GOOD: good, "bad": good}
    for number, damage in enumerate(damages):
        mine = [line for line in err.splitlines() if f"{number + 100:06}.parquet" in line]
        words = {another_run: "another run", a_folder: "not a file"}
        expected = words.get(damage, FILES[damage].replace("3 motes", "10 motes"))
        assert any(says(line, f"{expected}|cut off") for line in mine), damage.__name__


# ---- What is wrong with a place ----

PLACES = {
    "nowhere": "does not exist|there is no such f",
    "void": "is no trace|no tables in it|no journal, no trace|no part of a log in it",
    "file": "is a file|there is no such folder|neither a folder",
    "journal": "is no trace|no part of a log in it|no tables in it|none of its segments has a header",
}


@pytest.fixture
def places(tmp_path):
    (tmp_path / "void").mkdir()
    (tmp_path / "file").write_text("not a word of it\n")
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal/000000.cwj").write_bytes(bytes(range(256)) * 9)
    return tmp_path


def arguments_of(job, place, out):
    """As one would ask for the least of each job."""
    if job == "ingest":
        return [place, "--tables", out, "--no-spark"]
    if job == "watch":
        return [place, "--out", out, "--once"]
    if job == "changes":
        return [place, place, "--no-spark", "--out", out]
    return [place, "--no-spark", "--out", out, *ON_TRACES.get(job, [])]


@pytest.mark.parametrize("job", ["recommend", "continuum"])
def test_the_fault_of_a_log_names_the_next_step(places, told, job):
    """A run's log, a folder of logs, and a folder with a trace in it."""
    (places / "run/trace").mkdir(parents=True)
    (places / "run/trace/messages.parquet").touch()
    made = "`basestation analyse ingest {} --tables tables`"
    for place, words in [
        (places / "journal", made.format(places / "journal")),
        (places, made.format(places)),
        (places / "run", f"but {places / 'run/trace'} is one"),
    ]:
        _, _, err = told(job, *arguments_of(job, place, places / "out"))
        assert says(err, words), err
    _, _, err = told(job, *arguments_of(job, places / "void", places / "out"))
    assert not says(err, "ingest")


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("job", [*JOBS, "compare"])
def test_a_place_that_holds_nothing_to_analyse(places, told, job, kind):
    code, _, err = told(job, *arguments_of(job, places / kind, places / "out"))
    assert code == 1
    assert says(err, PLACES[kind])
    assert str(places / kind) in err


@pytest.mark.parametrize("job", [*JOBS, *OWN_COMMANDS])
def test_results_that_can_not_be_written(places, whole, told, job):
    """The fault is reported before the work, which may take hours, and not after it."""
    place, _ = whole
    given = place / {"links": "tables", "clocks": "tables", "watch": "logs"}.get(job, f"traces/{GOOD}")
    code, out, err = told(job, *arguments_of(job, given, places / "file"))
    assert (code, out) == (1, "")
    assert "nothing can be written there" in err
    assert str(places / "file") in err


@pytest.mark.parametrize(
    "asked",
    [
        ["links", "tables", "--window", "0"],
        ["links", "tables", "--window", "inf"],
        ["clocks", "tables", "--moment", "nan"],
        ["watch", "logs", "--out", "o", "--every", "-1"],
        ["continuum", "run", "--counter-bits", "99"],
        ["continuum", "run", "--phi", "101"],
        ["recommend", "run", "--tolerance", "nan"],
        ["compare", "--motes", "1"],
        ["compare", "--give-up", "soon"],
        ["ingest", "logs"],
    ],
    ids=" ".join,
)
def test_a_wrong_option_ends_with_2(asked, capsys):
    job, *rest = asked
    assert run(job, rest) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    "entry", ["{", "[]", '{"inputs": [], "counts": {}}', '{"inputs": [{}], "counts": {}}'], ids=str
)
@pytest.mark.parametrize("job", [*ON_TABLES, *ON_TRACES])
def test_a_damaged_manifest_is_named(tmp_path, told, job, entry):
    (tmp_path / "manifest").mkdir()
    (tmp_path / "manifest/run.json").write_text(entry)
    code, out, err = told(job, tmp_path, "--no-spark", *ON_TRACES.get(job, []))
    assert (code, out) == (1, "")
    assert "no entry of ingest's" in err
