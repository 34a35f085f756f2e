"""What is appended comes back, in order, under every sync policy; one writer; a full disk costs one record."""

import errno
import os
import shutil
import threading
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.arrivals import Arrival, Gap, PolicyChange
from basestation.journal import record_format as journal_records
from basestation.journal.decision import Noted
from basestation.journal.reader import find_journals
from basestation.journal.record_format import (
    FILE_MAGIC,
    HEAD,
    RECORD_MARK,
    Record,
    RecordKind,
    decode_header,
    encode_record,
    scan,
)
from basestation.journal.summary import summarise
from basestation.journal.writer import (
    SYNCS,
    JournalError,
    JournalWriter,
    UnsyncedError,
    new_run_id,
    read_journal,
)
from packet_formats.deployment import load
from packet_formats.framing import FrameCounters
from tests.journal.logs import append_note, noting, put_behind, records, refuse, refuse_damage, write
from tests.waiting import wait_until

times = st.integers(0, 2**63 - 1)
arrivals = st.builds(Arrival, st.integers(0, 255), times, times, st.binary(max_size=254))
gaps = st.builds(Gap, st.integers(0, 255), times, times, st.booleans(), st.text(max_size=40))


@given(lines=st.lists(arrivals | gaps, max_size=30), segment=st.integers(1, 2000))
def test_what_is_appended_comes_back(tmp_path_factory, lines, segment):
    folder = tmp_path_factory.mktemp("log") / "run"
    assert write(folder, lines, segment_bytes=segment) == list(range(len(lines)))
    assert [line for line, _ in read_journal(folder).lines(refuse)] == lines


@pytest.mark.parametrize("sync", SYNCS)
def test_every_kind_of_record(tmp_path, root, sync):
    deployment = load(root / "examples" / "micaz.toml")
    arrival = Arrival(1, 5, 6, b"\x42packet")
    with JournalWriter(tmp_path, deployment, "run-1", sync, site="hill", sources=["a", "b"]) as journal:
        number = journal.append(arrival)
        journal.append_decision(number, arrival, noting(1 << 40, 7))
        journal.append_counters(1, FrameCounters(fed=7), 8, 9)
        append_note(journal, "hello", 10, 11)
    found = records(tmp_path)
    assert [record.kind for record in found] == [
        RecordKind.FRAME,
        RecordKind.DECISION,
        RecordKind.COUNTERS,
        RecordKind.NOTE,
    ]
    assert found[1].payload == noting(1 << 40, 7).encode(number)
    assert found[3] == Record(3, RecordKind.NOTE, 0, 10, 11, b"hello")
    opened = read_journal(tmp_path)
    assert opened.deployment == deployment
    assert (opened.header.run, opened.header.site, opened.header.sources) == ("run-1", "hill", ("a", "b"))
    assert list(opened.lines(refuse)) == [(arrival, Noted(1 << 40))]


def test_segments_roll_and_each_knows_its_run(tmp_path):
    told = []
    lines = [Arrival(0, i, i, bytes(30)) for i in range(100)]
    write(tmp_path, lines, segment_bytes=1000, on_closed=told.append)
    paths = read_journal(tmp_path).paths
    assert len(paths) > 5
    assert told == list(paths)[:-1]  # of the last one, whoever closes the journal knows
    headers = [decode_header(path.read_bytes())[0] for path in paths]
    assert {header.run for header in headers} == {"run-1"}
    assert [header.segment for header in headers] == list(range(len(paths)))
    firsts = [next(iter(segment.records)).number for segment in read_journal(tmp_path).segments(refuse)]
    assert [header.first for header in headers] == firsts


def test_a_decision_is_in_the_segment_of_its_frame(tmp_path):
    with JournalWriter(tmp_path, None, "run-1", "never", segment_bytes=1) as journal:
        for i in range(20):
            arrival = Arrival(0, i, i, b"x")
            journal.append_decision(journal.append(arrival), arrival, noting(i))
    assert [noted.clock for _, noted in read_journal(tmp_path).lines(refuse)] == list(range(20))
    assert len(read_journal(tmp_path).paths) == 20


def test_a_second_writer_is_refused_by_name(tmp_path):
    with JournalWriter(tmp_path, None, "run-1") as journal:
        with pytest.raises(JournalError, match=f"being written by process {os.getpid()}"):
            JournalWriter(tmp_path, None, "run-2")
        journal.append(Arrival(0, 1, 2, b"still mine"))
    with pytest.raises(JournalError, match="never continued"):
        JournalWriter(tmp_path, None, "run-1")
    assert len(records(tmp_path)) == 1


