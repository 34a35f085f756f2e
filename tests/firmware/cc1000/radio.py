"""The CC1000 driver as a library beside an imagined chip, which shows every edge, bit and byte (c/cc1000_host.c)."""

import ctypes
import itertools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from packet_formats import cheader
from packet_formats.deployment import load
from packet_formats.framing import crc16
from tests.firmware.scheduled import scheduled_header

FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
SANITIZE = ["-fsanitize=undefined", "-fno-sanitize-recover=all"]
PARTS = ("", "_control", "_noise", "_pll", "_receive", "_send", "_sleep")
DRIVER = [f"chips/cc1000/cc1000{part}.c" for part in PARTS]
CORE = ["core/air.c", "core/crc.c", "core/random.c"]

PREAMBLE, SYNC, FLUSH = 8, bytes([0x33, 0xCC]), 2
BYTE_NS = 416_667
CYCLE_NS = 1e9 / 32768
SENT, BUSY, FAILED = 0, 1, 2
NO_STAMP = 0xFF
SCHEDULED = 3  # in place of a version: TinyOS 1 of a deployment with a schedule, whose radio may sleep
MAIN, CURRENT, PA_POW, LOCK, CAL, TEST4 = 0x00, 0x09, 0x0B, 0x0D, 0x0E, 0x42


def deployment(root: Path, version: int, folder: Path, band: int = 433) -> Path:
    """A folder with the layout header of a MICA2 network of that TinyOS version."""
    text = (root / "examples/mica2.toml").read_text()
    changed = text.replace("tinyos = 1 ", f"tinyos = {version} ", 1)
    changed = changed.replace("[network]\n", f"[network]\nband = {band}\n", 1)
    assert version == 1 or changed != text
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mica2.toml").write_text(changed)
    (folder / "causeway_layout.h").write_text(cheader.render(load(folder / "mica2.toml")))
    return folder


def frame(
    version: int, data: bytes, dest: int, source: int = 0x0102, kind: int = 6, group: int = 0x7D
) -> bytes:
    """A frame of a TinyOS version, from its header to its CRC."""
    if version == 1:
        header = dest.to_bytes(2, "little") + bytes([kind, group, len(data)])
    else:
        header = dest.to_bytes(2, "big") + source.to_bytes(2, "big") + bytes([len(data), group, kind])
    return header + data + crc16(header + data).to_bytes(2, "little")


def build(root: Path, compiler: str, folder: Path, version: int) -> Path:
    """The driver and its imagined chip as a library, in a folder."""
    deployment(root, version if version < SCHEDULED else 1, folder)
    if version == SCHEDULED:
        (folder / "causeway_layout.h").write_text(scheduled_header("mica2"))
    library = folder / "cc1000.so"
    flags = ["-shared", "-fPIC", "-g", "-O1", *FLAGS, *SANITIZE, '-DCC1000_CONF_PINS="cc1000_mock.h"']
    places = (*(root / part for part in ("firmware", "firmware/core", "tests/firmware/c")), folder)
    sources = [*(root / "firmware" / name for name in DRIVER + CORE), root / "tests/firmware/c/cc1000_host.c"]
    command = [compiler, *flags, *(f"-I{path}" for path in places), *sources, "-o", library]
    subprocess.run(command, check=True)
    return library


