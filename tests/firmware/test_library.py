"""The core as a library in other people's programs: its names, its headers, and its examples for other systems."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from basestation import __version__
from packet_formats.deployment import Deployment, SecuritySettings, load
from packet_formats.framing import FrameDecoder
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message
from packet_formats.tinyos import decode_packet
from tests.firmware.bridge import CORE, build_folder, core_sources, run

EXAMPLES = CORE / "examples"
STUBS = Path(__file__).with_name("library")
SKETCH = EXAMPLES / "xbee" / "xbee.ino"
XBEE = load(EXAMPLES / "xbee" / "deployment.toml")
CLOCKED = load(EXAMPLES / "deployment.toml")
WARNINGS = ("-Wall", "-Wextra", "-Wundef", "-Wshadow", "-Werror")
ARDUINO = Path("/usr/share/arduino/hardware/arduino/avr")
Tool = Callable[[str], str]


def public_headers() -> list[Path]:
    return [path for path in sorted(CORE.glob("causeway/*.h")) if path.stem != "stamp_fields"]


def includes(deployment: Deployment, *more: Path) -> list[str]:
    return [f"-I{path}" for path in (build_folder(deployment), CORE, *more)]


def cortex_m(require_tool: Tool) -> list[str]:
    """A compiler for a Cortex-M3: GNU's where it is installed, else clang."""
    gcc = shutil.which("arm-none-eabi-gcc")
    target = (
        [gcc, "-mcpu=cortex-m3", "-mthumb"] if gcc else [require_tool("clang"), "--target=thumbv7m-none-eabi"]
    )
    return [*target, "-ffreestanding", f"-I{STUBS / 'freestanding'}"]


@pytest.fixture(params=["atmega328p", "atmega256rfr2", "cortex-m3"])
def compiler(request, require_tool):
    """A compiler for a processor that is not ours, of C and of C++."""
    found = cortex_m(require_tool)
    if request.param != "cortex-m3":
        found = [require_tool("avr-gcc"), f"-mmcu={request.param}"]
    return [*found, "-Os", *WARNINGS]


def symbols(tool: Sequence[str], objects: Sequence[Path], *kinds: str) -> set[str]:
    lines = run([*tool, "-g", *objects]).splitlines()
    return {words[-1] for line in lines if len(words := line.split()) > 1 and words[-2] in kinds}


def compile_core(compiler: Sequence[str], deployment: Deployment, folder: Path) -> list[Path]:
    objects = []
    for source in core_sources():
        objects.append(folder / f"{source.stem}.o")
        run([*compiler, "-std=gnu11", *includes(deployment), "-c", source, "-o", objects[-1]])
    return objects


def test_every_public_name_has_our_prefix(require_tool, tmp_path):
    for header in public_headers():
        text = header.read_text()
        assert f"#define CW_{header.stem.upper()}_H" in text
        made = re.findall(r"^ *#define (\w+)", text, re.M) + re.findall(r"^} (\w+);", text, re.M)
        made += re.findall(r"^(?:static inline )?[a-z]\w+ \**(\w+)\(", text, re.M)
        assert [name for name in made if not name.startswith(("cw_", "CW_"))] == [], header.name
    objects = compile_core([require_tool("gcc")], CLOCKED, tmp_path)
    defined = symbols([require_tool("nm")], objects, "T", "D", "B", "R", "C")
    assert len(defined) > 20
    assert [name for name in defined if not name.startswith("cw_")] == []


def test_each_header_compiles_by_itself_as_c_and_c_plus_plus(require_tool, tmp_path):
    for header in public_headers():
        source = tmp_path / "one.c"
        source.write_text(f"#include <causeway/{header.name}>\n")
        for language, standard in (("c", "c99"), ("c++", "c++11")):
            command = [require_tool("clang"), "-x", language, f"-std={standard}", "-pedantic", *WARNINGS]
            run([*command, *includes(XBEE), "-fsyntax-only", source])


