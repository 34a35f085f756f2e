"""Heard records and their frames on one line."""

from dataclasses import replace

from basestation.live.pairing import Pairing
from packet_formats.framing import crc16
from packet_formats.records import Heard

FRAME, OTHER = b"the frame", b"another frame"


def record(sequence: int, frame: bytes = FRAME) -> Heard:
    return Heard(0, 1, sequence, 0, 1, -70, 100, crc16(frame), 1000)


def test_a_record_is_of_the_frame_that_follows_it():
    pairing = Pairing()
    assert pairing.take(record(7)) == (0, 0)
    assert pairing.match(FRAME) == (record(7), 0)
    assert pairing.match(FRAME) == (None, 0), "a record is used once"


def test_a_record_of_another_frame_is_refused():
    pairing = Pairing()
    pairing.take(record(7, OTHER))
    assert pairing.match(FRAME) == (None, 1)
    assert pairing.match(OTHER) == (None, 0), "and it is not kept"


def test_a_record_without_a_frame_is_counted_when_the_next_comes():
    pairing = Pairing()
    pairing.take(record(7, OTHER))
    assert pairing.take(record(8)) == (1, 0)
    assert pairing.match(FRAME) == (record(8), 0)


def test_lost_records_are_counted_by_their_numbers_around_256():
    pairing = Pairing()
    numbers = [254, 255, 0, 3, 3]
    assert [pairing.take(record(number))[1] for number in numbers] == [0, 0, 0, 2, 255]


def test_a_dropped_record_is_counted_once():
    pairing = Pairing()
    assert pairing.drop() == 0
    pairing.take(record(7))
    assert (pairing.drop(), pairing.drop()) == (1, 0)
    assert pairing.match(FRAME) == (None, 0)


def test_a_new_record_has_no_time_until_its_gateway_has():
    pairing = Pairing()
    pairing.cycles = 5
    pairing.take(replace(record(7), flags=0))
    assert pairing.cycles is None


def test_a_line_is_a_gateways_of_ours_when_a_record_had_its_frame():
    pairing = Pairing()
    pairing.take(record(7))
    assert not pairing.native, "anybody can send a record by radio"
    pairing.match(FRAME)
    assert pairing.native


def test_what_the_held_record_announces_came_by_air():
    pairing = Pairing()
    pairing.take(record(7))
    assert not pairing.announces(OTHER)
    assert pairing.announces(FRAME)
    assert not pairing.announces(FRAME), "the record is used up"
    assert pairing.drop() == 0
