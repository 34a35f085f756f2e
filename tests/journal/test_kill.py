"""kill -9 at any moment while frames pour in: what was acknowledged is in the recovered journal, once, in order."""

import os
import random
import subprocess
import sys
import time

import pytest

from basestation.journal import locking
from basestation.journal.reader import read_journal
from basestation.journal.record_format import RecordKind
from basestation.journal.recovery import recover
from tests.journal.logs import refuse

SEGMENT = 20_000  # so that some are killed while they roll
WRITER = f"""
import os, random, sys
from pathlib import Path
from basestation.journal.writer import JournalWriter
from basestation.arrivals import Arrival
from basestation.journal.decision import Decision

folder, sync, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
draw = random.Random(seed)
journal = JournalWriter(folder, None, "run-1", sync, segment_bytes={SEGMENT})
count = 0
while True:
    arrival = Arrival(0, count, count, count.to_bytes(8, "little") + draw.randbytes(draw.randrange(60)))
    number = journal.append(arrival)
    os.write(1, b"%d\\n" % number)
    if count % 3 == 0:
        journal.append_decision(number, arrival, Decision(0, is_long=True, clock=count))
    count += 1
"""


def killed_writer(root, folder, sync, seed):
    """The numbers that a writer acknowledged before it was killed."""
    draw = random.Random(seed)
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), sync, str(seed)],
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    until = time.monotonic() + draw.uniform(0, 0.08)
    while time.monotonic() < until:
        said += os.read(process.stdout.fileno(), 1 << 16)
    process.kill()
    said += process.stdout.read()
    process.wait()
    process.stdout.close()
    return [int(number) for number in said.decode().splitlines()]


def survives(root, folder, sync, seed):
    acknowledged = killed_writer(root, folder, sync, seed)
    assert locking.was_interrupted(folder)
    recover(folder)
    found = list(read_journal(folder).records(refuse))
    assert [record.number for record in found] == list(range(len(found)))
    frames = [record for record in found if record.kind == RecordKind.FRAME]
    in_it = [record.number for record in frames]
    assert in_it[: len(acknowledged)] == acknowledged
    assert len(in_it) <= len(acknowledged) + 1  # the one that was being appended
    contents = [int.from_bytes(record.payload[:8], "little") for record in frames]
    assert contents == list(range(len(frames)))
    return len(acknowledged)


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(6))
def test_a_killed_writer_loses_nothing_it_acknowledged(root, tmp_path, seed):
    assert survives(root, tmp_path, ("never", "interval", "always")[seed % 3], seed) > 0


@pytest.mark.wide
def test_fifty_killed_writers_lose_nothing(root, tmp_path):
    total = 0
    for seed in range(50):
        total += survives(root, tmp_path / str(seed), ("never", "interval", "always")[seed % 3], seed + 1000)
    assert total > 50
