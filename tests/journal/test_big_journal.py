"""The benches' journals are what the writer would have written."""

import numpy as np
import pytest

from basestation.journal.message_table import Fate, read_all
from basestation.journal.reader import read_journal
from basestation.journal.record_format import RecordKind
from basestation.journal.writer import JournalWriter
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import trace_of
from basestation.simulator.simulation import generate
from tests.bench import big_journal
from tests.journal.logs import records, refuse

WORLD = WorldOptions(messages=1500, rate=0.05, loss=0.02)
SEGMENT = 1 << 16


@pytest.fixture(scope="module", params=["kn", "barrier"])
def play(request):
    return big_journal.play_of(WORLD, request.param)


@pytest.fixture(scope="module")
def journal(play, tmp_path_factory):
    """Two plays and a bit."""
    folder = tmp_path_factory.mktemp("big") / "run"
    asked = 2 * play.records + 1000
    assert asked - 3 < big_journal.write_big_journal(folder, asked, play, segment_bytes=SEGMENT) <= asked
    return folder


def test_the_files_are_those_of_the_writer(journal, tmp_path, monkeypatch):
    monkeypatch.setattr("time.time_ns", lambda: big_journal.WALL_NS)
    monkeypatch.setattr("time.monotonic_ns", lambda: 0)
    monkeypatch.setattr("secrets.randbelow", lambda limit: big_journal.SALT - 1)
    header = read_journal(journal).header
    again = tmp_path / "again"
    deployment = read_journal(journal).deployment
    with JournalWriter(
        again,
        deployment,
        header.run,
        "never",
        site=header.site,
        sources=header.sources,
        segment_bytes=SEGMENT,
    ) as writer:
        for record in records(journal):
            if record.kind == RecordKind.DECISION:
                writer._write(record.kind, 0, record.mono_ns, record.wall_ns, record.payload)
            else:
                writer.append(record.line())
    written = {path.name: path.read_bytes() for path in again.glob("*.cwj")}
    assert len(written) > 3
    assert {path.name: path.read_bytes() for path in journal.iterdir()} == written


def test_the_reader_finds_each_message_once(journal, play):
    readings = list(read_all((s.records for s in read_journal(journal).segments(refuse)), play.deployment))
    fates = np.concatenate([reading.fates for reading in readings])
    whole = play.arrivals
    rest = whole.chosen(np.cumsum(2 + whole.first) <= 1000)
    data = whole.kind == play.layout.am_type
    assert np.count_nonzero(fates == Fate.MESSAGE) == 2 * whole.first.sum() + rest.first.sum()
    copies = data & ~whole.first
    assert copies.any()
    assert np.count_nonzero(fates == Fate.DUPLICATE) == 2 * copies.sum() + copies[: len(rest)].sum()
    assert set(fates.tolist()) == {Fate.MESSAGE, Fate.DUPLICATE, Fate.RECORD}
    trace = trace_of(generate(WORLD), play.deployment).messages
    first = np.concatenate([reading.messages["heard"].to_numpy() for reading in readings])
    assert first[: len(trace)].tolist() == trace["heard"].to_pylist()
    numbers = np.concatenate([reading.messages["number"].to_numpy() for reading in readings])
    sources = np.concatenate([reading.messages["source"].to_numpy() for reading in readings])
    assert len(set(zip(sources.tolist(), numbers.tolist(), strict=True))) == len(numbers)
    for mote in range(WORLD.motes):  # in the second play they start anew, with numbers a round higher
        mine = numbers[sources == mote]
        assert np.all(np.diff(mine[np.argsort(mine)]) <= 2 * 256)
