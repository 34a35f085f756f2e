"""The PlatformIO project, on a copy with tiny sources: it builds, tests and programs without PlatformIO's registry."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import build_layout
import image
import pytest

from basestation.testbed import emulator
from basestation.testbed.images import environments
from basestation.testbed.truth_log import DriverFault, Signal
from packet_formats import cheader
from packet_formats.boards import BOARDS
from packet_formats.deployment import load
from tests.firmware.ihex import from_ihex

HEADERS = {"core/add.h": "#include <stdint.h>\nuint8_t add(uint8_t a, uint8_t b);\n"}
SOURCES = {
    "core/add.c": '#include "core/add.h"\nuint8_t add(uint8_t a, uint8_t b) { return (uint8_t)(a + b); }\n',
    "test/test_good/test_good.c": """
#include "check.h"
#include "causeway_layout.h"
#include "core/add.h"
static void adds(void) { CHECK_EQUAL(3, add(1, 2)); CHECK(add(255, 1) == 0); CHECK_BYTES("abc", "abc", 4); }
static void own_deployment(void) { CHECK_EQUAL(9, CAUSEWAY_MOTES); }
int main(void) { check_start(); RUN(adds); RUN(own_deployment); return check_end(); }
""",
    "test/test_bad/test_bad.c": """
#include "check.h"
#include "core/add.h"
static void good(void) { CHECK(true); }
static void wrong(void) { CHECK_EQUAL(-2, (int16_t)add(1, 2)); CHECK_BYTES("abc", "axc", 4); CHECK(false); }
int main(void) { check_start(); RUN(good); RUN(wrong); return check_end(); }
""",
    "test/test_lost/test_lost.c": """
#include "check.h"
static void good(void) { CHECK(true); }
int main(void)
{
    check_start();
    RUN(good);
#ifdef __AVR__
    cli();
    sleep_enable();
    sleep_cpu();
#endif
    return 0;
}
""",
}
APP = """
#include "core/add.h"
#include "hal/radio.h"
volatile uint16_t TOS_NODE_ID = CAUSEWAY_NODE_ID;
volatile uint8_t sum;
int main(void) { for (;;) sum = add((uint8_t)TOS_NODE_ID, CAUSEWAY_MOTES); }
"""
# Each test runs PlatformIO; `make test` builds the images that ship.
pytestmark = pytest.mark.wide
# What the copy has of the firmware itself.
TINY = tuple(
    f"firmware/{name}"
    for name in ("platforms", "scripts", "hal", "test/check.h", "test/test_custom_runner.py")
)
AVRDUDE = """#!/bin/sh
echo "$*" >> "$CALLS"
case "$*" in *lfuse:r*) echo reading; echo "${LOW:-0xff}"; echo "${LOW2:-${LOW:-0xff}}";; esac
"""


@pytest.fixture(scope="module")
def pio(require_tool):
    require_tool("avr-gcc")
    beside = Path(sys.executable).with_name("pio")
    return beside if beside.exists() else Path(require_tool("pio"))


@pytest.fixture(scope="module")
def project(pio, root, tmp_path_factory):
    return Project(pio, root, tmp_path_factory.mktemp("project"))


class Project:
    def __init__(self, pio, root, folder, names=TINY):
        self.pio, self.folder = pio, folder
        for name in ("platformio.ini", "examples", "packet_formats", *names):
            self._copy(root, name)
        if names == TINY:
            self._write_sources()
        self._pretend()

    def _write_sources(self):
        folder = self.folder
        apps = {f"apps/{app}/main.c": APP for app in ("mote", "gateway")}
        for name, text in {**HEADERS, **SOURCES, **apps}.items():
            path = folder / "firmware" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        deployment = (folder / "examples" / "mica2.toml").read_text().replace("motes = 8", "motes = 9")
        (folder / "firmware/test/test_good/deployment.toml").write_text(deployment)

    def _copy(self, root, name):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            shutil.copytree(root / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(root / name, self.folder / name)

    def _pretend(self):
        """No network, no packages of ours in Python, an avrdude that only notes how it was called."""
        bare = self.folder / "bare"
        tools = self.folder / "bin"
        for folder in (bare, tools):
            folder.mkdir()
        for name in ("construct", "numpy"):
            (bare / f"{name}.py").write_text(
                "raise ImportError('the build needs the standard library alone')\n"
            )
        (tools / "avrdude").write_text(AVRDUDE)
        (tools / "avrdude").chmod(0o755)
        self.environment = {
            **{
                key: value
                for key, value in os.environ.items()
                if not key.startswith(("CAUSEWAY_", "PLATFORMIO_"))
            },
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(bare),
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "HTTP_PROXY": "http://127.0.0.1:9",
            "CALLS": str(self.folder / "calls"),
            "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
            "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true",
        }

    def run(self, *arguments, **variables):
        return subprocess.run(
            [self.pio, *arguments],
            cwd=self.folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # no terminal
            text=True,
            check=False,
            timeout=200,
        )

    def at_a_terminal(self, keys, *arguments):
        """Exit status and all that was shown."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(self.pio, [str(self.pio), *arguments], self.environment)
        shown = b""
        try:
            while part := os.read(terminal, 4096):
                shown += part
                if b"Type yes" in shown and keys:
                    os.write(terminal, keys.encode())
                    keys = ""
        except OSError:
            pass  # how a terminal whose program has ended reads on Linux
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()

    def take_calls(self):
        path = self.folder / "calls"
        text = path.read_text() if path.exists() else ""
        path.unlink(missing_ok=True)
        return text.splitlines()

    def build(self, environment):
        return self.folder / ".pio" / "build" / environment