def test_each_header_is_c_plus_plus_of_98_on_the_avr(require_tool, tmp_path):
    """The default language of avr-g++ 5. Its stdint.h keeps UINT32_C and the like from such C++."""
    source = tmp_path / "one.cpp"
    for header in public_headers():
        source.write_text(f"#include <causeway/{header.name}>\n")
        command = [require_tool("avr-gcc"), "-mmcu=atmega328p", "-std=gnu++98", *WARNINGS, "-fsyntax-only"]
        run([*command, *includes(CLOCKED), source])


def test_with_mics_the_calls_exist_only_for_callers_that_seal(require_tool, tmp_path):
    """The calls make and check no MIC: their caller would believe any sender, and every mote would refuse it."""
    sealed = replace(CLOCKED, security=SecuritySettings(4, "site.key"))
    source = tmp_path / "one.c"
    source.write_text("#include <causeway/mote.h>\n")
    command = [require_tool("gcc"), "-fsyntax-only", *includes(sealed), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "docs/reference/library.md, In a network with a key" in done.stderr) == (1, True)
    run([*command, "-DCW_SEALED_BY_CALLER"])
    objects = compile_core([require_tool("gcc"), *WARNINGS], sealed, tmp_path)
    assert "cw_mote_send" not in symbols([require_tool("nm")], objects, "T")
    objects = compile_core([require_tool("gcc"), "-DCW_SEALED_BY_CALLER", *WARNINGS], sealed, tmp_path)
    assert "cw_mote_send" in symbols([require_tool("nm")], objects, "T")


def test_the_headers_are_plain_enough_for_nesc(require_tool, tmp_path):
    """nesC has no _Bool, no `true`, and no declaration after a statement. TinyOS brings its own bool."""
    source = tmp_path / "all.c"
    lines = ["#define DEPUTY_STAGE1_INCLUDED", "#include <stdint.h>", "typedef uint8_t bool;"]
    source.write_text(
        "\n".join([*lines, *(f"#include <causeway/{path.name}>" for path in public_headers()), ""])
    )
    flags = ["-std=gnu89", *WARNINGS, "-Werror=declaration-after-statement", "-fsyntax-only"]
    for deployment in (XBEE, CLOCKED, load(CORE.parents[1] / "examples" / "micaz.toml")):
        run([require_tool("gcc"), *flags, *includes(deployment), source])


def test_the_manifests_are_of_this_version():
    manifest = json.loads((CORE / "library.json").read_text())
    properties = dict(line.split("=", 1) for line in (CORE / "library.properties").read_text().splitlines())
    assert manifest["version"] == properties["version"] == __version__
    assert manifest["name"] == properties["name"] == "Causeway"
    for header in [*manifest["headers"], properties["includes"]]:
        assert (CORE / header).exists()


@pytest.mark.few(1)
def test_the_sketch_and_the_core_compile_for_other_processors(compiler, tmp_path):
    compile_core(compiler, XBEE, tmp_path)
    stubs = includes(XBEE, STUBS / "arduino")
    sketch = [*compiler, "-std=gnu++11", "-fno-exceptions", "-x", "c++", "-include", "Arduino.h", *stubs]
    run([*sketch, "-c", SKETCH, "-o", tmp_path / "sketch.o"])


@pytest.mark.parametrize(("deployment", "ram", "flash"), [(XBEE, 155, 1300), (CLOCKED, 235, 3900)])
def test_what_a_stamp_takes(require_tool, tmp_path, deployment, ram, flash):
    """docs/reference/library.md says it."""
    compiler = [require_tool("avr-gcc"), "-mmcu=atmega328p", "-Os"]
    probe = tmp_path / "probe.c"
    probe.write_text(f'#include <causeway/mote.h>\n_Static_assert(sizeof(cw_mote_t) <= {ram}, "RAM");\n')
    run([*compiler, *includes(deployment), "-fsyntax-only", probe])
    objects = compile_core(compiler, deployment, tmp_path)
    mine = [
        path for path in objects if path.stem not in ("aes", "air", "am", "cmac", "crc", "frame", "random")
    ]
    totals = run([require_tool("avr-size"), "-t", *mine]).splitlines()[-1].split()
    assert int(totals[0]) < flash


