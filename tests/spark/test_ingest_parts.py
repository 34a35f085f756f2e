"""A run in parts: its tables are those of the run read at once, however its journal is cut into segments."""

import multiprocessing
import os
import random
import shutil
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from basestation.arrivals import Arrival, Gap
from basestation.journal.reader import read_segment, segment_paths
from basestation.journal.record_format import HEAD, RecordKind, encode_header
from basestation.traces.files import write_trace
from basestation.traces.schema import messages_schema
from packet_formats.layout import layout_of
from packet_formats.messages import decode_message, encode_message
from packet_formats.tinyos import decode_packet, encode_packet
from spark_jobs.engines import Cores, Spark
from spark_jobs.tables import staging
from spark_jobs.tables.inputs import find, grouped
from spark_jobs.tables.stored import manifest
from spark_jobs.traces.field import with_causes
from spark_jobs.traces.trace_files import GRAPH, open_traces, read_rows
from tests.journal.logs import simulated, write
from tests.spark.test_ingest import content, table, take


def pieces(segment):
    """All bytes of a segment behind its header, record by record, damage with the record before it."""
    starts = [*segment.scan.starts, len(segment.raw)]
    yield segment.raw[segment.begin : starts[0]]
    yield from (segment.raw[begin:end] for begin, end in pairwise(starts))


def cut(log, folder, chance, count):
    """The same journal, cut into segments at random records.

    The writer begins no segment with a decision; and damage at the end of one has another name.
    """
    (segment,) = (read_segment(path) for path in segment_paths(log))
    rows = list(pieces(segment))
    head = segment.records.head
    whole = np.array([len(row) for row in rows[1:]]) == HEAD.itemsize + head["length"]
    begins = 2 + np.flatnonzero((head["kind"][1:] != RecordKind.DECISION) & whole[:-1])
    edges = sorted({0, len(rows), *chance.sample(begins.tolist(), count)})
    folder.mkdir(parents=True)
    for place, (begin, end) in enumerate(pairwise(edges)):
        first = int(head["number"][begin - 1]) if begin else segment.header.first
        content = encode_header(replace(segment.header, segment=place, first=first)) + b"".join(
            rows[begin:end]
        )
        (folder / f"{place:06d}.cwj").write_bytes(content)


def rough_journal(folder, chance):
    """A journal with all that makes reading depend on what came before: boots, copies, three lines, gaps, damage."""
    trace, arrivals = simulated("kn", messages=260, seed=chance.randrange(1000))
    layout, lines, booted = layout_of(trace.deployment), [], {}
    for i, arrival in enumerate(arrivals):
        message = decode_packet(arrival.packet)
        if message.type == layout.am_type:
            data = decode_message(message, layout)
            if chance.random() < 0.02:
                booted[data.source] = booted.get(data.source, 0) + 1
            data = replace(data, boot=booted.get(data.source, 0) % 8)
            arrival = arrival._replace(packet=encode_packet(encode_message(data, layout)))
        lines.append(arrival._replace(gateway=(i // 2) % 3))
        if chance.random() < 0.1:
            lines.append(arrival._replace(gateway=chance.randrange(3)))
        if chance.random() < 0.03:
            lines.append(Gap(chance.randrange(3), arrival.mono_ns, arrival.wall_ns, False, "gone"))
        if chance.random() < 0.03:
            lines.append(Arrival(0, arrival.mono_ns, arrival.wall_ns, chance.randbytes(20)))
    write(folder, lines, trace.deployment, "r", segment_bytes=1 << 30)
    (path,) = segment_paths(folder)
    segment, raw = read_segment(path), bytearray(path.read_bytes())
    for start in chance.sample(segment.scan.starts[20:], 6):
        raw[start + 8] ^= 0x55
    path.write_bytes(raw)


def with_graph(tables):
    """The messages of the one run in these tables, with their causal graph."""
    (trace,), _ = open_traces([tables])
    trace = with_causes(trace, tables)
    return read_rows(trace, trace.groups(), messages_schema().names)


def rows(tables, name):
    """A table's rows without what only the causal graph knows. The file of a fault depends on the cuts."""
    found = table(tables, name)
    if name == "quarantine":
        plain = [{k: v for k, v in row.items() if k not in ("path", "at")} for row in found.to_pylist()]
        return sorted(plain, key=str)
    return found.drop_columns([column for column in GRAPH if column in found.column_names])


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in (1, 2, 3))])
def test_segments_make_no_difference(tmp_path, seed):
    chance = random.Random(seed)
    rough_journal(tmp_path / "whole", chance)
    take(tmp_path / "t", tmp_path / "whole")
    damaged = rows(tmp_path / "t", "quarantine")
    assert {"a record with a wrong check sum"} < {row["reason"] for row in damaged}
    assert {"duplicate", "message", "record"} <= set(table(tmp_path / "t", "frames")["fate"].to_pylist())
    assert len(set(table(tmp_path / "t", "messages")["boot"].to_pylist())) > 1
    for many in (1, 7, 30):
        name = f"cut{many}"
        cut(tmp_path / "whole", tmp_path / name, chance, many)
        take(tmp_path / f"t{name}", tmp_path / name)
        for what in ("frames", "messages", "quarantine"):
            assert rows(tmp_path / f"t{name}", what) == rows(tmp_path / "t", what)
    parts = sorted(path.name for path in (tmp_path / "tcut30/frames").rglob("*.parquet"))
    assert parts == [f"{place:06d}.parquet" for place in range(len(parts))]
    assert len(parts) > 20


