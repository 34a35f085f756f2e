"""The CC1000 driver on an emulated MICA2: frames in at three bit offsets, answers out, and what the interrupts cost."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from tests.firmware.test_cc1000 import CORE, DRIVER, FLAGS, PREAMBLE, SYNC, crc16, deployment

BYTE = 3072  # CPU cycles
CRYSTAL = 225  # CPU cycles of one of its cycles
OFFSETS = (0, 3, 7)
DATA = bytes(range(10))


class Run(NamedTuple):
    """What cc1000_sim printed; times in CPU cycles."""

    streams: list[int]
    sent: list[tuple[int, bytes]]
    numbers: dict[str, int]


def frame(version: int, data: bytes, dest: int) -> bytes:
    if version == 1:
        header = dest.to_bytes(2, "little") + bytes([6, 0x7D, len(data)])
    else:
        header = dest.to_bytes(2, "big") + bytes([1, 2, len(data), 0x7D, 6])
    return header + data + crc16(header + data).to_bytes(2, "little")


def stream(version: int, offset: int) -> bytes:
    """A frame as the SPI sees it: inverted, and `offset` bits off its bytes."""
    air = b"\xaa" * PREAMBLE + SYNC + frame(version, DATA, 0x0203) + bytes(2)
    bits = int.from_bytes(bytes(~byte & 0xFF for byte in air)) << (8 - offset) % 8
    return bits.to_bytes(len(air) + (1 if offset else 0))


@pytest.fixture(scope="module")
def simulator(
    root: Path, require_tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    gcc = require_tool("gcc")
    require_tool("simavr")
    program = tmp_path_factory.mktemp("cc1000_sim") / "cc1000_sim"
    source = root / "tests/firmware/c/cc1000_sim.c"
    subprocess.run(
        [gcc, "-O2", "-Wall", "-Wextra", str(source), "-lsimavr", "-lelf", "-o", str(program)], check=True
    )
    return program


@pytest.fixture(scope="module", params=[1, 2], ids=["tinyos1", "tinyos2"])
def version(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def run(
    root: Path,
    require_tool: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
    simulator: Path,
    version: int,
) -> Run:
    folder = deployment(root, version, tmp_path_factory.mktemp("cc1000_echo"))
    firmware = root / "firmware"
    boards = [
        *sorted((firmware / "boards/mica").glob("*.c")),
        *sorted((firmware / "boards/mica2").glob("*.c")),
    ]
    sources = [*boards, *(firmware / name for name in DRIVER + CORE), root / "tests/firmware/c/cc1000_echo.c"]
    image = folder / "echo.elf"
    subprocess.run(
        [
            *(require_tool("avr-gcc"), "-mmcu=atmega128", "-DF_CPU=7372800UL", "-Os", *FLAGS),
            *("-ffunction-sections", "-Wl,--gc-sections", f"-I{firmware}", f"-I{folder}"),
            *(*map(str, sources), "-o", str(image)),
        ],
        check=True,
    )
    command = [str(simulator), str(image), *(stream(version, offset).hex() for offset in OFFSETS)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    lines = [line.split() for line in output.splitlines() if not line.startswith("Loaded")]
    return Run(
        [int(words[1]) for words in lines if words[0] == "stream"],
        [(int(words[1]), bytes.fromhex(words[2])) for words in lines if words[0] == "sent"],
        {words[0]: int(words[1]) for words in lines if words[0] not in ("stream", "sent")},
    )


def test_each_frame_is_heard_and_answered(run: Run, version: int) -> None:
    order: Literal["little", "big"] = "little" if version == 1 else "big"
    assert run.numbers["calibrations"] == 2
    assert len(run.streams) == len(run.sent) == len(OFFSETS)
    for offset, heard_at, (sent_at, out) in zip(OFFSETS, run.streams, run.sent, strict=True):
        lead = 1 + PREAMBLE + len(SYNC)
        answer = out[lead:-2]
        data = answer[-2 - 19 : -2]
        assert out[:lead] == b"\xaa" * (1 + PREAMBLE) + SYNC
        assert answer == frame(version, data, 0x0204)
        assert data[:10] == DATA
        # The RSSI pin is at 1.1 V: -49.2 - 51.3 * 1.1 = -105.6 dBm.
        assert data[14] - 256 == pytest.approx(-105.6, abs=1)
        # Both times are of a sync word's end; they are told to a cycle of the crystal each.
        heard, sent = (int.from_bytes(data[at : at + 4], order) for at in (10, 15))
        sync_in = heard_at + (PREAMBLE + 2 + offset / 8) * BYTE
        sync_out = sent_at + lead * BYTE
        assert sent - heard == pytest.approx((sync_out - sync_in) / CRYSTAL, abs=1.5)


def test_a_pin_is_read_after_it_has_been_synchronized(
    root: Path, require_tool: Callable[[str], str], tmp_path: Path
) -> None:
    """A PIN register shows its pin as it was a cycle before (ATmega128 data sheet, reading the pin value), so
    an `in` right after PCLK fell reads the bit before. Emulators do not show this: look at the instructions."""
    built, firmware = tmp_path / "control.o", root / "firmware"
    folder = deployment(root, 1, tmp_path)
    flags = ["-mmcu=atmega128", "-DF_CPU=7372800UL", "-Os", *FLAGS, f"-I{firmware}", f"-I{folder}"]
    source = firmware / "chips/cc1000/cc1000_control.c"
    subprocess.run([require_tool("avr-gcc"), *flags, "-c", str(source), "-o", str(built)], check=True)
    command = [require_tool("avr-objdump"), "-d", "--no-show-raw-insn", str(built)]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    code = [" ".join(line.split(";")[0].split()[1:]) for line in listing.splitlines() if ":\t" in line]
    reads = [
        at for at, words in enumerate(code) if words.startswith(("in ", "sbic ", "sbis ")) and "0x10" in words
    ]
    assert reads
    for at in reads:
        assert not any(words.startswith(("cbi 0x12", "sbi 0x12")) for words in code[at - 1 : at])


def test_interrupts_are_short(run: Run) -> None:
    """A byte comes every 3072 cycles; the next must be in the SPI half a bit, 192 cycles, after the last."""
    assert run.numbers["spdr"] < 192
    assert run.numbers["receive"] <= 800
    assert run.numbers["send"] <= 600
    assert run.numbers["turn"] <= 1300
