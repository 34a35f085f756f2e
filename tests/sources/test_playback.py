"""Recordings, the simulation and the testbed as sources: what is particular to each."""

import asyncio
import gzip
import os
import subprocess
import sys

import pytest

from basestation.arrivals import Arrival, Gap
from basestation.journal.writer import JournalWriter
from basestation.observer import Observer
from basestation.sources import SourceError, SourceOptions, open_source, testbed_source
from packet_formats import captures
from packet_formats.captures import Unwrapper
from packet_formats.deployment import load
from packet_formats.framing import crc16, encode_frame
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message, encode_message
from packet_formats.records import Heard
from packet_formats.tinyos import decode_packet, encode_packet
from tests.sources.ends import accounted, message


def play(text, options=None, seconds=60):
    async def take():
        source = open_source(text, 3, options or SourceOptions())
        try:
            return source, [line async for line in source.lines()]
        finally:
            await source.close()

    return asyncio.run(asyncio.wait_for(take(), seconds))


# Captures


def test_a_capture_with_noise_is_accounted_for(tmp_path):
    raw = b"noise" + encode_frame(message(1)) + b"\x01\x02\x7e" + encode_frame(message(2)) + b"\x42\x01"
    (tmp_path / "c.bin.gz").write_bytes(gzip.compress(raw))
    source, lines = play(f"replay@{tmp_path}/c.bin.gz?pace=0")
    assert [line.packet for line in lines] == [message(1), message(2)]
    assert {line.gateway for line in lines} == {3}
    assert source.counters.fed == len(raw)
    assert accounted(source)


def test_a_listen_capture_and_what_is_wrong_in_it(tmp_path):
    said = []
    text = "\n".join(message(number)[1:].hex(" ") for number in range(5)) + "\nff ff 42\n"
    (tmp_path / "c.txt").write_text(text)
    source, lines = play(f"replay@{tmp_path}/c.txt?pace=0", SourceOptions(say=said.append))
    assert [line.packet for line in lines] == [message(number) for number in range(5)]
    assert source.counters.frames == 5
    assert len(said) == 1
    assert "line 6" in said[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("time,mote,number\n1.5,3,20\n", "nothing could be decoded as serial"),
        ("1000\n1001\n1002\n", "no capture: 3 of 3 lines can't be read as listen"),
    ],
)
def test_a_file_that_is_no_capture(tmp_path, text, why):
    (tmp_path / "run.csv").write_text(text)
    with pytest.raises(SourceError, match=why):
        play(f"replay@{tmp_path}/run.csv?pace=0")


def test_a_capture_that_is_not_there(tmp_path):
    with pytest.raises(SourceError, match="No such file"):
        play(f"replay@{tmp_path}/absent")


@pytest.mark.parametrize("name", ["micaz", "tinyos2"])
def test_heard_records_give_a_capture_its_pace(tmp_path, root, name):
    text = (root / "examples" / "micaz.toml").read_text()
    path = tmp_path / "d.toml"
    path.write_text(text.replace("tinyos = 1", f"tinyos = {2 if name == 'tinyos2' else 1}"))
    layout = layout_of(load(path))
    # Over the wrap: 0.5 s, 1 s, and less than a frame
    times = [0xFFFF_8000, 0xFFFF_C000, 0x0000_4000, 0x0000_4001]
    raw = b""
    for number, time in enumerate(times):
        heard = Heard(20, 0, number, 0, 3, -60, 100, crc16(b""), time)
        raw += encode_frame(encode_packet(encode_message(heard, layout)))
    (tmp_path / "c.bin").write_bytes(raw)
    _, lines = play(f"replay@{tmp_path}/c.bin?pace=0")
    after = [(line.mono_ns - lines[0].mono_ns) / 1e9 for line in lines]
    assert after[1:3] == pytest.approx([0.5, 1.5], abs=1e-4)
    assert 1.5 + 20 * 10 / 57600 < after[3] < 1.51  # no faster than the line
    assert lines[0].wall_ns - os.stat(tmp_path / "c.bin").st_mtime_ns < 10_000_000


