"""The real images on the emulated ether, from end to end: short runs with a fixed seed, and what must hold."""

import json
import os
import socket
import subprocess
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from basestation.cli.testbed import command
from basestation.testbed import emulator, images
from basestation.testbed.truth_log import RecordedEvent, Uart, read
from packet_formats.deployment import load

KEPT = images.PROJECT / ".pio" / "testbed" / "truth"  # of the last run of each test


@pytest.fixture(scope="module", autouse=True)
def _tools(require_tool):
    for tool in ("gcc", "make", "pkg-config", "avr-gcc"):
        require_tool(tool)
    built_with = subprocess.run(["pkg-config", "--exists", "simavr", "libelf"], check=False).returncode == 0
    for there, what in ((built_with, "libsimavr-dev"), (find_spec("platformio"), "PlatformIO")):
        if not there and os.environ.get("CI") == "true":
            pytest.fail(f"{what} is missing, and in CI nothing is skipped")
        if not there:
            pytest.skip(f"{what} is not on this machine")


@pytest.fixture
def log(request):
    KEPT.mkdir(parents=True, exist_ok=True)
    return KEPT / f"{request.node.name}.jsonl"


def run(*args):
    """The report of a run, which must have been as it should be."""
    result = CliRunner().invoke(command, ["--json", "--check", *map(str, args)], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def assert_sound(report):
    """What holds in every run: nothing unseen, stamps in order, clocks and delays within their bounds."""
    assert (report["ended"], report["missed"], report["gaps"], report["driver_faults"]) == ("end", 0, 0, [])
    for found in report["networks"]:
        order, skew, delay, line = (found[name] for name in ("order", "skew", "delay", "line"))
        assert order["pairs"] > order["messages"]
        assert (order["broken"], order["altered"], order["unmatched"], order["unreadable"]) == (0, 0, 0, 0)
        assert skew["ticks"] <= skew["epsilon"]
        assert skew["root_cycles"] > 0
        assert 0 < delay["ticks"] <= delay["delta"]
        assert delay["beyond"] == 0
        assert (line["unknown"], line["dropped_bytes"], line["unpaired"]) == ({}, 0, 0)
        fates = found["fates"]
        assert fates["stamped"] == sum(
            fates[name] for name in ("arrived", "late", "unsent", "lost", "underway")
        )
        assert (found["delivered"]["inverted"], found["observer_late"]) == (0, 0)
        assert all(mote["arrived"] > 0 and not mote["silent"] for mote in found["motes"])


def test_ten_micaz_motes_over_three_hops(log):
    report = run("--motes", 10, "--seconds", 25, "--rate", 1, "--truth", log)
    assert_sound(report)
    (found,) = report["networks"]
    assert found["fates"]["stamped"] > 150
    assert found["fates"]["arrived"] > 0.9 * found["fates"]["stamped"]
    assert found["fates"]["relayed"] > 0.5 * found["fates"]["arrived"]
    assert found["order"]["pairs"] > 5_000
    assert found["arrivals"]["inverted"] > 0
    assert len(found["skew"]["motes"]) == 10


def test_the_same_seed_gives_the_same_truth(tmp_path):
    logs = [tmp_path / name for name in ("first", "again", "other")]
    for path, seed in zip(logs, (7, 7, 8), strict=True):
        run("--motes", 4, "--seconds", 6, "--rate", 1, "--seed", seed, "--truth", path)
    first, again, other = (path.read_bytes() for path in logs)
    assert first == again != other


@pytest.mark.wide
def test_the_root_dies_and_returns(log, tmp_path):
    """The network goes on with its time, and the root takes it up again: no second epoch."""
    storm = tmp_path / "storm.toml"
    storm.write_text('[[fault]]\nat = 30\ndo = "restart"\nmote = "root"\nseconds = 30\n')
    report = run("--motes", 8, "--seconds", 90, "--faults", storm, "--truth", log)
    assert_sound(report)
    assert report["resets"] == {"power-on": 10}
    epochs = {
        (event.node, event.peer)
        for event in read(log)
        if isinstance(event, RecordedEvent) and event.kind == "epoch" and event.t > 10e9
    }
    assert epochs == set()


@pytest.mark.wide
def test_mica2(log):
    report = run(
        images.PROJECT / "examples" / "mica2.toml",
        "--motes",
        5,
        "--seconds",
        30,
        "--rate",
        0.5,
        "--truth",
        log,
    )
    assert_sound(report)
    (found,) = report["networks"]
    assert found["fates"]["arrived"] > 0.9 * found["fates"]["stamped"] > 50


@pytest.mark.wide
def test_two_versions_of_tinyos_share_an_ether(log, tmp_path):
    """On one channel; neither takes the other's frames for its own."""
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    text = (images.PROJECT / "examples" / "micaz.toml").read_text()
    one.write_text(text)
    two.write_text(text.replace("tinyos = 1", "tinyos = 2").replace('"meadow"', '"brook"'))
    assert load(one).network.channel == load(two).network.channel
    report = run(one, two, "--motes", 4, "--seconds", 30, "--truth", log)
    assert_sound(report)
    for found in report["networks"]:
        assert found["fates"]["arrived"] > 0.9 * found["fates"]["stamped"] > 50


def test_a_client_gets_what_the_gateway_sends(tmp_path):
    """On a TCP port, every byte of it: the run waits for the client."""
    log, port = tmp_path / "truth", free_port()
    got = bytearray()

    def listen():
        with connected(port) as line:
            while piece := line.recv(4096):
                got.extend(piece)

    listener = threading.Thread(target=listen)
    listener.start()
    run("--motes", 2, "--seconds", 10, "--rate", 1, "--port", port, "--wait", "--truth", log)
    listener.join(10)
    assert bytes(got) == b"".join(
        event.bytes for event in read(log) if isinstance(event, Uart) and event.node == 2
    )
    assert len(got) > 100


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def connected(port):
    for _ in range(1200):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            threading.Event().wait(0.05)
    raise TimeoutError("nobody listens")


def test_tshark_decodes_the_ether(tmp_path, require_tool):
    """Except for its guess at 6LoWPAN: TinyOS 1 has nothing before its AM type that excludes it."""
    tshark = require_tool("tshark")
    capture = tmp_path / "ether.pcap"
    report = run("--motes", 3, "--seconds", 15, "--rate", 1, "--pcap", capture)
    fields = ("-T", "fields", "-e", "wpan.fcs_ok", "-e", "_ws.malformed", "-e", "_ws.expert.message")
    plain = (tshark, "--disable-protocol", "6lowpan", "-r", capture)
    done = subprocess.run([*plain, *fields], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == report["signals"] > 50
    assert set(lines) == {"1\t\t"}


def test_the_scenario_names_the_line_that_is_wrong(tmp_path):
    with (
        emulator.start(emulator.build(), "nodes 1\nnode 7 micaz 0 0 0 0 /none\n", tmp_path / "truth") as bad,
        pytest.raises(emulator.EmulatorError, match="2"),
    ):
        bad.finish()


@pytest.mark.slow
def test_ten_minutes_in_the_line_in_the_sand(log, root):
    """Twenty motes at the places of a real deployment, in recorded noise."""
    data = Path(root).parent / "shared" / "data"
    places, noise = data / "alits/mote_coordinates.dat.gz", data / "tossim_noise/meyer-heavy.txt.gz"
    if not places.exists():
        pytest.skip("../shared/data is not on this machine")
    report = run(
        "--topology", f"lits:{places}", "--range", 40, "--noise", noise, "--seconds", 600, "--truth", log
    )
    assert_sound(report)
