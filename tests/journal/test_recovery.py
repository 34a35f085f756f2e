"""A journal cut off or damaged anywhere: every whole record is read, nothing is lost or passed over in silence."""

import errno
import os
import shutil
import stat
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.arrivals import Arrival
from basestation.journal import locking
from basestation.journal.parquet_parts import make_parts
from basestation.journal.reader import JournalHole, read_segment
from basestation.journal.record_format import (
    Ending,
    Record,
    RecordKind,
    decode_header,
    encode_record,
    scan,
    walk_intact,
)
from basestation.journal.recovery import interrupted_runs, recover, repair
from basestation.journal.walking import walk_fast
from basestation.journal.writer import JournalError, JournalWriter, read_journal
from tests.journal.logs import logged, records, refuse, refuse_damage, simulated, write

LINES = [Arrival(0, i, i, bytes([i]) * 20) for i in range(12)]
RECORD = 36 + 20
END = 36 + 1
SEGMENT = 336  # bytes, for two records and their header


def journal(folder, **options):
    write(folder, LINES, **options)
    path = folder / "000000.cwj"
    return path, path.read_bytes()


def read(folder):
    """The lines of a journal, the faults of it, and its holes."""
    faults = []
    lines = [line for line, _ in read_journal(folder).lines(faults.append)]
    holes = [fault for fault in faults if isinstance(fault, JournalHole)]
    return lines, [fault for fault in faults if fault not in holes], holes


@given(cut=st.integers(1, RECORD * 12 + END))
def test_a_torn_end_is_cut_and_kept(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("log")
    path, raw = journal(folder)
    path.write_bytes(raw[:-cut])
    whole, torn = divmod(12 * RECORD + END - cut, RECORD)
    lines, faults, (hole,) = read(folder)
    assert lines == LINES[:whole]
    assert [fault.length for fault in faults] == ([torn] if torn else [])
    assert (hole.first, hole.last, "no end mark" in hole.reason) == (whole, None, True)
    recovery = recover(folder)
    assert len(recovery.faults) == len(recovery.aside) == bool(torn)
    assert [line for line, _ in read_journal(folder).lines(refuse)] == LINES[:whole]
    assert read_segment(path).scan.mark[1:] == (whole, Ending.INTERRUPTED)
    if torn:
        assert recovery.aside[0].read_bytes() == raw[len(raw) - 12 * RECORD - END + whole * RECORD : -cut]
    assert recover(folder).faults == ()


@given(at=st.integers(0, 12 * RECORD + END - 1), flip=st.integers(1, 255))
def test_one_wrong_byte_costs_one_record(tmp_path_factory, at, flip):
    folder = tmp_path_factory.mktemp("log")
    path, raw = journal(folder)
    begin = len(raw) - 12 * RECORD - END
    damaged = bytearray(raw)
    damaged[begin + at] ^= flip
    path.write_bytes(damaged)
    hit = at // RECORD
    lines, (fault,), (hole,) = read(folder)
    found = [number for number in range(12) if number != hit]
    assert lines == [LINES[number] for number in found]
    assert (hole.first, hole.last) == (hit, hit if hit < 12 else None)
    assert (fault.at, fault.length) == (begin + hit * RECORD, RECORD if hit < 12 else END)
    recovery = repair(folder)
    assert recovery.aside[0].suffix == (".torn" if hit == 12 else ".bad")
    assert [record.number for record in records(folder)] == found
    kept = recovery.aside[0].read_bytes()
    assert kept == (bytes(damaged[begin + hit * RECORD :]) if hit == 12 else bytes(damaged))


@given(
    st.lists(
        st.tuples(st.integers(0, 12 * RECORD + END), st.integers(0, 80), st.binary(max_size=80)), max_size=5
    )
)
def test_any_damage_leaves_only_true_records_and_is_told(tmp_path_factory, damages):
    folder = tmp_path_factory.mktemp("log")
    path, raw = journal(folder)
    begin = len(raw) - 12 * RECORD - END
    for at, removed, put in damages:
        raw = raw[: begin + at] + put + raw[begin + at + removed :]
    path.write_bytes(raw)
    found, faults, holes = read(folder)
    assert all(line in LINES for line in found)
    assert found == sorted(found)
    marked = read_segment(path).scan.mark is not None
    assert sum(f.length for f in faults) + len(found) * RECORD + marked * END == len(raw) - begin
    missing = {n for hole in holes for n in range(hole.first, 12 if hole.last is None else hole.last + 1)}
    assert missing == {line.mono_ns for line in LINES} - {line.mono_ns for line in found}
    assert marked or holes[-1].last is None
    repair(folder)
    assert [line for line, _ in read_journal(folder).lines(refuse_damage)] == found


@given(at=st.floats(0, 0.999), flip=st.integers(1, 255))
def test_one_wrong_byte_in_the_only_header_costs_no_record(tmp_path_factory, at, flip):
    """Its version as little as its text: the frames are read again after a repair, with a deployment or without."""
    folder = tmp_path_factory.mktemp("log")
    path, raw = journal(folder)
    damaged = bytearray(raw)
    damaged[int(at * (len(raw) - 12 * RECORD - END))] ^= flip
    path.write_bytes(damaged)
    with suppress(JournalError):  # two bytes of it mean nothing
        read_journal(folder)
        assert [line for line, _ in read_journal(folder).lines(refuse)] == LINES
        return
    assert len(repair(folder).aside) == 1
    assert path.with_suffix(".bad").read_bytes() == damaged
    assert [line for line, _ in read_journal(folder).lines(refuse)] == LINES


@pytest.mark.parametrize("lost", [0, 3])
def test_the_salt_of_a_lost_header_is_found_though_payloads_tell_others(tmp_path, lost):
    """Each payload holds records with a salt of its sender's."""
    false = b"".join(encode_record(Record(9_000 + i, 1, 0, 0, 0, b""), 0xBAD) for i in range(6))
    lines = [Arrival(0, i, i, false + bytes([i])) for i in range(40)]
    write(tmp_path, lines)
    path = tmp_path / "000000.cwj"
    raw = path.read_bytes()
    begin = read_segment(path).begin + lost * (36 + len(lines[0].packet)) + (lost and 50)
    path.write_bytes(bytes(begin) + raw[begin:])
    repair(tmp_path)
    assert [line for line, _ in read_journal(tmp_path).lines(refuse_damage)] == lines[lost + bool(lost) :]


def test_a_record_in_a_payload_takes_nothing_with_it(tmp_path):
    """A packet holds a record with a very high number, and one bit in front of it is wrong."""
    lines = [Arrival(0, i, i, bytes(20)) for i in range(1000)]
    false = encode_record(Record(1 << 40, RecordKind.FRAME, 0, 0, 0, b"forged"))
    lines[10] = lines[10]._replace(packet=b"ab" + false)
    write(tmp_path, lines)
    path = tmp_path / "000000.cwj"
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"ab" + false)] ^= 1
    path.write_bytes(raw)
    found = read(tmp_path)
    assert len(found[0]) == 999
    assert [(hole.first, hole.last) for hole in found[2]] == [(10, 10)]


