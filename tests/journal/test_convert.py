"""Every form of a log read back: what it holds is equal, and what it does not hold is written down here."""

import csv
import io
import json
import re
import struct
import subprocess
from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest

from basestation.arrivals import Arrival
from basestation.journal.air_capture import write_pcap
from basestation.journal.convert import HOLDS, trace_of, write_csv, write_ndjson
from basestation.journal.decision import (
    FRAME_NUMBERS,
    LONG_BYTES,
    NO_TIME,
    SHORT_BYTES,
    UNKNOWN,
    WIRE,
    Fate,
)
from basestation.journal.drawn_graph import write_dot, write_shiviz
from basestation.journal.record_format import Record, RecordKind
from basestation.journal.summary import summarise
from basestation.journal.writer import read_journal
from basestation.traces.files import read_trace, write_trace
from packet_formats.air import fcs
from packet_formats.deployment import from_dict
from packet_formats.framing import crc16
from packet_formats.layout import layout_of
from packet_formats.messages import Data, encode_message
from packet_formats.records import Heard
from packet_formats.tinyos import ActiveMessage, decode_am, encode_packet
from packet_formats.values import values_in
from tests.journal.logs import (
    VALUES,
    WALL_NS,
    logged,
    put_behind,
    records,
    refuse,
    refuse_damage,
    simulated,
    with_values,
    write,
    write_everything,
)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log") / "run"
    trace, arrivals = simulated("kn", VALUES, loss=0.05)
    write_everything(folder, trace, arrivals, segment_bytes=20_000)
    return folder


def trace_in(folder):
    journal = read_journal(folder)
    return trace_of(journal, journal.deployment, refuse)


def messages(folder):
    return trace_in(folder).messages


# ---- A reader for each form: what can be had from it ----


def read_ndjson(text):
    """All records."""
    run, *lines = map(json.loads, text.splitlines())
    assert run["kind"] == "run"
    return [Record(*_head(line), _payload(line)) for line in lines]


def _head(line):
    return line["record"], RecordKind[line["kind"].upper()], line["gateway"], line["mono_ns"], line["wall_ns"]


def _payload(line):
    if line["kind"] == "frame":
        return bytes.fromhex(line["raw"])
    if line["kind"] == "gap":
        return bytes([line["back"]]) + line["reason"].encode()
    if line["kind"] == "decision":
        return _decision(line["decision"])
    if line["kind"] == "policy":
        return json.dumps({name: line[name] for name in ("policy", "phi", "clock")}).encode()
    return json.dumps(line["counters"]).encode() if line["kind"] == "counters" else line["text"].encode()


def _decision(line):
    heard = line["time"] if line["bits"] & UNKNOWN else line["heard"]
    fate = Fate[line["fate"].upper()]
    told = line | {"frame": line["frame"] % FRAME_NUMBERS, "heard": heard, "fate": fate}
    row = np.zeros(1, WIRE)
    for name in WIRE.names:
        row[name] = NO_TIME if told[name] is None else told[name]
    is_long = fate in (Fate.MESSAGE, Fate.DUPLICATE, Fate.UNTIMED)
    return row.tobytes()[: LONG_BYTES if is_long else SHORT_BYTES]


