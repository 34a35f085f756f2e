"""Parquet parts: made from the journal alone, the same when made again, and rolled while it is written."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from basestation.journal.convert import trace_of
from basestation.journal.parquet_parts import PartRoller, make_parts, mics_of, part_paths
from basestation.journal.recovery import repair
from basestation.journal.writer import JournalError, JournalWriter, read_journal
from packet_formats.keys import Key
from packet_formats.layout import layout_of
from packet_formats.messages import encode_message
from packet_formats.tinyos import encode_packet
from tests.journal.logs import refuse, refuse_damage, simulated, write
from tests.live.test_guard import KEY, attacked, deployment, honest_line
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
    write(tmp_path, arrivals, trace.deployment, segment_bytes=5000)
    made = make_parts(tmp_path, refuse)
    assert len(made) == len(read_journal(tmp_path).paths) > 5
    assert together(tmp_path).equals(whole(tmp_path))
    metadata = pq.read_schema(made[0]).metadata
    assert metadata[b"causeway.run"] == b"run-1"
    assert metadata[b"causeway.segment"] == b"000000.cwj"


def test_parts_made_again_are_identical(tmp_path):
    trace, arrivals = simulated()
    write(tmp_path, arrivals, trace.deployment, segment_bytes=5000)
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
        for arrival in arrivals:
            journal.append(arrival)
        assert len(make_parts(tmp_path, refuse)) == len(read_journal(tmp_path).paths) - 1
    assert len(make_parts(tmp_path, refuse)) == 1
    assert together(tmp_path).equals(whole(tmp_path))


def test_parts_are_rolled_beside_the_writer(tmp_path):
    trace, arrivals = simulated()
    roller = PartRoller(tmp_path)
    with JournalWriter(
        tmp_path, trace.deployment, "run-1", "never", segment_bytes=15_000, on_closed=roller.closed
    ) as journal:
        for arrival in arrivals:
            journal.append(arrival)
    roller.finish(refuse)
    assert len(part_paths(tmp_path)) == len(read_journal(tmp_path).paths) > 1
    assert together(tmp_path).equals(whole(tmp_path))
    assert not list((tmp_path / "messages").glob(".*"))


def test_a_repaired_segment_gets_new_parts(tmp_path):
    trace, arrivals = simulated()
    write(tmp_path, arrivals, trace.deployment, segment_bytes=5000)
    make_parts(tmp_path, refuse)
    path = read_journal(tmp_path).paths[2]
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    repair(tmp_path)
    assert [part.stem for part in part_paths(tmp_path)] == ["000000", "000001"]
    make_parts(tmp_path, refuse_damage)
    assert together(tmp_path).equals(whole(tmp_path))


def test_without_a_deployment_there_are_none(tmp_path):
    write(tmp_path, [])
    with pytest.raises(JournalError, match="without a deployment"):
        make_parts(tmp_path, refuse)


def test_the_mics_in_parts_are_checked_or_said_not_to_be(tmp_path):
    network = deployment()
    write(tmp_path, attacked(network, honest_line(network, 60)), network, segment_bytes=5000)
    said = []
    make_parts(tmp_path, said.append)
    first, taken = part_paths(tmp_path)[0], len(together(tmp_path))
    assert [note.text for note in said] == [f"{taken} messages unchecked: nobody gave the network's key"]
    assert mics_of(first) == "unchecked"
    said.clear()
    assert len(make_parts(tmp_path, said.append, key=KEY)) == len(part_paths(tmp_path)) > 2
    assert [note.text.partition(" messages refused by their MIC, ")[2] for note in said] == ["60 taken"]
    assert len(together(tmp_path)) == 60 < taken
    assert mics_of(first) == "checked"
    assert make_parts(tmp_path, refuse, key=KEY) == []


def test_a_beacon_whose_proof_was_lost_is_no_message_that_was_refused(tmp_path):
    network = deployment()
    line = list(honest_line(network, 60))
    lonely = encode_packet(encode_message(beacon(50), layout_of(network)))
    write(tmp_path, [*line[:40], line[39]._replace(packet=lonely), *line[40:]], network)
    make_parts(tmp_path, refuse, key=KEY)
    assert len(together(tmp_path)) == 60


def test_a_roller_checks_by_its_key(tmp_path):
    network = deployment()
    roller = PartRoller(tmp_path, KEY)
    line = attacked(network, honest_line(network, 60))
    write(tmp_path, line, network, segment_bytes=5000, on_closed=roller.closed)
    roller.finish_apart()
    assert roller.finish(refuse) == []
    assert len(together(tmp_path)) == 60
    said = []
    make_parts(tmp_path, said.append, key=Key(bytes([7] * 16)), again=True)
    assert [note.text.partition(", ")[2] for note in said] == ["0 taken: is this the network's key?"]
