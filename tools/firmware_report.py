"""Reports the resources of the firmware: flash, RAM, stack, cycles, air bytes, battery. `make firmware-report` runs it.

    python -m tools.firmware_report [--write]

Prints a report in Markdown; with --write it also goes into docs/figures/firmware.md, between the two marks. Needs the
four images (`make firmware`), avr-gcc, simavr, and the testbed's compiler. Sizes and cycles are exact for this
compiler; battery life is the time of the emulated chips in each state, times currents of data sheets.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "firmware" / "scripts")]

import check_layouts  # noqa: E402
import stack  # noqa: E402

from basestation.testbed import emulator  # noqa: E402
from basestation.testbed.energy import Battery, NetworkEnergy, StatesLog  # noqa: E402
from basestation.testbed.faults import carrier_khz  # noqa: E402
from basestation.testbed.images import environments, program  # noqa: E402
from basestation.testbed.scenario import EmulatedNode, Scenario, ScenarioNetwork  # noqa: E402
from basestation.testbed.truth_log import Event, ProgramUse, States  # noqa: E402
from packet_formats import power  # noqa: E402
from packet_formats.air import air_format  # noqa: E402
from packet_formats.boards import BOARDS, CRYSTAL_HZ, DEFAULT_BOARD  # noqa: E402
from packet_formats.deployment import Deployment, from_dict, load  # noqa: E402
from packet_formats.framing import encode_frame  # noqa: E402
from packet_formats.layout import PAYLOAD_LIMIT, layout_of  # noqa: E402
from packet_formats.messages import Data, Message, encode_message  # noqa: E402
from packet_formats.records import Beacon, Command, Downlink, Health, members  # noqa: E402
from packet_formats.schemes import OWN  # noqa: E402
from packet_formats.tinyos import encode_packet  # noqa: E402
from tools.pages import MarkedPlace, PageError, table  # noqa: E402

PLACE = MarkedPlace(
    ROOT / "docs" / "figures" / "firmware.md",
    "<!-- report: made by `make firmware-report` -->",
    "<!-- end of the report -->",
)

IMAGES = tuple(name for board in BOARDS for name in environments(board))

# The same as in firmware/platforms/mica/builder/main.py and platformio.ini.
# As PlatformIO compiles: the platform's builder lists its flags under `code`.
BUILDER = (ROOT / "firmware/platforms/mica/builder/main.py").read_text()
COMPILE = (
    *("avr-gcc", "-mmcu=atmega128", "-DF_CPU=7372800L", "-std=gnu11"),
    *re.findall(r'"(-[^"]+)"', BUILDER.partition("code = [")[2].partition("\n]")[0]),
    *("-Wl,--gc-sections", "-Wall", "-Wextra", "-Wconversion", "-Werror"),
)
GATEWAY_INI = (ROOT / "platformio.ini").read_text().partition("\n[gateway]")[2].partition("\n[")[0]
GATEWAY_FLAGS = [f"-D{setting}" for setting in re.findall(r"-D (\S+)", GATEWAY_INI)]

# The aims, for a mote at epsilon = delta = 10 and ten motes.
FLASH_AIM = 24 * 1024
RAM_AIM = 2 * 1024
# The same for images with a schedule, urgent windows, a key and barrier stamps, gateways too.
FULL_FLASH_AIM = 32 * 1024
FULL_RAM_AIM = 3584  # of 4096
MASKED_AIM = 260  # MICAz
SPI_AIM = 192  # MICA2
RECEIVE_AIM = {"shlc": 400, "kn, 2 entries": 1500, "kn, all 11": 5000}


class ReportError(Exception):
    """The report cannot be made; the message gives the reason."""


def run(words: Sequence[str | Path], text: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(word) for word in words]
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=200,
            cwd=ROOT,
        )
    except FileNotFoundError:
        raise ReportError(f"{command[0]} is not installed") from None
    if done.returncode != 0:
        raise ReportError(f"{' '.join(command[:3])}...: {(done.stderr or done.stdout).strip()}")
    return done


def compiler() -> str:
    return "avr-gcc " + run(["avr-gcc", "-dumpversion"]).stdout.strip()


def section(text: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return prose(text) + "\n\n" + "\n".join(table(head, rows))


def prose(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), width=118, break_long_words=False, break_on_hyphens=False)


# --- images ---


@dataclass(frozen=True)
class ImageSize:
    """A linked image and its sizes."""

    elf: Path

    @cached_property
    def sections(self) -> dict[str, int]:
        return parse_sizes(run(["avr-size", "-A", "-d", self.elf]).stdout)

    @property
    def flash(self) -> int:
        return self.sections[".text"] + self.sections.get(".data", 0)

    @property
    def static_ram(self) -> int:
        return sum(self.sections.get(name, 0) for name in (".data", ".bss", ".noinit"))

    @cached_property
    def stack(self) -> stack.Stack:
        try:
            return stack.of_image(self.elf)
        except stack.StackError as error:
            raise ReportError(f"{self.elf}: {error}") from None

    @property
    def ram(self) -> int:
        return self.static_ram + self.stack.total


def parse_sizes(text: str) -> dict[str, int]:
    """The bytes of each section, from `avr-size -A -d`."""
    return {name: int(size) for name, size in re.findall(r"^(\.\w+)\s+(\d+)\s+\d+\s*$", text, re.MULTILINE)}


def built(name: str) -> ImageSize:
    path = ROOT / ".pio" / "build" / name / "firmware.elf"
    if not path.exists():
        raise ReportError(f"{path.relative_to(ROOT)} does not exist: run `make firmware`")
    return ImageSize(path)


def build(deployment: Deployment, app: str, folder: Path) -> ImageSize:
    """Build an image for any deployment with PlatformIO's flags."""
    board = BOARDS[deployment.network.board]
    folder.mkdir(parents=True, exist_ok=True)
    check_layouts.write(folder, deployment)
    firmware = ROOT / "firmware"
    role = () if app == "gateway" else ("net/mote",)
    boards = (f"boards/{board.name}", "boards/mica", "boards/mica/sensors")
    # The order in which the platform's builder links (firmware/platforms/mica): it decides what is put into one.
    parts = (f"chips/{board.radio.driver}", *boards, "net", *role, "core", "apps", f"apps/{app}")
    sources = [path for part in parts for path in sorted((firmware / part).glob("*.c"))]
    if app != "gateway":  # no app of ours calls it
        sources.remove(firmware / "boards" / "mica" / "uart.c")
    elf = folder / f"{app}.elf"
    identity = deployment.clock.root if app == "gateway" else 1
    include = [f"-I{path}" for path in (firmware, firmware / "core", folder)]
    own = GATEWAY_FLAGS if app == "gateway" else []
    run([*COMPILE, *own, f"-DCAUSEWAY_NODE_ID={identity}", *include, *sources, "-o", elf])
    return ImageSize(elf)