def read_csv(text, trace):
    """The table of messages. Each has its time in words too, and a column for each value."""
    rows, schema = list(csv.DictReader(io.StringIO(text))), trace.messages.schema
    flat = schema.empty_table().drop_columns("values").flatten().schema
    columns = [pa.array([_value(row[field.name], field.type) for row in rows], field.type) for field in flat]
    columns = dict(zip(flat.names, columns, strict=True))
    stamps = [columns.pop(f"stamp.{part.name}") for part in schema.field("stamp").type]
    columns["stamp"] = pa.StructArray.from_arrays(stamps, fields=list(schema.field("stamp").type))
    heads = {value.name: value.column for value in trace.deployment.data}
    told = [[(name, float(row[head])) for name, head in heads.items()] or None for row in rows]
    columns["values"] = pa.array(told, schema.field("values").type)
    times = [datetime.fromisoformat(row["time"]).timestamp() for row in rows]
    assert [round(time * 1e6) for time in times] == [int(row["wall_ns"]) // 1000 for row in rows]
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _value(cell, type_):
    if pa.types.is_list(type_):
        return None if cell == "" else [_value(one, type_.value_type) for one in cell.split() if one != "-"]
    if pa.types.is_struct(type_):
        return tuple(map(int, cell.split(":")))
    if cell == "":
        return None
    if pa.types.is_boolean(type_):
        return {"true": True, "false": False}[cell]
    return bytes.fromhex(cell) if pa.types.is_binary(type_) else int(cell)


def read_pcap(raw):
    """(wall clock, message, network time, strength, quality, channel) of each frame on the air."""
    magic, *_, link = struct.unpack_from("<IHHiIII", raw)
    assert (magic, link) == (0xA1B23C4D, 283)
    at = 24
    while at < len(raw):
        seconds, nanos, size, full = struct.unpack_from("<IIII", raw, at)
        assert size == full
        values, frame = _tagged(raw[at + 16 : at + 16 + size])
        yield seconds * 10**9 + nanos, _message(frame), values
        at += 16 + size


def _tagged(raw):
    _, _, length = struct.unpack_from("<BBH", raw)
    values, at = {}, 4
    while at < length:
        tag, size = struct.unpack_from("<HH", raw, at)
        values[tag] = raw[at + 4 : at + 4 + size]
        at += 4 + size + -size % 4
    return values, raw[length:]


def _message(frame):
    assert fcs(frame[:-2]) == int.from_bytes(frame[-2:], "little")
    if frame[:2] == b"\x01\x08":
        dest, type_, group = struct.unpack_from("<HBB", frame, 5)
        return ActiveMessage(1, dest, group, type_, frame[9:-2])
    group, dest, source, _, type_ = struct.unpack_from("<HHHBB", frame, 3)
    return ActiveMessage(2, dest, group, type_, frame[11:-2], source)


SHIVIZ = re.compile(r"(?P<host>\S*) (?P<clock>{.*})\n(?P<event>.*)\n")  # as ShiViz takes such a log apart


def read_shiviz(text):
    """(host, clock, event); nothing between them is left over."""
    found = list(SHIVIZ.finditer(text))
    assert "".join(match[0] for match in found) == text
    return [(match["host"], json.loads(match["clock"]), match["event"]) for match in found]


# ---- The round trips ----


def test_every_form_has_its_test():
    elsewhere = {"html"}  # tests/web/test_export.py
    assert set(HOLDS) - elsewhere == {"parquet", "csv", "ndjson", "pcap", "shiviz", "dot"}


def test_parquet_gives_the_messages(log, tmp_path):
    journal = read_journal(log)
    trace = trace_of(journal, journal.deployment, refuse)
    write_trace(trace, tmp_path / "trace")
    back = read_trace(tmp_path / "trace")
    assert (back.run, back.deployment, back.origin) == (trace.run, trace.deployment, "journal, site hill")
    assert back.messages.equals(messages(log))
    assert len(back.messages) > 300


def test_csv_gives_the_messages(log):
    trace, file = trace_in(log), io.StringIO()
    assert write_csv(trace, file) == len(trace.messages)
    assert read_csv(file.getvalue(), trace).equals(trace.messages)
    head, first, *_ = file.getvalue().splitlines()
    assert head.startswith("time,source,")
    assert head.endswith(',vector_most,light [lx],"count [a, ""b""]",t')
    assert first.startswith("2023-11-14T22:13:20.")
    assert first.endswith(",0.0,0,0")  # a scale with decimals shows one


def test_a_sensor_without_a_reading_leaves_a_hole(tmp_path):
    deployed = with_values(
        deployment(), [{"name": "power", "sensor": "battery"}, {"name": "n", "type": "u16"}]
    )
    said = [(0, 0, ()), (0, 1, ())]
    logged(tmp_path, exchange(deployed, said, data=bytes.fromhex("ffff0100")), deployed)
    trace, file = trace_in(tmp_path), io.StringIO()
    assert trace.messages["values"].to_pylist() == 2 * [[("power", None), ("n", 1.0)]]
    write_csv(trace, file)
    assert [line.split(",")[-2:] for line in file.getvalue().splitlines()] == [
        ["power [adc]", "n"],
        ["", "1"],
        ["", "1"],
    ]
    power = summarise(read_journal(tmp_path), deployed).motes[0].values["power"]
    assert power.count == 0


def test_a_value_called_as_a_column_has_another_heading(tmp_path):
    named = [{"name": name, "type": "u8"} for name in ("time", "source", "n")]
    deployed = with_values(deployment(), named)
    logged(tmp_path, exchange(deployed, [(0, 0, ())], data=bytes([7, 8, 9])), deployed)
    file = io.StringIO()
    write_csv(trace_in(tmp_path), file)
    head, row = csv.reader(io.StringIO(file.getvalue()))
    assert len(set(head)) == len(head)
    told = dict(zip(head, row, strict=True))
    assert [told[name] for name in ("source", "values.time", "values.source", "n")] == ["0", "7", "8", "9"]


def test_without_names_there_are_no_values(tmp_path):
    trace, arrivals = simulated(messages=40)
    logged(tmp_path, arrivals, trace.deployment)
    assert set(messages(tmp_path)["values"].to_pylist()) == {None}
    assert read_csv_of(trace_in(tmp_path)).equals(messages(tmp_path))


def test_values_are_those_of_the_payload(log):
    trace, layout = trace_in(log), layout_of(read_journal(log).deployment)
    told = [dict(values) for values in trace.messages["values"].to_pylist()]
    payloads = trace.messages["payload"].to_pylist()
    assert told == [values_in(layout, payload[layout.data_at :]) for payload in payloads]
    assert {values["light"] for values in told} >= {0.3, 0.6}  # and not 0.30000000000000004
    file = io.StringIO()
    write_ndjson(read_journal(log), trace.deployment, file, refuse)
    lines = [json.loads(line).get("packet", {}).get("message", {}) for line in file.getvalue().splitlines()]
    assert [line["values"] for line in lines if "values" in line] == told
    motes = summarise(read_journal(log), trace.deployment).motes
    source = trace.messages["source"].to_pylist()
    for mote, found in motes.items():
        light = [values["light"] for values, one in zip(told, source, strict=True) if one == mote]
        summary = found.values["light"]
        assert (summary.count, summary.least, summary.most) == (len(light), min(light), max(light))
        assert (summary.last, summary.mean) == (light[-1], pytest.approx(sum(light) / len(light)))


@pytest.mark.parametrize("described", [True, False])
def test_ndjson_gives_every_record(log, described):
    journal, file = read_journal(log), io.StringIO()
    write_ndjson(journal, journal.deployment if described else None, file, refuse)
    assert read_ndjson(file.getvalue()) == records(log)
    assert {record.kind for record in records(log)} == set(RecordKind) - {
        RecordKind.CLOCK,
        RecordKind.LOST,
        RecordKind.END,
    }
    assert ('"name": "data"' in file.getvalue()) == described


def test_pcap_gives_what_was_on_the_air(log):
    journal, file, table = read_journal(log), io.BytesIO(), messages(log)
    assert write_pcap(journal, journal.deployment, file, refuse) == len(table)
    rows = zip(read_pcap(file.getvalue()), table.to_pylist(), strict=True)
    for (wall_ns, message, values), row in rows:
        assert wall_ns == row["wall_ns"]
        assert (message.type, message.data, message.group) == (row["am_type"], row["payload"], 0x7D)
        assert int.from_bytes(values[5], "little") * 32768 // 10**9 == row["heard_time"]
        assert struct.unpack("<f", values[1]) == (row["rssi"],)
        assert values[3] == bytes([11, 0, 0])
        assert 10 not in values
        assert row["lqi"] is None


def deployment(tinyos=1, receipts=0, motes=4):
    return from_dict(
        {
            "network": {"name": "hill", "board": "micaz", "motes": motes, "tinyos": tinyos},
            "clock": {"tick_log2": 7, "epsilon": 10, "delta": 20},
            "stamp": {"scheme": "shlc", "receipts": receipts},
        }
    )


def exchange(deployed, said, flags=7, data=bytes(4)):
    """Arrivals of (source, sequence, receipts), each with its heard record."""
    layout, arrivals = layout_of(deployed), []
    for i, (source, sequence, receipts) in enumerate(said):
        stamp = deployed.clock.epsilon + i, 0
        sent = Data(source, sequence % 256, stamp, complete=bool(receipts), receipts=receipts, data=data)
        message = encode_message(sent, layout)
        heard = Heard(4, 0, i % 256, 0, flags, -71, 106, crc16(message.data), (i + 20) << 7)
        for packet in (encode_message(heard, layout), message):
            arrivals.append(Arrival(0, i, WALL_NS + i, encode_packet(packet)))
    return arrivals


def test_pcap_of_tinyos_2_names_sender_and_quality(tmp_path):
    deployed, file = deployment(tinyos=2), io.BytesIO()
    logged(tmp_path, exchange(deployed, [(1, 5, ()), (2, 9, ())]), deployed)
    write_pcap(read_journal(tmp_path), deployed, file, refuse)
    frames = list(read_pcap(file.getvalue()))
    assert [(message.source, message.group) for _, message, _ in frames] == [(1, 0x22), (2, 0x22)]
    assert {values[10] for _, _, values in frames} == {bytes([106])}


@pytest.mark.parametrize("tinyos", [1, 2])
def test_tshark_reads_the_pcap(tmp_path, require_tool, tinyos):
    tshark, deployed, path = require_tool("tshark"), deployment(tinyos=tinyos), tmp_path / "run.pcap"
    logged(tmp_path / "log", exchange(deployed, [(1, 5, ()), (2, 9, ())]), deployed)
    with path.open("wb") as file:
        write_pcap(read_journal(tmp_path / "log"), deployed, file, refuse)
    fields = [
        "frame.time_epoch",
        "wpan-tap.rss",
        "wpan-tap.lqi",
        "wpan-tap.ch_num",
        "wpan.fcs_ok",
        "wpan.src16",
    ]
    wanted = [word for field in fields for word in ("-e", field)]
    run = subprocess.run(
        [tshark, "-r", str(path), "-T", "fields", *wanted], capture_output=True, text=True, check=True
    )
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    channel = {1: "11", 2: "26"}[tinyos]
    assert [row[:5] for row in rows] == [
        [f"1700000000.00000000{i}", "-71", "106", channel, "1"] for i in range(2)
    ]
    assert [row[5] for row in rows] == (["", ""] if tinyos == 1 else ["0x0001", "0x0002"])


# ---- ShiViz ----


def shiviz(table, deployed):
    file = io.StringIO()
    known = write_shiviz(table, deployed, file)
    return read_shiviz(file.getvalue()), known


def check_clocks(events):
    """ShiViz takes a log only if each host counts its events without a hole, and knows no event that is not there."""
    count = {}
    for host, clock, _ in events:
        count[host] = count.get(host, 0) + 1
        assert clock[host] == count[host]
    for _, clock, _ in events:
        assert all(number <= count[host] for host, number in clock.items())


def test_shiviz_gives_the_order_that_receipts_tell(tmp_path):
    deployed = deployment(receipts=2)
    said = [
        (0, 254, ()),
        (2, 7, ((1, 4), (0, 255))),
        (1, 4, ((0, 254),)),
        (0, 0, ((2, 7),)),
        (3, 1, ((0, 200),)),
    ]
    logged(tmp_path, exchange(deployed, said), deployed)
    events, known = shiviz(messages(tmp_path), deployed)
    check_clocks(events)
    clocks = {(host, event): clock for host, clock, event in events}
    assert clocks["mote0", "message 254"] == {"mote0": 1}
    assert clocks["mote1", "message 4"] == {"mote0": 1, "mote1": 1}
    # Of mote 0 message 255 was lost: all that came of it up to there is a cause, though it arrived later.
    assert clocks["mote2", "message 7"] == {"mote0": 1, "mote1": 1, "mote2": 1}
    assert clocks["mote0", "message 256"] == {"mote0": 2, "mote1": 1, "mote2": 1}
    assert clocks["mote3", "message 1"] == {"mote3": 1}
    assert [event for host, _, event in events if host == "observer"][1] == "receives message 7 of mote2"
    # The motes were at work before: what led to their first messages is unknown.
    assert (known.messages, known.complete) == (5, 0)


def test_shiviz_refuses_a_circle(tmp_path):
    deployed = deployment(receipts=1)
    logged(tmp_path, exchange(deployed, [(0, 1, ((1, 1),)), (1, 1, ((0, 1),))]), deployed)
    events, _ = shiviz(messages(tmp_path), deployed)
    check_clocks(events)
    told: list[str] = []
    trace_of(read_journal(tmp_path), deployed, refuse, told.append)
    assert told == ["1 name of causes contradicted others, and is left out"]


def test_shiviz_gives_the_truth_where_it_is_known():
    trace, _ = simulated("shlc", messages=200, loss=0.1)
    events, known = shiviz(trace.messages, trace.deployment)
    check_clocks(events)
    assert known.complete == known.messages
    sends = {(host, event): clock for host, clock, event in events if host != "observer"}
    rows = trace.messages.to_pylist()
    arrived = {(row["source"], row["sequence"]) for row in rows}
    for row in rows:
        counts = struct.unpack(f"<{len(row['vector']) // 4}i", row["vector"])
        wanted = {
            f"mote{mote}": seen
            for mote, count in enumerate(counts)
            if (seen := sum((mote, number) in arrived for number in range(count)))
        }
        assert sends[f"mote{row['source']}", f"message {row['sequence']}"] == wanted


def test_dot_draws_the_direct_causes(tmp_path):
    deployed, file = deployment(receipts=2), io.StringIO()
    said = [(0, 0, ()), (1, 0, ((0, 0),)), (2, 0, ((0, 0), (1, 0))), (0, 1, ()), (3, 0, ())]
    said.append((2, 3, ((0, 1),)))
    logged(tmp_path, exchange(deployed, said), deployed)
    known = write_dot(messages(tmp_path), deployed, file)
    drawn = file.getvalue().splitlines()
    assert drawn[0] == f'digraph "{deployed.network.name}" {{'
    arrows = {line.strip(" ;") for line in drawn if "->" in line}
    # 1#0 led to 2#0 and 0#0 to that: two arrows are enough.
    assert arrows == {
        f'"{a}" -> "{b}"'
        for a, b in [("0#0", "1#0"), ("1#0", "2#0"), ("0#0", "0#1"), ("0#1", "2#3"), ("2#0", "2#3")]
    }
    assert '  "2#3" [style=dashed];' in drawn  # 2#1 and 2#2 were lost: 3#0 may have led to them
    assert known.complete < known.messages == 6


def test_an_empty_log_has_every_form(tmp_path):
    deployed = deployment()
    write(tmp_path, [], deployed)
    trace = trace_in(tmp_path)
    assert len(trace.messages) == 0
    assert shiviz(trace.messages, deployed)[0] == []
    assert read_csv_of(trace).equals(trace.messages)


def read_csv_of(trace):
    file = io.StringIO()
    write_csv(trace, file)
    return read_csv(file.getvalue(), trace)


def test_a_packet_is_a_packet(log):
    """What ndjson says of a packet is what the packet says."""
    journal, file = read_journal(log), io.StringIO()
    write_ndjson(journal, journal.deployment, file, refuse)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    frames = [
        line for line in lines if line["kind"] == "frame" and line.get("packet", {}).get("kind") == "data"
    ]
    assert len(frames) > 300
    for line in frames[:20]:
        message = decode_am(1, bytes.fromhex(line["raw"])[1:])
        assert line["packet"]["payload"] == message.data.hex()
    assert [line["fault"] for line in lines if "fault" in line] == ["unknown packet type 99"]


def test_ndjson_says_what_was_lost(tmp_path):
    write(tmp_path, [Arrival(0, 1, 1, b"\x99")])
    lost = Record(3, RecordKind.LOST, 0, 2, 2, b'{"records": 2, "reason": "No space left"}')
    put_behind(next(tmp_path.glob("*.cwj")), [lost])
    file, faults = io.StringIO(), []
    write_ndjson(read_journal(tmp_path), None, file, faults.append)
    told = json.loads(file.getvalue().splitlines()[-1])
    assert (told["kind"], told["records"], told["reason"]) == ("lost", 2, "No space left")
    (hole,) = faults
    assert (hole.first, hole.last) == (1, 2)
    assert hole.reason == "No space left"


def test_ndjson_keeps_what_makes_no_sense(tmp_path):
    """A good check sum, and content that is none: its bytes, and what is wrong with them."""
    write(tmp_path, [Arrival(0, 1, 1, b"\x99")])
    path = next(tmp_path.glob("*.cwj"))
    odd = [
        Record(10 + place, kind, 0, 2, 2, b"[1]")
        for place, kind in enumerate((RecordKind.DECISION, RecordKind.COUNTERS, RecordKind.POLICY))
    ]
    put_behind(path, odd)
    file = io.StringIO()
    write_ndjson(read_journal(tmp_path), None, file, refuse_damage)
    lines = [json.loads(line) for line in file.getvalue().splitlines()][2:]
    assert [line["raw"] for line in lines] == [b"[1]".hex()] * 3
    assert [line["fault"] for line in lines] == [
        "a decision record has 18 or 38 bytes",
        "a counters record whose JSON is no object",
        "a policy record whose JSON is no object",
    ]