def test_all_images_build_without_registry_and_packages(project):
    done = project.run("run")
    assert done.returncode == 0, done.stdout
    for environment, board, app, node_id in [
        ("micaz", "micaz", "mote", 1),
        ("micaz_gateway", "micaz", "gateway", 20),
        ("mica2", "mica2", "mote", 1),
        ("mica2_gateway", "mica2", "gateway", 8),
    ]:
        folder = project.build(environment)
        made = image.load(folder / "firmware.elf")
        assert made.node_id == node_id
        flash = from_ihex((folder / "firmware.hex").read_text())
        assert flash == from_ihex(made.ihex())
        vectors = [(flash[at], flash[at + 1]) for at in range(0, 35 * 4, 4)]
        assert set(vectors) == {(0x0C, 0x94)}  # `jmp`s to the lower half of flash: none is shortened
        about = json.loads((folder / "firmware.json").read_text())
        assert (about["environment"], about["board"], about["app"]) == (environment, board, app)
        assert about["elf_sha256"] == build_layout.sha256_of(folder / "firmware.elf")
    assert (
        f"#define CAUSEWAY_RADIO_CC1000{'':<15}1"
        in (project.build("mica2") / "include/causeway_layout.h").read_text()
    )


def test_nothing_is_built_again_until_the_layout_changes(project):
    folder = project.build("micaz")
    assert project.run("run", "-e", "micaz").returncode == 0
    files = [folder / "include" / "causeway_layout.h", folder / "firmware.elf", folder / "firmware.hex"]
    times = [file.stat().st_mtime_ns for file in files]
    toml = project.folder / "examples" / "micaz.toml"
    text = toml.read_text()
    toml.write_text(f"# a remark\n{text}")
    assert project.run("run", "-e", "micaz").returncode == 0
    assert [file.stat().st_mtime_ns for file in files] == times
    toml.write_text(text.replace("motes = 20", "motes = 21"))
    assert project.run("run", "-e", "micaz").returncode == 0
    assert all(file.stat().st_mtime_ns > time for file, time in zip(files, times, strict=True))
    toml.write_text(text)


def test_another_deployment_and_another_id(project, tmp_path):
    path = tmp_path / "mine.toml"
    text = (project.folder / "examples" / "micaz.toml").read_text()
    path.write_text(text.replace('name = "meadow"', 'name = "hill"'))
    done = project.run("run", "-e", "micaz", CAUSEWAY_DEPLOYMENT=str(path), CAUSEWAY_NODE_ID="7")
    assert done.returncode == 0, done.stdout
    folder = project.build("micaz")
    assert json.loads((folder / "firmware.json").read_text())["deployment"] == "hill"
    assert image.load(folder / "firmware.elf").node_id == 7


def test_a_deployment_that_cannot_be_ends_the_build_readably(project, tmp_path):
    path = tmp_path / "mine.toml"
    text = (project.folder / "examples" / "micaz.toml").read_text()
    path.write_text(text.replace("data_bytes = 8", "data_bytes = 28"))
    done = project.run("run", "-e", "micaz", CAUSEWAY_DEPLOYMENT=str(path))
    assert done.returncode == 1
    assert re.search(r"^Error: .*mine\.toml: .*29", done.stdout, re.MULTILINE), done.stdout
    assert "Traceback" not in done.stdout
    assert "Compiling" not in done.stdout