@pytest.mark.parametrize("gone", [(0,), (2,), (1, 2), (5,), (4, 5)])
def test_segments_that_are_gone_are_missed(tmp_path, gone):
    write(tmp_path, LINES, segment_bytes=SEGMENT)
    paths = read_journal(tmp_path).paths
    assert len(paths) == 6
    for place in gone:
        paths[place].unlink()
    (hole,) = read(tmp_path)[2]
    assert (hole.first, hole.last) == (2 * gone[0], None if 5 in gone else 2 * gone[-1] + 1)
    assert "gone" in hole.reason


def test_a_segment_of_another_run_is_none_of_this(tmp_path):
    for run in ("one", "two"):
        write(tmp_path / run, LINES, run=run, segment_bytes=SEGMENT)
    shutil.copy(tmp_path / "two" / "000002.cwj", tmp_path / "one" / "000002.cwj")
    lines, faults, (hole,) = read(tmp_path / "one")
    assert lines == LINES[:4] + LINES[6:]
    assert ["of another run, two" in fault.reason for fault in faults] == [True]
    assert (hole.first, hole.last) == (4, 5)


@pytest.mark.parametrize("goes_on", [False, True])
def test_records_that_a_full_disk_refused_are_missed_though_the_end_was_refused_too(
    tmp_path, monkeypatch, goes_on
):
    journal = JournalWriter(tmp_path, None, "run-1", "never")
    journal.append(LINES[0])
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", partial(no_room, os.write))
        for line in LINES[1:5]:
            with pytest.raises(JournalError, match="No space left"):
                journal.append(line)
        if not goes_on:
            with pytest.raises(JournalError, match="No space left"):
                journal.close()
    if goes_on:  # it tells of the loss, goes on, and is killed
        journal.append(LINES[5])
        journal.sync()
        locking.drop(journal._lock)
    recover(tmp_path)
    lines, faults, (hole,) = read(tmp_path)
    assert lines == LINES[:1] + goes_on * LINES[5:6]
    assert (faults, hole.first, hole.last) == ([], 1, 4)


