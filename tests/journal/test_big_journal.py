"""The benches' journals are what the writer would have written."""

import numpy as np
import pytest

from basestation.journal.decision import DECISION, DISCARDED, LATE, Fate
from basestation.journal.projection import project_all
from basestation.journal.reader import read_journal
from basestation.journal.record_format import RecordKind
from basestation.journal.writer import JournalWriter
from basestation.live.deciding import decisions_on
from basestation.live.station import Station
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
    projections = project_all(read_journal(journal), play.deployment, refuse)
    fates = np.concatenate([one.fates for one in projections])
    whole, rest = play.arrivals, 1000 // 3
    copies = (whole.source >= 0) & ~whole.first
    assert copies.any()
    assert np.count_nonzero(fates == Fate.MESSAGE) == 2 * whole.first.sum() + whole.first[:rest].sum()
    assert np.count_nonzero(fates == Fate.DUPLICATE) == 2 * copies.sum() + copies[:rest].sum()
    assert set(fates.tolist()) == {Fate.MESSAGE, Fate.DUPLICATE, Fate.RECORD}
    trace = trace_of(generate(WORLD), play.deployment).messages
    heard = np.concatenate([one.messages["heard"].to_numpy() for one in projections])
    assert heard[: len(trace)].tolist() == trace["heard"].to_pylist()


@pytest.mark.wide
def test_the_decisions_are_the_stations(journal, play):
    """But for the clock, and for what depends on the policy; the station's time begins a round later."""
    station = Station(play.deployment)
    segments = [segment.records for segment in read_journal(journal).segments(refuse)]
    live = np.concatenate([decisions_on(some, station) for some in segments])
    written = np.concatenate([some.decisions() for some in segments])
    live["heard"] -= big_journal.WRAP
    live["marks"] &= ~(LATE | DISCARDED) & 0xFFFF
    for name in set(DECISION.names) - {"clock"}:
        assert np.array_equal(live[name], written[name]), name
