"""Running the engine: an engine that is a few lines of shell, and the real one where it can be built."""

import threading

import pytest

from basestation.testbed import emulator
from basestation.testbed.emulator import EmulatorError, OpenPort

START = '{"t":0,"is":"start","seed":1,"nodes":1,"version":1}'
PORT = '{"t":0,"is":"port","node":3,"tcp":9001,"pty":"/run/tty"}'


@pytest.fixture
def fake(tmp_path):
    """A program of shell lines that has its scenario in $scenario and its log as $2."""

    def make(*lines):
        program = tmp_path / "testbed"
        program.write_text("\n".join(["#!/bin/sh", "scenario=$(cat)", *lines, ""]))
        program.chmod(0o755)
        return program

    return make


def test_the_scenario_goes_in_and_ports_come_out(fake, tmp_path):
    log = tmp_path / "truth"
    log.write_text('{"t":9,"is":"port","node":0,"tcp":1,"pty":null}\n')  # of an older run
    program = fake(
        f"echo '{START}' > $2; sleep 0.1; echo '{PORT}' >> $2",
        'echo \'{"t":1500000000,"is":"script","line":"\'"$scenario"\'"}\' >> $2',
    )
    with emulator.start(program, "seed 1", log) as run:
        assert run.ports(1) == [OpenPort(3, 9001, "/run/tty")]
        assert run.finish()
        assert run.seconds() == 1.5
    assert '"line":"seed 1"' in log.read_text()


def test_an_engine_that_refuses_gives_its_reason(fake, tmp_path):
    with emulator.start(fake("echo 'line 3: no node 7' >&2; exit 2"), "", tmp_path / "truth") as run:
        assert run.ports(1) == []
        assert run.seconds() == 0
        with pytest.raises(EmulatorError, match="status 2: line 3: no node 7"):
            run.finish()


def test_a_run_that_is_left_is_interrupted(fake, tmp_path):
    log = tmp_path / "truth"
    program = fake(
        "trap 'echo bye > $2; exit 130' INT", f"echo '{PORT}' > $2", "while :; do sleep 0.05; done"
    )
    with emulator.start(program, "", log) as run:
        run.ports(1)
        assert run.running
        run.wait(0.01)
    assert not run.running
    assert log.read_text() == "bye\n"
    assert run.finish() is False


def test_an_interrupted_run_is_no_fault(fake, tmp_path):
    program = fake("trap 'exit 130' INT", f"echo '{PORT}' > $2", "while :; do sleep 0.05; done")
    with emulator.start(program, "", tmp_path / "truth") as run:
        run.ports(1)
        threading.Timer(0.1, run.interrupt).start()
        assert run.finish() is False


def test_what_building_needs_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(emulator.shutil, "which", lambda tool: None if tool == "gcc" else tool)
    with pytest.raises(EmulatorError, match=r"gcc is missing.*libsimavr-dev"):
        emulator.build()
    monkeypatch.undo()
    monkeypatch.setattr(emulator, "SOURCES", tmp_path)
    with pytest.raises(EmulatorError, match="did not build"):
        emulator.build(tmp_path / "build")
    monkeypatch.setattr(emulator, "SOURCES", tmp_path / "none")
    with pytest.raises(EmulatorError, match="checkout"):
        emulator.build()
