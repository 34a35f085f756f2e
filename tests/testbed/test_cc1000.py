"""The testbed's CC1000 against its data sheet: registers, times, bits, and what the truth says of a signal."""

import math
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from packet_formats.framing import crc16
from tests.testbed.air import RADIO_STATES

US, MS = 1_000, 1_000_000
BIT = 1e9 / 19200
MAIN, FREQ_2A, PA_POW, LOCK, CAL, MODEM0 = 0x00, 0x01, 0x0B, 0x0D, 0x0E, 0x11
RECEIVE, TRANSMIT = 0x11, 0xE1

# FREQ_A, FREQ_B and FSEP as TinyOS writes them, and the reference divider.
TINYOS_1 = ((0x58, 0x00, 0x00), (0x57, 0xF6, 0x85), (0x03, 0x55), 12)
TINYOS_2 = ((0x51, 0x00, 0x00), (0x50, 0xF7, 0x4F), (0x03, 0x0E), 11)


class Byte(NamedTuple):
    """A byte that a node's processor was given."""

    at: int
    value: int
    driven: bool


class Signal(NamedTuple):
    """A signal as the ether logged it."""

    number: int
    node: int
    khz: int
    dbm: float
    start: int
    end: int
    data: int
    byte_ns: int
    broken: bool
    bytes: bytes


@dataclass
class Result:
    """What the bench printed."""

    lines: list[list[str]]

    def of(self, what: str) -> list[list[str]]:
        return [line[1:] for line in self.lines if line[0] == what]

    @property
    def faults(self) -> list[str]:
        return [" ".join(line[2:]) for line in self.of("fault")]

    @property
    def reads(self) -> list[int]:
        return [int(line[1], 16) for line in self.of("read")]

    @property
    def millivolts(self) -> list[int]:
        return [int(line[1]) for line in self.of("rssi")]

    @property
    def signals(self) -> list[Signal]:
        return [
            Signal(
                *map(int, s[:3]),
                float(s[3]),
                *map(int, s[4:8]),
                s[8] == "1",
                bytes.fromhex(s[9]) if len(s) > 9 else b"",
            )
            for s in self.of("signal")
        ]

    @property
    def outcomes(self) -> dict[tuple[int, int], str]:
        """By signal and node; each at most once."""
        said = [((int(line[0]), int(line[1])), line[2]) for line in self.of("outcome")]
        assert len(dict(said)) == len(said)
        return dict(said)

    def heard(self, node: int) -> list[Byte]:
        return [Byte(int(t), int(b, 16), d == "1") for n, t, b, d in self.of("in") if int(n) == node]

    def frames(self, node: int, inverted: bool = True) -> list[bytes]:
        """What a program finds in the bytes that a node was given, check sum right."""
        bits = "".join(f"{byte.value ^ (0xFF if inverted else 0):08b}" for byte in self.heard(node))
        found = []
        at = 0
        while (start := find_frame(bits, at)) is not None:
            data = bytes(int(bits[i : i + 8], 2) for i in range(start, min(start + 36 * 8, len(bits) - 7), 8))
            size = 5 + data[4] if len(data) > 4 and data[4] <= 29 else 5
            if len(data) >= size + 2 and crc16(data[:size]) == int.from_bytes(
                data[size : size + 2], "little"
            ):
                found.append(data[:size])
            at = -(-(start + 8 * (size + 2)) // 8) * 8
        return found


def find_frame(bits: str, at: int) -> int | None:
    """The bit after the next sync word, found as the firmware does: two bytes of preamble as its own bytes lie, then
    the word at any bit, before four bytes have been neither."""
    seen = left = 0
    for i in range(at, len(bits) - 7, 8):
        is_preamble = bits[i : i + 8] in ("10101010", "01010101")
        if left:
            word = bits.find(f"{0x33CC:016b}", i - 15, i + 8)
            if word >= 0:
                return word + 16
            left = 4 if is_preamble else left - 1
            seen = 0
        else:
            seen = seen + 1 if is_preamble else 0
            left = 4 if seen == 2 else 0
    return None


@dataclass
class Bench:
    """A script for the bench, in the making."""

    program: Path
    script: list[str] = field(default_factory=list)
    now: int = 0

    def do(self, *lines: str) -> None:
        self.script += lines

    def run_for(self, ns: float) -> None:
        self.now += round(ns)
        self.do(f"run {self.now}")

    def write(self, node: int, address: int, *values: int) -> None:
        for i, value in enumerate(values):
            self.do(f"write {node} {address + i:x} {value:x}")

    def configure(
        self, node: int, preset: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int] = TINYOS_1
    ) -> None:
        freq_a, freq_b, fsep, divider = preset
        self.write(node, PA_POW, 0)
        self.write(node, FREQ_2A, *freq_a, *freq_b, *fsep)
        self.write(node, 0x0A, 0x02)
        self.write(node, 0x0C, divider << 3)
        self.write(node, MODEM0, 0x55)

    def switch_on(self, node: int) -> None:
        self.do(f"power {node} 1")
        self.write(
            node,
            MAIN,
            0x3A,
        )
        self.write(node, MAIN, 0x3B)
        self.run_for(2 * MS)

    def calibrate(self, node: int, main: int, wait: float = 28 * MS) -> None:
        self.write(node, MAIN, main)
        self.write(node, CAL, 0xA6)
        self.run_for(wait)
        self.write(node, CAL, 0x26)

    def start(
        self, *nodes: int, preset: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int] = TINYOS_1
    ) -> None:
        """As drivers start a chip; it listens then."""
        for node in nodes:
            self.do(f"spi {node} 0")
            self.switch_on(node)
            self.configure(node, preset)
            self.write(node, MAIN, 0x39)
            self.run_for(200 * US)
            self.calibrate(node, RECEIVE)
            self.calibrate(node, TRANSMIT)
            self.write(node, MAIN, RECEIVE)
            self.run_for(1 * MS)
            self.do(f"spi {node} 1")

    def finish(self) -> Result:
        text = "\n".join(self.script) + "\n"
        done = subprocess.run(
            [self.program], input=text, capture_output=True, text=True, check=True, timeout=120
        )
        return Result([line.split() for line in done.stdout.splitlines()])


