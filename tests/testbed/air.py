"""CC2420s on an ether, as the testbed has them, without processors: what the tests of both talk to."""

import ctypes
import subprocess
from collections.abc import Callable
from ctypes import (
    CDLL,
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_double,
    c_float,
    c_int,
    c_uint8,
    c_uint32,
    c_uint64,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NEVER = 2**64 - 1
US = 1000
MS = 1000 * US
BYTE = 32 * US
CHANNEL_11, CHANNEL_26 = 2_405_000, 2_480_000

OUTCOMES = ("received", "damaged", "lost", "weak", "busy", "sending", "deaf", "overflow", "refused")
PINS = ("FIFO", "FIFOP", "SFD")
RADIO_STATES = ("off", "down", "starting", "idle", "calibrating", "receiving", "sending")

SNOP, SXOSCON, STXCAL, SRXON, STXON, STXONCCA, SRFOFF, SXOSCOFF = range(8)
SFLUSHRX, SFLUSHTX, SACK, SACKPEND = range(8, 12)
MAIN, MDMCTRL0, MDMCTRL1, RSSI, SYNCWORD, TXCTRL, RXCTRL0, RXCTRL1, FSCTRL = range(0x10, 0x19)
IOCFG0, IOCFG1, MANFIDL, MANFIDH, FSMSTATE = 0x1C, 0x1D, 0x1E, 0x1F, 0x2C
PLAIN = 0x02E2  # MDMCTRL0 at its reset value but for address recognition
XOSC, UNDERFLOW, TX_ACTIVE, LOCK, RSSI_VALID = 0x40, 0x20, 0x08, 0x04, 0x02  # of the status byte
TURNAROUND, SYNC = 192 * US, 160 * US
BODY = b"\x41\x88\x07\x22\x00\xff\xff\x01\x00hello"  # of a frame


class RawEvent(Structure):
    _fields_ = (
        ("time", c_uint64),
        ("kind", c_int),
        ("node", c_int),
        ("what", c_int),
        ("level", c_int),
        ("signal", c_uint32),
        ("khz", c_uint32),
        ("dbm", c_double),
        ("start", c_uint64),
        ("data", c_uint64),
        ("to", c_uint64),
        ("count", c_int),
        ("bytes", c_uint8 * 320),
        ("words", c_char * 120),
    )


@dataclass(frozen=True)
class Pin:
    time: int
    node: int
    name: str
    level: int


@dataclass(frozen=True)
class Fault:
    time: int
    node: int
    what: str


@dataclass(frozen=True)
class End:
    time: int
    node: int
    signal: int
    broken: bool
    khz: int
    dbm: float
    start: int
    data: int
    to: int
    bytes: bytes


@dataclass(frozen=True)
class Outcome:
    time: int
    node: int
    signal: int
    outcome: str
    dbm: float


Event = Pin | Fault | End | Outcome


def event_of(raw: RawEvent) -> Event:
    if raw.kind == 0:
        return Pin(raw.time, raw.node, PINS[raw.what], raw.level)
    if raw.kind == 1:
        return Fault(raw.time, raw.node, raw.words.decode())
    if raw.kind == 2:
        data = bytes(raw.bytes[: raw.count])
        return End(
            raw.time,
            raw.node,
            raw.signal,
            bool(raw.what),
            raw.khz,
            raw.dbm,
            raw.start,
            raw.data,
            raw.to,
            data,
        )
    return Outcome(raw.time, raw.node, raw.signal, OUTCOMES[raw.what], raw.dbm)


RESULTS: dict[str, Any] = {
    "chips_make": ctypes.c_void_p,
    "chips_ether": ctypes.c_void_p,
    "chips_event": POINTER(RawEvent),
    "chips_cca": c_bool,
    "chips_spent": c_uint64,
    "ether_begin": ctypes.c_void_p,
    "ether_inject": c_bool,
    "ether_delivers": c_bool,
    "ether_busy": c_bool,
    "ether_dbm": c_double,
    "ether_power": c_double,
    "ether_mean_power": c_double,
    "ether_sinr": c_double,
    "ieee_symbol_error": c_double,
}


def build(root: Path, compiler: str, folder: Path) -> CDLL:
    """The testbed's ether and chip as a library; undefined behaviour ends the process."""
    library = folder / "chips.so"
    flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-shared", "-fPIC"]
    flags += ["-fsanitize=undefined", "-fno-sanitize-recover=all", f"-I{root / 'firmware/testbed'}"]
    testbed = root / "firmware/testbed"
    sources = [testbed / "ether.c", testbed / "ieee802154.c", *sorted(testbed.glob("cc2420*.c"))]
    sources.append(root / "tests/testbed/c/chips.c")
    subprocess.run([compiler, *flags, "-o", library, *sources, "-lm"], check=True)
    loaded = CDLL(str(library))
    for name, result in RESULTS.items():
        getattr(loaded, name).restype = result
    return loaded


def fcs(body: bytes) -> bytes:
    value = 0
    for byte in body:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ 0x8408 if value & 1 else value >> 1
    return value.to_bytes(2, "little")


def frame(body: bytes) -> bytes:
    """From the length byte on."""
    return bytes([len(body) + 2]) + body + fcs(body)


class Air:
    """An ether for ``nodes`` nodes, of which the first ``chips`` have a chip. Times are nanoseconds."""

    def __init__(
        self, library: CDLL, nodes: int = 2, chips: int | None = None, seed: int = 1, ppm: float = 0
    ) -> None:
        self.library = library
        count = nodes if chips is None else chips
        self.all = ctypes.c_void_p(library.chips_make(nodes, count, c_uint64(seed), c_double(ppm)))
        self.ether = ctypes.c_void_p(library.chips_ether(self.all))
        self.now = 0
        self.kept: list[Any] = []  # what the ether only points to
        self.chips = [Chip(self, node) for node in range(count)]

    # --- time ---

    def run(self, ns: int) -> None:
        self.run_to(self.now + ns)

    def run_to(self, time: int) -> None:
        self.library.chips_run(self.all, c_uint64(time))
        self.now = time

    @property
    def wakes(self) -> int:
        return int(self.library.chips_wakes(self.all))

    # --- what happened ---

    @property
    def events(self) -> list[Event]:
        count = self.library.chips_event_count(self.all)
        return [event_of(self.library.chips_event(self.all, i).contents) for i in range(count)]

    def pins(self, node: int, name: str | None = None) -> list[tuple[int, str, int]]:
        found = [one for one in self.events if isinstance(one, Pin) and one.node == node]
        return [(one.time, one.name, one.level) for one in found if name in (None, one.name)]

    def edges(self, node: int, name: str) -> list[int]:
        """Times of a pin's changes, from the first rise on."""
        return [time for time, _, _ in self.pins(node, name)]

    def faults(self) -> list[str]:
        return [one.what.removeprefix("CC2420: ") for one in self.events if isinstance(one, Fault)]

    def ends(self) -> list[End]:
        return [one for one in self.events if isinstance(one, End)]

    def outcomes(self, node: int | None = None) -> list[str]:
        found = [one for one in self.events if isinstance(one, Outcome)]
        return [one.outcome for one in found if node in (None, one.node)]

    # --- the ether ---

    def gain(self, sender: int, receiver: int, db: float) -> None:
        self.library.ether_set_gain(self.ether, sender, receiver, c_double(db))

    def gains(self, db: float) -> None:
        """The same between all."""
        for one in self.chips:
            for other in self.chips:
                if one is not other:
                    self.gain(one.node, other.node, db)

    def noise(self, node: int, dbm: float) -> None:
        self.library.ether_set_noise(self.ether, node, c_double(dbm))

    def readings(self, node: int, dbm: list[float], start: int = 0) -> None:
        values = (c_float * len(dbm))(*dbm)
        self.kept.append(values)
        self.library.ether_set_noise_readings(self.ether, node, values, len(dbm), start)

    def begin(
        self, sender: int, start: int, dbm: float = 0, khz: int = CHANNEL_11, sync: int = 5
    ) -> ctypes.c_void_p:
        """Announce a signal of a node that need not have a chip."""
        return ctypes.c_void_p(
            self.library.ether_begin(
                self.ether,
                sender,
                c_uint64(start),
                c_uint32(khz),
                c_double(dbm),
                c_uint64(start + sync * BYTE),
                c_uint64(BYTE),
            )
        )

    def end(self, signal: ctypes.c_void_p, to: int, broken: bool = False) -> None:
        self.library.ether_end(self.ether, signal, c_uint64(to), c_bool(broken))

    def inject(
        self, delimiter: int, data: bytes, dbm: float, khz: int = CHANNEL_11, count: int | None = None
    ) -> None:
        """A frame from outside whose delimiter ends at a time; ``count`` bytes of it."""
        sent = data if count is None else data[:count]
        assert self.library.ether_inject(
            self.ether,
            c_uint64(delimiter - 5 * BYTE),
            c_uint64(delimiter + len(sent) * BYTE),
            c_uint32(khz),
            c_double(dbm),
            c_uint64(delimiter),
            c_uint64(BYTE),
            sent,
            len(sent),
        )

    def jam(self, start: int, to: int, dbm: float, khz: int = CHANNEL_11) -> None:
        assert self.library.ether_inject(
            self.ether,
            c_uint64(start),
            c_uint64(to),
            c_uint32(khz),
            c_double(dbm),
            c_uint64(start),
            c_uint64(BYTE),
            None,
            0,
        )

    def sinr(self, signal: ctypes.c_void_p, node: int, start: int, to: int) -> float:
        return float(self.library.ether_sinr(self.ether, signal, node, c_uint64(start), c_uint64(to)))

    def power(self, node: int, time: int, khz: int = CHANNEL_11) -> float:
        return float(self.library.ether_power(self.ether, node, c_uint32(khz), c_uint64(time)))

    def mean_power(self, node: int, start: int, to: int, khz: int = CHANNEL_11) -> float:
        value = self.library.ether_mean_power(self.ether, node, c_uint32(khz), c_uint64(start), c_uint64(to))
        return float(value)

    def busy(self, start: int, to: int) -> bool:
        return bool(self.library.ether_busy(self.ether, c_uint64(start), c_uint64(to)))

    def tidy(self, now: int) -> None:
        self.library.ether_tidy(self.ether, c_uint64(now))


class Chip:
    """One chip. Its SPI takes no time."""

    def __init__(self, air: Air, node: int) -> None:
        self.air = air
        self.node = node

    def _call(self, name: str, value: int) -> int:
        return int(getattr(self.air.library, name)(self.air.all, self.node, value))

    def spent(self) -> dict[str, int]:
        """How long it was in each state in which it was."""
        found = {name: self._call("chips_spent", state) for state, name in enumerate(RADIO_STATES)}
        return {name: ns for name, ns in found.items() if ns > 0}

    def supply(self, on: int) -> None:
        self._call("chips_supply", on)

    def vreg(self, level: int) -> None:
        self._call("chips_vreg", level)

    def resetn(self, level: int) -> None:
        self._call("chips_resetn", level)

    def csn(self, level: int) -> None:
        self._call("chips_csn", level)

    def exchange(self, byte: int) -> int:
        return self._call("chips_exchange", byte)

    def access(self, *out: int) -> bytes:
        self.csn(0)
        answer = bytes(self.exchange(byte) for byte in out)
        self.csn(1)
        return answer

    def cca(self) -> bool:
        return bool(self.air.library.chips_cca(self.air.all, self.node))

    # --- what a driver does ---

    def strobe(self, strobe: int) -> int:
        return self.access(strobe)[0]

    @property
    def status(self) -> int:
        return self.strobe(SNOP)

    def write(self, register: int, value: int) -> None:
        self.access(register, value >> 8, value & 255)

    def read(self, register: int) -> int:
        return int.from_bytes(self.access(0x40 | register, 0, 0)[1:], "big")

    def fill(self, data: bytes) -> bytes:
        return self.access(0x3E, *data)

    def drain(self, count: int) -> bytes:
        return self.access(0x7F, *bytes(count))[1:]

    def write_ram(self, address: int, data: bytes) -> None:
        self.access(0x80 | address & 0x7F, address >> 7 << 6, *data)

    def read_ram(self, address: int, count: int) -> bytes:
        return self.access(0x80 | address & 0x7F, address >> 7 << 6 | 0x20, *bytes(count))[2:]

    def power_up(self) -> None:
        self.supply(1)
        self.csn(1)
        self.resetn(1)
        self.vreg(1)
        self.air.run(600 * US)
        self.resetn(0)
        self.resetn(1)

    def start(self, mdmctrl0: int = PLAIN) -> None:
        """Up to where the oscillator runs."""
        self.power_up()
        self.strobe(SXOSCON)
        self.air.run(860 * US)
        self.write(MDMCTRL0, mdmctrl0)
        self.write(IOCFG0, 0x007F)

    def listen(self, mdmctrl0: int = PLAIN) -> None:
        """Up to where it has searched for long enough that CCA is valid."""
        self.start(mdmctrl0)
        self.strobe(SRXON)
        self.air.run(320 * US)

    def send(self, body: bytes) -> int:
        """Fill and strobe; the time of the strobe."""
        self.fill(frame(body)[:-2])
        self.strobe(STXON)
        return self.air.now


MakeAir = Callable[..., Air]
