"""Ingest: what the tables hold is what the base station decoded, whatever came in what order, twice, or broken."""

import json
import random
import re
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from basestation.journal import convert, locking
from basestation.journal.merging import merge
from basestation.journal.parquet_parts import make_parts
from basestation.journal.reader import read_journal, read_segment
from basestation.journal.record_format import Record, RecordKind, Records, encode_header, encode_record
from basestation.live.deciding import decide
from basestation.traces.files import write_table, write_trace
from packet_formats.layout import layout_of
from packet_formats.messages import Data, encode_message
from packet_formats.tinyos import encode_packet
from spark_jobs import run
from spark_jobs.engines import Cores
from spark_jobs.session import JobError
from spark_jobs.tables.inputs import find, grouped
from spark_jobs.tables.intake import TABLES, ingest
from spark_jobs.tables.stored import manifest
from spark_jobs.traces.trace_files import GRAPH
from tests.journal.logs import refuse, simulated, write, write_everything

SECOND = 1_000_000_000
HERE = Cores(1)


def take(tables, *paths, engine=HERE, **options):
    return ingest(find(paths, **options), tables, engine)


def table(tables, name):
    """A table without its partitions' columns, in order."""
    parts = sorted((tables / name).rglob("*.parquet"))
    return pa.concat_tables(
        [pq.read_table(path, partitioning=None).replace_schema_metadata(None) for path in parts],
        promote_options="permissive",
    )


def content(tables):
    """Everything that a reader could see, byte by byte."""
    files = [path for name in TABLES for path in sorted((tables / name).rglob("*")) if path.is_file()]
    return {str(path.relative_to(tables)): path.read_bytes() for path in files}


def own_decoding(folder, deployment):
    """The messages of a log as the base station has them, without their causal graph, which is another table."""
    messages = convert.trace_of(read_journal(folder), deployment, lambda fault: None).messages
    for name in GRAPH:
        at = messages.schema.get_field_index(name)
        field = messages.schema.field(at)
        messages = messages.set_column(at, field, pa.nulls(len(messages), field.type))
    return messages


@pytest.fixture(scope="module")
def logged():
    return simulated("kn", messages=500, seed=5)


def test_a_journal_gives_what_its_base_station_decoded(tmp_path, logged):
    trace, arrivals = logged
    write_everything(tmp_path / "run", trace, arrivals, segment_bytes=20_000)
    report = take(tmp_path / "tables", tmp_path)
    assert not report.refused
    assert table(tmp_path / "tables", "messages") == own_decoding(tmp_path / "run", trace.deployment)
    frames = table(tmp_path / "tables", "frames")
    records = read_journal(tmp_path / "run").records(lambda fault: None)
    undecided = [record for record in records if record.kind != RecordKind.DECISION]
    assert frames["payload"].to_pylist() == [record.payload for record in undecided]
    assert frames["number"].to_pylist() == [record.number for record in undecided]
    bad = table(tmp_path / "tables", "quarantine").to_pylist()
    # The acknowledgement is not among them.
    assert [row["reason"] for row in bad] == ["no packet of this TinyOS version"]
    assert bad[0]["bytes"] == b"\x99 no packet"
    place = next((tmp_path / "tables" / "messages").rglob("*.parquet")).parent
    assert [part.partition("=")[0] for part in place.parts[-3:]] == ["site", "date", "run"]
    assert place.parts[-3:] == ("site=hill", "date=2023-11-14", f"run={trace.run}")


def test_parts_without_their_journal_are_a_trace(tmp_path, logged):
    trace, arrivals = logged
    write_everything(tmp_path / "run", trace, arrivals, segment_bytes=20_000)
    make_parts(tmp_path / "run", lambda fault: None)
    wanted = own_decoding(tmp_path / "run", trace.deployment)
    for segment in (tmp_path / "run").glob("*.cwj"):
        segment.unlink()
    assert not take(tmp_path / "tables", tmp_path / "run").refused
    assert table(tmp_path / "tables", "messages") == wanted


def test_twice_is_once_and_growing_is_whole(tmp_path, logged):
    trace, arrivals = logged
    logs, once, step = tmp_path / "logs", tmp_path / "once", tmp_path / "step"
    for number in range(3):
        write(
            logs / f"r{number}", arrivals[number * 200 : number * 200 + 260], trace.deployment, f"r{number}"
        )
        # Overlapping times, but other places: nothing to merge.
        shift_site(logs / f"r{number}", f"s{number}")
        take(step, logs)
    take(once, logs)
    before = content(once)
    assert content(step) == before
    assert take(once, logs).unchanged == 3
    assert content(once) == before
    ingest(find([logs]), once, HERE, again=True)
    assert content(once) == before


