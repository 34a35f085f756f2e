"""`basestation ports`."""

import asyncio
import errno
import json
import os
import pty
import re
import stat
import subprocess
import sys

import pytest
from click.testing import CliRunner

from basestation.cli.ports import command
from basestation.sources import attached_ports

DUAL = "0403:6010"


@pytest.fixture
def tty(tmp_path):
    """A port that can be opened."""
    master, slave = pty.openpty()
    yield os.ttyname(slave)
    os.close(slave)
    os.close(master)


def listed(monkeypatch, *attached, args=()):
    monkeypatch.setattr(attached_ports, "attached", lambda: list(attached))
    return CliRunner().invoke(command, list(args))


def test_json(monkeypatch, tty):
    line = attached_ports.SerialPort("/dev/ttyUSB9", "MIB520", DUAL, "XBOW1", "1.1")
    plain = attached_ports.SerialPort(tty, "a modem", "1234:5678")
    result = listed(monkeypatch, plain, line, args=["--json"])
    assert result.exit_code == 0
    first, second = map(json.loads, result.stdout.splitlines())
    assert (first["device"], first["usb"], first["serial_number"]) == ("/dev/ttyUSB9", DUAL, "XBOW1")
    assert (first["gateway"], first["trouble"]) == (True, "gone")
    assert "is not there" in first["reason"]
    assert (second["device"], second["gateway"], second["board"]) == (tty, False, None)


def test_the_table_says_what_why_and_what_would_be_used(monkeypatch):
    result = listed(monkeypatch, attached_ports.SerialPort("/dev/ttyUSB9", "MIB520", DUAL, "XBOW1", "1.1"))
    assert result.exit_code == 0
    for text in ("/dev/ttyUSB9", DUAL, "XBOW1", "no: gone"):
        assert text in result.stdout
    assert "/dev/ttyUSB9 is not there: plug it in" in result.stderr
    assert "Without a source given, serial@/dev/ttyUSB9 is used" in result.stderr


def test_nothing_attached(monkeypatch):
    result = listed(monkeypatch)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No serial port" in result.stderr


# Why a port can't be opened


def test_a_port_in_use_is_busy_and_says_who(tty):
    program = "import os, sys, time; os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY); print(); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", program, tty], stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        trouble = attached_ports.trouble_with(tty)
    finally:
        holder.kill()
        holder.communicate()
    assert trouble.kind == "busy"
    assert f"(process {holder.pid})" in trouble.text


def test_a_file_is_no_port(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    assert "is no serial port" in attached_ports.trouble_with(str(path)).text
    assert "is no serial port" in attached_ports.trouble_with(str(tmp_path)).text


def test_those_who_use_a_port_are_named_up_to_a_point(monkeypatch, tty):
    monkeypatch.setattr(
        attached_ports, "holders_of", lambda device: [f"cat (process {n})" for n in range(40)]
    )
    text = attached_ports.trouble_with(tty).text
    assert "cat (process 0)" in text
    assert text.count("process") == 3
    assert "37 more" in text


def test_a_port_that_another_has_locked_is_busy(tty):
    import fcntl

    held = os.open(tty, os.O_RDWR | os.O_NOCTTY)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        assert attached_ports.trouble_with(tty).kind == "busy"
    finally:
        os.close(held)
    assert attached_ports.trouble_with(tty) is None


class Group:
    def __init__(self, name, members):
        self.gr_name, self.gr_mem = name, members


@pytest.mark.parametrize(
    ("mode", "group", "cure"),
    [
        (0o660, Group("dialout", []), "you are not in the group dialout: sudo usermod -aG dialout ann"),
        (0o660, Group("dialout", ["ann"]), "log out and in again"),
        (0o600, Group("root", []), "install the udev rules"),
    ],
)
def test_permission_names_the_group_and_the_cure(monkeypatch, tmp_path, mode, group, cure):
    device = tmp_path / "ttyUSB0"
    device.touch()
    device.chmod(mode)
    assert stat.S_IMODE(device.stat().st_mode) == mode
    monkeypatch.setattr(attached_ports.grp, "getgrgid", lambda _: group)
    monkeypatch.setattr(attached_ports.pwd, "getpwuid", lambda _: type("User", (), {"pw_name": "ann"}))
    trouble = attached_ports.explain(str(device), PermissionError(errno.EACCES, "Permission denied"))
    assert trouble.kind == "permission"
    assert cure in trouble.text


def test_a_source_says_the_same(monkeypatch):
    from basestation.sources import SourceError, open_source
    from basestation.sources import serial as serial_source

    def refuse(*_, **__):
        raise serial_source.serial.SerialException(errno.EACCES, "could not open port")

    monkeypatch.setattr(serial_source.serial, "Serial", refuse)
    with pytest.raises(SourceError, match=r"serial@/dev/null: /dev/null: no permission"):
        asyncio.run(open_source("serial@/dev/null").open())


# What a port is


def test_the_halves_of_a_mib520():
    programmer, line = (attached_ports.SerialPort("x", "", DUAL, "S", half) for half in ("1.0", "1.1"))
    assert programmer.board.endswith("its programmer")
    assert line.board.endswith("the mote's serial line")
    assert (programmer.rank, line.rank) == (attached_ports.UNLIKELY, attached_ports.SURE)
    assert programmer.identity != line.identity
    assert attached_ports.SerialPort("x", "", DUAL, None, "1.1").identity is None


def test_what_pyserial_finds_is_read(monkeypatch):
    from serial.tools.list_ports_common import ListPortInfo

    found = ListPortInfo("/dev/ttyUSB1")
    found.vid, found.pid, found.serial_number = 0x403, 0x6010, "XBOW1"
    found.location, found.description = "1-2:1.1", "MIB520"
    monkeypatch.setattr(attached_ports.list_ports, "comports", lambda: [found, ListPortInfo("/dev/ttyS0")])
    built_in, line = attached_ports.attached()
    assert line == attached_ports.SerialPort("/dev/ttyUSB1", "MIB520", DUAL, "XBOW1", "1.1")
    assert built_in == attached_ports.SerialPort("/dev/ttyS0")
    assert attached_ports.device_of(line.identity) == "/dev/ttyUSB1"


def test_the_udev_rules_have_the_same_devices(root):
    rules = (root / "tools" / "udev" / "70-causeway.rules").read_text()
    ids = re.findall(r'ID_VENDOR_ID}=="(\w+)", ENV{ID_MODEL_ID}=="(\w+)"', rules)
    assert {f"{vendor}:{product}" for vendor, product in ids} == set(attached_ports.BOARDS)
    labels = set(re.findall(r'^LABEL="(\w+)"', rules, re.MULTILINE))
    assert set(re.findall(r'GOTO="(\w+)"', rules)) == labels