def examples() -> dict[str, Deployment]:
    return {board: load(ROOT / "examples" / f"{board}.toml") for board in BOARDS}


INTERRUPTS = {7: "FIFOP", 11: "SFD capture", 16: "timer 0 overflow", 17: "SPI byte"}


def images_section(images: dict[str, ImageSize]) -> str:
    rows = [
        (
            f"`{name}`",
            image.flash,
            image.static_ram,
            image.stack.loop.most,
            f"{image.stack.handler_bytes} ({INTERRUPTS.get(image.stack.deepest, image.stack.deepest)})",
            image.stack.total,
            image.ram,
        )
        for name, image in images.items()
    ]
    head = ("image", "flash", "static RAM", "stack: loop", "deepest handler", "stack", "RAM with stack")
    text = """**The images as they ship**, for the examples' deployments, in bytes; the ATmega128 has 131,072 of flash
    and 4,096 of RAM. Handlers do not interrupt one another, so one of them comes on top of the loop's stack."""
    return section(text, head, rows)


# --- stack and interrupts as they were ---


class Seen(NamedTuple):
    """The most that an image took: bytes of stack, cycles with interrupts off after its start, and cycles from the end
    of a byte to the writing of the next (MICA2, while it sends)."""

    stack: int
    masked: int
    spi: int

    @classmethod
    def of(cls, uses: Iterable[ProgramUse]) -> Seen:
        return cls.most(cls(use.stack, use.masked if use.t > STARTED_NS else 0, use.spi) for use in uses)

    @classmethod
    def most(cls, found: Iterable[Seen]) -> Seen:
        return cls(*map(max, zip(*found, strict=True)))