class Radio:
    """The driver and its imagined MICA2, fresh from boot."""

    def __init__(self, library: Path, version: int) -> None:
        self.c = ctypes.CDLL(str(library))
        self.version = version
        self.limit = 29 if version == 1 else 28

        class RadioMessage(ctypes.Structure):
            _fields_ = [
                ("dest", ctypes.c_uint16),
                ("source", ctypes.c_uint16),
                ("type", ctypes.c_uint8),
                ("group", ctypes.c_uint8),
                ("length", ctypes.c_uint8),
                ("data", ctypes.c_uint8 * self.limit),
            ]

        class Heard(ctypes.Structure):
            _fields_ = [
                ("message", RadioMessage),
                ("time", ctypes.c_uint32),
                ("error", ctypes.c_uint8),
                ("rssi", ctypes.c_int8),
                ("lqi", ctypes.c_uint8),
            ]

        class Edge(ctypes.Structure):
            _fields_ = [("ns", ctypes.c_uint64), ("wire", ctypes.c_char), ("high", ctypes.c_uint8)]

        class Access(ctypes.Structure):
            _fields_ = [
                ("ns", ctypes.c_uint64),
                ("write", ctypes.c_uint8),
                ("address", ctypes.c_uint8),
                ("value", ctypes.c_uint8),
            ]

        class Sent(ctypes.Structure):
            _fields_ = [("result", ctypes.c_uint32), ("time", ctypes.c_uint32)]

        class Counters(ctypes.Structure):
            _fields_ = [
                (name, ctypes.c_uint16) for name in ("heard", "crc", "overrun", "garbage", "restarts")
            ]

        self._edges = (Edge * 400_000).in_dll(self.c, "host_edges")
        self._accesses = (Access * 16_000).in_dll(self.c, "host_accesses")
        self._heard = (Heard * 64).in_dll(self.c, "host_heard")
        self._sent = (Sent * 64).in_dll(self.c, "host_sent")
        self.registers = (ctypes.c_uint8 * 128).in_dll(self.c, "host_registers")
        self.c.radio_counters.restype = ctypes.POINTER(Counters)
        self.c.radio_start.restype = ctypes.c_bool
        self.c.radio_airtime.restype = ctypes.c_uint16
        self.c.cc1000_read.restype = ctypes.c_uint8

    def get(self, name: str, kind: Any = ctypes.c_uint8) -> int:
        value: int = kind.in_dll(self.c, f"host_{name}").value
        return value

    def set(self, name: str, value: int, kind: Any = ctypes.c_uint8) -> None:
        kind.in_dll(self.c, f"host_{name}").value = value

    def running(self) -> dict[str, int]:
        return {name: self.get(name) for name in ("spi_on", "watched", "powered", "drives")}

    @property
    def ns(self) -> int:
        return self.get("ns", ctypes.c_uint64)

    @property
    def cycles(self) -> int:
        return self.ns * 32768 // 10**9

    def edges(self) -> str:
        """All edges since the start: L, C, D for PALE, PCLK, PDATA high; l, c, d for low; I, i for PDATA in, out."""
        count = self.get("edge_count", ctypes.c_uint32)
        return "".join(
            edge.wire.decode().upper() if edge.high else edge.wire.decode().lower()
            for edge in itertools.islice(self._edges, count)
        )

    def accesses(self) -> list[tuple[int, str, int, int]]:
        count = self.get("access_count", ctypes.c_uint32)
        return [
            (a.ns, "write" if a.write else "read", a.address, a.value)
            for a in itertools.islice(self._accesses, count)
        ]

    def writes(self) -> list[tuple[int, int]]:
        return [(address, value) for _, how, address, value in self.accesses() if how == "write"]

    def start(self, seed: int = 1) -> bool:
        started: bool = self.c.radio_start(seed)
        return started

    def counters(self) -> dict[str, int]:
        counters = self.c.radio_counters().contents
        return {name: getattr(counters, name) for name, _ in counters._fields_}

    def heard(self) -> list[Any]:
        return [self._heard[i] for i in range(self.get("heard_count", ctypes.c_uint32))]

    def payloads(self) -> list[bytes]:
        return [bytes(h.message.data[: h.message.length]) for h in self.heard()]

    def sent(self) -> list[tuple[int, int]]:
        return [
            (self._sent[i].result, self._sent[i].time) for i in range(self.get("sent_count", ctypes.c_uint32))
        ]

    def byte(self, value: int, service: bool = True) -> int:
        out: int = self.c.host_byte(value)
        if service:
            self.c.host_service()
        return out

    def take(self, data: bytes, service: bool = True) -> bytes:
        return bytes(self.byte(value, service) for value in data)

    def silence(self, count: int) -> None:
        for _ in range(count):
            self.byte(0x00)

    def frame(
        self, data: bytes, dest: int = 0xFFFF, source: int = 0x0102, kind: int = 6, group: int = 0x7D
    ) -> bytes:
        """The frame from its header to its CRC."""
        return frame(self.version, data, dest, source, kind, group)

    def air(self, data: bytes, preamble: int = PREAMBLE, **fields: int) -> bytes:
        return b"\xaa" * preamble + SYNC + self.frame(data, **fields)

    def hear(self, stream: bytes, offset: int = 0, invert: bool = True, service: bool = True) -> None:
        """The chip gives these bits, `offset` bits off the SPI's bytes; inverted, since its oscillator is above."""
        if invert:
            stream = bytes(~byte & 0xFF for byte in stream)
        bits = int.from_bytes(stream) << (8 - offset) % 8
        length = len(stream) + (1 if offset else 0)
        self.take(bits.to_bytes(length), service)

    def send(self, data: bytes, deadline: int | None = None, stamp_at: int = NO_STAMP, **fields: int) -> bool:
        values = {"dest": 0xFFFF, "source": 0x0102, "type": 6, "group": 0x7D} | fields
        return bool(
            self.c.host_send(
                *values.values(),
                data,
                len(data),
                ctypes.c_uint32(self.cycles + 32768 if deadline is None else deadline),
                stamp_at,
            )
        )

    def go(self, limit: int = 2000) -> bytes:
        """Let time pass until a send ends; what went out while the antenna had power."""
        out = bytearray()
        count = len(self.sent())
        for _ in range(limit):
            on = self.registers[PA_POW] != 0
            byte = self.byte(0x00)
            if on:
                assert self.get("drives") == (0 if len(self.sent()) > count else 1)
                out.append(byte)
            if len(self.sent()) > count:
                return bytes(out)
        raise AssertionError("the send never ended")


Boot = Callable[[int], Radio]
