"""kill -9 between a frame and its decision: the frame is in the log, undecided, and nothing else is lost."""

import os
import signal
import sys

import pytest

from basestation.journal.reader import read_journal
from basestation.journal.record_format import RecordKind
from basestation.journal.recovery import recover
from basestation.journal.writer import JournalWriter
from basestation.live.deciding import again
from tests.journal.logs import logged, refuse, simulated

SEGMENT = 6000


@pytest.fixture(scope="module")
def network():
    trace, arrivals = simulated("shlc", messages=60)
    return trace.deployment, arrivals


def killed_at(folder, network, decision):
    """A station in a process of its own, which dies when it is about to write this decision."""
    child = os.fork()
    if child == 0:
        append, left = JournalWriter.append_decision, iter(range(decision, -1, -1))

        def deadly(*args):
            if next(left) == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return append(*args)

        JournalWriter.append_decision = deadly
        deployment, arrivals = network
        logged(folder, arrivals, deployment, segment_bytes=SEGMENT)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def check(folder, network, decision):
    assert killed_at(folder, network, decision)
    recover(folder)
    journal = read_journal(folder)
    records = list(journal.records(refuse))
    frames = [record for record in records if record.kind == RecordKind.FRAME]
    decided = [record for record in records if record.kind == RecordKind.DECISION]
    assert [frame.payload for frame in frames] == [line.packet for line in network[1][: len(frames)]]
    assert len(decided) == decision
    found = again(journal, network[0], refuse)
    assert (found.decisions, found.undecided, found.differing) == (decision, 1, [])
    assert records[-1] == frames[-1], "the undecided frame is the last record"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize("decision", [0, 1, 17, 40, 56])
def test_a_station_killed_between_frame_and_decision(tmp_path, network, decision):
    check(tmp_path / "run", network, decision)


@pytest.mark.slow
def test_a_thousand_stations_killed_between_frame_and_decision(tmp_path, network):
    for kill in range(1000):
        check(tmp_path / str(kill), network, kill % 57)
