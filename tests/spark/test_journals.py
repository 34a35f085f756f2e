"""Journals as rows: runs, records, frames and messages from the segment files, and Spark's data source `causeway`."""

import json
import random

import pyarrow as pa
import pytest

from basestation.arrivals import Gap
from basestation.journal.reader import read_journal, read_segment
from basestation.journal.record_format import scan
from basestation.journal.writer import JournalWriter
from spark_jobs.engines import Cores, Spark
from spark_jobs.journals import journal_tables as rows
from spark_jobs.journals.segment_files import RECORDS, intact
from spark_jobs.session import JobError
from tests.journal.logs import VALUES, simulated, write, write_everything
from tests.journal.logs import records as all_records
from tests.spark.servers import PATIENCE_S


@pytest.fixture(scope="module")
def logged():
    return simulated("kn", VALUES, messages=300, seed=8)


@pytest.fixture(scope="module")
def logs(logged, tmp_path_factory):
    trace, arrivals = logged
    place = tmp_path_factory.mktemp("logs")
    write_everything(place / "hill", trace, arrivals, segment_bytes=9_000)
    write(place / "more/dale", arrivals[:100], trace.deployment, "d", site="dale", segment_bytes=2_000)
    return place


def plain(folder):
    """What a table of a journal's records holds, as its reader gives them."""
    return [(r.number, r.gateway, r.mono_ns, r.wall_ns, r.payload) for r in all_records(folder)]


def rows_of(table, run):
    columns = ("number", "line", "mono_ns", "wall_ns", "payload")
    table = table.filter(pa.compute.equal(table["run"], run)).sort_by("number")
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def test_records_are_those_of_the_journals(logs, logged):
    found = rows.records(Cores(2), [logs])
    assert found.schema == RECORDS
    assert rows_of(found, logged[0].run) == plain(logs / "hill")
    assert rows_of(found, "d") == plain(logs / "more/dale")
    assert set(found["site"].to_pylist()) == {"hill", "dale"}
    kinds = set(found["kind"].to_pylist())
    assert kinds == {"frame", "gap", "decision", "counters", "note", "policy"}
    with pytest.raises(JobError, match="there is no such folder"):
        rows.records(Cores(1), [logs / "nowhere"])


def test_runs_say_what_and_when(logs, logged):
    trace, _ = logged
    found = {row["run"]: row for row in rows.runs([logs]).to_pylist()}
    assert set(found) == {trace.run, "d"}
    walls = [record.wall_ns for record in all_records(logs / "more/dale")]
    assert (found["d"]["first_wall_ns"], found["d"]["last_wall_ns"]) == (walls[0], walls[-1])
    assert found["d"]["deployment"] == trace.deployment.to_toml()
    assert found["d"]["files"] == len(list((logs / "more/dale").glob("*.cwj"))) > 3


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_frames_and_messages_are_those_of_the_tables(logs, logged, tmp_path, processes):
    from tests.spark.test_ingest import table, take

    take(tmp_path, logs)
    engine = Cores(2, processes)
    for name, function in (("frames", rows.frames), ("messages", rows.messages)):
        found, wanted = function(engine, [logs]), table(tmp_path, name)
        kept = [column for column in found.column_names if column not in ("run", "site")]
        assert {"stamp", "number", "values"} <= set(kept) or name == "frames"
        by = [("mono_ns", "ascending"), ("sequence", "ascending"), ("number", "ascending")]
        by += [("batch", "ascending")] if name == "messages" else []
        assert found.select(kept).sort_by(by).equals(wanted.select(kept).sort_by(by))
        assert len(found) == len(wanted) > 100
        if processes:
            break


def test_the_compiled_walk_finds_what_the_plain_one_finds(logs):
    pytest.importorskip("numba")
    from basestation.journal.walking import walk_fast

    chance = random.Random(4)
    segment = read_segment(sorted((logs / "hill").glob("*.cwj"))[0])
    for harm in range(60):
        raw = bytearray(segment.raw)
        for _ in range(harm % 5):
            at, length = chance.randrange(len(raw)), chance.choice([1, 1, 3, 50, 400])
            what = chance.choice(["change", "cut", "double"])
            piece = bytes(raw[at : at + length])
            raw[at : at + length] = {"change": b"\xd7" * len(piece), "cut": b"", "double": 2 * piece}[what]
        for salt in (segment.salt, 0):
            plain = scan(bytes(raw), segment.begin, salt=salt)
            assert scan(bytes(raw), segment.begin, walk_fast, salt) == plain
            assert bool(plain.starts) == bool(salt)