@pytest.fixture(scope="module")
def program(root: Path, require_tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cc1000") / "cc1000_bench"
    testbed = root / "firmware/testbed"
    sources = [
        root / "tests/testbed/c/cc1000_bench.c",
        *(testbed / f"{name}.c" for name in ("cc1000", "hearing", "ether")),
    ]
    flags = [
        "-std=gnu11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Werror",
        "-fsanitize=address,undefined",
    ]
    subprocess.run([require_tool("gcc"), *flags, f"-I{testbed}", *sources, "-lm", "-o", out], check=True)
    return out


@pytest.fixture
def bench(program: Path) -> Callable[..., Bench]:
    """``bench(nodes)``: all hear one another with 60 dB less than sent, in noise of -105 dBm."""

    def make(nodes: int = 1, seed: int = 1, gain: float = -60) -> Bench:
        made = Bench(program)
        made.do(f"nodes {nodes} {seed}", *(f"noise {i} -105" for i in range(nodes)))
        made.do(*(f"gain {i} {j} {gain}" for i in range(nodes) for j in range(nodes) if i != j))
        return made

    return make


def frame(data: bytes = bytes(range(20))) -> bytes:
    """A TinyOS 1 frame: header, data, check sum."""
    body = bytes([0xFF, 0xFF, 0x04, 0x7D, len(data)]) + data
    return body + crc16(body).to_bytes(2, "little")


def on_air(content: bytes, flush: int = 2) -> str:
    return (b"\xaa" * 8 + b"\x33\xcc" + content + bytes(flush)).hex()


# --- time by state ---


def test_every_state_has_its_time(bench: Callable[..., Bench]) -> None:
    """Of a chip that is started, sends once, and is switched off: what its driver waits, and the data sheet's times."""
    b = bench()
    b.run_for(5 * MS)
    b.start(0)
    sends = b.now + MS
    b.do(f"send 0 {sends} {on_air(frame())}")
    b.run_for(40 * MS)
    stopped = b.now
    b.write(0, MAIN, 0x3F)
    b.run_for(7 * MS)
    b.do("spent 0")
    result = b.finish()
    (spent,) = result.of("spent")
    found = dict(zip(RADIO_STATES, map(int, spent[1:]), strict=True))
    (signal,) = result.signals
    calibration = int(34e6 * 1e6 / (14745600 / 12))
    powered = sends + 251 * US
    assert found == {
        "off": 5 * MS,
        "down": 7 * MS,
        "starting": 2 * MS,
        "idle": 200 * US,
        # In receiving mode; in sending mode, without power, until it listens again; before and after it sends.
        "calibrating": calibration + 28 * MS + 250 * US + 251 * US + 250 * US,
        "receiving": 28 * MS - calibration + 750 * US + MS + stopped - signal.end - 250 * US,
        "sending": signal.end - powered,
    }
    assert sum(found.values()) == b.now


# --- registers ---


def test_registers_after_reset_and_as_written(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.switch_on(0)
    b.do(*(f"read 0 {address:x}" for address in (0x01, 0x02, 0x03, 0x07, 0x08, 0x0B, 0x0C, 0x0E, 0x11, 0x42)))
    b.write(0, 0x42, 0x3F)
    b.write(0, 0x01, 0x58)
    b.do("read 0 42", "read 0 1", "read 0 0")
    b.write(0, MAIN, 0x3A)
    b.do("read 0 42", "read 0 1")
    reads = b.finish().reads
    assert reads[:10] == [0x75, 0xA0, 0xCB, 0x00, 0x59, 0x0F, 0x10, 0x05, 0x24, 0x25]
    assert reads[10:13] == [0x3F, 0x58, 0x3B]
    assert reads[13:] == [0x25, 0x75]


def test_power_off_forgets(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.start(0)
    b.do("power 0 0", "read 0 11", "power 0 1", "read 0 11", "read 0 0")
    assert b.finish().reads == [0, 0x24, 0x3F]  # without power nothing drives the pin


@pytest.mark.parametrize(("preset", "khz"), [(TINYOS_1, 433002), (TINYOS_2, 434845)])
def test_frequency_words_of_both_tinyos(
    bench: Callable[..., Bench],
    preset: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int],
    khz: int,
) -> None:
    b = bench(2)
    b.start(0, 1, preset=preset)
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(40 * MS)
    result = b.finish()
    assert [signal.khz for signal in result.signals] == [khz]
    assert result.outcomes == {(0, 1): "received"}
    assert result.frames(1) == [frame()[:-2]]


def test_the_two_tinyos_do_not_hear_each_other(bench: Callable[..., Bench]) -> None:
    b = bench(2)
    b.start(0, preset=TINYOS_1)
    b.start(1, preset=TINYOS_2)
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(40 * MS)
    result = b.finish()
    assert result.outcomes == {(0, 1): "deaf"}
    assert result.frames(1) == result.frames(1, inverted=False) == []


def test_oscillator_below_the_channel_does_not_invert(bench: Callable[..., Bench]) -> None:
    """433.002 MHz - 150 kHz: (word + 8192) * 1.2288 MHz / 16384."""
    word = round((433002 - 150) * 1000 / (14745600 / 12) * 16384) - 8192
    below = tuple(word.to_bytes(3, "big"))
    b = bench(2)
    b.start(0)
    b.start(1, preset=(below, *TINYOS_1[1:]))
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(40 * MS)
    result = b.finish()
    assert result.frames(1, inverted=False) == [frame()[:-2]]
    assert result.frames(1) == []


@pytest.mark.parametrize(("pa_pow", "dbm"), [(0x01, -20), (0x08, -6), (0x0F, 0), (0x41, 1), (0xFF, 10)])
def test_output_power(bench: Callable[..., Bench], pa_pow: int, dbm: float) -> None:
    b = bench()
    b.start(0)
    b.write(0, MAIN, TRANSMIT)
    b.run_for(250 * US)
    b.write(0, PA_POW, pa_pow)
    powered = b.now
    b.run_for(2 * MS)
    b.write(0, PA_POW, 0)
    result = b.finish()
    assert [(s.dbm, s.start, s.end) for s in result.signals] == [(dbm, powered + 160 * US, powered + 2 * MS)]
    assert result.faults == []


# --- times ---


@pytest.mark.parametrize("preset", [TINYOS_1, TINYOS_2])
def test_calibration_takes_its_time(
    bench: Callable[..., Bench], preset: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]
) -> None:
    """34 ms at a reference of 1 MHz, less at more."""
    b = bench()
    b.switch_on(0)
    b.configure(0, preset)
    b.write(0, LOCK, 0x50)
    b.write(0, MAIN, 0x39)
    b.run_for(200 * US)
    b.write(0, MAIN, RECEIVE)
    b.write(0, CAL, 0xA6)
    begun = b.now
    b.run_for(25 * MS)
    b.do("read 0 e")
    b.run_for(5 * MS)
    b.do("read 0 e", "read 0 d")
    b.write(0, CAL, 0x26)
    result = b.finish()
    assert result.reads == [0xA6, 0xAE, 0x53]
    ((_, at, level),) = result.of("chp")
    assert (int(at) - begun, level) == (pytest.approx(34e6 * preset[3] / 14.7456, abs=2), "1")


def test_pll_locks_after_250_us(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.start(0)
    b.write(0, LOCK, 0x10)
    b.write(0, MAIN, TRANSMIT)
    turned = b.now
    b.do("read 0 d")
    b.run_for(1 * MS)
    b.do("read 0 d")
    result = b.finish()
    assert result.reads == [0x10, 0x13]
    assert [(int(t) - turned, level) for _, t, level in result.of("chp")][-2:] == [(0, "0"), (250 * US, "1")]


def test_bytes_come_at_the_crystals_rate(bench: Callable[..., Bench]) -> None:
    b = bench(3)
    b.do("ppm 0 0", "ppm 1 80", "ppm 2 -80")
    b.start(0, 1, 2)
    b.run_for(1000 * MS)
    result = b.finish()
    for node, ppm in enumerate((0, 80, -80)):
        times = [byte.at for byte in result.heard(node)]
        mean = (times[-1] - times[0]) / (len(times) - 1)
        assert mean / (8 * BIT) == pytest.approx(1 - ppm * 1e-6, abs=1.5e-6)
    assert all(byte.driven for byte in result.heard(0))


def test_without_a_signal_bytes_are_chance(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.start(0)
    b.run_for(2000 * MS)
    values = [byte.value for byte in b.finish().heard(0)]
    ones = sum(value.bit_count() for value in values) / (8 * len(values))
    assert ones == pytest.approx(0.5, abs=0.02)
    assert len(set(values)) == 256


# --- faults ---


def wake(bench: Bench, node: int) -> None:
    """From power-down, as a driver does that trusts the calibration."""
    bench.write(node, MAIN, 0x3B)
    bench.run_for(2 * MS)
    bench.write(node, MAIN, 0x39)
    bench.run_for(200 * US)
    bench.write(node, MAIN, RECEIVE)
    bench.run_for(MS)


def test_power_down_keeps_registers_and_calibration(bench: Callable[..., Bench]) -> None:
    b = bench(2)
    b.start(0, 1)
    b.write(1, MAIN, 0x3F)
    b.run_for(50 * MS)
    wake(b, 1)
    b.do("read 1 d", f"send 0 {b.now} {on_air(frame())}")
    b.run_for(60 * MS)
    result = b.finish()
    assert result.faults == []
    assert result.reads[0] & 1, "the PLL is in lock"
    assert result.frames(1) == [frame()[:-2]]


def test_a_reset_loses_the_calibration_and_so_nothing_is_heard(bench: Callable[..., Bench]) -> None:
    b = bench(2)
    b.start(0, 1)
    b.write(1, MAIN, 0x3E)
    b.write(1, MAIN, 0x3F)
    b.configure(1)
    b.run_for(50 * MS)
    wake(b, 1)
    b.do("read 1 d", f"send 0 {b.now} {on_air(frame())}")
    b.run_for(60 * MS)
    result = b.finish()
    assert result.faults == ["cc1000: data were taken on a frequency that was not calibrated"]
    assert not result.reads[0] & 1
    assert result.frames(1) == []


def test_legal_use_is_silent(bench: Callable[..., Bench]) -> None:
    b = bench(2)
    b.start(0, 1)
    for i in range(3):
        b.do(f"send {i % 2} {b.now} {on_air(frame())}")
        b.run_for(60 * MS)
    b.write(0, PA_POW, 0)
    b.write(0, MAIN, 0x3F)
    b.run_for(MS)
    b.start(0)
    assert b.finish().faults == []


def early_crystal(b: Bench) -> None:
    b.do("power 0 1")
    b.write(0, MAIN, 0x3A)
    b.write(0, MAIN, 0x39)
    b.run_for(1900 * US)
    b.write(0, PA_POW, 0)
    b.write(0, MAIN, RECEIVE)


def early_bias(b: Bench) -> None:
    b.switch_on(0)
    b.write(0, PA_POW, 0)
    b.write(0, MAIN, 0x39)
    b.run_for(150 * US)
    b.write(0, MAIN, RECEIVE)


def early_power(b: Bench) -> None:
    b.start(0)
    b.write(0, MAIN, TRANSMIT)
    b.run_for(240 * US)
    b.write(0, PA_POW, 0x0F)


def turn_with_power(b: Bench) -> None:
    b.start(0)
    b.write(0, MAIN, TRANSMIT)
    b.run_for(250 * US)
    b.write(0, PA_POW, 0x0F)
    b.run_for(1 * MS)
    b.write(0, MAIN, RECEIVE)


def both_parts(b: Bench) -> None:
    b.start(0)
    b.write(0, MAIN, 0x01)


def uncalibrated_send(b: Bench) -> None:
    b.start(0)
    b.write(0, 0x06, 0x86)
    b.write(0, MAIN, TRANSMIT)
    b.run_for(250 * US)
    b.write(0, PA_POW, 0x0F)


def send_calibrated_for_receiving(b: Bench) -> None:
    b.switch_on(0)
    b.configure(0)
    b.write(0, MAIN, 0x39)
    b.run_for(200 * US)
    b.calibrate(0, RECEIVE)
    b.write(0, MAIN, TRANSMIT)
    b.run_for(250 * US)
    b.write(0, PA_POW, 0x0F)


def uncalibrated_receive(b: Bench) -> None:
    b.start(0)
    b.write(0, 0x03, 0x01)
    b.run_for(1 * MS)


def cut_calibration(b: Bench) -> None:
    b.start(0)
    b.calibrate(0, RECEIVE, 20 * MS)


def disturbed_calibration(b: Bench) -> None:
    b.start(0)
    b.write(0, CAL, 0xA6)
    b.run_for(MS)
    b.write(0, MAIN, TRANSMIT)


def loud_calibration(b: Bench) -> None:
    b.start(0)
    b.write(0, MAIN, TRANSMIT)
    b.run_for(250 * US)
    b.write(0, PA_POW, 1)
    b.write(0, CAL, 0xA6)


def calibration_of_nothing(b: Bench) -> None:
    b.switch_on(0)
    b.write(0, CAL, 0xA6)


def write_in_reset(b: Bench) -> None:
    b.switch_on(0)
    b.write(0, MAIN, 0x3A)
    b.write(0, PA_POW, 0)


def parts_without_crystal(b: Bench) -> None:
    b.start(0)
    b.write(0, MAIN, RECEIVE | 0x04)


@pytest.mark.parametrize(
    ("misuse", "what"),
    [
        (early_crystal, "before the crystal had started"),
        (early_bias, "before the bias had settled"),
        (early_power, "before the PLL had settled"),
        (turn_with_power, "PA_POW was not 0 while receiving"),
        (both_parts, "receiver and transmitter were on at once"),
        (uncalibrated_send, "power was on the antenna on a frequency that was not calibrated"),
        (send_calibrated_for_receiving, "power was on the antenna on a frequency that was not calibrated"),
        (uncalibrated_receive, "data were taken on a frequency that was not calibrated"),
        (cut_calibration, "ended before it was complete"),
        (disturbed_calibration, "changed during a calibration"),
        (loud_calibration, "calibration was started with power on the antenna"),
        (calibration_of_nothing, "with the synthesizer off"),
        (write_in_reset, "RESET_N was 0"),
        (parts_without_crystal, "while crystal, bias or synthesizer were off"),
    ],
)
def test_misuse_is_reported_once(
    bench: Callable[..., Bench], misuse: Callable[[Bench], None], what: str
) -> None:
    b = bench()
    misuse(b)
    misuse(b)
    faults = b.finish().faults
    assert sum(what in fault for fault in faults) == 1, faults


def test_going_off_in_a_calibration_is_no_fault(bench: Callable[..., Bench]) -> None:
    """The processor may have been reset."""
    b = bench()
    b.start(0)
    b.do("spi 0 0")
    b.write(0, CAL, 0xA6)
    b.run_for(MS)
    b.write(0, MAIN, 0x3F)
    b.run_for(40 * MS)
    b.do("read 0 e")
    b.start(0)
    result = b.finish()
    assert result.faults == []
    assert result.reads == [0xA6]


# --- data ---


@pytest.mark.parametrize("offset", range(0, 417, 29))
def test_bits_are_found_at_any_phase(bench: Callable[..., Bench], offset: int) -> None:
    """The receiver's bytes begin anywhere in the sender's; its bits come to lie on theirs."""
    b = bench(2)
    b.start(0)
    b.run_for(offset * US)
    b.start(1)
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(40 * MS)
    result = b.finish()
    assert result.frames(1) == [frame()[:-2]]
    assert result.outcomes == {(0, 1): "received"}
    (signal,) = result.signals
    during = [byte.at for byte in result.heard(1) if signal.start + 2 * MS < byte.at < signal.end]
    phases = [((at - signal.data) / BIT) % 1 for at in during]
    assert all(min(phase, 1 - phase) < 0.01 for phase in phases)


def test_two_bits_lie_between_the_senders_byte_and_the_receivers(bench: Callable[..., Bench]) -> None:
    """One in each modem."""
    b = bench(2)
    b.start(0, 1)
    b.do(f"send 0 {b.now} {on_air(b'')}")
    b.run_for(20 * MS)
    result = b.finish()
    (signal,) = result.signals
    sync = signal.bytes.index(b"\x33\xcc")
    bits = "".join(f"{byte.value ^ 0xFF:08b}" for byte in result.heard(1))
    last = bits.find(f"{0xAA33CC:024b}") + 24  # bits until the sync word's end
    byte = result.heard(1)[last // 8]
    end = byte.at - (8 - last % 8) * BIT
    sent = next(
        b.at
        for b in result.heard(0)
        if abs(b.at - (signal.data - BIT + (sync + 2) * signal.byte_ns)) < 1 * US
    )
    assert end - sent == pytest.approx(2 * BIT, abs=1.5 * US)


@pytest.mark.parametrize("ppm", [(100, -100), (-100, 100)])
def test_crystals_that_differ(bench: Callable[..., Bench], ppm: tuple[int, int]) -> None:
    b = bench(2)
    b.do(f"ppm 0 {ppm[0]}", f"ppm 1 {ppm[1]}")
    b.start(0, 1)
    for i in range(20):
        b.do(f"send 0 {b.now} {on_air(frame(bytes([i]) * 29))}")
        b.run_for(40.123 * MS)
    result = b.finish()
    assert result.frames(1) == [frame(bytes([i]) * 29)[:-2] for i in range(20)]
    assert set(result.outcomes.values()) == {"received"}


def outcomes_at(bench: Callable[..., Bench], dbm: float, count: int = 200) -> Counter[str]:
    """Of frames of this strength in noise of -105 dBm. What the truth says must be what a program finds."""
    b = bench(2, gain=dbm)
    b.start(0, 1)
    for i in range(count):
        b.do(f"send 0 {b.now} {on_air(frame(bytes([i]) * 10))}")
        b.run_for(20.123 * MS)
    result = b.finish()
    assert len(result.outcomes) == count
    received = [signal.number for signal in result.signals if result.outcomes[signal.number, 1] == "received"]
    assert result.frames(1) == [frame(bytes([number]) * 10)[:-2] for number in received]
    return Counter(result.outcomes.values())


def test_reception_against_noise(bench: Callable[..., Bench]) -> None:
    """p(bit wrong) = exp(-SINR) / 2, the receiver's own noise of -110.9 dBm included."""
    noise = 10 ** (-105 / 10) + 10 ** (-110.9 / 10)
    bits = 8 * (2 + len(frame(bytes(10))))
    for dbm in (-97, -96, -95):
        wrong = math.exp(-(10 ** (dbm / 10)) / noise) / 2
        expected = (1 - wrong) ** bits
        got = outcomes_at(bench, dbm)["received"] / 200
        assert got == pytest.approx(expected, abs=4 * math.sqrt(0.25 / 200)), dbm
    assert outcomes_at(bench, -92)["received"] == 200
    assert outcomes_at(bench, -104)["weak"] >= 195


def test_sensitivity_is_the_data_sheets(bench: Callable[..., Bench]) -> None:
    """Without noise from outside: one bit in a thousand wrong at -103 dBm."""
    b = bench(2, gain=-103)
    b.do("noise 1 -140")
    b.start(0, 1)
    for i in range(100):
        b.do(f"send 0 {b.now} {on_air(frame(bytes([i]) * 29))}")
        b.run_for(30 * MS)
    outcomes = Counter(b.finish().outcomes.values())
    assert outcomes["received"] / 100 == pytest.approx(0.999 ** (8 * (2 + 36)), abs=0.16)


@pytest.mark.parametrize(("stronger", "expected"), [(0, "none"), (3, "none"), (12, "stronger")])
def test_capture(bench: Callable[..., Bench], stronger: float, expected: str) -> None:
    """Two at once: the stronger is understood if it is so by enough."""
    b = bench(3)
    b.do(f"gain 1 2 {-60 + stronger}")
    b.start(0, 1, 2)
    for _ in range(20):
        b.do(
            f"send 0 {b.now} {on_air(frame(b'weaker...'))}",
            f"send 1 {b.now + 131 * US} {on_air(frame(b'stronger.'))}",
        )
        b.run_for(40 * MS)
    result = b.finish()
    at_2 = {
        sender: Counter(result.outcomes[s.number, 2] for s in result.signals if s.node == sender)
        for sender in (0, 1)
    }
    if expected == "none":
        assert result.frames(2) == []
        assert at_2[0]["received"] == at_2[1]["received"] == 0
    else:
        assert result.frames(2) == [frame(b"stronger.")[:-2]] * 20
        assert (at_2[0], at_2[1]) == (Counter(busy=20), Counter(received=20))


def test_late_and_stronger_spoils_the_first(bench: Callable[..., Bench]) -> None:
    """A program that is in one frame does not find another's beginning, however strong."""
    b = bench(3)
    b.do("gain 1 2 -40")
    b.start(0, 1, 2)
    b.do(f"send 0 {b.now} {on_air(frame(bytes(29)))}", f"send 1 {b.now + 6 * MS} {on_air(frame(bytes(29)))}")
    b.run_for(40 * MS)
    result = b.finish()
    by_sender = {signal.node: result.outcomes[signal.number, 2] for signal in result.signals}
    assert by_sender == {0: "damaged", 1: "busy"}


# --- RSSI ---


@pytest.mark.parametrize("dbm", [-30, -50, -60, -80, -95])
def test_rssi_volts(bench: Callable[..., Bench], dbm: float) -> None:
    b = bench()
    b.start(0)
    b.do("rssi 0", f"jam {b.now + 200 * US} {b.now + 10 * MS} 433002 {dbm}")
    b.run_for(1 * MS)
    b.do("rssi 0")
    b.run_for(20 * MS)
    b.do("rssi 0")
    b.write(0, MAIN, TRANSMIT)
    b.run_for(MS)
    b.do("rssi 0")
    before, during, after, sending = b.finish().millivolts
    total = 10 * math.log10(10 ** (dbm / 10) + 10 ** (-105 / 10))
    assert before == after == round((105 - 49.2) / 51.3 * 1000)
    assert during == pytest.approx(max(0, (-total - 49.2) / 51.3 * 1000), abs=1)
    assert sending == 0


def test_rssi_settles_within_a_fraction_of_a_millisecond(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.start(0)
    b.do(f"jam {b.now + 160 * US} {b.now + 10 * MS} 433002 -60")
    b.run_for(160 * US)
    for _ in range(6):
        b.do("rssi 0")
        b.run_for(50 * US)
    volts = b.finish().millivolts
    assert volts == sorted(volts, reverse=True)
    assert volts[0] == 1088
    assert volts[1] < 1088
    assert volts[4] == volts[5] == 211


def test_quiet_pin_never_above_1200_mv(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.do("noise 0 -130")
    b.start(0)
    b.do("rssi 0")
    assert b.finish().millivolts == [1200]


# --- outcomes ---


def test_one_outcome_for_each_node_in_reach(bench: Callable[..., Bench]) -> None:
    """0 sends; 1 receives, 2 is off, 3 is too weak, 4 has no luck, 5 sends itself, 6 is out of reach."""
    b = bench(7)
    b.do("gain 0 3 -107", "gain 0 6 -150", "deliver 0 4 0")
    b.do(*(f"gain 5 {i} -150" for i in range(7)))
    b.start(0, 1, 2, 3, 4, 5, 6)
    b.do("power 2 0")
    b.do(f"send 5 {b.now} {on_air(frame(bytes(29)))}", f"send 0 {b.now + 3 * MS} {on_air(frame(bytes(10)))}")
    b.run_for(60 * MS)
    result = b.finish()
    number = next(signal.number for signal in result.signals if signal.node == 0)
    said = {node: outcome for (signal, node), outcome in result.outcomes.items() if signal == number}
    assert said == {1: "received", 2: "deaf", 3: "weak", 4: "lost", 5: "sending"}


def test_radio_that_starts_to_listen_too_late_is_deaf(bench: Callable[..., Bench]) -> None:
    b = bench(2)
    b.start(0, 1)
    b.write(1, MAIN, 0x3F)
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(5 * MS)
    b.write(1, MAIN, RECEIVE)
    b.run_for(40 * MS)
    assert b.finish().outcomes == {(0, 1): "deaf"}


@pytest.mark.parametrize(("after", "outcome"), [(2, "deaf"), (8, "deaf"), (17, "received")])
def test_radio_that_stops_listening_is_deaf_unless_it_had_all(
    bench: Callable[..., Bench], after: int, outcome: str
) -> None:
    b = bench(2)
    b.start(0, 1)
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(after * MS)
    b.write(1, MAIN, 0x3F)
    b.run_for(40 * MS)
    assert b.finish().outcomes == {(0, 1): outcome}


def test_sender_that_loses_power_breaks_its_signal_off(bench: Callable[..., Bench]) -> None:
    b = bench(2)
    b.start(0, 1)
    b.do(f"send 0 {b.now} {on_air(frame())}")
    b.run_for(10 * MS)
    b.do("power 0 0")
    b.run_for(40 * MS)
    result = b.finish()
    assert [signal.broken for signal in result.signals] == [True]
    assert result.outcomes == {(0, 1): "damaged"}


@pytest.mark.parametrize(("flush", "outcome"), [(0, "damaged"), (1, "received")])
def test_last_bit_stays_in_the_modulator(bench: Callable[..., Bench], flush: int, outcome: str) -> None:
    b = bench(2)
    b.start(0, 1)
    b.do(f"send 0 {b.now} {on_air(frame(), flush)}")
    b.run_for(40 * MS)
    assert b.finish().outcomes == {(0, 1): outcome}


def test_short_frame_is_soon_over(bench: Callable[..., Bench]) -> None:
    """A program that has had a short frame finds the next one's beginning."""
    b = bench(3)
    b.start(0, 1, 2)
    b.do(f"send 0 {b.now} {on_air(frame(b''))}")
    b.run_for(9 * MS)
    b.do(f"send 1 {b.now} {on_air(frame(b''))}")
    b.run_for(40 * MS)
    result = b.finish()
    assert [result.outcomes[signal.number, 2] for signal in result.signals] == ["received"] * 2
    assert result.frames(2) == [frame(b"")[:-2]] * 2


def test_wrong_check_sum_is_damage(bench: Callable[..., Bench]) -> None:
    """A byte that the program gave too late spoils the frame at every receiver, however strong."""
    spoilt = bytearray(frame())
    spoilt[9] ^= 0x10
    b = bench(2)
    b.start(0, 1)
    b.do(f"send 0 {b.now} {on_air(bytes(spoilt))}")
    b.run_for(40 * MS)
    assert b.finish().outcomes == {(0, 1): "damaged"}


def test_frame_from_outside(bench: Callable[..., Bench]) -> None:
    b = bench(2)
    b.start(0, 1)
    b.do(
        f"inject {b.now + MS} 433002 -70 {on_air(frame())}",
        f"jam {b.now + 40 * MS} {b.now + 60 * MS} 433002 -70",
    )
    b.run_for(100 * MS)
    result = b.finish()
    assert result.outcomes == {(0, 0): "received", (0, 1): "received"}
    assert result.frames(0) == result.frames(1) == [frame()[:-2]]


def test_same_seed_same_run(bench: Callable[..., Bench]) -> None:
    def run(seed: int) -> list[list[str]]:
        b = bench(4, seed=seed, gain=-94)
        b.start(0, 1, 2, 3)
        for i in range(12):
            b.do(f"send {i % 3} {b.now + i * 17 * US} {on_air(frame(bytes([i]) * 10))}")
            b.run_for(9 * MS)
        b.run_for(40 * MS)
        return b.finish().lines

    assert run(1) == run(1)
    assert run(1) != run(2)
