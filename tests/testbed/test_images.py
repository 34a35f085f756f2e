"""Images: found, checked against their deployment, given ids; variables found by name."""

import subprocess
from dataclasses import replace

import image as image_tool
import pytest
from click.testing import CliRunner

from basestation.cli import cli
from basestation.testbed import images
from basestation.testbed.images import FirmwareImageError, program, programs_for
from packet_formats.schemes import descriptor, names
from tests.testbed.worlds import deployment

# Two files, each with a static variable of the same name, as the firmware has them.
SOURCES = {
    "main.c": """
#include <stdint.h>
__attribute__((section(".data"))) volatile uint16_t TOS_NODE_ID = 1;
volatile uint8_t causeway_recorder[260];
static volatile uint8_t lines[42], current, timesync, twice;
static volatile uint32_t periods;
void other(void);
int main(void) { for (;;) { lines[current] = twice; periods++; timesync++; causeway_recorder[0]++; other(); } }
""",
    "other.c": "#include <stdint.h>\nstatic volatile uint16_t twice;\nvoid other(void) { twice++; }\n",
}


@pytest.fixture(scope="module")
def elf(require_tool, tmp_path_factory):
    folder = tmp_path_factory.mktemp("image") / "micaz"
    folder.mkdir()
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    flags = ("-mmcu=atmega128", "-Os", "-flto", "-o", "firmware.elf")
    subprocess.run([require_tool("avr-gcc"), *flags, *SOURCES], cwd=folder, check=True)
    return folder / "firmware.elf"


def test_variables_are_found_by_name_also_static_ones(elf, require_tool):
    named = subprocess.run(
        [require_tool("avr-nm"), "-S", elf], capture_output=True, text=True, check=True
    ).stdout
    expected = {}
    for words in (line.split() for line in named.splitlines()):
        if len(words) == 4:
            expected[words[3].partition(".lto_priv")[0]] = (int(words[0], 16) & 0xFFFF, int(words[1], 16))
    found = image_tool.load(elf)
    for name in ("causeway_recorder", "lines", "current", "periods", "timesync", "TOS_NODE_ID"):
        assert found.variable(name) == expected[name]
    assert [found.variable(name)[1] for name in ("lines", "current", "periods")] == [42, 1, 4]
    with pytest.raises(image_tool.ImageError, match="no symbol nothing"):
        found.variable("nothing")
    with pytest.raises(image_tool.ImageError, match="2 symbols are named twice"):
        found.variable("twice")
    with pytest.raises(image_tool.ImageError, match="not in RAM"):
        found.variable("main")


def test_a_program_and_its_copies(elf, tmp_path):
    found = program(elf)
    assert found.recorder == image_tool.load(elf).variable("causeway_recorder")[0]
    assert [watch.name for watch in found.watches] == ["lines", "current", "periods", "timesync"]
    copies = [found.copy(identity, tmp_path) for identity in (0, 9)]
    assert [image_tool.load(path).node_id for path in copies] == [0, 9]
    assert [path.name for path in copies] == ["micaz-0.elf", "micaz-9.elf"]
    with pytest.raises(FirmwareImageError, match="node id 65535"):
        found.copy(65535, tmp_path)


def test_what_is_no_image(tmp_path):
    with pytest.raises(FirmwareImageError, match="No such file"):
        program(tmp_path / "none.elf")
    (tmp_path / "text.elf").write_text("text")
    with pytest.raises(FirmwareImageError, match="not a 32-bit"):
        program(tmp_path / "text.elf")


def test_a_board_that_the_firmware_is_not_for_is_refused(tmp_path, root):
    toml = (root / "examples/mica2.toml").read_text().replace('"mica2"', '"generic"')
    (tmp_path / "theirs.toml").write_text(toml)
    done = CliRunner().invoke(cli, ["testbed", str(tmp_path / "theirs.toml")])
    assert done.exit_code == 1
    assert 'network.board = "generic": the firmware is for micaz and mica2' in done.output


@pytest.mark.parametrize("scheme", names())
def test_a_stamp_that_the_firmware_lacks_is_refused_before_the_build(root, scheme):
    """The compiler stops at the same stamps: those without a program in firmware/core."""
    stamp = replace(deployment().stamp, scheme=scheme)
    guard = f"#if CAUSEWAY_SCHEME_{scheme.upper().replace('-', '_')}"
    programs = "".join(path.read_text() for path in (root / "firmware/core").rglob("stamp*.[ch]"))
    has = guard in programs or guard.replace("#if ", "|| ") in programs
    assert descriptor(scheme).in_firmware == has
    if not has:
        with pytest.raises(FirmwareImageError, match=f'"{scheme}": the firmware has no such stamp'):
            programs_for(replace(deployment(), stamp=stamp))


@pytest.fixture
def platformio(monkeypatch, tmp_path, root, elf):
    """A checkout whose PlatformIO only notes what it was asked for."""
    calls = []

    def run(described, folder, wanted, flags, app):
        calls.append((described, folder, wanted, flags, app))
        for name in wanted:
            (folder / name).mkdir(parents=True)
            (folder / name / "firmware.elf").write_bytes(elf.read_bytes())
            (folder / name / "firmware.json").write_text("{}")

    images._tool()  # out of the real one
    monkeypatch.setattr(images, "PROJECT", tmp_path)
    monkeypatch.setattr(images, "_run_platformio", run)
    (tmp_path / "platformio.ini").write_text("[platformio]")
    (tmp_path / "firmware" / "core").mkdir(parents=True)
    (tmp_path / "firmware" / "core" / "a.c").write_text("int a;")
    return calls


def test_what_was_built_is_not_built_again(platformio, tmp_path):
    said: list[str] = []
    first = programs_for(deployment(), say=said.append)
    assert programs_for(deployment(), say=said.append) == first
    (note,) = said
    assert "building the firmware of " in note
    ((described, folder, wanted, flags, app),) = platformio
    assert (wanted, flags, app) == (("micaz", "micaz_gateway"), "", "")
    assert first.mote.path == folder / "micaz" / "firmware.elf"
    assert deployment().to_toml() == described.read_text()


def test_whatever_decides_what_is_built_has_a_folder_of_its_own(platformio, tmp_path):
    programs_for(deployment())
    programs_for(deployment(), rate=0.5)
    programs_for(deployment(motes=4))
    own = tmp_path / "own"
    own.mkdir()
    for text in ("int c;", "int d;"):
        (own / "app.c").write_text(text)
        programs_for(deployment(), app=str(own))
    (tmp_path / "firmware" / "apps" / "alarm").mkdir(parents=True)
    programs_for(deployment(), app="alarm")
    (tmp_path / "firmware" / "core" / "a.c").write_text("int b;")
    programs_for(deployment())
    (tmp_path / "platformio.ini").write_text("[env]")
    programs_for(deployment())
    assert len({folder for _, folder, *_ in platformio}) == 8
    assert [flags for *_, flags, _ in platformio] == ["", "-D MOTE_PERIOD=65536", *[""] * 6]
    assert [app for *_, app in platformio] == ["", "", "", str(own), str(own), "alarm", "", ""]