def own_pid(_):
    return os.getpid()


@pytest.mark.wide
def test_processes_and_spark_write_the_same_bytes(tmp_path, spark):
    """Processes are started once, and end with the engine."""
    rough_journal(tmp_path / "whole", random.Random(9))
    cut(tmp_path / "whole", tmp_path / "log", random.Random(9), 12)
    take(tmp_path / "here", tmp_path / "log")
    with closing(Cores(2, processes=True)) as cores:
        for name, engine in (("processes", cores), ("spark", Spark(spark))):
            take(tmp_path / name, tmp_path / "log", engine=engine)
            assert content(tmp_path / name) == content(tmp_path / "here")
        used = [pid for _ in range(3) for pid in cores.each(own_pid, range(4))]
    assert len(set(used)) <= 2
    assert os.getpid() not in used
    assert not {child.pid for child in multiprocessing.active_children()} & set(used)
    assert len(content(tmp_path / "here")) > 20


def test_a_part_that_is_gone_is_noticed(tmp_path):
    rough_journal(tmp_path / "whole", random.Random(3))
    cut(tmp_path / "whole", tmp_path / "log", random.Random(3), 5)
    take(tmp_path / "t", tmp_path / "log")
    (run,) = manifest(tmp_path / "t")
    read = [batch for piece in run.pieces("frames") for batch in piece.batches(["number"])]
    assert sum(map(len, read)) == run.counts["frames"]
    run.files("frames")[-1].unlink()
    with pytest.raises(Exception, match="a part is missing; ingest --again brings it back"):
        run.pieces("frames")


@pytest.mark.parametrize("table", ["messages", "events"])
def test_the_continuum_notices_what_is_gone(tmp_path, table):
    rough_journal(tmp_path / "whole", random.Random(3))
    cut(tmp_path / "whole", tmp_path / "log", random.Random(3), 5)
    write_trace(simulated(messages=50)[0], tmp_path / "trace")
    take(tmp_path / "t", tmp_path / ("log" if table == "messages" else "trace"))
    (run,) = manifest(tmp_path / "t")
    traces, faults = open_traces([tmp_path / "t"])
    assert [trace.rows for trace in traces] == [run.counts["messages"]]
    assert not faults
    run.files(table)[-1].unlink()
    traces, faults = open_traces([tmp_path / "t"])
    assert not traces
    assert "ingest --again brings it back" in str(faults[0])


def test_the_last_segment_may_still_be_written(tmp_path):
    rough_journal(tmp_path / "whole", random.Random(5))
    cut(tmp_path / "whole", tmp_path / "log", random.Random(5), 6)
    shutil.copytree(tmp_path / "log", tmp_path / "half")
    last = segment_paths(tmp_path / "half")[-1]
    last.write_bytes(last.read_bytes()[:-3])
    take(tmp_path / "t", tmp_path / "half")
    for path in segment_paths(tmp_path / "log"):
        shutil.copy(path, tmp_path / "half" / path.name)
    take(tmp_path / "t", tmp_path / "half")
    take(tmp_path / "once", tmp_path / "log")
    assert rows(tmp_path / "t", "frames") == rows(tmp_path / "once", "frames")


def test_a_run_that_is_gone_is_a_fault_of_that_run(tmp_path):
    for name in ("here", "gone"):
        rough_journal(tmp_path / name, random.Random(1))
    groups = [group for name in ("here", "gone") for group in grouped(find([tmp_path / name]).inputs)]
    shutil.rmtree(tmp_path / "gone")
    done = {one.group.inputs[0].path: one for one in staging.staged(groups, tmp_path / "stage", Cores(3))}
    assert not done[str(tmp_path / "here")].fault
    assert "is no longer there" in done[str(tmp_path / "gone")].fault
