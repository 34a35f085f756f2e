"""A journal cut off or damaged anywhere: every whole record is read, nothing is lost or passed over in silence."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.arrivals import Arrival
from basestation.journal import locking
from basestation.journal.recovery import interrupted_runs, recover, repair
from basestation.journal.writer import JournalError, JournalWriter, read_journal
from tests.journal.logs import records, refuse, write

LINES = [Arrival(0, i, i, bytes([i]) * 20) for i in range(12)]
RECORD = 36 + 20


def journal(folder, **options):
    write(folder, LINES, **options)
    path = folder / "000000.cwj"
    return path, path.read_bytes()


@given(cut=st.integers(1, RECORD * 12))
def test_a_torn_end_is_cut_and_kept(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("log")
    path, raw = journal(folder)
    path.write_bytes(raw[:-cut])
    whole, torn = divmod(12 * RECORD - cut, RECORD)
    faults = []
    assert len(list(read_journal(folder).records(faults.append))) == whole
    assert [fault.length for fault in faults] == ([torn] if torn else [])
    recovery = recover(folder)
    assert len(recovery.faults) == len(recovery.aside) == bool(torn)
    assert [line for line, _ in read_journal(folder).lines(refuse)] == LINES[:whole]
    if torn:
        assert recovery.aside[0].read_bytes() == raw[len(raw) - 12 * RECORD + whole * RECORD : -cut]
    assert recover(folder).faults == ()


@given(at=st.integers(0, 12 * RECORD - 1), flip=st.integers(1, 255))
def test_one_wrong_byte_costs_one_record(tmp_path_factory, at, flip):
    folder = tmp_path_factory.mktemp("log")
    path, raw = journal(folder)
    begin = len(raw) - 12 * RECORD
    damaged = bytearray(raw)
    damaged[begin + at] ^= flip
    path.write_bytes(damaged)
    hit, faults = at // RECORD, []
    found = [record.number for record in read_journal(folder).records(faults.append)]
    assert found == [number for number in range(12) if number != hit]
    assert len(faults) == 1
    assert (faults[0].at, faults[0].length) == (begin + hit * RECORD, RECORD)
    recovery = repair(folder)
    assert recovery.aside[0].suffix == (".torn" if hit == 11 else ".bad")
    assert [record.number for record in records(folder)] == found
    kept = recovery.aside[0].read_bytes()
    assert kept == (bytes(damaged[begin + hit * RECORD :]) if hit == 11 else bytes(damaged))


@given(
    st.lists(st.tuples(st.integers(0, 12 * RECORD), st.integers(0, 80), st.binary(max_size=80)), max_size=5)
)
def test_any_damage_leaves_only_true_records(tmp_path_factory, damages):
    folder = tmp_path_factory.mktemp("log")
    path, raw = journal(folder)
    begin = len(raw) - 12 * RECORD
    for at, removed, put in damages:
        raw = raw[: begin + at] + put + raw[begin + at + removed :]
    path.write_bytes(raw)
    faults = []
    found = [line for line, _ in read_journal(folder).lines(faults.append)]
    assert all(line in LINES for line in found)
    assert found == sorted(found)
    assert sum(f.length for f in faults) + len(found) * RECORD == len(raw) - begin
    repair(folder)
    assert [line for line, _ in read_journal(folder).lines(refuse)] == found


@given(data=st.data(), flip=st.integers(1, 255))
def test_one_wrong_byte_in_the_only_header_costs_no_record(tmp_path_factory, data, flip):
    """Its version as little as its text: the frames are read again after a repair, with a deployment or without."""
    folder = tmp_path_factory.mktemp("log")
    path, raw = journal(folder)
    damaged = bytearray(raw)
    damaged[data.draw(st.integers(0, len(raw) - 12 * RECORD - 1))] ^= flip
    path.write_bytes(damaged)
    with suppress(JournalError):  # two bytes of it mean nothing
        read_journal(folder)
        assert [line for line, _ in read_journal(folder).lines(refuse)] == LINES
        return
    assert len(repair(folder).aside) == 1
    assert path.with_suffix(".bad").read_bytes() == damaged
    assert [line for line, _ in read_journal(folder).lines(refuse)] == LINES


def test_a_damaged_header_is_rebuilt_from_another_segment(tmp_path):
    path, raw = journal(tmp_path, segment_bytes=400)
    second = tmp_path / "000001.cwj"
    raw = bytearray(second.read_bytes())
    raw[30] ^= 1
    second.write_bytes(raw)
    faults = []
    assert len(list(read_journal(tmp_path).records(faults.append))) == 12
    assert ["header" in fault.reason for fault in faults] == [True]
    repair(tmp_path)
    assert [line for line, _ in read_journal(tmp_path).lines(refuse)] == LINES
    assert path.exists()


def test_a_journal_that_is_being_written_is_left_alone(tmp_path):
    with JournalWriter(tmp_path, None, "run-1"):
        for action in (recover, repair):
            with pytest.raises(JournalError, match="being written"):
                action(tmp_path)


def test_a_segment_that_never_got_its_name_is_swept_away(tmp_path):
    journal(tmp_path)
    (tmp_path / ".000001.cwj.new").write_bytes(b"half a hea")
    recover(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000.cwj"]


def test_interrupted_runs_are_found_by_the_lock_they_left(tmp_path):
    for name in ("ended", "cut", "busy"):
        path, raw = journal(tmp_path / name)
        path.write_bytes(raw[:-5])
    (tmp_path / "cut" / "lock").write_text("process 1\n")
    with locking.locked(tmp_path / "busy"):
        (recovery,) = [recover(run) for run in interrupted_runs(tmp_path)]
    assert recovery.folder == tmp_path / "cut"
    assert [fault.tail for fault in recovery.faults] == [True]
    assert interrupted_runs(tmp_path) == []
    assert interrupted_runs(tmp_path / "nothing there") == []


def test_a_lock_taken_away_while_waited_for_is_none(tmp_path, monkeypatch):
    """Between opening a lock's file and locking it, its holder may end."""
    first = locking.take(tmp_path)
    real, left = locking.fcntl.flock, []

    def flock(handle, how):
        if not left:
            left.append(locking.leave(tmp_path, first))
        real(handle, how)

    monkeypatch.setattr(locking.fcntl, "flock", flock)
    second = locking.take(tmp_path)
    assert locking.is_taken(tmp_path)
    locking.leave(tmp_path, second)
    assert not locking.is_taken(tmp_path)