STARTED_NS = 1_100_000_000  # the first line is of the second in which a node starts


def measured(image: ImageSize, board: str, seconds: float, script: Iterable[str] = ()) -> list[ProgramUse]:
    """The resources that an image uses in each second of a run on the testbed."""
    node = EmulatedNode(board, image.elf, 0, 0, 0, 0)
    scenario = Scenario(1, (node,), {}, clocks=0, measure=1, script=tuple(script), end=seconds)
    return [event for event in _events(scenario) if isinstance(event, ProgramUse)]


def _events(scenario: Scenario) -> list[Event]:
    try:
        return list(emulator.events_of(scenario.text()))
    except emulator.EmulatorError as error:
        raise ReportError(str(error)) from None


@dataclass
class Traffic:
    """Makes messages of every kind that a mote hears: from its root, from peers, relayed, for it and for others."""

    deployment: Deployment
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    number: int = 0

    @property
    def root(self) -> int:
        return self.deployment.network.motes

    def message(self, kind: str, cycles: int) -> Message:
        """A message heard at local time `cycles`, which is also the network's time."""
        self.number += 1
        layout = layout_of(self.deployment)
        if kind == "beacon":
            return Beacon(self.root, self.root, 1, self.number, 0, 1, 0, cycles)
        if kind == "data":
            peer = self.chance.randrange(2, self.deployment.network.motes)
            clock = (cycles >> layout.tick_log2) - self.chance.randrange(3)
            head = (clock % layout.stamp.modulus, 0)[: len(layout.stamp.head)]
            stamp = (*head, *[1] * layout.stamp.entries)
            return Data(
                peer, self.number & 255, stamp, hops=self.chance.randrange(4), data=bytes(layout.data_bytes)
            )
        if kind == "health":
            record: dict[str, Any] = dict.fromkeys((member.name for member in members(Health)), 0)
            return Health(**record | {"source": 3, "time": cycles, "flags": 0x81})
        command = self.chance.choice((Command.RATE, Command.REPORT, Command.BLINK))
        target = self.chance.choice((1, 5, 0xFFFF))
        return Downlink(target, self.number, 3, command, 8000 if command == Command.RATE else 7)

    def frame(self, kind: str, cycles: int) -> bytes:
        """The message as the testbed puts it on the air."""
        am = encode_message(self.message(kind, cycles), layout_of(self.deployment))
        air = air_format(BOARDS[self.deployment.network.board].radio)
        return air.signal(air.frame(am, self.number & 255))

    def line_frame(self, kind: str) -> bytes:
        am = encode_message(self.message(kind, 0), layout_of(self.deployment))
        return encode_frame(encode_packet(am))


KINDS = ("beacon", "data", "data", "health", "downlink", "data")
STRENGTH = -60  # dBm
BUSY_SECONDS = 9


def busy_script(deployment: Deployment, app: str) -> Iterator[str]:
    """The script lines for single frames and frames in a row, and for a gateway also the host's."""
    board, khz = deployment.network.board, carrier_khz(deployment)
    gap = 1.5 * air_bytes(board, PAYLOAD_LIMIT[1]) * BOARDS[board].radio.byte_ms / 1000
    traffic, at = Traffic(deployment), 0.6
    for step in range(90):
        kind = "beacon" if step < 4 else KINDS[step % len(KINDS)]
        for _ in range(3 if step % 9 == 8 else 1):
            frame = traffic.frame(kind, round((at + 0.001) * CRYSTAL_HZ))
            yield f"at {at:.6f} inject {khz} {STRENGTH} {board} {frame.hex()}"
            at += gap
        if app == "gateway" and step % 3 == 0:
            yield f"at {at:.6f} uart 0 {traffic.line_frame('downlink').hex()}"
        at += 0.045


