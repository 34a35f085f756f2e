"""Node ids in images, and programming motes in a batch, with a simulated avrdude."""

import csv
import hashlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import avrdude
import build_layout
import flash
import image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.firmware.ihex import from_ihex

SCRIPTS = Path(__file__).resolve().parents[2] / "firmware" / "scripts"

SOURCE = """
#include <stdint.h>
#include <avr/pgmspace.h>
{more}
volatile uint32_t before = 0x11223344;
{definition}
volatile uint32_t after = 0x55667788;
int main(void) {{ for (;;) before += after{use}; }}
"""

# Notes its arguments, keeps the image it is given, and fails as many times as the test asks for.
AVRDUDE = """#!/bin/sh
set -eu
echo "$*" >> "$LOG/calls"
for last; do :; done
file=${last#flash:w:}
cp "${file%:i}" "$LOG/$(wc -l < "$LOG/calls").hex"
if [ "$(cat "$LOG/failures" 2>/dev/null || echo 0)" -gt 0 ]; then
    echo $(($(cat "$LOG/failures") - 1)) > "$LOG/failures"
    cat "$LOG/said" >&2
    exit 1
fi
"""


@pytest.fixture(scope="module")
def build(require_tool, tmp_path_factory):
    """build(definition) is an ELF made from a tiny program with that definition of TOS_NODE_ID."""
    compiler = require_tool("avr-gcc")

    def make(definition="volatile uint16_t TOS_NODE_ID = 1;", *, more="", use=" + TOS_NODE_ID", flags=()):
        folder = tmp_path_factory.mktemp("image")
        (folder / "main.c").write_text(SOURCE.format(definition=definition, more=more, use=use))
        options = ["-mmcu=atmega128", "-std=gnu11", "-Os", "-g", *flags, "-o", "firmware.elf"]
        subprocess.run([compiler, *options, "main.c"], cwd=folder, check=True)
        return folder / "firmware.elf"

    return make


@pytest.fixture(scope="module")
def elf(build):
    return build()


def objcopy(path, require_tool):
    made = path.with_suffix(".hex")
    subprocess.run([require_tool("avr-objcopy"), "-O", "ihex", "-R", ".eeprom", path, made], check=True)
    return from_ihex(made.read_text())


def bytes_of(flash_contents):
    return from_ihex(image.to_ihex(flash_contents))


class TestImage:
    def test_the_id_as_built_is_found(self, elf):
        assert image.load(elf).node_id == 1

    def test_the_hex_file_is_what_objcopy_makes(self, elf, require_tool):
        assert from_ihex(image.load(elf).ihex()) == objcopy(elf, require_tool)

    @pytest.mark.parametrize("node_id", [0, 7, 0x1234, 65534])
    def test_another_id_changes_only_these_two_bytes(self, elf, require_tool, node_id, tmp_path):
        before = image.load(elf)
        after = before.with_id(node_id)
        (tmp_path / "new.elf").write_bytes(after.elf)
        assert image.load(tmp_path / "new.elf").node_id == node_id
        old, new = objcopy(elf, require_tool), from_ihex(after.ihex())
        assert new[after.id_flash] | new[after.id_flash + 1] << 8 == node_id
        assert {at for at in old if old[at] != new[at]} <= {after.id_flash, after.id_flash + 1}
        assert old.keys() == new.keys()

    def test_a_large_image_keeps_its_id_above_64_kb(self, build, require_tool):
        parts = "abc"
        more = "".join(f"const char {part}[30000] PROGMEM = {{1}};" for part in parts)
        reads = "".join(f" + pgm_read_byte(&{part}[after & 127])" for part in parts)
        big = build(more=more, use=f" + TOS_NODE_ID{reads}")
        made = image.load(big).with_id(9)
        assert made.id_flash > 0x10000
        expected = objcopy(big, require_tool)
        expected[made.id_flash] = 9
        assert from_ihex(made.ihex()) == expected

    def test_link_time_optimization_does_not_hide_it(self, build):
        assert image.load(build(flags=["-flto"])).node_id == 1

    def test_the_hash_is_the_same_whatever_the_id(self, elf):
        made = image.load(elf)
        assert made.sha256 == made.with_id(77).sha256
        assert made.sha256 == hashlib.sha256(made.with_id(0).ihex().encode()).hexdigest()

    @pytest.mark.parametrize(
        ("definition", "use", "why"),
        [
            ("", "", "no symbol TOS_NODE_ID"),
            ("volatile uint16_t TOS_NODE_ID;", " + TOS_NODE_ID", "no initial value"),
            ("volatile uint32_t TOS_NODE_ID = 1;", " + TOS_NODE_ID", "has 4 bytes"),
        ],
    )
    def test_an_image_without_a_place_for_an_id_is_refused(self, build, definition, use, why):
        with pytest.raises(image.ImageError, match=why):
            image.load(build(definition, use=use))

    @pytest.mark.parametrize("node_id", [-1, 65535, 70000])
    def test_an_id_that_cannot_be_is_refused(self, elf, node_id):
        with pytest.raises(image.ImageError, match="0 to 65534"):
            image.load(elf).with_id(node_id)

    def test_other_files_are_refused(self, tmp_path):
        (tmp_path / "x").write_text(":00000001FF\n")
        with pytest.raises(image.ImageError, match="not a 32-bit"):
            image.load(tmp_path / "x")
        with pytest.raises(image.ImageError, match="not for an AVR"):
            image.parse(b"\x7fELF\x01\x01" + bytes(60))
        with pytest.raises(image.ImageError, match="No such file"):
            image.load(tmp_path / "y")

    def test_a_damaged_file_is_refused_in_one_way(self, elf, tmp_path):
        whole = elf.read_bytes()
        for size in range(6, len(whole), 97):
            (tmp_path / "cut.elf").write_bytes(whole[:size])
            with pytest.raises(image.ImageError):
                image.load(tmp_path / "cut.elf")

    @given(st.binary(min_size=1, max_size=300), st.integers(0, 0x1FF00))
    def test_hex_files_read_back(self, data, address):
        assert from_ihex(image.to_ihex({address: data})) == {address + n: b for n, b in enumerate(data)}


