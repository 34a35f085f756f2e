"""The CC1000 driver on an emulated MICA2: frames in at every bit offset, answers out, and what the interrupts cost."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from basestation.testbed import emulator
from basestation.testbed.signals import delimiter_ns
from basestation.testbed.truth_log import DriverFault, Event, Peek, ProgramUse, Signal
from packet_formats.boards import MICA2
from packet_formats.deployment import CRYSTAL_HZ
from tests.firmware.cc1000.radio import CORE, DRIVER, FLAGS, PREAMBLE, SYNC, deployment, frame

MS = 1_000_000
BIT_NS = 1_000_000_000 / 19200
MODEMS_NS = 2 * BIT_NS  # what the two radios delay a bit by, and the driver does not subtract
SPI = 17  # the vector of the interrupt that each byte raises
WINDOW = 0.0004  # seconds: no two bytes end in it
FRAMES = 16
DBM = -70
LAG = 2  # the place of the bit offset in the driver's `rx`
DATA = bytes(range(10))


@dataclass
class Run:
    events: list[Event]

    def signals(self, node: int | None) -> list[Signal]:
        return [event for event in self.events if isinstance(event, Signal) and event.node == node]

    def interrupts(self, wanted: Callable[[int, int], bool]) -> int:
        """The longest SPI interrupt, in CPU cycles, that ended in a window of which `wanted` knows by its two ends."""
        lines = [event for event in self.events if isinstance(event, ProgramUse)]
        return max(
            line.handlers.get(SPI, 0) for line in lines if wanted(line.t - round(WINDOW * 1e9), line.t)
        )


@pytest.fixture(
    scope="module", params=[1, pytest.param(2, marks=pytest.mark.wide)], ids=["tinyos1", "tinyos2"]
)
def version(request):
    number: int = request.param
    return number


def echo(root: Path, compiler: str, folder: Path) -> Path:
    """Firmware that answers what it hears, for the deployment in a folder."""
    firmware = root / "firmware"
    boards = [
        *sorted((firmware / "boards/mica").glob("*.c")),
        *sorted((firmware / "boards/mica2").glob("*.c")),
    ]
    sources = [*boards, *(firmware / name for name in DRIVER + CORE), root / "tests/firmware/c/cc1000_echo.c"]
    built = folder / "echo.elf"
    subprocess.run(
        [
            *(compiler, "-mmcu=atmega128", "-DF_CPU=7372800UL", "-Os", "-flto", *FLAGS),
            *("-ffunction-sections", "-Wl,--gc-sections"),
            *(f"-I{path}" for path in (firmware, firmware / "core", folder)),
            *(*map(str, sources), "-o", str(built)),
        ],
        check=True,
    )
    return built


@pytest.fixture(scope="module")
def image(root, require_tool, tmp_path_factory, version):
    folder = deployment(root, version, tmp_path_factory.mktemp("cc1000_echo"))
    return echo(root, require_tool("avr-gcc"), folder)


@pytest.mark.parametrize("band", [868, pytest.param(916, marks=pytest.mark.wide)])
def test_a_mote_of_another_band_hears_and_answers_only_there(root, testbed, require_tool, tmp_path, band):
    """Whatever is sent in the other bands; and it knows how strong its own is."""
    image = echo(root, require_tool("avr-gcc"), deployment(root, 1, tmp_path, band))
    air = b"\xaa" * PREAMBLE + SYNC + frame(1, DATA, 0x0203) + bytes(2)
    carriers = {mhz: band.tuning[1].carrier_khz for mhz, band in MICA2.bands.items()}
    lines = ["nodes 1", f"node 0 mica2 0 0 0 0 {image}"]
    for number, khz in enumerate(carriers.values()):
        lines.append(f"at {0.3 + 0.1 * number:.1f} inject {khz} {DBM} mica2 {air.hex()}")
    run = Run(emulator.events_of("\n".join([*lines, "end 0.8"]), testbed))
    assert not [event for event in run.events if isinstance(event, DriverFault)]
    (answer,) = run.signals(0)
    (heard,) = [event for event in run.signals(None) if event.khz == carriers[band]]
    assert answer.khz == carriers[band]
    assert heard.to < answer.begin < heard.to + 50 * MS
    assert answer.dbm == 0
    size = len(frame(1, DATA + bytes(9), 0))
    data = answer.bytes.partition(SYNC)[2][size - 2 - 19 : size - 2]
    assert data[14] - 256 == pytest.approx(DBM, abs=1)


@pytest.fixture(scope="module")
def run(testbed, require_tool, image, version):
    """A frame every 100 ms, each a bit later in its byte's time than the one before."""
    listing = subprocess.run(
        [require_tool("avr-nm"), image], check=True, capture_output=True, text=True
    ).stdout
    words = [line.split() for line in listing.splitlines()]
    (rx,) = [int(at, 16) & 0xFFFF for at, *_, name in words if name.partition(".")[0] == "rx"]
    air = b"\xaa" * PREAMBLE + SYNC + frame(version, DATA, 0x0203) + bytes(2)
    lines = ["nodes 1", f"node 0 mica2 0 0 0 0 {image}", f"measure {WINDOW}", f"end {0.3 + 0.1 * FRAMES}"]
    for number in range(FRAMES):
        at = 0.3 + 0.1 * number + number * BIT_NS / 1e9
        lines.append(f"at {at:.9f} inject {MICA2.carrier_khz[version][0]} {DBM} mica2 {air.hex()}")
        lines.append(f"at {at + 0.09:.9f} peek 0 {rx + LAG} 1")
    return Run(emulator.events_of("\n".join(lines), testbed))


