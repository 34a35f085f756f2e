"""The CC1000 driver on the host, against an imagined chip: every edge, bit and byte (c/cc1000_host.c)."""

import ctypes
import itertools
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from packet_formats import cheader
from packet_formats.deployment import load
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
WAKE_TIME, TURN = 112, 16
MAIN, CURRENT, PA_POW, LOCK, CAL, TEST4 = 0x00, 0x09, 0x0B, 0x0D, 0x0E, 0x42

# What registers 01 to 13 hold after the start. 2.x: as seen from TinyOS (FREQ_A, FREQ_B, FSEP, MODEM0).
REGISTERS = {
    1: "58 00 00 57 F6 85 03 55 44 02 00 60 90 26 00 6F 55 70 01",
    2: "51 00 00 50 F7 4F 03 0E 44 02 00 58 90 26 00 6F 55 70 01",
}


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


def crc16(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1
        crc &= 0xFFFF
    return crc


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
        if self.version == 1:
            header = dest.to_bytes(2, "little") + bytes([kind, group, len(data)])
        else:
            header = dest.to_bytes(2, "big") + source.to_bytes(2, "big") + bytes([len(data), group, kind])
        return header + data + crc16(header + data).to_bytes(2, "little")

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


@pytest.fixture(scope="session")
def libraries(
    root: Path, require_tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> dict[int, Path]:
    gcc = require_tool("gcc")
    built = {}
    for version in (1, 2, SCHEDULED):
        folder = deployment(root, version if version < SCHEDULED else 1, tmp_path_factory.mktemp("cc1000"))
        if version == SCHEDULED:
            (folder / "causeway_layout.h").write_text(scheduled_header("mica2"))
        built[version] = folder / "cc1000.so"
        sources = [root / "firmware" / name for name in DRIVER + CORE]
        subprocess.run(
            [
                *(
                    gcc,
                    "-shared",
                    "-fPIC",
                    "-g",
                    "-O1",
                    *FLAGS,
                    *SANITIZE,
                    '-DCC1000_CONF_PINS="cc1000_mock.h"',
                ),
                *(f"-I{root / part}" for part in ("firmware", "firmware/core", "tests/firmware/c")),
                f"-I{folder}",
                *map(str, [*sources, root / "tests/firmware/c/cc1000_host.c"]),
                *("-o", str(built[version])),
            ],
            check=True,
        )
    return built


@pytest.fixture
def boot(libraries: dict[int, Path], tmp_path: Path) -> Boot:
    """``boot(version)``: a radio that has not been started. Each has variables of its own: a copy of the library."""
    numbers = itertools.count()

    def fresh(version: int) -> Radio:
        copy = tmp_path / f"radio{next(numbers)}.so"
        shutil.copy(libraries[version], copy)
        return Radio(copy, version if version < SCHEDULED else 1)

    return fresh


@pytest.fixture(params=[1, 2], ids=["tinyos1", "tinyos2"])
def radio(request: pytest.FixtureRequest, boot: Boot) -> Radio:
    """A radio that listens, the noise floor known."""
    radio = boot(request.param)
    assert radio.start()
    radio.silence(20)
    return radio


# The register interface.


def bits(value: int, count: int = 8) -> list[int]:
    return [value >> place & 1 for place in reversed(range(count))]


def edges_of(address: int, value: int, write: bool) -> str:
    """The edges of one access from all wires high to all wires high; a level that stays gives no edge."""
    edges, level = ["l"], 1
    for bit in [*bits(address, 7), int(write)]:
        if bit != level:
            edges.append("D" if bit else "d")
            level = bit
        edges += ["c", "C"]
    if not write:
        edges.append("I")
    edges.append("L")
    for bit in bits(value):
        if write and bit != level:
            edges.append("D" if bit else "d")
            level = bit
        edges += ["c", "C"]
    if not write:
        edges.append("i")
    if not level:
        edges.append("D")
    return "".join(edges)


@pytest.mark.parametrize(
    ("address", "value"), [(0x00, 0x11), (0x42, 0x3F), (0x0E, 0xA6), (0x7F, 0x00), (0x00, 0xFF)]
)
def test_every_edge_of_a_write_and_a_read(boot: Boot, address: int, value: int) -> None:
    radio = boot(1)
    radio.c.cc1000_write(address, value)
    assert radio.edges() == edges_of(address, value, write=True)
    assert radio.registers[address] == value
    assert [access[1:] for access in radio.accesses()] == [("write", address, value)]

    radio = boot(2)
    radio.registers[address] = value
    assert radio.c.cc1000_read(address) == value
    assert radio.edges() == edges_of(address, value, write=False)


@pytest.mark.parametrize("version", [1, 2])
def test_start_writes_what_the_data_sheet_asks_in_its_order(boot: Boot, version: int) -> None:
    radio = boot(version)
    assert radio.start()
    accesses = radio.accesses()
    writes = radio.writes()
    assert radio.edges() == "".join(edges_of(a, v, how == "write") for _, how, a, v in accesses)

    # Reset, crystal; all registers while the synthesizer is off; bias; then calibration.
    assert writes[:2] == [(MAIN, 0x3A), (MAIN, 0x3B)]
    bias = writes.index((MAIN, 0x39))
    settings = dict(writes[2:bias])
    assert len(settings) == bias - 2
    assert MAIN not in settings
    assert writes[bias + 1 :] == [
        *[(CURRENT, 0x44), (PA_POW, 0x00), (MAIN, 0x11), (CAL, 0xA6), (CAL, 0x26)],
        *[(MAIN, 0xE1), (CURRENT, 0x81), (PA_POW, 0x00), (CAL, 0xA6), (CAL, 0x26)],
        *[(CURRENT, 0x44), (PA_POW, 0x00), (MAIN, 0x11)],
    ]
    expected = dict(enumerate(bytes.fromhex(REGISTERS[version]), 1)) | {TEST4: 0x3F}
    assert {address: radio.registers[address] for address in expected} == expected
    assert set(settings) | {MAIN, CURRENT, CAL} == set(expected) | {MAIN}

    # Times: 2 ms for the crystal, 200 us for the bias, 26 ms each calibration and at most a poll more.
    at = [ns for ns, how, _, _ in accesses if how == "write"]
    assert at[2] - at[1] >= 2_000_000
    assert at[bias + 1] - at[bias] >= 200_000
    starts = [i for i, write in enumerate(writes) if write == (CAL, 0xA6)]
    for start in starts:
        assert 26_000_000 <= at[start + 1] - at[start] <= 26_400_000
    assert radio.ns < 60_000_000
    # Last of all, 250 us after: is the PLL locked?
    assert accesses[-1][1:] == ("read", LOCK, 0x93)
    assert accesses[-1][0] - at[-1] >= 250_000
    assert radio.running() == {"spi_on": 1, "watched": 1, "powered": 1, "drives": 0}


def test_frequencies(boot: Boot) -> None:
    for version, channel, refdiv in ((1, 433.002e6, 12), (2, 434.845e6, 11)):
        radio = boot(version)
        assert radio.start()
        unit = 14.7456e6 / refdiv / 16384
        word_a = int.from_bytes(bytes(radio.registers[1:4]))
        word_b = int.from_bytes(bytes(radio.registers[4:7]))
        separation = int.from_bytes(bytes(radio.registers[7:9])) * unit
        assert radio.registers[0x0C] >> 3 == refdiv
        assert (word_a + 8192) * unit - 150e3 == pytest.approx(channel, abs=300)
        assert (word_b + 8192) * unit + separation / 2 == pytest.approx(channel, abs=300)
        assert separation == pytest.approx(64e3, abs=100)


def test_a_calibration_that_missed_is_repeated_once(boot: Boot) -> None:
    radio = boot(1)
    radio.set("locks", 0)
    assert radio.start()
    assert radio.writes().count((CAL, 0xA6)) == 4
    assert radio.writes()[-1] == (MAIN, 0x11)


@pytest.mark.parametrize(("name", "value"), [("present", 0), ("calibration_us", 0)])
def test_a_chip_that_does_not_answer(boot: Boot, name: str, value: int) -> None:
    radio = boot(2)
    radio.set(name, value, ctypes.c_uint32 if name == "calibration_us" else ctypes.c_uint8)
    assert not radio.start()
    assert 68_000_000 <= radio.ns <= 150_000_000
    assert radio.writes()[-2:] == [(PA_POW, 0x00), (MAIN, 0x3F)]
    assert not any(radio.running().values())
    assert not radio.send(b"")


def test_stop(radio: Radio) -> None:
    assert radio.send(b"abc")
    radio.c.radio_stop()
    assert radio.registers[MAIN] == 0x3F
    assert not any(radio.running().values())
    radio.c.host_service()
    assert [result for result, _ in radio.sent()] == [FAILED]
    assert not radio.send(b"abc")
    assert radio.start()
    radio.silence(20)
    assert radio.send(b"abc")
    radio.go()
    assert [result for result, _ in radio.sent()] == [FAILED, SENT]


# Receiving.


@pytest.mark.parametrize("offset", range(8))
@pytest.mark.parametrize("invert", [True, False], ids=["inverted", "upright"])
def test_a_frame_at_every_bit_offset(radio: Radio, offset: int, invert: bool) -> None:
    rng = random.Random(offset)
    for data in (b"", b"\x01", bytes(range(0x80, 0x80 + radio.limit))):
        radio.hear(rng.randbytes(30), offset, invert)
        began = radio.ns
        radio.hear(radio.air(data, dest=0x1234, kind=0xF4), offset, invert)
        radio.silence(3)
        heard = radio.heard()[-1]
        assert bytes(heard.message.data[: heard.message.length]) == data
        message = heard.message
        assert (message.dest, message.type, message.group) == (0x1234, 0xF4, 0x7D)
        assert message.source == (0 if radio.version == 1 else 0x0102)
        assert heard.lqi == 0
        # Time of the sync word's end, to a cycle; the first of `stream`'s bits came `offset` bits into the byte.
        end = began + (PREAMBLE + 2 + offset / 8) * BYTE_NS
        assert heard.time == pytest.approx(end / CYCLE_NS, abs=1)
    assert radio.counters() == {"heard": 3, "crc": 0, "overrun": 0, "garbage": 0, "restarts": 0}


@pytest.mark.parametrize("preamble", [3, 4, 6, 28, 300])
def test_preambles_of_all_lengths(radio: Radio, preamble: int) -> None:
    for offset in range(8):
        radio.hear(b"\x00\x00" + radio.air(b"hello", preamble), offset)
        radio.silence(2)
    assert radio.payloads() == [b"hello"] * 8


def test_a_preamble_with_wrong_bits(radio: Radio) -> None:
    air = bytearray(radio.air(b"hello", 12))
    air[1] ^= 0x10
    air[7] ^= 0x04
    radio.hear(bytes(air), 3)
    radio.silence(2)
    assert radio.payloads() == [b"hello"]


def test_vector_of_tinyos_2(boot: Boot) -> None:
    """A frame that a TinyOS 2 mote is known to send: the header without the dispatch byte, CRC over header and data."""
    radio = boot(2)
    assert radio.start()
    frame = bytes.fromhex("ffff0001022206") + bytes([0x00, 0x01])
    radio.hear(b"\xaa" * 7 + SYNC + frame + crc16(frame).to_bytes(2, "little"), 5)
    radio.silence(2)
    message = radio.heard()[0].message
    assert (message.dest, message.source, message.type, message.group, message.length) == (
        0xFFFF,
        1,
        6,
        0x22,
        2,
    )


def test_strength(radio: Radio) -> None:
    """-49.2 dBm - 51.3 dB/V with a supply of 3 V."""
    for value, dbm in ((0, -49), (200, -79), (400, -109), (1023, -127)):
        radio.set("rssi", value, ctypes.c_uint16)
        radio.hear(radio.air(b"x"), 2)
        radio.silence(2)
        assert radio.heard()[-1].rssi == pytest.approx(dbm, abs=1)
    radio.set("answers_rssi", 0)
    radio.hear(radio.air(b"x"), 2)
    radio.silence(2)
    assert radio.heard()[-1].rssi == -128


def test_bad_crc(radio: Radio) -> None:
    air = radio.air(b"sixteen bytes of")
    start = PREAMBLE + 2
    length_at = start + 4
    wrong = [place for place in range(start, len(air)) if place != length_at]
    for count, place in enumerate(wrong, 1):
        broken = bytearray(air)
        broken[place] ^= 1 << place % 8
        radio.hear(bytes(broken), place % 8)
        radio.silence(2)
        assert radio.counters()["crc"] == count
    assert radio.heard() == []
    radio.hear(air, 1)
    radio.silence(1)
    assert radio.payloads() == [b"sixteen bytes of"]


def test_a_truncated_frame_becomes_noise_and_the_next_is_heard(radio: Radio) -> None:
    air = radio.air(bytes(range(20)))
    rng = random.Random(1)
    for cut in range(PREAMBLE + 2, len(air)):
        radio.hear(air[:cut] + rng.randbytes(len(air) + 40), cut % 8)
        counted = sum(radio.counters().values())
        assert counted <= cut - PREAMBLE - 1
    assert radio.heard() == []
    radio.hear(air, 4)
    radio.silence(2)
    assert radio.payloads() == [bytes(range(20))]


@pytest.mark.parametrize("length", [30, 31, 64, 128, 255])
def test_a_length_over_the_limit(radio: Radio, length: int) -> None:
    frame = bytearray(radio.frame(b"x"))
    frame[4] = length
    radio.hear(b"\xaa" * 8 + SYNC + bytes(frame), 6)
    assert radio.counters()["garbage"] == 1
    radio.hear(radio.air(b"next"), 2)
    radio.silence(1)
    assert radio.payloads() == [b"next"]


def test_the_limit_itself(boot: Boot) -> None:
    for version, limit in ((1, 29), (2, 28)):
        radio = boot(version)
        assert radio.start()
        radio.hear(radio.air(bytes(limit)))
        radio.hear(radio.air(bytes(limit + 1)))
        radio.silence(1)
        assert radio.payloads() == [bytes(limit)]
        assert radio.counters()["garbage"] == 1


def test_frames_back_to_back_while_the_loop_is_busy(radio: Radio) -> None:
    """Two frames wait for the loop; a third is an overrun; the loop finds the two in order."""
    frames = [radio.air(bytes([number] * 9), 6) + b"\x00\x00" for number in range(4)]
    radio.hear(b"".join(frames[:3]), 3, service=False)
    radio.silence(0)
    assert radio.counters() == {"heard": 2, "crc": 0, "overrun": 1, "garbage": 0, "restarts": 0}
    radio.c.host_service()
    assert radio.payloads() == [bytes([0] * 9), bytes([1] * 9)]
    radio.hear(b"".join(frames), 7)
    radio.silence(1)
    assert radio.payloads()[2:] == [bytes([number] * 9) for number in range(4)]
    assert all(a.time < b.time for a, b in itertools.pairwise(radio.heard()))


def test_noise(radio: Radio) -> None:
    """Ten seconds of noise, and streams that nearly are frames: nothing is heard, and a frame after it is."""
    rng = random.Random(7)
    radio.take(rng.randbytes(24_000))
    radio.take(b"\xaa" * 500 + b"\x55" * 501)
    radio.take((b"\xaa\xaa\xaa\x33\xcc" + b"\xff" * 3) * 50)
    radio.take(bytes(range(256)) * 4)
    assert radio.heard() == []
    radio.hear(radio.air(b"after"), 5)
    radio.silence(1)
    assert radio.payloads() == [b"after"]


# Sending.


@pytest.mark.parametrize("length", [0, 1, 11, 28])
def test_every_byte_of_a_frame_sent(radio: Radio, length: int) -> None:
    data = bytes(range(0x70, 0x70 + length))
    writes = len(radio.writes())
    assert radio.send(data, dest=0x0203, source=0x0405, type=0x91, group=0x22)
    assert not radio.send(data)
    out = radio.go()
    frame = radio.frame(data, dest=0x0203, source=0x0405, kind=0x91, group=0x22)
    # The byte under way when power came, the preamble, ..., two to flush. All the while the antenna had power.
    assert out == b"\xaa" + b"\xaa" * PREAMBLE + SYNC + frame + bytes(FLUSH)
    assert radio.writes()[writes:] == [
        *[(MAIN, 0xE1), (CURRENT, 0x81), (PA_POW, 0x0F)],
        *[(CURRENT, 0x44), (PA_POW, 0x00), (MAIN, 0x11)],
    ]
    at = [ns for ns, how, _, _ in radio.accesses() if how == "write"][writes:]
    assert at[2] - at[1] >= 250_000
    [(result, time)] = radio.sent()
    assert result == SENT
    # The time is that of the sync word's end: CRC, data, header and flush bytes before the end.
    end = at[3] - (len(frame) + FLUSH) * BYTE_NS
    assert time == pytest.approx(end / CYCLE_NS, abs=2)
    # The air was taken for as long as radio_airtime() says: here power came at a byte's beginning, the worst place.
    assert (at[4] - at[2]) / CYCLE_NS <= radio.c.radio_airtime(length) <= (at[4] - at[2]) / CYCLE_NS + 4

    # And receiving goes on.
    radio.silence(3)
    radio.hear(radio.air(b"heard"), 3)
    radio.silence(1)
    assert radio.payloads() == [b"heard"]


def test_what_one_sends_another_hears_at_the_same_time(boot: Boot) -> None:
    for version in (1, 2):
        sender, receiver = boot(version), boot(version)
        for one in (sender, receiver):
            assert one.start()
            one.silence(20)
        assert sender.send(b"over there", dest=7)
        out = sender.go()
        # Both clocks run alike: put the receiver's byte grid 3 bits behind the sender's.
        lag = 3
        began = receiver.ns
        receiver.hear(out, lag)
        receiver.silence(1)
        [heard] = receiver.heard()
        assert bytes(heard.message.data[:10]) == b"over there"
        assert heard.message.dest == 7
        place = began + (1 + PREAMBLE + 2 + lag / 8) * BYTE_NS
        assert heard.time == pytest.approx(place / CYCLE_NS, abs=1)


def test_airtime(boot: Boot) -> None:
    for version, header in ((1, 5), (2, 7)):
        radio = boot(version)
        for length in range(30):
            total = 1 + PREAMBLE + 2 + header + length + 2 + FLUSH
            cycles = radio.c.radio_airtime(length) - 4  # 120 us for power to come and go
            assert cycles - 1 < total * 8 / 19200 * 32768 <= cycles


@pytest.mark.parametrize(("length", "place"), [(4, 0), (14, 10), (28, 24)])
def test_the_stamp_is_filled_while_the_frame_goes_out(radio: Radio, length: int, place: int) -> None:
    assert radio.send(bytes(length), stamp_at=place)
    out = radio.go()[1 + PREAMBLE + 2 : -FLUSH]
    [(result, time)] = radio.sent()
    assert result == SENT
    stamp = (time + 0x12345678).to_bytes(4, "little" if radio.version == 1 else "big")
    assert out == radio.frame(bytes(place) + stamp)


def test_what_is_refused(radio: Radio) -> None:
    assert not radio.send(bytes(radio.limit + 1))
    assert not radio.send(bytes(255))
    assert not radio.send(bytes(10), stamp_at=7)
    assert radio.send(bytes(radio.limit), stamp_at=radio.limit - 4)
    radio.go()


def test_backoff_is_one_to_eight_bytes(boot: Boot) -> None:
    waits = []
    for seed in range(60):
        radio = boot(1)
        assert radio.start(seed)
        radio.silence(20)
        assert radio.send(b"")
        began = radio.ns
        while radio.registers[PA_POW] == 0:
            radio.byte(0)
        waits.append(round((radio.ns - began) / BYTE_NS))
    assert min(waits) <= 5
    assert 8 <= max(waits) <= 12
    assert len(set(waits)) > 5


def test_a_busy_channel_until_the_deadline(radio: Radio) -> None:
    radio.silence(200)
    radio.set("rssi", 200, ctypes.c_uint16)
    writes = len(radio.writes())
    deadline = radio.cycles + 3277
    assert radio.send(b"never", deadline)
    assert radio.go() == b""
    assert [result for result, _ in radio.sent()] == [BUSY]
    assert deadline - 40 <= radio.cycles <= deadline + 1
    assert len(radio.writes()) == writes


def test_a_busy_channel_that_clears(radio: Radio) -> None:
    radio.silence(200)
    radio.set("rssi", 200, ctypes.c_uint16)
    assert radio.send(b"late")
    radio.silence(100)
    assert radio.sent() == []
    assert radio.registers[PA_POW] == 0
    radio.set("rssi", 400, ctypes.c_uint16)
    began = radio.ns
    while radio.registers[PA_POW] == 0:
        radio.byte(0)
    assert radio.ns - began <= 24 * BYTE_NS
    assert radio.go()[: 1 + PREAMBLE + 2].endswith(SYNC)


def test_no_send_while_a_frame_comes_in(radio: Radio) -> None:
    """However often: what comes in is heard whole, and sent is after it."""
    for number in range(12):
        assert radio.send(b"mine")
        radio.silence(number)
        radio.hear(radio.air(b"theirs" + bytes([number])), number % 8)
        assert radio.registers[PA_POW] == 0 or len(radio.heard()) == number
        if radio.registers[PA_POW] == 0 and len(radio.sent()) == number:
            assert radio.go().endswith(radio.frame(b"mine") + bytes(FLUSH))
        else:
            radio.silence(60)
        assert len(radio.sent()) == number + 1
    assert all(result == SENT for result, _ in radio.sent())


def test_a_slow_loop_finds_the_channel_taken(radio: Radio) -> None:
    """Clear when last seen, but the loop comes late: then it looks again."""
    assert radio.send(b"mine")
    for _ in range(40):
        radio.byte(0, service=False)
    assert radio.get("events") & 2
    radio.hear(radio.air(b"theirs")[:14], 0, service=False)
    radio.c.host_service()
    assert radio.registers[PA_POW] == 0
    radio.hear(radio.air(b"theirs")[14:], 0)
    assert radio.payloads() == [b"theirs"]
    assert radio.go()


def test_a_slow_loop_finds_the_channel_loud(radio: Radio) -> None:
    assert radio.send(b"mine")
    for _ in range(40):
        radio.byte(0, service=False)
    radio.set("rssi", 200, ctypes.c_uint16)
    for _ in range(2):
        radio.byte(0, service=False)
    radio.c.host_service()
    assert radio.registers[PA_POW] == 0
    radio.set("rssi", 400, ctypes.c_uint16)
    assert radio.go(60)


def test_five_looks_then_a_pause_of_up_to_sixteen(radio: Radio) -> None:
    radio.silence(200)
    radio.set("rssi", 200, ctypes.c_uint16)
    assert radio.send(b"never")
    looked = []
    for _ in range(1000):
        before = radio.get("rssi_count", ctypes.c_uint32)
        radio.byte(0)
        looked.append(radio.get("rssi_count", ctypes.c_uint32) > before)
    runs = [(look, len(list(group))) for look, group in itertools.groupby(looked)]
    looks = [length for look, length in runs[1:-1] if look and length > 1]
    pauses = [length for look, length in runs[1:-1] if not look]
    # A pause of one byte joins two looks; a sample of the floor may come just before one.
    assert len(looks) > 40
    assert looks.count(5) > len(looks) / 2
    assert all(length % 5 <= 2 for length in looks)
    assert max(pauses) <= 15
    assert len(set(pauses)) >= 10


def test_a_strength_that_stays_becomes_the_floor(radio: Radio) -> None:
    radio.set("rssi", 100, ctypes.c_uint16)
    radio.silence(24_000)
    assert radio.send(b"x")
    radio.go(100)
    assert [result for result, _ in radio.sent()] == [SENT]


@pytest.mark.parametrize("value", [0, 1023])
def test_a_converter_that_always_says_the_same(boot: Boot, value: int) -> None:
    radio = boot(1)
    radio.set("rssi", value, ctypes.c_uint16)
    assert radio.start()
    assert radio.send(b"x")
    radio.go(100)
    assert [result for result, _ in radio.sent()] == [SENT]


def test_a_send_from_where_the_last_one_ended(radio: Radio) -> None:
    radio.set("resend", 1)
    assert radio.send(b"first")
    radio.go()
    out = radio.go()
    assert radio.frame(b"\x07", source=0, kind=9, group=1) in out
    assert [result for result, _ in radio.sent()] == [SENT, SENT]


# Misbehaviour.


def test_a_radio_that_stops_clocking_is_started_anew(radio: Radio) -> None:
    assert radio.send(b"lost")
    for _ in range(3):
        radio.c.host_watch()
        radio.c.host_service()
    assert radio.counters()["restarts"] == 1
    assert [result for result, _ in radio.sent()] == [FAILED]
    assert radio.writes()[-1] == (MAIN, 0x11)
    radio.silence(20)
    radio.hear(radio.air(b"back"), 1)
    radio.silence(1)
    assert radio.payloads() == [b"back"]
    assert radio.send(b"again")
    radio.go()
    assert [result for result, _ in radio.sent()] == [FAILED, SENT]


def test_a_radio_that_stops_in_the_middle_of_a_send(radio: Radio) -> None:
    assert radio.send(b"cut short")
    while radio.registers[PA_POW] == 0:
        radio.byte(0)
    radio.take(bytes(15))
    for _ in range(3):
        radio.c.host_watch()
        radio.c.host_service()
    assert radio.registers[PA_POW] == 0
    assert not radio.get("drives")
    assert [result for result, _ in radio.sent()] == [FAILED]


def test_a_dead_radio_is_not_started_all_the_time(radio: Radio) -> None:
    radio.set("calibration_us", 0, ctypes.c_uint32)
    for _ in range(600):
        radio.c.host_watch()
        radio.c.host_service()
    assert 5 <= radio.counters()["restarts"] <= 16


def test_bytes_keep_the_watch_quiet(radio: Radio) -> None:
    for _ in range(20):
        radio.silence(1)
        radio.c.host_watch()
        radio.c.host_service()
    assert radio.counters()["restarts"] == 0


def calibrations(radio: Radio, seconds: int) -> list[int]:
    """The seconds in which the PLL is calibrated, once for receiving and once for sending."""
    found = []
    for second in range(seconds):
        before = len(radio.writes())
        for _ in range(10):
            radio.silence(3)
            radio.c.host_watch()
            radio.c.host_service()
        count = radio.writes()[before:].count((CAL, 0xA6))
        assert count in (0, 2)
        found += [second] * (count // 2)
        radio.set("access_count", 0, ctypes.c_uint32)
        radio.set("edge_count", 0, ctypes.c_uint32)
    return found


def test_a_lost_lock_is_calibrated_and_a_wrong_lock_bit_does_not_deafen(radio: Radio) -> None:
    """At once, then after pauses that double while it does not help; a lock found ends that."""
    assert calibrations(radio, 5) == []
    radio.set("locks", 0)
    assert calibrations(radio, 40) == [0, 2, 6, 14, 30]
    radio.set("locks", 1)
    assert calibrations(radio, 3) == []
    radio.set("locks", 0)
    assert calibrations(radio, 2) == [0]
    radio.set("locks", 1)
    radio.silence(5)
    radio.hear(radio.air(b"still there"))
    radio.silence(1)
    assert radio.payloads() == [b"still there"]
    assert radio.counters()["restarts"] == 0


def test_the_pll_is_calibrated_again_when_the_temperature_may_have_changed(radio: Radio) -> None:
    assert calibrations(radio, 2 * 1800 + 10) == [1799, 3599]


def test_no_calibration_while_a_send_waits(radio: Radio) -> None:
    radio.set("locks", 0)
    radio.set("rssi", 100, ctypes.c_uint16)  # the channel is busy
    assert radio.send(b"first", deadline=radio.cycles + 3 * 32768)
    before = radio.writes().count((CAL, 0xA6))
    for _ in range(15):
        radio.silence(1)
        radio.c.host_watch()
        radio.c.host_service()
    assert radio.writes().count((CAL, 0xA6)) == before
    radio.set("rssi", 400, ctypes.c_uint16)
    radio.go()
    radio.silence(4)
    assert [result for result, _ in radio.sent()] == [SENT]
    assert calibrations(radio, 1) == [0]


# Sleeping and waking.


@pytest.fixture
def sleeper(boot: Boot) -> Radio:
    radio = boot(SCHEDULED)
    radio.c.radio_wake.restype = radio.c.radio_busy.restype = radio.c.radio_sound.restype = ctypes.c_bool
    assert radio.start()
    radio.silence(20)
    return radio


def wake(radio: Radio) -> int:
    """The cycles it took, the steps of waking alone in between."""
    begin = radio.cycles
    assert not radio.c.radio_wake()
    radio.c.host_after()
    radio.c.host_after()
    for _ in range(2):
        assert not radio.c.radio_wake()
        radio.silence(1)
    assert radio.c.radio_wake()
    return radio.cycles - begin


def nap(radio: Radio, seconds: float) -> None:
    radio.set("ns", radio.ns + round(seconds * 1e9), ctypes.c_uint64)


def test_asleep_it_keeps_its_registers_and_lets_the_processor_sleep(sleeper: Radio) -> None:
    before = list(sleeper.registers)
    sleeper.c.radio_sleep()
    assert sleeper.registers[MAIN] == 0x3F
    assert not any(sleeper.running().values())
    assert sleeper.c.radio_sound()
    assert not sleeper.send(b"abc")
    assert not sleeper.c.radio_busy()
    changed = {address for address in range(128) if sleeper.registers[address] != before[address]}
    assert changed == {MAIN}


def test_a_wake_does_not_calibrate(sleeper: Radio) -> None:
    sleeper.c.radio_sleep()
    nap(sleeper, 3)
    count = len(sleeper.writes())
    assert wake(sleeper) <= WAKE_TIME
    assert sleeper.writes()[count:] == [
        (MAIN, 0x3B),  # crystal
        (MAIN, 0x39),  # bias
        (CURRENT, sleeper.registers[CURRENT]),
        (PA_POW, 0),
        (MAIN, 0x11),
    ]
    assert sleeper.c.radio_sound()
    sleeper.hear(sleeper.air(b"good morning"))
    sleeper.silence(1)
    assert sleeper.payloads() == [b"good morning"]
    assert sleeper.send(b"abc")
    sleeper.go()
    assert [result for result, _ in sleeper.sent()] == [SENT]
    assert sleeper.counters()["restarts"] == 0


def test_a_chip_that_forgot_its_registers_is_started_anew(sleeper: Radio) -> None:
    sleeper.c.radio_sleep()
    sleeper.registers[TEST4] = 0x25  # as after a reset
    sleeper.c.radio_wake()
    sleeper.c.host_after()
    sleeper.c.host_after()
    sleeper.c.host_service()
    assert sleeper.registers[TEST4] == 0x3F
    assert sleeper.counters()["restarts"] == 1
    sleeper.silence(20)
    assert sleeper.c.radio_wake()


def test_a_pll_that_does_not_lock_is_calibrated(sleeper: Radio) -> None:
    sleeper.c.radio_sleep()
    sleeper.set("locks", 0)
    wake(sleeper)
    assert sleeper.writes().count((CAL, 0xA6)) == 4  # two at the start
    sleeper.set("locks", 1)
    sleeper.silence(4)
    sleeper.c.radio_sleep()
    wake(sleeper)
    assert sleeper.writes().count((CAL, 0xA6)) == 4


def test_it_is_calibrated_hourly_in_the_middle_of_a_long_sleep(sleeper: Radio) -> None:
    sleeper.c.radio_sleep()
    nap(sleeper, 3590)
    wake(sleeper)
    sleeper.c.radio_sleep()
    nap(sleeper, 1)  # the loop wakes every second
    sleeper.c.radio_service()
    nap(sleeper, 15)
    wake(sleeper)
    assert sleeper.writes().count((CAL, 0xA6)) == 2, "not in a short sleep, and not when it wakes"
    sleeper.c.radio_sleep()
    for _ in range(20):
        nap(sleeper, 1)
        sleeper.c.radio_service()
    assert sleeper.writes().count((CAL, 0xA6)) == 4
    assert sleeper.registers[MAIN] == 0x3F
    assert not any(sleeper.running().values())
    wake(sleeper)


def test_it_wakes_many_times(sleeper: Radio) -> None:
    for _ in range(100):
        sleeper.c.radio_sleep()
        nap(sleeper, 0.05)
        wake(sleeper)
        assert sleeper.c.radio_sound()
        sleeper.silence(5)
        sleeper.set("edge_count", 0, ctypes.c_uint32)
    assert sleeper.writes().count((CAL, 0xA6)) == 2
    assert sleeper.counters()["restarts"] == 0


# At its time.


def appoint(radio: Radio, ahead: int) -> int:
    when = radio.cycles + ahead
    assert radio.c.host_send_at(b"now", 3, ctypes.c_uint32(when))
    return when


@pytest.mark.parametrize("ahead", [20, 40, 100, 3000])
def test_a_frame_begins_at_its_time(sleeper: Radio, ahead: int) -> None:
    when = appoint(sleeper, ahead)
    while sleeper.registers[PA_POW] == 0:
        sleeper.silence(1)
        assert sleeper.cycles < when + 100
    on = [
        ns for ns, how, address, value in sleeper.accesses() if (address, how) == (PA_POW, "write") and value
    ]
    late = on[-1] * 32768 / 1e9 - when - TURN
    assert -9 < late < 3, "registers are written more quickly here than in a mote"
    sleeper.go()
    assert [result for result, _ in sleeper.sent()] == [SENT]


def test_it_looks_at_the_channel_once(sleeper: Radio) -> None:
    sleeper.set("rssi", 100, ctypes.c_uint16)
    when = appoint(sleeper, 200)
    sleeper.go()
    assert [result for result, _ in sleeper.sent()] == [BUSY]
    assert sleeper.cycles < when + 30
    assert not any(value for address, value in sleeper.writes() if address == PA_POW)


def test_a_loop_that_comes_too_late_sends_nothing(sleeper: Radio) -> None:
    appoint(sleeper, 100)
    sleeper.take(bytes(20), service=False)
    sleeper.c.host_service()
    assert [result for result, _ in sleeper.sent()] == [BUSY]


def test_busy_while_a_frame_comes_in(sleeper: Radio) -> None:
    assert not sleeper.c.radio_busy()
    sleeper.hear(b"\xaa\xaa")
    assert sleeper.c.radio_busy()
    sleeper.silence(6)
    assert not sleeper.c.radio_busy()
    assert not sleeper.c.host_send_at(b"now", 3, ctypes.c_uint32(sleeper.cycles + 20000))


# For the mote.


@pytest.mark.parametrize("version", [1, 2])
def test_compiles_for_the_atmega128(
    root: Path, require_tool: Callable[[str], str], tmp_path: Path, version: int
) -> None:
    gcc = require_tool("avr-gcc")
    folder = deployment(root, version, tmp_path / "layout")
    for name in [*DRIVER, "boards/mica2/cc1000_board.c"]:
        subprocess.run(
            [
                *(gcc, "-mmcu=atmega128", "-DF_CPU=7372800UL", "-Os", *FLAGS),
                *(f"-I{path}" for path in (root / "firmware", root / "firmware/core", folder)),
                *("-c", str(root / "firmware" / name), "-o", str(tmp_path / "out.o")),
            ],
            check=True,
        )