@pytest.mark.wide
def test_the_sketch_with_arduinos_own_core(require_tool, tmp_path):
    if not ARDUINO.exists():
        require_tool("arduino-core-avr")
    flags = ["-mmcu=atmega328p", "-DF_CPU=16000000L", "-DARDUINO=10807", "-DARDUINO_ARCH_AVR", "-Os", "-w"]
    flags += ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    parts = (ARDUINO / "cores/arduino", ARDUINO / "variants/standard", ARDUINO / "libraries/EEPROM/src")
    common = [require_tool("avr-gcc"), *flags, *includes(XBEE, *parts)]
    own = [parts[0] / f"{name}.cpp" for name in ("main", "HardwareSerial", "HardwareSerial0", "Print", "abi")]
    own_c = [parts[0] / f"{name}.c" for name in ("wiring", "wiring_analog", "wiring_digital", "hooks")]
    program = tmp_path / "xbee.elf"
    cpp = ["-x", "c++", "-std=gnu++11", "-fno-exceptions", "-fno-threadsafe-statics", "-include", "Arduino.h"]
    objects = [*compile_core(common, XBEE, tmp_path), tmp_path / "sketch.o"]
    run([*common, *cpp, "-c", SKETCH, "-o", objects[-1]])
    run([*common, *cpp[:5], *own, "-x", "c", *own_c, "-x", "none", *objects, "-o", program])
    text, data, bss, *_ = map(int, run([require_tool("avr-size"), program]).splitlines()[1].split()[:3])
    assert text + data < 8 * 1024  # of 32 KB: docs/reference/library.md
    assert data + bss < 1024  # of 2 KB


@pytest.fixture(scope="module")
def talk(require_tool, tmp_path_factory):
    """What the sketch, as mote `mote`, sends in `count` messages if it hears these bytes first."""
    folder = tmp_path_factory.mktemp("sketch")
    compiler = [require_tool("clang"), *WARNINGS]
    core = compile_core(compiler, XBEE, folder)
    cpp = [*compiler, *includes(XBEE, STUBS / "arduino"), "-x", "c++", "-std=c++11", "-include", "Arduino.h"]

    def build(mote: int) -> Path:
        program = folder / f"mote{mote}"
        if not program.exists():
            own = [f"-DMOTE_ID={mote}", SKETCH, STUBS / "arduino" / "host.cpp"]
            run([*cpp, *own, "-x", "none", *core, "-o", program])
        return program

    def play(mote: int, count: int, heard: bytes) -> bytes:
        command = [build(mote), str(count)]
        return subprocess.run(command, input=heard, capture_output=True, check=True, timeout=20).stdout

    return play


def read(line: bytes) -> list[Data]:
    """The messages in the bytes of a line, as the base station reads them."""
    packets = FrameDecoder().feed(line)
    found = [decode_message(decode_packet(packet), layout_of(XBEE)) for packet in packets]
    assert all(isinstance(message, Data) for message in found)
    return found


def test_the_sketch_runs_and_the_base_station_reads_it(talk):
    first = talk(0, 3, b"")
    noise = b"\x7e\x42\x7e garbage \x7e"
    second = talk(1, 1, noise + first + first)
    assert [message.sequence for message in read(first)] == [1, 2, 3]
    (answer,) = read(second)
    assert (answer.source, answer.boot, answer.in_sync, answer.data) == (
        1,
        5,
        True,
        (412).to_bytes(2, "little"),
    )
    assert answer.stamp[0] == 4  # of mote 0 it knows sequence 3 and what came before


def test_a_sketch_without_its_peers_knows_nothing_of_them(talk):
    damaged = talk(0, 3, b"").replace(b"\x42", b"\x43")
    for heard in (b"", damaged, talk(1, 2, b"")):  # nobody, noise, itself
        assert set(read(talk(1, 1, heard))[0].stamp) == {0}


@pytest.mark.parametrize(("name", "source"), [("contiki", "stamped.c"), ("zephyr", "main.c")])
def test_the_examples_for_other_systems_compile(require_tool, name, source):
    flags = ["-std=gnu11", *WARNINGS, "-Wno-unused-parameter", *includes(CLOCKED, STUBS / name)]
    run([*cortex_m(require_tool), *flags, "-DCONFIG_MOTE_ID=3", "-fsyntax-only", EXAMPLES / name / source])
