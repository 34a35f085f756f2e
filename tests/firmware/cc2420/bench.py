"""The CC2420 driver beside the testbed's chip, as a program that takes command lines (c/cc2420_bench.c)."""

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from packet_formats import cheader
from packet_formats.deployment import from_dict
from tests.firmware.scheduled import scheduled_header
from tests.testbed.air import frame

HZ = 32768
NO_STAMP = 255
START_REGISTERS = {
    0x11: 0x02E2,
    0x12: 0x0500,
    0x17: 0x2A56,
    0x19: 0x01C4,
    0x1C: 0x007F,
    0x18: 0x4000 | (357 + 5 * (26 - 11)),
    0x15: 0xA0FF,
}
HEADER = {1: "0108{dsn:02x}ffff ffff 70 7d", 2: "4188{dsn:02x}2200 ffff 0300 3f 70"}
GROUP = {1: 0x7D, 2: 0x22}
LIMIT = {1: 29, 2: 28}


@dataclass(frozen=True)
class Happened:
    """One line of the bench: when (microseconds), what, and the rest."""

    time: int
    what: str
    rest: str

    @property
    def words(self) -> list[str]:
        return self.rest.split()

    @property
    def out(self) -> str:
        """What an SPI access sent, in hex."""
        return " ".join(pair.split(":")[0] for pair in self.words)


class Bench:
    """Runs command lines on a driver built for one TinyOS version."""

    def __init__(self, program: Path, tinyos: int) -> None:
        self.program = program
        self.tinyos = tinyos

    def run(self, *lines: str, start: bool = True, misused: bool = False) -> list[Happened]:
        """What happened. The chip has no reason to complain, unless ``misused`` says so."""
        script = ["start 7", "run 1000", *lines] if start else list(lines)
        text = "\n".join(script) + "\n"
        done = subprocess.run(
            [self.program], input=text, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        happened = [
            Happened(int(t), what, rest) for t, what, rest in re.findall(r"(\d+) (\S+) ?(.*)", done.stdout)
        ]
        assert misused or not only(happened, "fault")
        return happened

    def frame(self, data: str, dsn: int = 0) -> str:
        """A frame as it is on the air, from the length byte on: to all, of type 70."""
        return frame(bytes.fromhex(HEADER[self.tinyos].format(dsn=dsn) + data)).hex()

    def send(self, data: str, deadline: int = 3000, stamp_at: int = NO_STAMP) -> str:
        return f"send ffff 3 70 {GROUP[self.tinyos]:x} {deadline} {stamp_at} {data}"


def build(root: Path, compiler: str, folder: Path, tinyos: int, scheduled: bool) -> Bench:
    """The driver with the testbed's chip, in a folder. With a schedule its radio may sleep."""
    deployment = from_dict(
        {
            "network": {"name": "bench", "board": "micaz", "motes": 10, "tinyos": tinyos, "channel": 26},
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 32},
            "stamp": {"scheme": "shlc"},
        }
    )
    layout = scheduled_header("micaz") if scheduled else cheader.render(deployment)
    (folder / "causeway_layout.h").write_text(layout)
    program = folder / "bench"
    flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    flags += [f"-I{path}" for path in (root / "firmware", root / "firmware/core", folder)]
    sources = [root / "tests/firmware/c/cc2420_bench.c"]
    sources += sorted((root / "firmware/chips/cc2420").glob("*.c"))
    sources += [root / "firmware/core" / f"{name}.c" for name in ("air", "random")]
    sources += sorted((root / "firmware/testbed").glob("cc2420*.c"))
    sources += [root / "firmware/testbed" / f"{name}.c" for name in ("ether", "ieee802154")]
    subprocess.run([compiler, *flags, "-o", program, *sources, "-lm"], check=True)
    return Bench(program, tinyos)


def only(happened: list[Happened], what: str) -> list[Happened]:
    return [one for one in happened if one.what == what]


def accesses(happened: list[Happened]) -> list[str]:
    return [one.out for one in only(happened, "spi")]


def counters(happened: list[Happened]) -> dict[str, int]:
    names = ("heard", "crc", "overrun", "garbage", "restarts")
    return dict(zip(names, map(int, only(happened, "counters")[-1].words), strict=True))


def cycles(microseconds: int) -> int:
    return microseconds * HZ // 1_000_000


BuildBench = Callable[..., Bench]