NETWORK_MOTES = 6
NETWORK_SECONDS = 60
NETWORK_SEEDS = (1, 2)
NETWORK_RATE = 8192  # cycles between a mote's messages


def seen_in_networks(
    images: dict[str, ImageSize], seconds: float = NETWORK_SECONDS, seeds: Sequence[int] = NETWORK_SEEDS
) -> dict[str, Seen]:
    """The most that each image used in networks of a gateway and motes in a row that send often and relay."""
    found: dict[str, Seen] = {}
    for board, deployment in examples().items():
        mote, gateway = environments(board)
        uses = [
            use
            for seed in seeds
            for use in _network_events(images[mote], images[gateway], deployment, Network(seconds, seed))
            if isinstance(use, ProgramUse)
        ]
        found[mote] = Seen.of(use for use in uses if use.node > 0)
        found[gateway] = Seen.of(use for use in uses if use.node == 0)
    return found


def _ppm(chance: random.Random) -> float:
    return chance.uniform(-50, 50)


class Network(NamedTuple):
    """A run of a gateway and motes in a row."""

    seconds: float
    seed: int
    period: int = NETWORK_RATE  # cycles between a mote's messages
    settled: float = 0.0  # charge is counted from this second on; 0: what the programs take is measured


def _network_events(
    mote: ImageSize, gateway: ImageSize, deployment: Deployment, wish: Network
) -> list[Event]:
    network, chance = deployment.network, random.Random(wish.seed)
    hurry = Downlink(0xFFFF, 100, 3, Command.RATE, wish.period)
    line = encode_frame(encode_packet(encode_message(hurry, layout_of(deployment))))
    span = range(NETWORK_MOTES + 1)
    with tempfile.TemporaryDirectory() as folder:
        copies = [program(gateway.elf).copy(network.motes, Path(folder))]
        copies += [program(mote.elf).copy(number, Path(folder)) for number in range(NETWORK_MOTES)]
        nodes = tuple(
            EmulatedNode(network.board, copy, 0.1 * number, _ppm(chance), _ppm(chance), _ppm(chance))
            for number, copy in enumerate(copies)
        )
        gains = {(i, j): STRENGTH for i in span for j in span if 0 < abs(i - j) <= 2}
        script = (f"at 5 uart 0 {line.hex()}",)
        return _events(
            Scenario(
                wish.seed,
                nodes,
                gains,
                clocks=0,
                measure=0.0 if wish.settled else 1.0,
                states=wish.settled,
                script=script,
                end=wish.seconds,
            )
        )


def seen_when_busy(images: dict[str, ImageSize]) -> dict[str, Seen]:
    """The most that each image used when frames of every kind arrived."""
    found = {}
    for board, deployment in examples().items():
        for app, name in zip(("mote", "gateway"), environments(board), strict=True):
            found[name] = Seen.of(measured(images[name], board, BUSY_SECONDS, busy_script(deployment, app)))
    return found


def seen_section(images: dict[str, ImageSize], found: dict[str, Seen]) -> str:
    rows = [
        (f"`{name}`", images[name].stack.total, seen.stack, seen.masked, seen.spi or "")
        for name, seen in found.items()
    ]
    text = f"""**Stack and interrupts as they were**, the most seen on the testbed. Each image heard frames of every
    kind, and was in {len(NETWORK_SEEDS)} networks of a gateway and {NETWORK_MOTES} motes for {NETWORK_SECONDS} s each.
    The most bytes on the stack, beside the worst case of the table above: it takes the deepest call with the deepest
    handler on top, so longer runs see more, and only the worst case is a bound. The longest time with interrupts off
    after the start, in CPU cycles: at most {MASKED_AIM} on MICAz, while a MICA2 writes three of its radio's registers
    at the end of each send. And for MICA2's radio, while it sends, the longest time from the end of a byte until the
    next was written: at most {SPI_AIM} cycles, half a bit."""
    head = ("image", "stack: worst case", "seen", "interrupts off", "next byte")
    return section(text, head, rows)