# Journals


def test_a_journal_gives_back_times_gaps_and_gateways(tmp_path):
    lines = [
        Arrival(0, 5, 105, message(1)),
        Gap(1, 6, 106, False, "unplugged"),
        Gap(1, 7, 107, True, "connected again"),
        Arrival(1, 8, 108, message(2)),
    ]
    with JournalWriter(tmp_path / "one", None, "one", "never") as journal:
        for line in lines:
            journal.append(line)
    for place in ("one", "."):
        source, played = play(f"replay@{tmp_path}/{place}?pace=0")
        assert played == [line._replace(gateway=3 + line.gateway) for line in lines]
        assert source.counters.frames == 2
    JournalWriter(tmp_path / "two", None, "two", "never").close()
    with pytest.raises(SourceError, match=r"2 runs: say which: \S+/one, \S+/two"):
        play(f"replay@{tmp_path}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="0 runs: no journal is in it"):
        play(f"replay@{tmp_path}/empty")


# Simulation


def test_the_simulation_is_what_a_gateway_would_hand_up(root):
    deployment = load(root / "examples" / "micaz.toml")
    options = SourceOptions(deployment=deployment)
    source, lines = play("simulate@?messages=400&pace=0&seed=2", options)
    layout, observer, unwrap = layout_of(deployment), Observer(deployment), Unwrapper()
    heard, delivered, times = None, 0, []
    for line in lines:
        read = decode_message(decode_packet(line.packet), layout)
        if isinstance(read, Heard):
            heard = read
            now = unwrap(read.time) >> deployment.clock.tick_log2
            times.append((line.mono_ns, now))
        else:
            assert isinstance(read, Data)
            assert heard.check == crc16(decode_packet(line.packet).data)
            delivered += len(observer.receive(read, now).deliveries)
    first_ns, first = times[0]
    assert [ns - first_ns for ns, _ in times] == [(tick - first) * 3_906_250 for _, tick in times]
    assert observer.received == 400
    assert delivered > 300
    assert accounted(source)


def test_one_seed_one_run(root):
    text = f"simulate@{root}/examples/micaz.toml?messages=50&pace=0&motes=4&hops=2&loss=0.1&seed="
    runs = [[line.packet for line in play(text + seed)[1]] for seed in ("1", "1", "2")]
    assert runs[0] == runs[1] != runs[2]


def test_a_capture_beyond_all_bounds_is_refused(tmp_path, monkeypatch):
    """/dev/zero, and a few kilobytes that unpack to gigabytes."""
    monkeypatch.setattr(captures, "MOST", 10_000)
    with pytest.raises(SourceError, match="cut it into pieces"):
        play("replay@/dev/zero?pace=0")
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(10_000_000)))
    said = []
    with pytest.raises(SourceError, match="nothing could be decoded"):
        play(f"replay@{path}?pace=0", SourceOptions(say=said.append))
    assert "unpacks to more than" in said[0]


# Testbed


def test_the_testbed_gets_its_options(tmp_path, monkeypatch, root):
    program = tmp_path / "fake.py"
    program.write_text("import sys; print(*sys.argv[1:], file=sys.stderr)")
    monkeypatch.setattr(testbed_source, "COMMAND", (sys.executable, str(program)))
    with pytest.raises(
        SourceError,
        match="the testbed ended with status 0: --port 0 --wait --pace 1 --motes 10 -- my",
    ):
        play("testbed@my.toml?motes=10")
    said = []
    options = SourceOptions(deployment=load(root / "examples" / "mica2.toml"), say=said.append)
    with pytest.raises(SourceError, match=r"--pace 2 --seed 3 -- \S+/deployment.toml"):
        play("testbed@?pace=2&seed=3", options)
    assert len(said) == 1


