"""The core's own tests on the emulated ATmega128, and what stamping costs there."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from packet_formats.deployment import Deployment, load
from tests.firmware import core_vectors
from tests.firmware.bridge import (
    CORE,
    FLAGS,
    ROOT,
    build,
    build_folder,
    core_files,
    core_sources,
    key_of,
    one_unit,
    write,
)
from tests.firmware.cores import LIMITS, described, examples, name_of

CHECK = ROOT / "firmware" / "test" / "check.h"
TEST = core_vectors.FOLDER / "main.c"
CYCLES = Path(__file__).parent / "c" / "core_cycles.c"
AVR = ("-mmcu=atmega128", "-Os")

# Every scheme and packing, ids of one and two bytes, both versions and boards.
LAYOUTS = [
    described(7, 10, 10, {"scheme": "shlc"}),
    described(5, 10, 10, {"scheme": "hlc", "receipts": 2}, tinyos=2),
    described(
        6, 10, 10, {"scheme": "kn", "entries": 2, "count": "sends"}, motes=300, tinyos=2, board="mica2"
    ),
    described(7, 10, 10, {"scheme": "kn", "packing": "bytes"}, board="mica2"),
    described(10, 20, 30, {"scheme": "dpc2", "packing": "bytes"}),
    described(0, 10, 30, {"scheme": "dpc1"}, tinyos=2),
    LIMITS[2],
    LIMITS[4],
    described(7, 10, 10, {"scheme": "sequence"}),
    described(7, 10, 10, {"scheme": "last-sender"}, motes=300, tinyos=2),
    described(7, 10, 10, {"scheme": "last-sender", "receipts": 1}, board="mica2"),
    described(7, 10, 10, {"scheme": "vector"}),
    described(7, 10, 10, {"scheme": "delta-vector"}),
    described(3, 10000, 20000, {"scheme": "delta-vector"}, motes=3),
    described(7, 3, 32, {"scheme": "barrier"}),
    described(7, 10, 10, {"scheme": "barrier", "receipts": 2}, motes=50, tinyos=2, board="mica2"),
    described(3, 2000, 50000, {"scheme": "barrier"}, motes=300, tinyos=2),
    *examples(),
]


def program(
    compiler: Sequence[str], deployment: Deployment, test: Path, suffix: str, as_in_images: bool = False
) -> Path:
    """A test program for one layout. `as_in_images`: each source by itself, as cycles are measured."""
    folder, vectors = build_folder(deployment), core_vectors.render(deployment)
    command = [*compiler, *FLAGS]
    name = key_of(" ".join(command), vectors, test, CHECK, *core_files())
    inner = folder / f"vectors-{key_of(vectors)}"
    inner.mkdir(exist_ok=True)
    write(inner / "core_vectors.h", vectors)
    includes = [f"-I{path}" for path in (inner, folder, CORE, CHECK.parent)]
    sources = core_sources() if as_in_images else [one_unit(folder, core_sources())]
    return build(
        folder / f"{test.stem}-{name}{suffix}",
        [*command, *includes, "-x", "c", *sources, _as_copy(test, inner)],
    )


def _as_copy(test: Path, folder: Path) -> Path:
    """The test beside the vectors that it is to include: the folder that it stands in has vectors of its own."""
    copy = folder / f"{test.stem}.c"
    write(copy, test.read_text())
    return copy


def emulated(simavr: str, image: Path) -> str:
    """What a program says on the emulated UART until it sleeps for good."""
    command = ["timeout", "100", simavr, "-m", "atmega128", "-f", "7372800", str(image)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


def judged(said: str) -> None:
    [(tests, failed)] = re.findall(r"check: (\d+) tests, (\d+) failed", said)
    assert (int(tests), int(failed)) == (11, 0), said


@pytest.mark.few(4)
@pytest.mark.parametrize("deployment", LAYOUTS, ids=name_of)
def test_golden_vectors_on_the_emulated_mote(deployment, require_tool):
    avr_gcc, simavr = require_tool("avr-gcc"), require_tool("simavr")
    judged(emulated(simavr, program([avr_gcc, *AVR], deployment, TEST, ".elf")))


def test_the_vectors_kept_for_platformio_are_up_to_date():
    kept = (core_vectors.FOLDER / "core_vectors.h").read_text()
    assert kept == core_vectors.render(load(core_vectors.FOLDER / "deployment.toml"))


# Most cycles, call and return included, at epsilon = delta = 10 and ten motes: scheme, send, receive.
AIMS: dict[str, tuple[dict[str, Any], int, int]] = {
    "dpc1": ({"scheme": "dpc1"}, 100, 100),
    "dpc2": ({"scheme": "dpc2"}, 200, 400),
    "shlc": ({"scheme": "shlc"}, 400, 400),
    "hlc": ({"scheme": "hlc"}, 400, 400),
    "kn 2": ({"scheme": "kn", "entries": 2}, 1500, 1500),
    "kn all": ({"scheme": "kn"}, 5000, 5000),
    "kn all, bytes": ({"scheme": "kn", "packing": "bytes"}, 5000, 5000),
    "sequence": ({"scheme": "sequence"}, 25, 25),
    "last-sender": ({"scheme": "last-sender"}, 100, 60),
    "vector": ({"scheme": "vector"}, 220, 360),
    "delta-vector": ({"scheme": "delta-vector"}, 1600, 1600),
    "barrier": ({"scheme": "barrier"}, 2100, 1300),
}


def cycles(avr_gcc: str, simavr: str, deployment: Deployment) -> dict[str, tuple[int, int, int]]:
    """Least, mean and most cycles of `send` and `receive`."""
    said = emulated(simavr, program([avr_gcc, *AVR], deployment, CYCLES, ".elf", as_in_images=True))
    found = re.findall(r"cycles: (\w+) (\d+) (\d+) (\d+)", said)
    return {name: (int(least), int(mean), int(most)) for name, least, mean, most in found}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", AIMS)
def test_cycles_of_stamping(name, require_tool, record_property):
    stamp, send, receive = AIMS[name]
    found = cycles(require_tool("avr-gcc"), require_tool("simavr"), described(7, 10, 10, stamp))
    print(name, found)
    record_property("cycles", found)
    assert found["send"][2] <= send
    assert found["receive"][2] <= receive