def no_room(write, file, raw):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_a_repair_put_aside_is_kept_by_the_next(tmp_path):
    path, raw = journal(tmp_path)
    for number, suffix in ((3, ".bad"), (5, ".2.bad")):
        before = bytearray(path.read_bytes())
        before[before.index(bytes([number]) * 20)] ^= 1
        path.write_bytes(before)
        assert repair(tmp_path).aside == (path.with_suffix(suffix),)
        assert path.with_suffix(suffix).read_bytes() == before
    assert len(path.with_suffix(".bad").read_bytes()) == len(raw)


def test_a_number_that_no_run_reaches_is_no_record(tmp_path):
    path, raw = journal(tmp_path)
    salt = decode_header(raw)[0].salt
    path.write_bytes(raw[:-END] + encode_record(Record((1 << 64) - 1, RecordKind.NOTE, 0, 0, 0, b"x"), salt))
    recover(tmp_path)
    assert [line for line, _ in read_journal(tmp_path).lines(refuse)] == LINES
    for walk in (walk_intact, walk_fast):
        assert len(scan(path.with_suffix(".torn").read_bytes(), 0, walk, salt).starts) == 0


def test_a_lock_that_is_a_link_overwrites_nothing(tmp_path):
    """Somebody may have sent us the folder."""
    journal(tmp_path / "run")
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "run" / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="lock"):
        repair(tmp_path / "run")
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_damaged_header_is_rebuilt_from_another_segment(tmp_path):
    path, raw = journal(tmp_path, segment_bytes=400)
    second = tmp_path / "000001.cwj"
    raw = bytearray(second.read_bytes())
    raw[30] ^= 1
    second.write_bytes(raw)
    lines, faults, _ = read(tmp_path)
    assert lines == LINES
    assert ["header" in fault.reason for fault in faults] == [True]
    repair(tmp_path)
    assert [line for line, _ in read_journal(tmp_path).lines(refuse)] == LINES
    assert path.exists()


def test_a_journal_that_is_being_written_is_left_alone(tmp_path):
    with JournalWriter(tmp_path, None, "run-1"):
        for action in (recover, repair):
            with pytest.raises(JournalError, match="being written"):
                action(tmp_path)


def test_a_journal_is_left_alone_though_its_lock_was_deleted(tmp_path):
    with JournalWriter(tmp_path, None, "run-1") as journal:
        journal.append(LINES[0])
        (tmp_path / "lock").unlink()
        assert locking.is_taken(tmp_path)
        for action in (recover, repair, partial(JournalWriter, deployment=None, run_id="run-2")):
            with pytest.raises(JournalError, match="being written"):
                action(tmp_path)
        journal.append(LINES[1])
    assert [line for line, _ in read_journal(tmp_path).lines(refuse)] == LINES[:2]


def test_only_its_user_reads_a_log_unless_told_otherwise(tmp_path):
    before = os.umask(0o022)
    try:
        journal(tmp_path / "own")
        (tmp_path / "shared").mkdir(mode=0o755)
        (tmp_path / "shared").chmod(0o2755)
        journal(tmp_path / "shared" / "run")
        trace, arrivals = simulated(messages=20)
        for place in ("own", "shared"):
            logged(tmp_path / place / "parts", arrivals, trace.deployment)
            make_parts(tmp_path / place / "parts", refuse)
        (tmp_path / "own" / "000000.cwj").write_bytes(journal(tmp_path / "other")[1][:-3])
        repair(tmp_path / "own")
    finally:
        os.umask(before)
    modes = {
        str(path.relative_to(tmp_path)): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")
    }
    assert {path: modes[path] for path in modes if "other" not in path} == {
        "own": 0o700,
        "own/000000.cwj": 0o600,
        "own/000000.torn": 0o600,
        "own/parts": 0o700,
        "own/parts/000000.cwj": 0o600,
        "own/parts/messages": 0o700,
        "own/parts/messages/000000.parquet": 0o600,
        "shared": 0o2755,
        "shared/run": 0o2750,
        "shared/run/000000.cwj": 0o640,
        "shared/parts": 0o2750,
        "shared/parts/000000.cwj": 0o640,
        "shared/parts/messages": 0o2750,
        "shared/parts/messages/000000.parquet": 0o640,
    }


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
    file = tmp_path / "lock"
    # As an older version holds it, which does not lock the folder
    first = os.open(file, os.O_RDWR | os.O_CREAT)
    locking.fcntl.flock(first, locking.fcntl.LOCK_EX)
    real, left = locking.fcntl.flock, []

    def flock(handle, how):
        if not left and os.path.samestat(os.fstat(handle), file.stat()):
            file.unlink()
            left.append(os.close(first))
        real(handle, how)

    monkeypatch.setattr(locking.fcntl, "flock", flock)
    second = locking.take(tmp_path)
    assert locking.is_taken(tmp_path)
    locking.leave(second)
    assert not locking.is_taken(tmp_path)