def test_the_real_testbed(root, require_tool):
    for tool in ("gcc", "make", "pkg-config", "avr-gcc"):
        require_tool(tool)
    if subprocess.run(["pkg-config", "--exists", "simavr", "libelf"], check=False).returncode != 0:
        pytest.skip("libsimavr-dev is not on this machine")
    path = root / "examples" / "micaz.toml"
    source, lines = play(f"testbed@{path}?motes=3&seconds=20&pace=0&seed=3&rate=1", seconds=200)
    layout = layout_of(load(path))
    read = [decode_message(decode_packet(line.packet), layout) for line in lines]
    data = [found for found in read if isinstance(found, Data)]
    assert {found.source for found in data} == {0, 1, 2}
    assert sum(isinstance(found, Heard) for found in read) >= len(data) > 20
    assert source.counters.dropped_bytes == 0
    assert accounted(source)


def test_a_testbed_can_be_closed_before_it_is_ready(tmp_path, monkeypatch):
    program = tmp_path / "fake.py"
    program.write_text("import sys, time; print('building', file=sys.stderr, flush=True); time.sleep(60)")
    monkeypatch.setattr(testbed_source, "COMMAND", (sys.executable, str(program)))

    async def scene():
        building = asyncio.Event()
        source = open_source("testbed@", 0, SourceOptions(say=lambda _: building.set()))
        first = asyncio.ensure_future(anext(source.lines(), None))
        await building.wait()
        await source.close()
        assert await first is None

    asyncio.run(asyncio.wait_for(scene(), 10))


def test_ctrl_c_at_the_terminal_does_not_reach_the_testbed(tmp_path, monkeypatch):
    """It is ended when all has been taken from it; before, its end would look like a lost line."""
    program = tmp_path / "fake.py"
    program.write_text("import os, sys; print('session', os.getsid(0), file=sys.stderr)")
    monkeypatch.setattr(testbed_source, "COMMAND", (sys.executable, str(program)))
    with pytest.raises(SourceError, match=r"session \d+") as ended:
        play("testbed@", SourceOptions(patient=True))
    assert int(str(ended.value).split()[-1]) != os.getsid(0)


def test_a_testbed_that_fails_says_why(tmp_path, monkeypatch):
    program = tmp_path / "fake.py"
    program.write_text("import sys; print('Error: no compiler', file=sys.stderr); sys.exit(1)")
    monkeypatch.setattr(testbed_source, "COMMAND", (sys.executable, str(program)))
    with pytest.raises(SourceError, match="ended with status 1: no compiler"):
        play("testbed@")


@pytest.mark.parametrize("code", [0, 1])
def test_the_end_of_a_testbed_is_no_lost_line_unless_it_failed(tmp_path, monkeypatch, code):
    program = tmp_path / "fake.py"
    program.write_text(
        "import socket, sys\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "print(f'network@127.0.0.1:{server.getsockname()[1]}', file=sys.stderr, flush=True)\n"
        "server.accept()[0].close()\n"
        f"sys.exit({code})\n"
    )
    monkeypatch.setattr(testbed_source, "COMMAND", (sys.executable, str(program)))
    _, lines = play("testbed@")
    assert [type(line) for line in lines] == code * [Gap]


def test_a_compilers_last_words_are_not_the_reason(tmp_path, monkeypatch):
    program, said = tmp_path / "fake.py", []
    text = "Error: the firmware did not build:\\napp.c:3:1: error: unknown type\\n*** [main.o] Error 1"
    program.write_text(f"import sys; print('{text}', file=sys.stderr); sys.exit(1)")
    monkeypatch.setattr(testbed_source, "COMMAND", (sys.executable, str(program)))
    with pytest.raises(SourceError, match=r"ended with status 1: the firmware did not build$"):
        play("testbed@", SourceOptions(say=said.append))
    assert "app.c:3:1: error: unknown type" in said