def test_a_closed_journal_takes_nothing(tmp_path):
    journal = JournalWriter(tmp_path, None, "run-1")
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.append(Arrival(0, 1, 2, b"late"))


def test_a_record_that_does_not_fit_the_disk_is_taken_back(tmp_path, monkeypatch):
    real, full = os.write, [False]

    def write_some(file, raw):
        return real(file, raw[:20]) if full[0] else real(file, raw)

    monkeypatch.setattr("basestation.journal.writer.os.write", write_some)
    with JournalWriter(tmp_path, None, "run-1", "never") as journal:
        journal.append(Arrival(0, 1, 1, b"first"))
        full[0] = True
        with pytest.raises(JournalError, match="No space"):
            journal.append(Arrival(0, 2, 2, b"second"))
        full[0] = False
        assert journal.append(Arrival(0, 3, 3, b"third")) == 3
    first, lost, third = records(tmp_path)
    assert (first.payload, third.payload) == (b"first", b"third")
    assert (lost.number, lost.lost()) == (2, (1, "a record could not be written: No space left on device"))


def test_on_a_disk_that_stays_full_the_end_says_how_many_are_missing(tmp_path, monkeypatch):
    journal, real = JournalWriter(tmp_path, None, "run-1", "never"), os.write
    journal.append(Arrival(0, 1, 1, b"first"))
    monkeypatch.setattr("basestation.journal.writer.os.write", lambda file, raw: real(file, raw[:20]))
    for number in range(3):
        with pytest.raises(JournalError, match="No space"):
            journal.append(Arrival(0, 2, 2, b"another" * number))
    with pytest.raises(JournalError, match="No space left on device; nor could 3 records before it"):
        journal.close()