class TestSetNodeId:
    def run(self, *arguments):
        words = [sys.executable, SCRIPTS / "set_node_id.py", *arguments]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def test_shows_and_writes(self, elf, tmp_path):
        for name in ("new.elf", "new.hex"):
            done = self.run(elf, "300", "-o", tmp_path / name)
            assert (done.returncode, done.stdout) == (0, "")
            assert done.stderr == f"{tmp_path / name}: node id 300\n"
        assert "node id 300, at 0x" in self.run(tmp_path / "new.elf").stdout
        assert from_ihex((tmp_path / "new.hex").read_text()) == bytes_of(
            image.load(tmp_path / "new.elf").flash()
        )

    def test_faults_are_reported_on_one_line(self, elf, tmp_path):
        assert self.run(elf, "3").returncode == 2
        for arguments in [
            (tmp_path / "none", "3", "-o", "x.hex"),
            (elf, "65535", "-o", "x.hex"),
            (elf, "3", "-o", "x"),
        ]:
            done = self.run(*arguments)
            assert done.returncode == 1
            assert done.stderr.startswith("error: ")
            assert done.stderr.count("\n") == 1

    def test_an_id_that_the_deployment_does_not_have(self, bench):
        for app, good, bad in [("mote", "9", "10"), ("gateway", "10", "9")]:
            bench.describe(app=app)
            new = bench.folder / f"{app}.hex"
            done = self.run(bench.image, bad, "-o", new)
            assert (done.returncode, new.exists()) == (1, False)
            assert done.stderr.startswith(f"error: node id {bad}: ")
            assert self.run(bench.image, good, "-o", new).returncode == 0


@pytest.fixture
def bench(elf, tmp_path):
    return Bench(elf, tmp_path)