def test_tests_pass_and_fail_alike_on_the_host_and_on_the_emulated_chip(project, require_tool):
    require_tool("simavr")
    done = project.run("test", "-e", "native", "-e", "micaz_sim", "--json-output-path", "result.json")
    assert done.returncode == 1, done.stdout
    for environment in ("native", "micaz_sim"):
        assert re.search(rf"{environment} +test_good +PASSED", done.stdout), done.stdout
        assert re.search(rf"{environment} +test_bad +FAILED", done.stdout), done.stdout
        assert re.search(rf"{environment} +test_lost +ERRORED", done.stdout), done.stdout
    assert done.stdout.count("add(1, 2) is 3 (0x3), expected -2") == 2
    assert done.stdout.count('"axc"[1] is 78, expected 62') == 2
    assert done.stdout.count("not so: ") == 2
    assert done.stdout.count("did not reach its end") == 2
    cases = {
        (suite["env_name"], case["name"], case["status"])
        for suite in json.loads((project.folder / "result.json").read_text())["test_suites"]
        for case in suite.get("test_cases", [])
    }
    for environment in ("native", "micaz_sim"):
        for name, status in [
            ("adds", "PASSED"),
            ("own_deployment", "PASSED"),
            ("good", "PASSED"),
            ("wrong", "FAILED"),
        ]:
            assert (environment, name, status) in cases


def test_the_monitor_has_the_speed_of_a_gateway(project):
    found = json.loads(project.run("project", "config", "--json-output").stdout)
    speeds = {section: dict(options).get("monitor_speed") for section, options in found}
    for board in BOARDS.values():
        for environment in environments(board.name):
            assert speeds[f"env:{environment}"] == board.baud


def test_upload_calls_avrdude(project):
    done = project.run("run", "-e", "mica2", "-t", "upload", "--upload-port", "/dev/ttyUSB3")
    assert done.returncode == 0, done.stdout
    hexfile = ".pio/build/mica2/firmware.hex"
    assert project.take_calls() == [f"-q -c mib510 -p m128 -P /dev/ttyUSB3 -b 115200 -U flash:w:{hexfile}:i"]


def test_check_takes_cppcheck_from_path(project, require_tool):
    require_tool("cppcheck")
    done = project.run("check", "-e", "mica2")
    assert (done.returncode, "No defects found" in done.stdout) == (0, True), done.stdout
    source = project.folder / "firmware/core/fault.c"
    source.write_text("int fault(void);\nint fault(void) { int list[2] = {1, 2}; return list[2]; }\n")
    done = project.run("check", "-e", "mica2", "--fail-on-defect", "high")
    source.unlink()
    assert done.returncode == 1, done.stdout
    assert "fault.c:2: [high:error] Array 'list[2]' accessed at index 2" in done.stdout


def test_upload_without_a_port_names_the_missing_option(project):
    done = project.run("run", "-e", "mica2", "-t", "upload")
    assert done.returncode == 1
    assert "Error: which port?" in done.stdout
    assert not project.take_calls()


def test_fuses_are_written_only_after_a_yes(project):
    words = ("run", "-e", "mica2", "-t", "fuses", "--upload-port", "/dev/ttyUSB3")
    done = project.run(*words)
    assert done.returncode == 1
    assert "no terminal to ask on" in done.stdout
    assert project.at_a_terminal("no\n", *words)[0] == 1
    assert not project.take_calls()
    call = "-q -c mib510 -p m128 -P /dev/ttyUSB3 -b 115200"
    read = f"{call} -U lfuse:r:-:h -U lfuse:r:-:h"
    expected = [read, f"{call} -U hfuse:w:0xD9:m -U efuse:w:0xFF:m -U lfuse:w:0xBF:m"]
    status, shown = project.at_a_terminal("yes\n", *words)
    assert status == 0, shown
    assert project.take_calls() == expected
    assert project.run(*words, CAUSEWAY_FUSES="yes", LOW="0x5e").returncode == 0
    assert project.take_calls()[1].endswith("-U lfuse:w:0x9E:m")  # the clock source stays
    unsure = project.run(*words, CAUSEWAY_FUSES="yes", LOW2="0x7f")
    assert unsure.returncode == 1
    assert "does not read the same twice" in unsure.stdout
    assert project.take_calls() == [read]