def test_what_the_disk_refused_later_is_said_at_the_next_append(tmp_path, monkeypatch):
    def refuse_sync(file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("basestation.journal.writer._to_disk", refuse_sync)
    journal = JournalWriter(tmp_path, None, "run-1", "interval", interval_s=0.001)
    journal.append(Arrival(0, 1, 1, b"first"))
    wait_until(lambda: journal._committer._failure, "a failure of the disk")
    with pytest.raises(UnsyncedError, match="record 0 may not be on the disk: Input/output error") as told:
        journal.append(Arrival(0, 2, 2, b"second"))
    assert told.value.number == 1
    journal.close()


@pytest.mark.parametrize("sync", ["always", "interval"])
def test_a_disk_that_works_again_is_used_again_and_the_log_says_what_may_be_lost(tmp_path, monkeypatch, sync):
    sick, synced = [False], []

    def fail_at_times(file):
        if sick[0]:
            raise OSError(errno.EIO, "Input/output error")
        synced.append(file)

    monkeypatch.setattr("basestation.journal.writer._to_disk", fail_at_times)
    journal = JournalWriter(tmp_path, None, "run-1", sync, interval_s=0.001)

    def append(number):
        with suppress(UnsyncedError):
            journal.append(Arrival(0, number, number, b"x"))

    append(0)
    wait_until(lambda: synced, "a first sync")
    sick[0] = True
    append(1)
    wait_until(lambda: journal._doubt._first, "a failure of the disk")
    append(2)
    wait_until(lambda: journal._doubt._last == 2, "another one")
    synced.clear()
    sick[0] = False
    if sync == "always":
        append(3)
    wait_until(lambda: synced, "another try")
    wait_until(lambda: journal._doubt.told, "what may be lost")
    append(4)  # it may still tell of the failure
    journal.append(Arrival(0, 5, 5, b"y"))
    journal.close()
    (note,) = [one for one in records(tmp_path) if one.kind == RecordKind.NOTE]
    assert note.payload.decode().startswith("records 1..")
    assert note.payload.endswith(b"may not be on the disk: Input/output error")


def test_a_journal_closed_just_when_its_writes_are_taken_up_is_closed(tmp_path):
    """The thread that syncs had seen no end, and is about to clear the mark that wakes it."""

    marked_by_the_end = threading.Event()

    class Mark(threading.Event):
        def set(self):
            super().set()
            if threading.current_thread() is closing:
                marked_by_the_end.set()

        def clear(self):
            closing.start()
            assert marked_by_the_end.wait(10)
            super().clear()

    with JournalWriter(tmp_path, None, "run-1", "interval", interval_s=0.001) as journal:
        closing = threading.Thread(target=journal.close, daemon=True)
        journal._committer._dirty.__class__ = Mark
        journal.append(Arrival(0, 1, 1, b"first"))
        assert marked_by_the_end.wait(10)
        closing.join(10)
        assert not closing.is_alive()


def test_a_disk_that_fails_is_told_of_and_stops_nobody(tmp_path, monkeypatch):
    """Not with every frame, nor with a new segment, nor at the end: a caller has to handle `JournalError` alone."""
    sick = [True]

    def fail_now(file, *_):
        if sick[0]:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("basestation.journal.writer._to_disk", fail_now)
    with JournalWriter(tmp_path / "one", None, "run-1", "always") as journal:
        with pytest.raises(JournalError, match="Input/output error"):
            journal.append(Arrival(0, 1, 1, b"first"))
        sick[0] = False
        journal.append(Arrival(0, 2, 2, b"second"))
    assert [record.payload for record in records(tmp_path / "one")][:2] == [b"first", b"second"]
    sick[0] = True
    journal = JournalWriter(tmp_path / "two", None, "run-2", "never")
    journal.append(Arrival(0, 1, 1, b"first"))
    monkeypatch.setattr("basestation.journal.writer.os.fsync", fail_now)
    with pytest.raises(JournalError, match="Input/output error"):
        journal.close()
    assert [record.payload for record in records(tmp_path / "two")] == [b"first"]


def test_without_a_new_segment_the_old_one_goes_on(tmp_path, monkeypatch):
    refused = []

    def refuse_new(path, *_):
        refused.append(path)
        raise OSError(errno.EMFILE, "Too many open files")

    with JournalWriter(tmp_path, None, "run-1", "never", segment_bytes=300) as journal:
        with monkeypatch.context() as ill:
            ill.setattr("basestation.journal.writer.write_whole", refuse_new)
            for number in range(20):
                journal.append(Arrival(0, number, number, b"x"))
        for number in range(20, 40):
            journal.append(Arrival(0, number, number, b"x"))
    assert [record.number for record in records(tmp_path)] == list(range(40))
    assert 1 <= len(refused) < 10
    assert len(list(tmp_path.glob("*.cwj"))) > 1


@pytest.mark.parametrize("sync", SYNCS)
def test_a_log_that_is_deleted_while_it_is_written_is_missed(tmp_path, sync):
    """It would take everything and keep nothing."""
    journal = JournalWriter(tmp_path / "run", None, "run-1", sync, interval_s=0.001)
    journal.append(Arrival(0, 1, 1, b"first"))
    shutil.rmtree(tmp_path / "run")

    def write_on():
        while sync != "never":
            journal.append(Arrival(0, 2, 2, b"second"))
            time.sleep(0.001)
        journal.close()

    with pytest.raises(JournalError, match="deleted while it was written"):
        write_on()
    with suppress(JournalError):
        journal.close()


@pytest.mark.parametrize(
    ("sync", "least", "most"), [("always", 20, 20), ("interval", 1, 19), ("never", 0, 0)]
)
def test_how_often_the_disk_is_asked(tmp_path, monkeypatch, sync, least, most):
    asked, both = [], threading.Event()

    def count(file):
        asked.append(file)
        both.set()

    monkeypatch.setattr("basestation.journal.writer._to_disk", count)
    with JournalWriter(tmp_path, None, "run-1", sync, interval_s=0.05) as journal:
        for i in range(20):
            arrival = Arrival(0, i, i, b"x")
            journal.append_decision(journal.append(arrival), arrival, noting(i))
        if least:
            assert both.wait(10)
    assert least <= len(asked) <= most


def test_a_record_too_long_is_refused(tmp_path):
    with JournalWriter(tmp_path, None, "run-1") as journal, pytest.raises(JournalError, match="65535"):
        append_note(journal, "x" * 70000, 0, 0)


def test_what_is_no_journal_is_refused_in_words(tmp_path):
    with pytest.raises(JournalError, match="no journal"):
        read_journal(tmp_path)
    with pytest.raises(JournalError, match="no such folder"):
        find_journals(tmp_path / "nowhere")
    (tmp_path / "000000.cwj").write_bytes(b"something else")
    with pytest.raises(JournalError, match="none of its segments"):
        read_journal(tmp_path)


def test_another_version_is_not_read(tmp_path, monkeypatch):
    with monkeypatch.context() as later:
        later.setattr(journal_records, "VERSION", 3)
        write(tmp_path, [Arrival(0, 1, 2, b"x")])
    with pytest.raises(JournalError, match="format 3, this version reads format 2"):
        read_journal(tmp_path)


def test_runs_have_names_of_their_own():
    assert new_run_id(1_700_000_000_000_000_000).startswith("20231114T221320Z-")
    names = [new_run_id(ms * 10**6) for ms in range(2000)]
    assert names == sorted(set(names)), "the newer one is the later one, within a second too"
    assert len({new_run_id(0) for _ in range(20)}) > 1, "those of two machines differ"


@given(st.binary(max_size=300), st.lists(st.binary(max_size=50), max_size=4))
def test_a_scan_accounts_for_every_byte(noise, payloads):
    """Whatever lies between whole records is named, and all of them are found."""
    wanted = [encode_record(Record(i, 1, 0, 0, 0, payload)) for i, payload in enumerate(payloads)]
    raw = b"".join(noise + record for record in wanted) + noise
    found = scan(raw, 0)
    assert len(found.starts) == len(wanted)
    size = sum(len(record) for record in wanted) + sum(d.length for d in found.damages) + len(raw) - found.end
    assert size == len(raw)


def test_the_document_says_what_a_record_is(root):
    text = (root / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")
    types = {"|V4": "4 bytes", "<u4": "u32", "<u8": "u64", "<u2": "u16", "|u1": "u8", "<i8": "i64"}
    for name in HEAD.names:
        kind, offset = HEAD.fields[name][:2]
        field = "crc32" if name == "crc" else name
        assert f"| {offset} | {types[kind.str]} | {field} |" in text
    assert f"| {HEAD.itemsize} | | payload |" in text
    assert " ".join(f"{byte:02X}" for byte in RECORD_MARK) in text
    assert " ".join(f"{byte:02X}" for byte in FILE_MAGIC) in text
    for kind in RecordKind:
        assert f"| {kind.value} | {kind.name.lower()} |" in text


SENSELESS = {
    b"\xff\x00": "no JSON",
    b"[" * 60_000: "no JSON",
    b"[]": "no object",
    b"{}": "names no policy",
    b'{"policy": [], "phi": 100, "clock": 1}': "names no policy",
    b'{"policy": "wild", "phi": 100, "clock": 1}': "names no policy",
    b'{"policy": "vector", "phi": 100, "clock": 1}': "needs stamps of vector",
    b'{"policy": "cbd", "phi": "many", "clock": 1}': "no per cent",
    b'{"policy": "cbd", "phi": 1e999, "clock": 1}': "no per cent",
    b'{"policy": "cbd", "phi": 101, "clock": 1}': "no per cent",
    b'{"policy": "ledger", "phi": 100, "clock": 1, "tolerate": 101}': "no per cent",
    b'{"policy": "ledger", "phi": 100, "clock": 1, "tolerate": "few"}': "no per cent",
    b'{"policy": "cbd", "phi": 100, "clock": "noon"}': "no time",
    b'{"policy": "cbd", "phi": 100, "clock": 9223372036854775808}': "no time",
}


@pytest.mark.parametrize("payload", SENSELESS, ids=lambda payload: repr(payload[:50]))
def test_a_policy_record_that_makes_no_sense_is_a_fault_and_the_rest_is_read(tmp_path, root, payload):
    with JournalWriter(tmp_path, load(root / "examples/micaz.toml"), "run-1", "never") as journal:
        journal.append(Arrival(0, 1, 1, b"before"))
    path = next(tmp_path.glob("*.cwj"))
    odd = Record(7, RecordKind.POLICY, 0, 2, 2, payload)
    sound = [
        Record(8, RecordKind.POLICY, 0, 3, 3, b'{"policy": "none", "phi": 100, "clock": null}'),
        Record(9, RecordKind.FRAME, 0, 4, 4, b"behind"),
    ]
    at = put_behind(path, [odd, *sound])
    faults = []
    steps = [step for step, _ in read_journal(tmp_path).steps(faults.append)]
    assert steps == [
        Arrival(0, 1, 1, b"before"),
        PolicyChange(3, 3, "none", 100),
        Arrival(0, 4, 4, b"behind"),
    ]
    hole, fault = faults
    assert (hole.first, hole.last) == (1, 6)
    assert (fault.path, fault.at, fault.length) == (path, at, len(encode_record(odd)))
    assert SENSELESS[payload] in fault.reason
    packets = [line.packet for line, _ in read_journal(tmp_path).lines(refuse_damage)]
    assert packets == [b"before", b"behind"]


def test_a_summary_names_what_makes_no_sense(tmp_path):
    write(tmp_path, [Arrival(0, 1, 1, b"a")])
    path = next(tmp_path.glob("*.cwj"))
    odd = [Record(5, RecordKind.COUNTERS, 0, 2, 2, b"none"), Record(6, RecordKind.POLICY, 0, 2, 2, b"{}")]
    put_behind(path, odd)
    summary = summarise(read_journal(tmp_path), None)
    assert [fault.reason for fault in summary.faults] == [
        "a counters record that is no JSON",
        "a policy record that names no policy",
    ]
    assert summary.lines[0].frames == 1
