"""kill -9 of the whole base station while frames pour in: all frames that it reported are in the log, once."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from basestation.cli.listen import command as listen
from basestation.journal import locking
from basestation.journal.parquet_parts import part_paths
from basestation.journal.reader import find_journals, read_journal
from basestation.journal.record_format import RecordKind
from basestation.live.deciding import again
from packet_formats.framing import encode_frame
from packet_formats.tinyos import ActiveMessage, decode_packet
from tests.journal.logs import refuse, simulated, write

SYNCS = ("never", "interval", "always")


@pytest.fixture(scope="module")
def network():
    """A deployment, and the packets of a gateway with many messages."""
    trace, arrivals = simulated(messages=4000)
    return trace.deployment, [arrival.packet for arrival in arrivals]


def pour(server: socket.socket, packets: list[bytes]) -> None:
    """All frames down one line, as fast as they are taken."""
    line, _ = server.accept()
    with line:
        try:
            line.sendall(b"".join(map(encode_frame, packets)))
            line.recv(1)
        except OSError:
            pass


def program(words: list[object]) -> subprocess.Popen[bytes]:
    """The base station as it is started from a shell."""
    return subprocess.Popen(
        [sys.executable, "-m", "basestation", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,  # nothing stays in a buffer of ours
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )


def killed(folder: Path, packets: list[bytes], sync: str, seed: int, start=program) -> list[str]:
    """The payloads, in hex, of the frames that a base station reported before it was killed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        feeder = threading.Thread(target=pour, args=(server, packets))
        feeder.start()
        source = f"network@127.0.0.1:{server.getsockname()[1]}"
        logs = ["--log", folder / "logs", "--sync", sync]
        process = start(["listen", source, "-d", folder / "net.toml", *logs, "--json"])
        said = process.stdout.readline()
        until = time.monotonic() + random.Random(seed).uniform(0, 0.6)
        while time.monotonic() < until:
            said += os.read(process.stdout.fileno(), 1 << 16)
        process.kill()
        said += process.stdout.read()
        process.wait()
        process.stdout.close()
        feeder.join(10)
    whole = said[: said.rfind(b"\n") + 1].splitlines()
    events = [json.loads(line) for line in whole]
    return [event["frame"]["payload"] for event in events if event["event"] == "arrived"]


def survives(folder: Path, network, syncs, seed: int, start=program) -> int:
    """Kill stations, one for each way to sync; each recovers the log of the one before. All frames that they reported
    are in their logs; returns how many."""
    deployment, packets = network
    (folder / "net.toml").write_text(deployment.to_toml())
    told: dict[Path, list[str]] = {}
    for number, sync in enumerate(syncs):
        lines = killed(folder, packets, sync, seed + number, start)
        (run,) = set(find_journals(folder / "logs")) - set(told)
        assert locking.was_interrupted(run)
        told[run] = lines
    words = ["simulate@?messages=5&pace=0", "-d", str(folder / "net.toml"), "--log", str(folder / "logs")]
    ended = CliRunner().invoke(listen, [*words, "--view", "none"], catch_exceptions=False)
    assert ended.exit_code == 0
    assert f"{run.name}: this run was interrupted; " in ended.stderr.replace("\n", "")
    for run, lines in told.items():
        assert not locking.was_interrupted(run)
        records = list(read_journal(run).records(refuse))
        frames = [record.payload for record in records if record.kind == RecordKind.FRAME]
        assert frames == packets[: len(frames)]
        assert [payload_of(packet) for packet in frames[: len(lines)]] == lines
        assert part_paths(run)
        found = again(read_journal(run), deployment, refuse)
        assert not found.differing
        assert found.undecided <= 1, "the frame at which it was killed"
    return sum(map(len, told.values()))


def payload_of(packet: bytes) -> str:
    frame = decode_packet(packet)
    assert isinstance(frame, ActiveMessage)
    return frame.data.hex()


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(2))
def test_a_killed_base_station_has_logged_all_that_it_told_of(tmp_path, network, seed):
    assert survives(tmp_path, network, [SYNCS[seed]], seed) > 0


@pytest.mark.slow
def test_fifty_killed_base_stations(tmp_path, network):
    total = 0
    for seed in range(0, 50, 5):
        folder = tmp_path / str(seed)
        folder.mkdir()
        total += survives(folder, network, [SYNCS[(seed + kill) % 3] for kill in range(5)], 100 + seed)
    assert total > 1000


def test_other_runs_in_the_folder_keep_no_run_from_starting(tmp_path, network):
    """One is in progress and stays as it is; one cannot be recovered."""
    deployment, _ = network
    (tmp_path / "net.toml").write_text(deployment.to_toml())
    write(tmp_path / "logs" / "other", [])
    broken = tmp_path / "logs" / "broken"
    broken.mkdir()
    (broken / "000000.cwj").write_bytes(b"no journal")
    (broken / locking.LOCK).touch()
    handle = locking.take(tmp_path / "logs" / "other")
    try:
        words = ["simulate@?messages=5&pace=0", "-d", tmp_path / "net.toml", "--log", tmp_path / "logs"]
        done = CliRunner().invoke(listen, [*map(str, words), "--view", "none"], catch_exceptions=False)
    finally:
        locking.leave(handle)
    assert done.exit_code == 0
    assert f"{tmp_path}/logs/other: this run was interrupted" not in done.stderr.replace("\n", "")
    assert "could not be recovered" in done.stderr
    assert len(find_journals(tmp_path / "logs")) == 3