def test_a_file_is_read_on_from_any_record(logs):
    path = sorted((logs / "hill").glob("*.cwj"))[1]
    whole, end, newest = intact(path)
    assert end == path.stat().st_size
    for at in (0, 1, len(whole) // 2, len(whole) - 1):
        first, cut, last = intact(path, 0, int(whole.starts[at]) + 5)  # five bytes of a record are none
        rest, after, latest = intact(path, cut, None, last)
        numbers = [*first.head["number"].tolist(), *rest.head["number"].tolist()]
        assert numbers == whole.head["number"].tolist()
        assert (after, latest) == (end, newest)


@pytest.mark.wide
def test_on_spark_the_rows_are_the_same(logs, spark):
    for function in (rows.records, rows.frames, rows.messages):
        here, there = function(Cores(1), [logs]), Spark(spark).collect(function(Spark(spark), [logs]))
        by = [("run", "ascending"), ("mono_ns", "ascending"), ("number", "ascending")]
        assert there.cast(here.schema).sort_by(by).equals(here.sort_by(by))


def test_the_data_source_reads_journals(logs, logged, spark):
    from spark_jobs.journals.source import register

    register(spark)
    found = spark.read.format("causeway").load(str(logs))
    assert found.rdd.getNumPartitions() == len(list(logs.rglob("*.cwj")))
    table = found.toArrow()
    assert rows_of(table, logged[0].run) == plain(logs / "hill")
    assert rows_of(table, "d") == plain(logs / "more/dale")
    several = spark.read.format("causeway").load([str(logs / "hill"), str(logs / "more")])
    assert several.count() == len(table)


def by_spark(logs, place, spark):
    """Reads a stream on, each time from the state that the last query left, and gives all rows so far."""
    from spark_jobs.journals.source import register

    register(spark)

    def read_on():
        stream = spark.readStream.format("causeway").load(str(logs))
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(place / "state"))
        query = writer.trigger(availableNow=True).start(str(place / "out"))
        assert query.awaitTermination(PATIENCE_S)
        return spark.read.parquet(str(place / "out")).select("run", "number").toArrow().to_pylist()

    return read_on


def by_hand(logs, place, spark):
    """Does the same as a query of Spark, which keeps offsets as JSON."""
    from spark_jobs.journals.source import JournalStream

    found, noted = [], [json.dumps(JournalStream([str(logs)], "records").initialOffset())]

    def read_on():
        stream = JournalStream([str(logs)], "records")
        noted.append(json.dumps(stream.latestOffset()))
        for part in stream.partitions(*map(json.loads, noted[-2:])):
            found.extend(row for batch in stream.read(part) for row in batch.to_pylist())
        return found

    return read_on


@pytest.mark.parametrize("reading", [by_hand, pytest.param(by_spark, marks=pytest.mark.wide)])
def test_the_stream_reads_each_record_of_a_growing_journal_once(
    logged, tmp_path, reading, spark, monkeypatch
):
    # A run has one salt, though two writers make it here
    monkeypatch.setattr("secrets.randbelow", lambda limit: 7)
    trace, arrivals = logged
    logs = tmp_path / "logs"
    all_rows = reading(logs, tmp_path, spark)

    def read_on():
        return sorted(row["number"] for row in all_rows())

    with JournalWriter(logs / "a", trace.deployment, "a", "never", segment_bytes=4_000) as journal:
        for arrival in arrivals[:70]:
            journal.append(arrival)
        segments = sorted((logs / "a").glob("*.cwj"))
        torn = segments[-1].read_bytes()
        segments[-1].write_bytes(torn[:-7])  # the last record is on its way
        assert read_on() == list(range(69))
        segments[-1].write_bytes(torn)
        assert read_on() == list(range(70))
    with JournalWriter(tmp_path / "b", trace.deployment, "a", "never", segment_bytes=4_000) as journal:
        for arrival in arrivals[:200]:
            journal.append(arrival)
    for path in (tmp_path / "b").glob("*.cwj"):  # the same run, grown: the last segment too
        (logs / "a" / path.name).write_bytes(path.read_bytes())
    assert len(sorted((logs / "a").glob("*.cwj"))) > len(segments)
    write(logs / "c", [Gap(0, 1, 2, False, "gone")], trace.deployment, "c")
    assert read_on() == [0, *range(200)]
    assert read_on() == [0, *range(200)]
    assert {row["run"] for row in all_rows()} == {"a", "c"}
    assert len(list(read_journal(logs / "a").records(print))) == 200