# --- by scheme ---


NAMING = tuple(
    name for name, row in OWN.items() if row.in_firmware and not row.is_ordered
)  # docs/evidence/schemes.md
SIZES = (5, 10, 20)  # of networks: these stamps, or a mote's memory, grow with them


def schemes() -> dict[str, dict[str, Any]]:
    kn: dict[str, dict[str, Any]] = {
        f"kn, {k} {'entry' if k == 1 else 'entries'}": {"scheme": "kn", "entries": k} for k in range(1, 11)
    }
    return {
        "dpc1": {"scheme": "dpc1"},
        "dpc2": {"scheme": "dpc2"},
        "shlc": {"scheme": "shlc"},
        "hlc": {"scheme": "hlc"},
        **kn,
        "kn, all 11": {"scheme": "kn"},
        "kn, all 11, in bytes": {"scheme": "kn", "packing": "bytes"},
        **{name: {"scheme": name} for name in NAMING},
    }


def described(stamp: dict[str, Any], board: str = DEFAULT_BOARD.name, motes: int = 10) -> Deployment:
    """The network that the aims are for: ten motes, epsilon = delta = 10 ticks of 3.9 ms."""
    return from_dict(
        {
            "network": {"name": "report", "board": board, "motes": motes},
            "clock": {"tick_log2": 7, "epsilon": 10, "delta": 10},
            "stamp": stamp,
        }
    )


def air_bytes(board: str, payload: int) -> int:
    """All bytes that the radio sends for a payload, under TinyOS 1."""
    return BOARDS[board].radio.firmware_air_bytes(payload, 1)


def stamp_cycles(stamp: dict[str, Any], motes: int = 10) -> dict[str, tuple[int, int, int]]:
    """The least, mean and most cycles of `send` and `receive`."""
    from tests.firmware.test_core_avr import cycles  # here, since it needs pytest

    return cycles("avr-gcc", "simavr", described(stamp, motes=motes))


def wire_section() -> str:
    rows = []
    for name, stamp in schemes().items():
        layout = layout_of(described(stamp))
        found = stamp_cycles(stamp)
        send, receive = found["send"], found["receive"]
        rows.append(
            (
                name,
                layout.stamp.bits,
                layout.stamp.size,
                layout.length,
                *(air_bytes(board, layout.length) for board in BOARDS),
                *(send[1], send[2], receive[1], receive[2]),
                f"{RECEIVE_AIM[name]:,}" if name in RECEIVE_AIM else "",
            )
        )
    data = described({"scheme": "shlc"}).network.data_bytes
    head = (
        *("scheme", "stamp bits", "bytes", "payload"),
        *(f"on air: {board.title}" for board in BOARDS.values()),
        *("send: mean", "most", "receive: mean", "most", "aim"),
    )
    text = f"""**Bytes and cycles by scheme**, at epsilon = delta = 10, ten motes, {data} bytes of application data,
    TinyOS 1. Cycles of `cw_stamp_send()` and `cw_stamp_receive()`, call and return included, over 1,500 events of three
    motes with faults among them (`tests/firmware/c/core_cycles.c`); 7,373 cycles are a millisecond."""
    return section(text, head, rows)


def scheme_images(folder: Path) -> dict[str, ImageSize]:
    chosen = ("dpc1", "shlc", "hlc", "kn, 2 entries", "kn, all 11", *NAMING)
    return {
        f"{name}, {board}": build(
            described(schemes()[name], board), "mote", folder / f"{board}-{name.replace(' ', '')}"
        )
        for board in BOARDS
        for name in chosen
    }