class Bench:
    """A built image for ten motes, a simulated avrdude, and an inventory."""

    def __init__(self, elf, folder):
        self.folder, self.image = folder, folder / "build" / "firmware.elf"
        self.image.parent.mkdir()
        self.image.write_bytes(elf.read_bytes())
        self.describe(app="mote")
        tool = folder / "bin" / "avrdude"
        tool.parent.mkdir()
        tool.write_text(AVRDUDE)
        tool.chmod(0o755)
        self.environment = {**os.environ, "LOG": str(folder), "PATH": f"{tool.parent}:{os.environ['PATH']}"}

    def describe(self, **about):
        record = {
            "environment": "micaz",
            "board": "micaz",
            "deployment": "meadow",
            "motes": 10,
            "layout_sha256": "l",
        }
        record["elf_sha256"] = hashlib.sha256(self.image.read_bytes()).hexdigest()
        (self.image.parent / "firmware.json").write_text(json.dumps({**record, **about}))

    def fail(self, times, said):
        (self.folder / "failures").write_text(str(times))
        (self.folder / "said").write_text(said)

    def words(self, ids, *arguments):
        script = [sys.executable, SCRIPTS / "flash.py", "--image", self.image, "--ids", ids]
        return [str(word) for word in [*script, "--port", "/dev/ttyUSB0", *arguments]]

    def run(self, ids, *arguments):
        return subprocess.run(
            self.words(ids, *arguments),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def at_a_terminal(self, ids, keys, *arguments):
        """Exit status and all that was shown."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(sys.executable, self.words(ids, *arguments), self.environment)
        os.write(terminal, keys.encode())
        shown = b""
        try:
            while part := os.read(terminal, 4096):
                shown += part
        except OSError:
            pass  # how a terminal whose program has ended reads on Linux
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()

    @property
    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def inventory(self):
        with (self.folder / "inventory.csv").open() as file:
            return list(csv.DictReader(file))

    def written_id(self, call):
        memory = from_ihex((self.folder / f"{call}.hex").read_text())
        at = image.load(self.image).id_flash
        return memory[at] | memory[at + 1] << 8


class TestBatch:
    def test_each_mote_gets_its_own_id(self, bench):
        done = bench.run("0-2,7", "--no-prompt")
        assert done.returncode == 0, done.stderr
        assert [bench.written_id(call) for call in (1, 2, 3, 4)] == [0, 1, 2, 7]
        assert all(
            call.startswith("-q -c mib510 -p m128 -P /dev/ttyUSB0 -b 115200 -U flash:w:")
            for call in bench.calls
        )
        rows = bench.inventory
        assert [row["id"] for row in rows] == ["0", "1", "2", "7"]
        assert {row["result"] for row in rows} == {"programmed"}
        assert {row["image_sha256"] for row in rows} == {image.load(bench.image).sha256}
        assert {(row["deployment"], row["environment"], row["port"]) for row in rows} == {
            ("meadow", "micaz", "/dev/ttyUSB0")
        }

    def test_a_second_run_skips_programmed_motes(self, bench):
        bench.run("0-2", "--no-prompt")
        done = bench.run("0-4", "--no-prompt")
        assert "3 motes already with this image in inventory.csv: 0-2" in done.stdout
        assert [bench.written_id(call) for call in (4, 5)] == [3, 4]
        assert len(bench.calls) == 5
        assert bench.run("1", "--again").returncode == 0
        assert len(bench.calls) == 6

    def test_another_image_is_written_again(self, bench, build):
        bench.run("0-1", "--no-prompt")
        bench.image.write_bytes(build(more="volatile uint8_t extra = 3;").read_bytes())
        bench.describe(app="mote")
        assert bench.run("0-1", "--no-prompt").returncode == 0
        assert len(bench.calls) == 4

    def test_a_failure_stops_and_the_same_command_goes_on(self, bench):
        bench.fail(1, "avrdude error: initialization failed, rc=-1\n")
        done = bench.run("0-2", "--no-prompt")
        assert done.returncode == 1
        assert "press it firmly" in done.stderr
        assert "not programmed: 0-2" in done.stderr
        assert bench.inventory[0]["result"].startswith("failed: avrdude ended with 1")
        assert bench.run("0-2", "--no-prompt").returncode == 0
        assert [row["result"] for row in bench.inventory[1:]] == ["programmed"] * 3

    def test_at_a_terminal_motes_are_swapped_and_failures_repeated(self, bench):
        bench.fail(1, "avrdude error: verification mismatch\n")
        status, shown = bench.at_a_terminal("3-4", "\n\n\n")
        assert status == 0, shown
        assert "Put the mote for id 3 on the board" in shown
        assert "reads back wrong" in shown
        assert "Enter tries again" in shown
        assert "Take the mote off, put the next one for id 4" in shown
        assert [(row["id"], row["result"][:6]) for row in bench.inventory] == [
            ("3", "failed"),
            ("3", "progra"),
            ("4", "progra"),
        ]

    def test_at_a_terminal_a_mote_can_be_skipped_and_the_batch_left(self, bench):
        bench.fail(1, "avrdude error: cannot get into sync\n")
        status, shown = bench.at_a_terminal("3-5", "\ns\n\nq\n")
        assert status == 1
        assert "first of its two ttys" in shown
        assert "not programmed: 3,5" in shown

    def test_a_dry_run_writes_nothing(self, bench):
        done = bench.run("0-1", "--dry-run")
        assert done.returncode == 0
        assert done.stdout.count("would run: avrdude -q -c mib510 -p m128") == 2
        assert not bench.calls
        assert not (bench.folder / "inventory.csv").exists()

    def test_a_mib600_is_reached_over_the_network(self, bench):
        assert bench.run("0", "--programmer", "mib600", "--port", "192.0.2.7").returncode == 0
        assert "-c mib510 -p m128 -P net:192.0.2.7:10001" in bench.calls[0]

    def test_an_avrdude_that_hangs_is_ended(self, bench):
        (bench.folder / "bin" / "avrdude").write_text("#!/bin/sh\nsleep 60\n")
        done = bench.run("0", "--timeout", "0.5")
        assert done.returncode == 1
        assert "did not end within 0.5 s" in done.stderr

    @pytest.mark.parametrize(
        ("ids", "app", "why"),
        [
            ("8-12", "mote", "ids 0 to 9"),
            ("9", "gateway", "gateways have ids from 10 up"),
            ("65535", "gateway", "from 10 up"),
        ],
    )
    def test_ids_outside_the_deployment_are_refused_before_anything_is_written(self, bench, ids, app, why):
        bench.describe(app=app)
        done = bench.run(ids, "--no-prompt")
        assert done.returncode == 1
        assert why in done.stderr
        assert not bench.calls

    def test_an_image_that_is_not_its_record_s_is_refused(self, bench, build):
        bench.image.write_bytes(build("volatile uint16_t TOS_NODE_ID = 2;").read_bytes())
        assert "belongs to another image: build again" in bench.run("1").stderr
        (bench.image.parent / "firmware.json").unlink()
        assert "is missing" in bench.run("1").stderr
        bench.image.unlink()
        assert "is not built: pio run" in bench.run("1").stderr

    def test_several_motes_without_a_terminal_are_refused(self, bench):
        done = bench.run("1-2")
        assert done.returncode == 2
        assert "no terminal" in done.stderr

    def test_a_file_that_is_not_an_inventory_is_not_changed(self, bench):
        (bench.folder / "inventory.csv").write_text("a,b\n1,2\n")
        assert "not an inventory" in bench.run("1").stderr
        assert not bench.calls

    @pytest.mark.parametrize("ids", ["", "x", "5-3", "1-", "-4", "1,,2"])
    def test_malformed_ids_are_refused(self, bench, ids):
        assert bench.run(ids).returncode == 2

    def test_ranges_and_lists_of_ids(self):
        assert flash.parse_ids("0-3, 12,2") == [0, 1, 2, 3, 12]


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("avrdude OS error: cannot open port /dev/ttyUSB0: Permission denied", "dialout"),
        ("avrdude OS error: cannot open port /dev/ttyUSB9: No such file or directory", "plugged in"),
        ("avrdude OS error: cannot open port /dev/ttyUSB0: Device or resource busy", "Another program"),
        ("avrdude stk500_getsync() error: not in sync: resp=0x00", "MIB520"),
        ("avrdude error: initialization failed, rc=-1\n - double check the connections", "51-pin"),
        (
            "avrdude: Device signature = 0x000000 (retrying)\navrdude error: Yikes! Invalid device signature.",
            "51-pin",
        ),
        (
            "avrdude: Device signature = 0x1e9704\navrdude error: expected signature for ATmega128 is 1E 97 02",
            "IRIS",
        ),
        ("avrdude verification error: first mismatch at byte 0x0000", "reads back wrong"),
        ("something new", ""),
    ],
)
def test_advice_fits_what_avrdude_says(said, hint):
    assert hint in avrdude.explain(said, 1)
    assert avrdude.explain(said, 1).startswith("avrdude ended with 1:\n  ")


def test_an_unknown_programming_board_is_refused():
    with pytest.raises(avrdude.ProgrammingError, match="mib510, mib520, mib600"):
        avrdude.command("/dev/ttyUSB0", [], programmer="usbasp")


@pytest.mark.parametrize(
    ("app", "motes", "expected"), [("mote", 20, 1), ("mote", 1, 0), ("gateway", 20, 20), (None, 20, 1)]
)
def test_an_image_starts_with_an_id_that_fits(app, motes, expected, monkeypatch):
    monkeypatch.delenv("CAUSEWAY_NODE_ID", raising=False)
    assert build_layout.node_id(None, app, motes) == expected
    monkeypatch.setenv("CAUSEWAY_NODE_ID", str(expected))
    assert build_layout.node_id("3", app, motes) == expected


@pytest.mark.parametrize(
    ("text", "app", "why"),
    [("x", "mote", "not a number"), ("20", "mote", "0 to 19"), ("3", "gateway", "from 20")],
)
def test_an_id_that_does_not_fit_ends_the_build(text, app, why, monkeypatch):
    monkeypatch.delenv("CAUSEWAY_NODE_ID", raising=False)
    with pytest.raises(build_layout.BuildError, match=why):
        build_layout.node_id(text, app, 20)
