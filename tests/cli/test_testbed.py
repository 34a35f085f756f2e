"""`basestation testbed`: what it refuses, what it gives the engine, what it prints. The engine is a stand-in."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from basestation.cli import testbed
from basestation.cli.testbed import command
from basestation.testbed import emulator, topologies
from basestation.testbed.images import FirmwareProgram, Programs
from basestation.testbed.scenario import Watch
from basestation.testbed.setup import Wish
from tests.testbed.worlds import SECOND, World, deployment, network, stamped


def run(*args):
    return CliRunner().invoke(command, [str(arg) for arg in args])


@pytest.fixture
def meadow(tmp_path):
    path = tmp_path / "meadow.toml"
    path.write_text(deployment().to_toml())
    return path


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """Images that are names, and an engine that keeps its scenario and has a log ready."""
    world = World()
    world.boot()
    world.send(SECOND, stamped(world, 0, 1, SECOND), to=(1, world.gateway))
    world.send(SECOND * 1.1, stamped(world, 1, 1, SECOND * 1.1, ticks=-40), to=(world.gateway,))
    world.add(0, "port", node=3, tcp=9001, pty=None)
    world.lines.insert(1, world.lines.pop())
    world.add(2 * SECOND, "end", reason="end", slices=1)
    log = tmp_path / "made.jsonl"
    log.write_text("".join(world.text()))
    program = tmp_path / "testbed"
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/scenario\ncp {log} $2\n")
    program.chmod(0o755)
    monkeypatch.setattr(emulator, "build", lambda say: program)
    monkeypatch.setattr(
        FirmwareProgram, "copy", lambda self, identity, folder: folder / f"{self.path}-{identity}.elf"
    )
    pair = Programs(
        FirmwareProgram(Path("mote"), 100, (Watch("lines", 5, 42),)),
        FirmwareProgram(Path("gateway"), None, ()),
    )
    asked = []
    monkeypatch.setattr(testbed.images, "programs_for", lambda *args: asked.append(args) or pair)
    return tmp_path / "scenario", asked


def test_a_run_from_end_to_end(stand_in, meadow):
    scenario, _ = stand_in
    result = run(meadow, "--seconds", 2, "--json", "--seed", 5)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    (found,) = report["networks"]
    assert (found["name"], len(found["motes"]), found["fates"]["stamped"]) == ("meadow", 3, 2)
    assert (found["order"]["pairs"], found["order"]["broken"]) == (1, 1)
    assert report["seconds"] == 2
    lines = scenario.read_text().splitlines()
    assert {"seed 5", "nodes 4", "pace 0", "end 2"} <= set(lines)
    assert not any(line.startswith("port") for line in lines)
    assert "meadow: 3 motes, 1 gateway" in result.stderr


def test_the_table_and_the_check(stand_in, meadow):
    result = run(meadow, "--seconds", 2)
    assert result.exit_code == 0
    assert "1 of 1 pairs contradict happened-before" in " ".join(result.stdout.split())
    result = run(meadow, "--seconds", 2, "--check")
    assert result.exit_code == 1
    assert "meadow: 1 pair of messages" in result.stderr


def test_the_check_fails_if_too_few_messages_arrive_unless_they_are_lost_on_purpose(
    stand_in, meadow, tmp_path
):
    world = World()
    world.boot()
    for second in range(5, 42):  # those of the first ten seconds, while motes find the network, do not count
        at = second * SECOND
        world.send(
            at, stamped(world, 0, second, at), to=(world.gateway,) if second > 10 and second % 2 else ()
        )
    world.add(50 * SECOND, "end", reason="end", slices=1)
    (tmp_path / "made.jsonl").write_text("".join(world.text()))
    result = run(meadow, "--seconds", 50, "--check")
    assert result.exit_code == 1
    told = " ".join(result.stderr.split())
    assert "meadow: 16 of 32 messages came to a gateway, 50%; such a network should bring 90% or more" in told
    storm = tmp_path / "storm.toml"
    storm.write_text('[[fault]]\nat = 1\ndo = "restart"\nmote = "root"\n')
    for lost in (("--loss", 0.3), ("--faults", storm)):
        assert run(meadow, "--seconds", 50, "--check", *lost).exit_code == 0


@pytest.mark.parametrize(
    ("args", "since", "told"),
    [
        (["--seconds", 151], "150", False),
        ([], "150", False),
        (["--seconds", 150], None, True),
        (["--seconds", 151, "--energy-from", 20], "20", False),
        (["--seconds", 151, "--energy-from", 0], None, False),
    ],
)
def test_with_a_schedule_charge_counts_when_the_network_has_found_itself(
    stand_in, root, tmp_path, args, since, told
):
    scenario, _ = stand_in
    result = run(root / "examples/micaz_months.toml", "--motes", 3, "--keep", tmp_path / "kept", *args)
    assert result.exit_code == 0, result.output
    lines = [line for line in scenario.read_text().splitlines() if line.startswith("states")]
    assert lines == ([] if since is None else [f"states {since}"])
    assert ("Days include the time in which motes join" in result.stderr) == told


def test_without_a_schedule_all_charge_counts(stand_in, meadow):
    scenario, _ = stand_in
    assert run(meadow, "--seconds", 200).exit_code == 0
    assert "states" not in scenario.read_text()


def test_without_seconds_it_runs_at_real_pace_and_says_how_to_connect(stand_in, meadow):
    scenario, _ = stand_in
    result = run(meadow, "--pty", "gw tty")
    assert result.exit_code == 0
    lines = scenario.read_text().splitlines()
    assert "pace 1" in lines
    assert f"port 3 0 {Path.cwd() / 'gw tty'}" in lines
    assert not any(line.startswith("end") for line in lines)
    assert "gateway 3: network@127.0.0.1:9001" in result.stderr
    assert "Ctrl-C" in result.stderr


def test_every_option_reaches_the_scenario(stand_in, meadow, tmp_path):
    scenario, asked = stand_in
    noise = tmp_path / "noise.txt"
    noise.write_text("-98\n")
    storm = tmp_path / "storm.toml"
    storm.write_text('[[fault]]\nat = 1\ndo = "restart"\nmote = "root"\n')
    result = run(
        meadow, "--seconds", 9, "--motes", 2, "--gateways", 2, "--topology", "line", "--range", 12,
        "--pace", "2.5", "--port", 7000, "--wait", "--noise", noise, "--faults", storm, "--rate", 1,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    lines = scenario.read_text().splitlines()
    assert {
        "nodes 4",
        "pace 2.5",
        "wait",
        "port 2 7000 -",
        "port 3 7001 -",
        "at 1 off 2",
        "at 2 on 2",
    } <= set(lines)
    assert sum(line.startswith("readings") and line.endswith(str(noise)) for line in lines) == 4
    assert {line.rsplit(" ", 1)[0] for line in lines if line.startswith("gain 0")} >= {"gain 0 1", "gain 0 2"}
    assert asked[0][1:3] == (1.0, None)


def test_files_to_keep_are_kept(stand_in, meadow, tmp_path):
    keep, log, capture = tmp_path / "kept", tmp_path / "log.jsonl", tmp_path / "ether.pcap"
    result = run(meadow, "--seconds", 2, "--keep", keep, "--truth", log, "--pcap", capture)
    assert result.exit_code == 0
    assert (keep / "scenario.txt").read_text() == stand_in[0].read_text()
    assert log.read_text().startswith('{"t": 0, "is": "start"')
    assert capture.stat().st_size > 24
    assert not list(tmp_path.glob("causeway-testbed-*"))


def test_a_network_from_a_file(stand_in, meadow, tmp_path):
    field = tmp_path / "field.csv"
    field.write_text("".join(f"{i},{10 * i},0\n" for i in range(8)))
    result = run(meadow, "--seconds", 2, "--topology", f"lits:{field}", "--range", 12)
    assert result.exit_code == 0
    told = " ".join(result.stderr.split())
    assert "3 motes, 1 gateway; 1 mote has a good link to a gateway, the farthest is 3 good hops away" in told
    assert (
        run(meadow, "--seconds", 2, "--topology", f"lits:{field}", "--range", 12, "--motes", 8).exit_code == 1
    )


def test_motes_that_are_too_far_are_reported(stand_in, meadow):
    result = run(meadow, "--seconds", 2, "--topology", "line", "--range", 9)
    assert "3 motes are more than the deployment's 3 hops away" in result.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--topology", "ring"], "none of grid"),
        (["--topology", "lits"], "none of grid"),
        (["--topology", "grid:x"], "none of grid"),
        (["--topology", "lits:x"], "needs --range"),
        (["--topology", "gains:x", "--range", "3"], "means nothing"),
        (["--wait"], "needs --port"),
        (["--pace", "slow"], "neither real nor fast"),
        (["--pace", "-1"], "not a pace"),
        (["--seconds", "nan"], "not a usable number"),
        (["--motes", "0"], "--motes"),
        (["--pty", "a", "--pty", "b"], "2 --ptys, and 1 gateway"),
        (["--port", "65535", "--gateways", "2"], "not enough ports"),
    ],
)
def test_wrong_usage(stand_in, meadow, args, words):
    result = run(meadow, *args)
    assert result.exit_code == 2, result.output
    assert words in result.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--motes", "4"], "deployment of 3 motes, but 4 are asked for"),
        (["--gateways", "5"], "four sides"),
        (["--topology", "gains:/none"], "/none: No such file"),
        (["--faults", "/none"], "/none: No such file"),
    ],
)
def test_faults_of_the_request(stand_in, meadow, args, words):
    result = run(meadow, "--seconds", 2, *args)
    assert result.exit_code == 1
    assert words in result.stderr


def test_too_many_motes_are_refused_before_they_are_laid_out(stand_in, meadow, monkeypatch):
    monkeypatch.setattr(topologies, "grid", lambda *_: pytest.fail("that takes long"))
    result = run(meadow, "--motes", 1000)
    assert result.exit_code == 1
    assert "deployment of 3 motes, but 1000 are asked for" in result.stderr


def test_mixed_radios_have_no_common_capture(stand_in, meadow, tmp_path):
    other = tmp_path / "brook.toml"
    other.write_text(deployment("brook", board="mica2").to_toml())
    result = run(meadow, other, "--seconds", 2, "--pcap", tmp_path / "x.pcap")
    assert result.exit_code == 1
    assert "one kind of radio" in result.stderr


def test_an_engine_that_fails(stand_in, meadow, monkeypatch, tmp_path):
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho 'line 1: no' >&2\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setattr(emulator, "build", lambda say: program)
    result = run(meadow, "--seconds", 2)
    assert result.exit_code == 1
    assert "line 1: no" in result.stderr


def test_the_example_is_the_default(stand_in):
    result = run("--seconds", 2, "--motes", 3)
    assert result.exit_code == 0
    assert "meadow: 3 motes" in result.stderr
    assert network().name == "meadow"


def test_a_testbed_whose_parent_is_gone_ends(monkeypatch):
    """The base station that started the testbed was killed, and could not end it."""
    monkeypatch.setenv(testbed.PARENT, str(os.getppid() + 1))

    class Endless:
        running = True

        def ports(self, count):
            return []

        def wait(self, seconds):
            pass

        def seconds(self):
            return 0.0

        def interrupt(self):
            self.running = False

        def finish(self):
            assert not self.running
            return False

    wish = Wish(pace=1.0)
    assert testbed._watch(Endless(), wish, []) is False
