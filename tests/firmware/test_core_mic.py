"""AES-128 and CMAC in C: the standards' vectors on the host and on the emulated mote, and what they cost there."""

import re
from pathlib import Path

from tests.firmware.bridge import CORE, FLAGS, ROOT, build, cache, key_of, run
from tests.firmware.test_core_avr import AVR, CHECK, emulated

TEST = ROOT / "firmware" / "test" / "test_mic" / "main.c"
CYCLES = Path(__file__).parent / "c" / "mic_cycles.c"
SOURCES = [CORE / "aes.c", CORE / "cmac.c"]
HOST = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
HEADERS = [CORE / "causeway" / name for name in ("aes.h", "cmac.h", "flash.h")]


def program(compiler: list[str], test: Path, suffix: str) -> Path:
    command = [*compiler, *FLAGS, f"-I{CORE}", f"-I{CHECK.parent}"]
    name = key_of(" ".join(command), test, CHECK, *SOURCES, *HEADERS)
    return build(cache() / f"{test.parent.name}-{test.stem}-{name}{suffix}", [*command, *SOURCES, test])


def judged(said: str) -> None:
    assert re.findall(r"check: (\d+) tests, (\d+) failed", said) == [("3", "0")], said


def test_the_standards_vectors_under_the_sanitizers(require_tool):
    """Here the S-box is computed."""
    judged(run([program([require_tool("gcc"), *HOST], TEST, "")]))


def test_the_standards_vectors_on_the_emulated_mote(require_tool):
    """Here it is a table in flash."""
    avr_gcc, simavr = require_tool("avr-gcc"), require_tool("simavr")
    judged(emulated(simavr, program([avr_gcc, *AVR], TEST, ".elf")))


def test_a_block_takes_as_long_as_any_other(require_tool, record_property):
    """Sixty keys and messages each: constant time, and half a millisecond a block."""
    avr_gcc, simavr = require_tool("avr-gcc"), require_tool("simavr")
    said = emulated(simavr, program([avr_gcc, *AVR], CYCLES, ".elf"))
    found = {
        name: (int(least), int(most)) for name, least, most in re.findall(r"cycles: (\w+) (\d+) (\d+)", said)
    }
    record_property("cycles", found)
    assert set(found) == {"block", "mac16", "mac30", "mac40"}
    assert all(least == most for least, most in found.values()), found
    assert found["block"][1] <= 4_000
    assert found["mac40"][1] <= 15_000