def scheme_images_section(images: dict[str, ImageSize]) -> str:
    rows = [(name, i.flash, i.static_ram, i.stack.total, i.ram) for name, i in images.items()]
    head = ("mote image", "flash", "static RAM", "stack", "RAM with stack")
    text = f"""**Mote images by scheme**, at epsilon = delta = 10, ten motes. Aims: at most {FLASH_AIM:,} bytes of flash
    and {RAM_AIM:,} of RAM with stack."""
    return section(text, head, rows)


def full_images(folder: Path) -> dict[str, ImageSize]:
    """The largest images: with every feature of a deployment."""
    kinds = dict(check_layouts.images())
    return {
        name: build(kinds[f"{board}-schedule-key"], app, folder / f"full-{name}")
        for board in BOARDS
        for app, name in zip(("mote", "gateway"), environments(board), strict=True)
    }


def full_images_section(images: dict[str, ImageSize]) -> str:
    rows = [(f"`{name}`", i.flash, i.static_ram, i.stack.total, i.ram) for name, i in images.items()]
    head = ("image", "flash", "static RAM", "stack", "RAM with stack")
    text = f"""**Images with a schedule, urgent windows, a key and barrier stamps**, for the motes of
    `examples/micaz_months.toml` and `examples/mica2_months.toml`. Aims: at most {FULL_FLASH_AIM:,} bytes of flash and
    {FULL_RAM_AIM:,} of RAM with stack."""
    return section(text, head, rows)


def naming_section(folder: Path) -> str:
    rows = []
    for name in NAMING:
        for motes in SIZES:
            stamp = schemes()[name]
            found = stamp_cycles(stamp, motes)
            images = [
                build(described(stamp, board, motes), "mote", folder / f"{board}-{name}-{motes}")
                for board in BOARDS
            ]
            size = layout_of(described(stamp, motes=motes)).stamp.size
            counts = (*found["send"][1:], *found["receive"][1:])
            rows.append((name, motes, size, *counts, *(n for i in images for n in (i.flash, i.ram))))
    head = (
        *("scheme", "motes", "bytes", "send: mean", "most", "receive: mean", "most"),
        *(text for board in BOARDS for text in (f"{board}: flash", "RAM with stack")),
    )
    text = """**Stamps that name or number messages, by the size of the network** (docs/evidence/schemes.md), else as
    above;
    barrier's is at most that long. Without a clock in its stamp an image is smaller: it never reckons a message's
    age."""
    return section(text, head, rows)


# --- battery ---

MESSAGE_PERIOD = 10
ALWAYS_ON = (20, 80)  # from when to when its charge is counted, in seconds: first a network finds itself
SCHEDULED = (120, 600)


class Life(NamedTuple):
    """The current of a deployment's motes."""

    title: str
    board: str
    energy: NetworkEnergy
    always_on: bool = False


def scheduled() -> dict[str, Deployment]:
    """The examples whose motes sleep between windows."""
    found = {path.stem: load(path) for path in sorted((ROOT / "examples").glob("*.toml"))}
    return {name: deployment for name, deployment in found.items() if deployment.radio.period_ms}


def lives(images: dict[str, ImageSize], folder: Path) -> Iterator[Life]:
    """The current of each board's motes in a network like that of `seen_in_networks`, but with the usual traffic, and
    of each example that sleeps."""
    for board, deployment in examples().items():
        mote, gateway = environments(board)
        energy = energy_in(images[mote], images[gateway], deployment, *ALWAYS_ON)
        yield Life(f"{BOARDS[board].title}, always on", board, energy, always_on=True)
    for name, deployment in scheduled().items():
        images_of = [build(deployment, app, folder / name) for app in ("mote", "gateway")]
        title = BOARDS[deployment.network.board].title
        energy = energy_in(images_of[0], images_of[1], deployment, *SCHEDULED)
        words = f"{title}, a window every {deployment.radio.period_ms / 1000:g} s"
        yield Life(words, deployment.network.board, energy)