def shift_site(folder, site):
    """The same journal at another place."""
    for path in folder.glob("*.cwj"):
        segment = read_segment(path)
        path.write_bytes(encode_header(replace(segment.header, site=site)) + segment.raw[segment.begin :])


def two_gateways(arrivals):
    """What two gateways of one network heard: each lost some, one is on a line that takes longer."""
    chance = random.Random(1)
    pairs = [arrivals[i : i + 2] for i in range(0, len(arrivals), 2)]
    late = 3_000_000
    first = [pair for pair in pairs if chance.random() < 0.8]
    second = [
        [a._replace(mono_ns=a.mono_ns + late, wall_ns=a.wall_ns + late) for a in pair]
        for pair in pairs
        if chance.random() < 0.8
    ]
    merged = [(pair[0].wall_ns, 0, pair) for pair in first] + [(pair[0].wall_ns, 1, pair) for pair in second]
    order = [(line, arrival) for _, line, pair in sorted(merged, key=lambda m: m[:2]) for arrival in pair]
    return (
        [arrival for pair in first for arrival in pair],
        [arrival for pair in second for arrival in pair],
        [arrival._replace(gateway=line) for line, arrival in order],
    )


@pytest.mark.parametrize(
    "size", [3_000, *(pytest.param(size, marks=pytest.mark.wide) for size in (20_000, 1 << 20))]
)
def test_two_gateways_journals_equal_one_observers_merged_log(tmp_path, logged, size):
    trace, arrivals = logged
    first, second, both = two_gateways(arrivals)
    assert len(first) != len(second)
    options = {"site": "hill", "segment_bytes": size}
    write(tmp_path / "two/a", first, trace.deployment, "a", **options)
    write(tmp_path / "two/b", second, trace.deployment, "b", **options)
    write(tmp_path / "one/c", both, trace.deployment, "c", **options)
    take(tmp_path / "t2", tmp_path / "two")
    take(tmp_path / "t1", tmp_path / "one")
    two, one = (table(tmp_path / name, "messages").flatten() for name in ("t2", "t1"))
    assert two == one
    assert len(one) > max(len(first), len(second)) // 2
    assert (table(tmp_path / "t2", "frames")["journal"].to_pylist()).count("b") == len(second)


def test_a_second_journal_that_comes_later_joins_the_first(tmp_path, logged):
    trace, arrivals = logged
    first, second, _ = two_gateways(arrivals)
    write(tmp_path / "a", first, trace.deployment, "a", site="hill")
    take(tmp_path / "grown", tmp_path / "a")
    write(tmp_path / "b", second, trace.deployment, "b", site="hill")
    take(tmp_path / "grown", tmp_path / "b")
    take(tmp_path / "whole", tmp_path / "a", tmp_path / "b")
    assert content(tmp_path / "grown") == content(tmp_path / "whole")
    assert [path.name for path in (tmp_path / "grown/manifest").iterdir()] == ["a+b.json"]


def test_merging_does_not_depend_on_where_segments_end():
    chance = random.Random(2)

    def stream(seed, cuts):
        chance = random.Random(seed)
        wall, rows = 0, []
        for number in range(200):
            wall += chance.choice([-3, 0, 0, 1, 2])
            rows.append(
                encode_record(Record(number, RecordKind.FRAME, seed % 2, number, wall, bytes([seed])))
            )
        edges = sorted({0, 200, *cuts})
        for begin, end in pairwise(edges):
            starts = np.cumsum([0, *(len(row) for row in rows[begin:end])])[:-1].tolist()
            yield Records.of(b"".join(rows[begin:end]), starts)

    def merged(cuts):
        found = []
        for chunk in merge([stream(seed, cuts(seed)) for seed in (1, 2, 3)]):
            found += zip(
                chunk.journal.tolist(),
                chunk.records.head["number"].tolist(),
                chunk.records.head["gateway"].tolist(),
                [record.payload for record in chunk.records],
                strict=True,
            )
        return found

    whole = merged(lambda seed: [])
    assert len(whole) == 600
    assert all(payload == bytes([journal + 1]) for journal, _, _, payload in whole)
    assert (
        len({(journal, line) for journal, _, line, _ in whole}) == len({line for *_, line, _ in whole}) == 3
    )
    for _ in range(20):
        assert merged(lambda seed: [chance.randrange(201) for _ in range(6)]) == whole