def test_size_and_compile_commands(project):
    done = project.run("run", "-e", "mica2", "-t", "size")
    assert done.returncode == 0, done.stdout
    assert re.search(r"Program: +\d+ bytes", done.stdout)
    assert project.run("run", "-e", "mica2", "-t", "compiledb").returncode == 0
    commands = json.loads((project.folder / "compile_commands.json").read_text())
    assert {Path(entry["file"]).name for entry in commands} == {"main.c", "add.c"}
    assert all("-Wconversion -Werror" in entry["command"] for entry in commands)


@pytest.mark.parametrize(("environment", "node_id"), [("micaz", 0), ("micaz_gateway", 23)])
def test_the_image_as_it_ships_runs_and_speaks_under_the_id_written_into_it(
    pio, root, testbed, tmp_path, environment, node_id
):
    """The real sources, built with the real flags, on an emulated MICAz for three seconds."""
    project = Project(pio, root, tmp_path / "project", ["firmware"])
    done = project.run("run", "-e", environment)
    assert done.returncode == 0, done.stdout
    (tmp_path / "node.elf").write_bytes(
        image.load(project.build(environment) / "firmware.elf").with_id(node_id).elf
    )
    events = emulator.events_of(f"nodes 1\nnode 0 micaz 0 0 0 0 {tmp_path}/node.elf\nend 3\n", testbed)
    assert not [event for event in events if isinstance(event, DriverFault)]
    frames = [event.bytes for event in events if isinstance(event, Signal)]
    # length, 01 08, number, PAN, destination, type, group, payload; a mote that was reset would begin with 0 again
    assert [frame[3] for frame in frames] == list(range(len(frames)))
    beacons = [frame[10:] for frame in frames if frame[8] == 0x70]
    assert len(beacons) >= 2
    assert {int.from_bytes(beacon[:2], "little") for beacon in beacons} == {node_id}


def test_an_app_outside_the_repository(pio, root, testbed, tmp_path):
    """The template, copied as docs/guide/apps.md says, built with the real sources, and run: it sends, and counts."""
    project = Project(pio, root, tmp_path / "project", ["firmware"])
    own = tmp_path / "somewhere" / "my_app"
    shutil.copytree(root / "firmware" / "apps" / "template", own)
    done = project.run("run", "-e", "micaz", CAUSEWAY_APP=str(own))
    assert done.returncode == 0, done.stdout
    folder = project.build("micaz")
    assert json.loads((folder / "firmware.json").read_text())["app"] == "my_app"
    events = emulator.events_of(f"nodes 1\nnode 0 micaz 0 0 0 0 {folder}/firmware.elf\nend 9\n", testbed)
    assert not [event for event in events if isinstance(event, DriverFault)]
    sent = [event.bytes[-10] for event in events if isinstance(event, Signal) and event.bytes[8] & 0x80]
    counts = list(dict.fromkeys(sent))  # without a gateway each goes out several times
    assert len(counts) >= 3
    assert counts == list(range(1, len(counts) + 1))


OTHERS_INI = """
[platformio]
core_dir = .pio-core
platforms_dir = ${{platformio.workspace_dir}}/platforms
[env]
lib_deps = symlink://{firmware}/core
[env:host]
platform = symlink://{firmware}/platforms/host
[env:avr]
platform = symlink://{firmware}/platforms/mica
board = micaz
build_flags = -std=gnu++98
"""
OTHERS_CODE = """
#include <causeway/mote.h>
static cw_mote_t mote;
int main() { cw_mote_start(&mote, 1, 2, cw_tick(77)); return 0; }
"""


def test_the_core_is_a_library_in_another_project(pio, root, tmp_path):
    """As docs/reference/library.md says: the layout's header is in the project's include folder. avr-g++ 5 takes C++
    of 98."""
    project = Project(pio, root, tmp_path / "causeway", ["firmware"])
    mine = tmp_path / "my project"
    for name, text in {
        "platformio.ini": OTHERS_INI.format(firmware=project.folder / "firmware"),
        "src/main.cpp": OTHERS_CODE,
        "include/causeway_layout.h": cheader.render(load(root / "firmware/core/examples/deployment.toml")),
    }.items():
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text(text)
    project.folder = mine
    done = project.run("run")
    assert done.returncode == 0, done.stdout
    assert "2 succeeded" in done.stdout
