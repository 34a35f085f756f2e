"""A disk that is full, or fails: what was acknowledged stays, and the log says what it lacks and why."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from basestation.arrivals import Arrival
from basestation.journal import writer
from basestation.journal.reader import UNSAID, JournalHole, read_journal, read_segment
from basestation.journal.record_format import Ending, RecordKind
from basestation.journal.recovery import recover
from basestation.journal.writer import JournalError, JournalWriter
from tests.journal.disks import REASON, FullDisk, SickDisk, kept
from tests.journal.logs import records

WRITES = ("whole", "whole", "short", "refused", "torn")


moments = st.tuples(st.sampled_from(WRITES), st.booleans(), st.booleans())


WELL = ("whole", True, True)
CUTS_A_GOOD_RECORD = [("short", False, True), WELL, ("short", True, True)]  # it once did


@example(CUTS_A_GOOD_RECORD, WELL, "never", 10**6)
@given(
    st.lists(moments, min_size=10, max_size=60),
    moments,
    st.sampled_from(["always", "never"]),
    st.sampled_from([300, 10**6]),
)
def test_no_failure_of_the_disk_takes_a_record_that_was_acknowledged(
    tmp_path_factory, script, at_the_end, sync, size
):
    folder = tmp_path_factory.mktemp("log") / "run"
    journal, acknowledged = JournalWriter(folder, None, "run-1", sync, segment_bytes=size), {}
    with SickDisk() as disk:
        for at, (disk.write, disk.cut, disk.sync) in enumerate(script):
            packet = b"%d " % at * 9
            number = kept(journal, Arrival(0, at, at, packet))
            if number is not None:
                acknowledged[number] = packet
        disk.write, disk.cut, disk.sync = at_the_end
        with suppress(JournalError):
            journal.close()
    told = []
    frames = [one for one in read_journal(folder).records(told.append) if one.kind == RecordKind.FRAME]
    assert {frame.number: frame.payload for frame in frames} == acknowledged
    mark = read_segment(read_journal(folder).paths[-1]).scan.mark
    if mark is not None and mark.how == Ending.CLOSED:
        holes = [hole for hole in told if isinstance(hole, JournalHole)]
        assert [hole for hole in holes if hole.reason == UNSAID] == []
        assert sum(hole.last - hole.first + 1 for hole in holes) == len(script) - len(acknowledged)


def test_what_could_not_be_cut_off_is_cut_off_before_the_next_record(tmp_path):
    journal = JournalWriter(tmp_path, None, "run-1", "never")
    with SickDisk() as disk:
        disk.write, disk.cut = "short", False
        assert kept(journal, Arrival(0, 1, 1, b"lost")) is None
        disk.write, disk.cut = "whole", True
        assert kept(journal, Arrival(0, 2, 2, b"kept")) == 2
    journal.close()
    assert [record.payload for record in records(tmp_path)][1:] == [b"kept"]


@pytest.mark.parametrize("size", range(6000, 6100, 7))
def test_a_log_on_a_full_disk_is_closed_and_says_what_it_lacks_and_why(tmp_path, size):
    """However the last records fit: the end mark is small, and found room where nothing else did."""
    with FullDisk(tmp_path, size):
        journal = JournalWriter(tmp_path, None, "run-1", "never")
        numbers = [kept(journal, Arrival(0, at, at, b"x" * 60)) for at in range(50)]
        journal.close()
    lost = numbers.count(None)
    assert lost > 10
    told = []
    assert len(list(read_journal(tmp_path).records(told.append))) == 50 - lost + 1
    (hole,) = told
    assert (hole.first, hole.last, hole.reason) == (50 - lost, 49, REASON)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".cwj"], "the room is given back"


def test_a_writer_that_was_killed_on_a_full_disk_has_noted_why(tmp_path):
    with FullDisk(tmp_path, 6000):
        journal = JournalWriter(tmp_path, None, "run-1", "never")
        numbers = [kept(journal, Arrival(0, at, at, b"x" * 60)) for at in range(50)]
        writer.locking.drop(journal._lock)  # as the system does when a process ends
        journal._closed = True
    recover(tmp_path)
    told = []
    assert len(list(read_journal(tmp_path).records(told.append))) == 50 - numbers.count(None) + 1
    assert [(hole.last, hole.reason) for hole in told if isinstance(hole, JournalHole)] == [(49, REASON)]


def test_a_note_of_doubt_that_finds_no_room_is_written_later(tmp_path):
    journal = JournalWriter(tmp_path, None, "run-1", "always")
    with SickDisk() as disk:
        disk.sync = False
        kept(journal, Arrival(0, 1, 1, b"in doubt"))
        disk.sync = True
        journal.sync()
        disk.write = "refused"
        assert kept(journal, Arrival(0, 2, 2, b"lost")) is None
    journal.close()
    (note,) = [record for record in records(tmp_path) if record.kind == RecordKind.NOTE]
    assert note.text() == "record 0 may not be on the disk: Input/output error"