def test_a_copy_of_a_journal_is_taken_once(tmp_path, logged):
    trace, arrivals = logged
    write(tmp_path / "a", arrivals, trace.deployment, "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    segment = tmp_path / "b/000000.cwj"
    segment.write_bytes(segment.read_bytes()[:-500])  # an earlier state
    report = take(tmp_path / "tables", tmp_path / "b")
    assert not report.refused
    report = take(tmp_path / "tables", tmp_path / "a")
    assert not report.refused
    assert table(tmp_path / "tables", "messages") == own_decoding(tmp_path / "a", trace.deployment)
    report = take(tmp_path / "tables", tmp_path / "b")  # does not undo it
    assert table(tmp_path / "tables", "messages") == own_decoding(tmp_path / "a", trace.deployment)
    write(tmp_path / "c", arrivals[:50][::-1], trace.deployment, "a")
    report = take(tmp_path / "tables", tmp_path / "c")
    assert "holds something else" in report.refused[str(tmp_path / "c")]


def test_a_trace_of_the_simulator(tmp_path, logged):
    trace, _ = logged
    write_trace(trace, tmp_path / "sim")
    assert not take(tmp_path / "tables", tmp_path / "sim").refused
    assert table(tmp_path / "tables", "messages") == trace.messages
    assert table(tmp_path / "tables", "events") == trace.events
    frames = table(tmp_path / "tables", "frames")
    assert frames["sequence"].to_pylist() == trace.messages["sequence"].to_pylist()
    assert len(table(tmp_path / "tables", "quarantine")) == 0


def test_bad_rows_of_a_trace_are_quarantined(tmp_path, logged):
    trace, _ = logged
    messages = trace.messages
    motes = trace.deployment.network.motes
    source, stamp = messages["source"].to_pylist(), messages["stamp"].to_pylist()
    source[3], stamp[7] = motes + 5, stamp[7] | {"r": stamp[7]["r"] + 1}
    for name, values in (("source", source), ("stamp", stamp)):
        at = messages.schema.get_field_index(name)
        field = messages.schema.field(at)
        messages = messages.set_column(at, field, pa.array(values, field.type))
    write_trace(replace(trace, messages=messages), tmp_path / "sim")
    take(tmp_path / "tables", tmp_path / "sim")
    bad = table(tmp_path / "tables", "quarantine").to_pylist()
    assert [(row["number"], row["reason"]) for row in bad] == [
        (3, f"its source is no mote of this deployment, which has 0..{motes - 1}"),
        (7, "its stamp is not what its payload says"),
    ]
    rest = [row for at, row in enumerate(trace.messages.to_pylist()) if at not in (3, 7)]
    assert table(tmp_path / "tables", "messages").to_pylist() == rest


def test_damage_and_strangers_are_quarantined_and_the_rest_is_taken(tmp_path, logged, capsys):
    trace, arrivals = logged
    layout, motes = layout_of(trace.deployment), trace.deployment.network.motes
    stamp = (0,) * len(layout.stamp.fields)
    stranger = encode_packet(encode_message(Data(motes, 1, stamp, data=bytes(layout.data_bytes)), layout))
    lines = [*arrivals[:101], arrivals[100]._replace(packet=stranger), *arrivals[101:300]]
    write(tmp_path / "run", lines, trace.deployment, "r", segment_bytes=9_000)
    segments = sorted((tmp_path / "run").glob("*.cwj"))
    raw = bytearray(segments[1].read_bytes())[:-37]  # without its end mark
    raw[-10] ^= 1
    segments[1].write_bytes(raw)
    segments[2].write_bytes(segments[2].read_bytes().replace(b'"run": "r"', b'"run": "x"'))
    (tmp_path / "run" / "000009.cwj").write_bytes(b"nothing of ours")
    report = take(tmp_path / "tables", tmp_path)
    assert not report.refused
    bad = [row["reason"] for row in table(tmp_path / "tables", "quarantine").to_pylist()]
    told = re.search(
        r"refused: (\d+) × (.+); (\d+) × (.+); (\d+) for other", capsys.readouterr().err
    ).groups()
    assert int(told[0]) == bad.count(told[1]) >= int(told[2]) == bad.count(told[3])
    assert sum(map(int, told[::2])) == len(bad)
    assert f"source {motes} is no mote of this deployment, which has 0..{motes - 1}" in bad
    assert "the bytes after the last intact record are no record: the writer was interrupted" in bad
    assert sum("are missing" in reason for reason in bad) >= 1
    assert sum("header is damaged" in reason for reason in bad) >= 1
    assert len(table(tmp_path / "tables", "messages")) > 90


def test_a_segment_of_another_run_is_named(tmp_path, logged):
    trace, arrivals = logged
    write(tmp_path / "a", arrivals[:40], trace.deployment, "a")
    write(tmp_path / "b", arrivals[40:80], trace.deployment, "b")
    shutil.copy(tmp_path / "b/000000.cwj", tmp_path / "a/000001.cwj")
    take(tmp_path / "tables", tmp_path / "a")
    bad = table(tmp_path / "tables", "quarantine").to_pylist()
    assert [row["reason"] for row in bad] == ["a segment of another run, b"]
    assert len(table(tmp_path / "tables", "messages")) == 20


def test_bad_inputs_are_named_and_the_rest_is_taken(tmp_path, logged, capsys):
    trace, arrivals = logged
    logs = tmp_path / "logs"
    write(logs / "good", arrivals, trace.deployment, "good")
    write_trace(trace, logs / "cut")
    whole = (logs / "cut/messages.parquet").read_bytes()
    (logs / "cut/messages.parquet").write_bytes(whole[: len(whole) // 2])
    (logs / "foreign").mkdir()
    pq.write_table(pa.table({"a": [1]}), logs / "foreign/messages.parquet")
    write_trace(trace, logs / "mixed")
    table_of = pq.read_table(logs / "mixed/events.parquet")
    said = table_of.schema.metadata | {b"causeway.run": b"another"}
    write_table(table_of.replace_schema_metadata(said), logs / "mixed/events.parquet")
    (logs / "narrow").mkdir()
    write_table(
        trace.messages.drop_columns(["stamp"]).replace_schema_metadata(
            pq.read_schema(logs / "mixed/messages.parquet").metadata
        ),
        logs / "narrow/messages.parquet",
    )
    (logs / "what.jsonl").write_text("hello\n")
    code = run.main(["ingest", str(logs), "--tables", str(tmp_path / "tables"), "--no-spark"])
    told = capsys.readouterr()
    assert code == 1
    refused = {Path(path).name: why for path, why in json.loads(told.out)["refused"].items()}
    assert set(refused) == {"cut", "foreign", "mixed", "narrow", "what.jsonl"}
    assert "cut off" in refused["cut"]
    assert "not a table of Causeway" in refused["foreign"]
    assert "2 runs" in refused["mixed"]
    assert "not the columns that its deployment has: stamp" in refused["narrow"]
    assert "nor a log of the testbed" in refused["what.jsonl"]
    assert "Traceback" not in told.err
    assert len(table(tmp_path / "tables", "messages")) == len(trace.messages)


def test_without_a_deployment_the_frames_are_kept(tmp_path, logged):
    trace, arrivals = logged
    write(tmp_path / "run", arrivals, None, "r")
    take(tmp_path / "tables", tmp_path / "run")
    assert len(table(tmp_path / "tables", "frames")) == len(arrivals)
    assert "written without a deployment" in table(tmp_path / "tables", "quarantine")["reason"][0].as_py()
    take(tmp_path / "tables", tmp_path / "run", deployment=trace.deployment.to_toml())
    decide(read_journal(tmp_path / "run"), trace.deployment, refuse)
    assert table(tmp_path / "tables", "messages") == own_decoding(tmp_path / "run", trace.deployment)


@pytest.mark.parametrize(("left", "then"), [(0, ("c",)), (2, ("c",)), (1, ("a", "b", "c"))])
def test_an_ingest_that_was_killed_is_made_whole(tmp_path, logged, monkeypatch, left, then):
    """Also by one that is given something else."""
    trace, arrivals = logged
    first, second, _ = two_gateways(arrivals)
    write(tmp_path / "a", first, trace.deployment, "a", site="hill")
    take(tmp_path / "tables", tmp_path / "a")
    write(tmp_path / "b", second, trace.deployment, "b", site="hill")
    write(tmp_path / "c", arrivals[:40], trace.deployment, "c", site="dale")
    renames = {"left": left}
    original = Path.rename

    def dies(self, target):
        if renames["left"] == 0:
            raise KeyboardInterrupt
        renames["left"] -= 1
        return original(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", dies)
        with pytest.raises(KeyboardInterrupt):
            take(tmp_path / "tables", tmp_path / "b")
    assert manifest(tmp_path / "tables") == []
    take(tmp_path / "tables", *(tmp_path / name for name in then))
    take(tmp_path / "whole", *(tmp_path / name for name in "abc"))
    assert content(tmp_path / "tables") == content(tmp_path / "whole")
    assert {path.suffix for path in (tmp_path / "tables/manifest").iterdir()} == {".json"}


def test_two_at_once_are_refused(tmp_path, logged):
    trace, arrivals = logged
    write(tmp_path / "a", arrivals[:20], trace.deployment, "a")
    (tmp_path / "tables").mkdir()
    with locking.locked(tmp_path / "tables"), pytest.raises(JobError, match="another ingest is at work"):
        take(tmp_path / "tables", tmp_path / "a")


def test_runs_of_one_place_at_different_times_stay_apart(tmp_path, logged):
    trace, arrivals = logged
    later = [a._replace(wall_ns=a.wall_ns + 10_000 * SECOND) for a in arrivals]
    write(tmp_path / "a", arrivals, trace.deployment, "a")
    write(tmp_path / "b", later, trace.deployment, "b")
    assert [group.run for group in grouped(find([tmp_path]).inputs)] == ["a", "b"]
