"""Decisions made again: equal to the live ones, written beside a log, and refused with a wrong key."""

import asyncio
from dataclasses import replace

import pytest

from basestation.journal.decision import Fate
from basestation.journal.reader import read_journal
from basestation.journal.record_format import JournalError
from basestation.journal.sidecar import DECISIONS, decisions_of
from basestation.journal.writer import JournalWriter
from basestation.live.deciding import again, decide
from basestation.live.runner import Runner
from basestation.live.station import Station
from packet_formats.keys import Key
from tests.journal.logs import logged, refuse, simulated
from tests.live.test_guard import attacked, deployment, honest_line
from tests.live.test_runner import Seen
from tests.live.test_several_gateways import Recorded, Several, SeveralWorld


def without_decisions(source, folder):
    """A copy of a log as an older version wrote it."""
    journal = read_journal(source)
    with JournalWriter(folder, journal.deployment, "old", "never") as log:
        for line, _ in journal.lines(refuse):
            log.append(line)
    return read_journal(folder)


def decisions(journal):
    return [decisions_of(segment.path, segment.records) for segment in journal.segments(refuse)]


@pytest.mark.parametrize("scheme", ["barrier", "delta-vector", "shlc"])
@pytest.mark.parametrize("lost", [0.0, 0.1])
def test_the_same_with_several_gateways_idle_records_and_lost_heard_records(tmp_path, scheme, lost):
    """Idle records that the log leaves out move no decision: guessed times come from the log."""
    options = Several(scheme, (3, 32), 5, 4.0, 8.0, 0.1, (0.7, 0.7), (2.0, 10.0), 86.0, idle_ms=20)
    network, seen = SeveralWorld(options, 3), Seen()
    lines = sorted(network.lines(), key=lambda line: line.mono_ns)
    if lost:  # heard records are told by their message type
        heard = [line for line in lines if line.packet[3:4] == b"\x71" or line.packet[8:9] == b"\x71"]
        gone = set(map(id, heard[:: round(1 / lost)]))
        lines = [line for line in lines if id(line) not in gone]
    station = Station(network.setup)
    with JournalWriter(tmp_path / "run", network.setup, "run", "never", sources=["a", "b"]) as log:
        for gateway in range(2):
            station.add_gateway(gateway, "ab"[gateway])
        asyncio.run(Runner(station, [Recorded(lines)], [seen], log).run())
    found = again(read_journal(tmp_path / "run"), network.setup, refuse)
    assert (found.undecided, found.differing) == (0, [])
    assert found.decisions > 100


def test_a_changed_decision_is_noticed(tmp_path):
    trace, arrivals = simulated("shlc", messages=50)
    station = Station(trace.deployment)
    with JournalWriter(tmp_path, trace.deployment, "run", "never") as log:
        for at, line in enumerate(arrivals):
            number = log.append(line)
            station.take(line)
            if (decision := station.decision) is not None:
                wrong = decision._replace(number=decision.number + (at == 41))
                log.append_decision(number, line, wrong)
    (text,) = again(read_journal(tmp_path), trace.deployment, refuse).differing
    assert text.endswith("frame 61: number differ")


def test_a_log_without_decisions_gets_those_that_the_station_makes(tmp_path):
    trace, arrivals = simulated("shlc", messages=300)
    logged(tmp_path / "new", arrivals, trace.deployment, segment_bytes=20_000)
    old = without_decisions(tmp_path / "new", tmp_path / "old")
    assert sum(map(len, decisions(old))) == 0
    before = {path: path.read_bytes() for path in old.paths}
    assert decide(old, trace.deployment, refuse) >= 290
    assert {path: path.read_bytes() for path in old.paths} == before
    (made,) = decisions(old)
    live = decisions(read_journal(tmp_path / "new"))
    assert [row["number"] for rows in live for row in rows] == made["number"].tolist()
    assert [row["clock"] for rows in live for row in rows] == made["clock"].tolist()


def test_a_key_that_comes_later_and_a_wrong_one(tmp_path):
    network = deployment()
    logged(tmp_path, attacked(network, honest_line(network)), replace(network, key=None))
    journal = read_journal(tmp_path)
    assert journal.header.mics == "unchecked"
    (before,) = decisions(journal)
    with pytest.raises(JournalError, match="is it the network's key"):
        decide(journal, replace(network, key=Key(bytes([7] * 16))), refuse)
    assert not (tmp_path / DECISIONS).exists()
    decide(journal, network, refuse)
    (checked,) = decisions(journal)
    assert (checked["fate"] == Fate.FORGED).sum() > 0 == (before["fate"] == Fate.FORGED).sum()
    header = read_journal(tmp_path / DECISIONS).header
    assert (header.mics, header.run) == ("checked", "run-1")


def test_checked_decisions_are_not_replaced_without_the_key(tmp_path):
    network = deployment()
    logged(tmp_path, attacked(network, honest_line(network)), network)
    journal = read_journal(tmp_path)
    assert journal.header.mics == "checked"
    with pytest.raises(JournalError, match="--key FILE"):
        decide(journal, replace(network, key=None), refuse)
    assert not (tmp_path / DECISIONS).exists()
    assert decide(journal, network, refuse) > 0
