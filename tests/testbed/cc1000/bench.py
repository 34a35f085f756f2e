"""The testbed's CC1000s on an ether, without processors, as a program that takes a script (c/cc1000_bench.c)."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from packet_formats.framing import crc16
from tests.testbed.air import MS, US

BIT = 1e9 / 19200
MAIN, FREQ_2A, PA_POW, LOCK, CAL, MODEM0 = 0x00, 0x01, 0x0B, 0x0D, 0x0E, 0x11
RECEIVE, TRANSMIT = 0x11, 0xE1

# FREQ_A, FREQ_B and FSEP as TinyOS writes them, and the reference divider.
Preset = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]
TINYOS_1: Preset = ((0x58, 0x00, 0x00), (0x57, 0xF6, 0x85), (0x03, 0x55), 12)
TINYOS_2: Preset = ((0x51, 0x00, 0x00), (0x50, 0xF7, 0x4F), (0x03, 0x0E), 11)


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

    def configure(self, node: int, preset: Preset = TINYOS_1) -> None:
        freq_a, freq_b, fsep, divider = preset
        self.write(node, PA_POW, 0)
        self.write(node, FREQ_2A, *freq_a, *freq_b, *fsep)
        self.write(node, 0x0A, 0x02)
        self.write(node, 0x0C, divider << 3)
        self.write(node, MODEM0, 0x55)

    def switch_on(self, node: int) -> None:
        self.do(f"power {node} 1")
        self.write(node, MAIN, 0x3A)
        self.write(node, MAIN, 0x3B)
        self.run_for(2 * MS)

    def calibrate(self, node: int, main: int, wait: float = 28 * MS) -> None:
        self.write(node, MAIN, main)
        self.write(node, CAL, 0xA6)
        self.run_for(wait)
        self.write(node, CAL, 0x26)

    def start(self, *nodes: int, preset: Preset = TINYOS_1) -> None:
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


MakeBench = Callable[..., Bench]


def build(root: Path, compiler: str, folder: Path) -> Path:
    """The testbed's ether and chip as a program that takes a script."""
    program, testbed = folder / "cc1000_bench", root / "firmware/testbed"
    sources = [
        root / "tests/testbed/c/cc1000_bench.c",
        *(testbed / f"{name}.c" for name in ("cc1000", "hearing", "ether")),
    ]
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    flags += ["-fsanitize=address,undefined", f"-I{testbed}"]
    subprocess.run([compiler, *flags, *sources, "-lm", "-o", program], check=True)
    return program


def frame(data: bytes = bytes(range(20))) -> bytes:
    """A TinyOS 1 frame: header, data, check sum."""
    body = bytes([0xFF, 0xFF, 0x04, 0x7D, len(data)]) + data
    return body + crc16(body).to_bytes(2, "little")


def on_air(content: bytes, flush: int = 2) -> str:
    return (b"\xaa" * 8 + b"\x33\xcc" + content + bytes(flush)).hex()
