"""Shell completion: the script is printed, and bash, fed with a line, offers what fits."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from basestation.cli import cli
from basestation.cli.completion import command, complete_deployment, complete_source
from basestation.sources import attached_ports

LINE = attached_ports.SerialPort("/dev/ttyUSB7", "MIB520", "0403:6010", "XBOW1", "1.1")


@pytest.fixture
def attached(monkeypatch):
    monkeypatch.setattr(attached_ports, "attached", lambda: [attached_ports.SerialPort("/dev/ttyACM0"), LINE])


def offered(incomplete, complete=complete_source):
    return [item.value for item in complete(click.Context(cli), command.params[0], incomplete)]


def test_sources(attached):
    assert offered("")[:3] == ["serial@/dev/ttyUSB7", "serial@/dev/ttyACM0", "serial@"]
    assert offered("sf") == ["sf@localhost:9001", "sf@localhost:9002"]
    assert offered("serial@/dev/ttyU") == ["serial@/dev/ttyUSB7"]
    assert offered("serial@/dev/ttyUSB7:mica2") == [
        "serial@/dev/ttyUSB7:mica2",
        "serial@/dev/ttyUSB7:mica2dot",
    ]
    assert offered("nonsense") == []


def test_files(attached, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("site.toml", "line.bin", ".hidden.toml"):
        Path(name).touch()
    Path("sites").mkdir()
    assert offered("", complete_deployment) == ["site.toml", "sites/"]
    assert offered("replay@") == ["replay@line.bin", "replay@site.toml", "replay@sites/"]
    assert offered("simulate@si") == ["simulate@site.toml", "simulate@sites/"]
    assert offered("testbed@nowhere/x") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed_and_nothing_else(shell):
    done = CliRunner().invoke(command, [shell], catch_exceptions=False)
    assert done.exit_code == 0
    assert f"_BASESTATION_COMPLETE={shell}_complete" in done.stdout
    assert CliRunner().invoke(command, [], env={"SHELL": f"/bin/{shell}"}).stdout == done.stdout


def test_an_unknown_shell_is_wrong_usage():
    assert CliRunner().invoke(command, [], env={"SHELL": "/bin/ksh"}).exit_code == 2


ASK = """
PATH="$PWD:$PATH"
source script
compopt() { options+="$2"; }
COMP_LINE=$1 COMP_POINT=${#1}
_basestation_completion basestation
printf '%s\\n' "${COMPREPLY[@]}" "options=$options"
"""


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("basestation simu", ["simulate", "options="]),
        ("basestation listen test", ["testbed@", "options=nospace"]),
        # What stands before the last break is on the line already.
        ("basestation listen sf@", ["localhost:9001", "localhost:9002", "options="]),
        ("basestation listen sf@localhost:9002 -d ", ["deep/", "site.toml", "options=nospace"]),
        ("basestation send sf@localhost:9002 re", ["report", "reboot", "options="]),
        ("basestation listen -d deep/", ["deep/er.toml", "options="]),
    ],
)
def test_bash(require_tool, tmp_path, line, answer):
    bash = require_tool("bash")
    (tmp_path / "script").write_text(CliRunner().invoke(command, ["bash"]).stdout)
    (tmp_path / "site.toml").touch()
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "er.toml").touch()
    program = tmp_path / "basestation"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m basestation "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        [bash, "--norc", "-c", ASK, "ask", line],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == answer