def energy_in(
    mote: ImageSize, gateway: ImageSize, deployment: Deployment, settled: float, seconds: float
) -> NetworkEnergy:
    wish = Network(seconds, seed=1, period=MESSAGE_PERIOD * CRYSTAL_HZ, settled=settled)
    log = StatesLog(Battery(since=settled))
    for event in _network_events(mote, gateway, deployment, wish):
        if isinstance(event, States):
            log.take(event)
    energy = log.energy_of(ScenarioNetwork(deployment, tuple(range(1, NETWORK_MOTES + 1)), (0,)))
    if energy is None:
        raise ReportError(f"{deployment.network.name}: no mote had power")
    return energy


def longer_stamp_ma(board: str, count: int) -> float:
    """The mean current that more bytes in each message add to a mote whose receiver is always on."""
    radio = power.currents(board).radio
    share = count * BOARDS[board].radio.byte_ms / 1000 / MESSAGE_PERIOD
    return share * (radio["sending"].ma - radio["receiving"].ma)


def battery_section(found: Iterable[Life]) -> str:
    least, most = (layout_of(described(schemes()[name])).length for name in ("dpc1", "kn, all 11, in bytes"))
    rows = []
    for life in found:
        energy = life.energy
        main = [energy.parts.get(name, 0.0) for name in MAIN_PARTS]
        longer = power.days(energy.ma + longer_stamp_ma(life.board, most - least)) / energy.days - 1
        rows.append(
            (
                life.title,
                *(f"{ma:.3f}" for ma in (*main, energy.ma - sum(main), energy.ma)),
                f"{energy.duty:.1%}",
                *(f"{days:.1f}" for days in (energy.days, energy.worst_days)),
                f"{longer:+.2%}" if life.always_on else "",
            )
        )
    head = (
        *("motes", "receiving", "sending", "CPU idle", "CPU active", "CPU starting", "rest", "mean mA"),
        *("radio on", "days", "worst mote", f"a stamp of {most - least + 1} bytes instead of 1"),
    )
    text = f"""**Life on two AA cells** of {power.CELLS_MAH:,} mAh (assumed): mean current in mA, by the states that the
    emulated chips were in, in the network above, with one message in {MESSAGE_PERIOD} s of each mote and its peers'
    passed on, once the network has found itself ([testbed.md](../reference/testbed.md#energy))."""
    return section(text, head, rows) + "\n\n" + prose(currents_text())


MAIN_PARTS = (
    *("radio_receiving", "radio_sending"),
    *("processor_idle", "processor_active", "processor_starting"),
)


def currents_text() -> str:
    """The currents behind these figures, with their sources."""
    parts = []
    for board in BOARDS:
        radio = power.currents(board).radio
        parts += [
            f"{BOARDS[board].radio.chip} {state} {radio[state].ma} mA ({radio[state].source})"
            for state in ("receiving", "sending")
        ]
    cpu = power.PROCESSOR
    parts.append(
        f"ATmega128L active {cpu['active'].ma} mA, idle {cpu['idle'].ma} mA ({cpu['active'].source})"
    )
    parts.append(f"a LED {power.LED.ma} mA (the same)")
    return f"""Sources: {"; ".join(parts)}. The rest is in `packet_formats/power.py`. For comparison: a MICAz under
    TinyOS that only received was measured at 23.6 mA (P. Levis, tinyos-devel list, July 2006). A mote that is out of
    sync has its red LED on."""


# --- all of it ---


def report() -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = {image: built(image) for image in IMAGES}
        networks = seen_in_networks(images)
        seen = {name: Seen.most((most, networks[name])) for name, most in seen_when_busy(images).items()}
        sections = (
            f"Compiler: {compiler()}, optimizing the whole program for size.",
            images_section(images),
            seen_section(images, seen),
            scheme_images_section(scheme_images(folder)),
            full_images_section(full_images(folder)),
            wire_section(),
            naming_section(folder),
            battery_section(lives(images, folder)),
        )
    return "\n\n".join(sections)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--write", action="store_true", help="put the report into docs/figures/firmware.md as well"
    )
    options = parser.parse_args()
    try:
        block = report()
        print(block)
        if options.write:
            PLACE.write(block)
    except (ReportError, PageError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
