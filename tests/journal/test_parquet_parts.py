"""Parquet parts: made only from the journal, the same when made again, and rolled while it is written."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from basestation.journal.convert import trace_of
from basestation.journal.parquet_parts import PartRoller, make_parts, mics_in, part_paths
from basestation.journal.reader import read_segment
from basestation.journal.record_format import RecordKind, encode_header, encode_record
from basestation.journal.recovery import repair
from basestation.journal.sidecar import DECISIONS
from basestation.journal.writer import JournalError, JournalWriter, read_journal
from basestation.live.station import Station
from packet_formats.layout import layout_of
from packet_formats.messages import encode_message
from packet_formats.tinyos import encode_packet
from tests.journal.logs import append, logged, refuse, refuse_damage, simulated, write
from tests.live.test_guard import attacked, deployment, honest_line
from tests.live.world import beacon


def whole(folder):
    """All but vectors and causes: those of the last messages in a segment may need the next one, so parts have none."""
    journal = read_journal(folder)
    messages = trace_of(journal, journal.deployment, refuse_damage).messages
    assert messages["vector"].null_count == 0
    for name in ("vector", "vector_most", "causes"):
        place = messages.schema.get_field_index(name)
        field = messages.schema.field(place)
        messages = messages.set_column(place, field, pa.nulls(len(messages), field.type))
    return messages


def together(folder):
    return pa.concat_tables([pq.read_table(path) for path in part_paths(folder)])


def test_the_parts_are_the_whole(tmp_path):
    trace, arrivals = simulated(loss=0.1)
    logged(tmp_path, arrivals, trace.deployment, segment_bytes=5000)
    made = make_parts(tmp_path, refuse)
    assert len(made) == len(read_journal(tmp_path).paths) > 5
    assert together(tmp_path).equals(whole(tmp_path))
    metadata = pq.read_schema(made[0]).metadata
    assert metadata[b"causeway.run"] == b"run-1"
    assert metadata[b"causeway.segment"] == b"000000.cwj"


def test_parts_made_again_are_identical(tmp_path):
    trace, arrivals = simulated()
    logged(tmp_path, arrivals, trace.deployment, segment_bytes=5000)
    first = {path: path.read_bytes() for path in make_parts(tmp_path, refuse)}
    assert make_parts(tmp_path, refuse) == []
    third = sorted(first)[3]
    third.unlink()
    assert make_parts(tmp_path, refuse) == [third]
    assert third.read_bytes() == first[third]
    assert make_parts(tmp_path, refuse, again=True) == sorted(first)
    assert {path: path.read_bytes() for path in part_paths(tmp_path)} == first


def test_the_last_segment_waits_until_it_is_closed(tmp_path):
    trace, arrivals = simulated()
    with JournalWriter(tmp_path, trace.deployment, "run-1", "never", segment_bytes=5000) as journal:
        append(journal, arrivals, Station(trace.deployment))
        assert len(make_parts(tmp_path, refuse)) == len(read_journal(tmp_path).paths) - 1
    assert len(make_parts(tmp_path, refuse)) == 1
    assert together(tmp_path).equals(whole(tmp_path))


def test_parts_are_rolled_beside_the_writer(tmp_path):
    trace, arrivals = simulated()
    roller = PartRoller(tmp_path)
    logged(tmp_path, arrivals, trace.deployment, segment_bytes=15_000, on_closed=roller.closed)
    roller.finish(refuse)
    assert len(part_paths(tmp_path)) == len(read_journal(tmp_path).paths) > 1
    assert together(tmp_path).equals(whole(tmp_path))
    assert not list((tmp_path / "messages").glob(".*"))


def test_a_repaired_segment_gets_a_new_part_and_the_others_keep_theirs(tmp_path):
    trace, arrivals = simulated()
    logged(tmp_path, arrivals, trace.deployment, segment_bytes=5000)
    make_parts(tmp_path, refuse)
    made = [part.stem for part in part_paths(tmp_path)]
    path = read_journal(tmp_path).paths[2]
    raw = bytearray(path.read_bytes())
    raw[int(read_segment(path).records.of_kind(RecordKind.DECISION).starts[9]) + 40] ^= 1
    path.write_bytes(raw)
    repair(tmp_path)
    assert [part.stem for part in part_paths(tmp_path)] == [stem for stem in made if stem != "000002"]
    said = []
    make_parts(tmp_path, said.append)
    assert "1 frame without a decision: `basestation log decide` makes it" in [
        str(one).partition(": ")[2] for one in said
    ]
    assert together(tmp_path).equals(whole(tmp_path))


def test_without_a_deployment_there_are_none(tmp_path):
    write(tmp_path, [])
    with pytest.raises(JournalError, match="without a deployment"):
        make_parts(tmp_path, refuse)


def test_parts_say_whether_the_mics_were_checked(tmp_path):
    """As the station could; the key is not needed for parts."""
    network, said = deployment(), []
    line = list(attacked(network, honest_line(network, 60)))
    logged(tmp_path / "with", line, network, segment_bytes=5000)
    assert len(make_parts(tmp_path / "with", said.append)) == len(part_paths(tmp_path / "with")) > 2
    assert [note.text.partition(" messages refused by their MIC, ")[2] for note in said] == ["60 taken"]
    assert {mics_in(part) for part in part_paths(tmp_path / "with")} == {"checked"}
    assert len(together(tmp_path / "with")) == 60
    said.clear()
    logged(tmp_path / "without", line, replace(network, key=None), segment_bytes=5000)
    make_parts(tmp_path / "without", said.append)
    taken = len(together(tmp_path / "without"))
    assert taken > 60
    assert [note.text for note in said] == [f"{taken} messages unchecked: nobody gave the network's key"]
    assert {mics_in(part) for part in part_paths(tmp_path / "without")} == {"unchecked"}


def test_a_part_is_made_again_when_its_frames_were_decided_anew(tmp_path):
    trace, arrivals = simulated()
    logged(tmp_path, arrivals, trace.deployment, segment_bytes=5000)
    first, *_ = made = make_parts(tmp_path, refuse)
    segment = read_segment(read_journal(tmp_path).paths[0])
    later = tmp_path / DECISIONS / segment.path.name
    later.parent.mkdir()
    decided = segment.records.chosen(segment.records.head["kind"] == RecordKind.DECISION)
    raw = b"".join(encode_record(record, segment.salt) for record in decided)
    later.write_bytes(encode_header(replace(segment.header, decider=segment.header.decider + 1)) + raw)
    table = pq.read_table(first)
    assert make_parts(tmp_path, refuse) == [first]
    assert pq.read_table(first).equals(table)
    assert len(made) > 5


def test_a_beacon_whose_proof_was_lost_is_not_a_message_that_was_refused(tmp_path):
    network = deployment()
    line = list(honest_line(network, 60))
    lonely = encode_packet(encode_message(beacon(50), layout_of(network)))
    logged(tmp_path, [*line[:40], line[39]._replace(packet=lonely), *line[40:]], network)
    make_parts(tmp_path, refuse)
    assert len(together(tmp_path)) == 60


def test_a_run_that_ends_while_others_go_on_gets_its_parts(tmp_path):
    network, roller = deployment(), PartRoller(tmp_path)
    line = attacked(network, honest_line(network, 60))
    logged(tmp_path, line, network, segment_bytes=5000, on_closed=roller.closed)
    roller.finish_apart()
    assert roller.finish(refuse) == []
    assert len(together(tmp_path)) == 60