def test_each_frame_is_heard_and_answered(run, version):
    order: Literal["little", "big"] = "little" if version == 1 else "big"
    heard, sent = run.signals(None), run.signals(0)
    assert len(heard) == len(sent) == FRAMES
    assert {event.bytes[0] for event in run.events if isinstance(event, Peek)} == set(range(8))
    assert not [event for event in run.events if isinstance(event, DriverFault)]
    for one, answer in zip(heard, sent, strict=True):
        assert answer.khz == MICA2.carrier_khz[version][0]
        lead, _, rest = answer.bytes.partition(SYNC)
        size = len(frame(version, DATA + bytes(9), 0))
        data = rest[size - 2 - 19 : size - 2]
        assert lead.endswith(b"\xaa" * PREAMBLE)
        assert rest[:size] == frame(version, data, 0x0204)
        assert data[:10] == DATA
        assert data[14] - 256 == pytest.approx(DBM, abs=1)
        # Both times are of a sync word's end; each is right to a cycle of the crystal.
        times = [int.from_bytes(data[at : at + 4], order) for at in (10, 15)]
        passed = delimiter_ns(answer, "mica2") - delimiter_ns(one, "mica2") - MODEMS_NS
        assert times[1] - times[0] == pytest.approx(passed * CRYSTAL_HZ / 1e9, abs=1.5)


def test_a_pin_is_read_after_it_has_been_synchronized(root, require_tool, tmp_path):
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


def test_interrupts_are_short(run):
    """A byte comes every 3072 CPU cycles; the next must be in the SPI half a bit, 192 cycles, after the last."""
    sent = run.signals(0)

    def receiving(begin: int, end: int) -> bool:
        return not any(begin < one.to + MS and end > one.begin - 2 * MS for one in sent)

    def sending(begin: int, end: int) -> bool:
        return any(one.begin <= begin and end <= one.to for one in sent)

    def ending(begin: int, end: int) -> bool:
        return any(one.to <= end <= one.to + MS for one in sent)

    assert 0 < max(event.spi for event in run.events if isinstance(event, ProgramUse)) < 192
    start = run.signals(None)[0].begin
    assert 400 < run.interrupts(lambda begin, end: begin > start and receiving(begin, end)) <= 800
    assert 300 < run.interrupts(sending) <= 600
    assert 900 < run.interrupts(ending) <= 1300
