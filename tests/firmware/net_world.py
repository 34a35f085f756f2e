"""A network on the host: nodes are shared libraries of the real sources (c/net_host.c), the world is imagined.

Each crystal has an error in parts per million, the radio listens before it talks, frames get lost or collide.
"""

from __future__ import annotations

import ctypes
import heapq
import os
import random
import shutil
import struct
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any

from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment
from packet_formats.framing import FrameDecoder
from packet_formats.layout import PAYLOAD_LIMIT, layout_of
from packet_formats.messages import decode_message, encode_message
from packet_formats.tinyos import Ack, ActiveMessage, decode_packet
from tests.firmware.bridge import FLAGS, ROOT, SANITIZE, build, build_folder, key_of, one_unit

HZ = 32768
SENT, BUSY = 0, 1
TURN_ROUND = 0.0002  # seconds in which a radio that begins to send is not heard yet

KINDS = {1: "boot", 2: "send", 3: "receive", 4: "unmerged", 5: "relay", 6: "late", 7: "epoch"}
MESSAGES = [
    "sent",
    "received",
    "unmerged",
    "relayed",
    "late",
    "duplicates",
    "echoes",
    "spent",
    "full",
    "failed",
    "expired",
    "foreign",
    "beacons",
    "repeated",
    "suppressed",
]
SYNC = ["accepted", "repeated", "outliers", "restarts", "foreign", "old", "conflicts"]


@cache
def library(deployment: Deployment, app: str, *options: str, compiler: str = "gcc") -> Path:
    """The library of one app of a deployment, built once for these sources and kept among the temporary files.

    `app` is one of firmware/apps, or the path of a folder.
    """
    folder, firmware = build_folder(deployment), ROOT / "firmware"
    wrapped = firmware / "net/network_time.c"  # apart: the linker sees no calls within one unit
    shared = [*sorted(firmware.glob("core/*.c")), *sorted({*firmware.glob("net/*.c")} - {wrapped})]
    own = [
        wrapped,
        *(sorted(firmware.glob("net/mote/*.c")) if app != "gateway" else ()),
        *sorted((firmware / "apps" / app).glob("*.c")),
        ROOT / "tests/firmware/c/net_host.c",
    ]
    headers = [
        path for part in ("core", "hal", "net", "apps") for path in sorted((firmware / part).rglob("*.h"))
    ]
    include = [f"-I{path}" for path in (firmware, firmware / "core", folder)]
    checks = [
        *SANITIZE,
        *(["-fsanitize-trap=undefined"] if compiler == "clang" else []),
    ]  # its libraries lack messages
    command = [compiler, *FLAGS, *checks, "-O1", "-fPIC", *include, *options]
    key = key_of(" ".join(command), *headers)  # the folder's name stands for what is in it
    common = build(folder / f"net-{key}-{key_of(*shared)}.o", [*command, "-c", one_unit(folder, shared)])
    link = [
        "-shared",
        "-Wl,-Bsymbolic",
        "-Wl,--wrap=network_time_set",
        f"-DHOST_GATEWAY={int(app == 'gateway')}",
    ]
    target = folder / f"{Path(app).name}-{key}-{key_of(' '.join(link), *shared, *own)}.so"
    return build(target, [*command, *link, *own, common])


@cache
def message_struct(limit: int) -> type[ctypes.Structure]:
    """radio_message_t, and so host_sending."""

    class RadioMessage(ctypes.Structure):
        _fields_ = (
            ("dest", ctypes.c_uint16),
            ("source", ctypes.c_uint16),
            ("type", ctypes.c_uint8),
            ("group", ctypes.c_uint8),
            ("length", ctypes.c_uint8),
            ("data", ctypes.c_uint8 * limit),
        )

    return RadioMessage


def frame_of(deployment: Deployment, message: Any) -> Any:
    """A message as radios hand it over."""
    am = encode_message(message, layout_of(deployment))
    frame = message_struct(layout_of(deployment).limit)(
        dest=am.dest, source=am.source or 0, type=am.type, group=am.group, length=len(am.data)
    )
    frame.data[: len(am.data)] = am.data
    return frame


class Node:
    """One mote or gateway. `ppm` is what its crystal is off, `start` the local time it starts with."""

    copies = count()

    def __init__(self, world: World, library: Path, id: int, ppm: float, start: int) -> None:
        self.world, self.library, self.id, self.ppm = world, library, id, ppm
        self.up = False
        self.refused = False  # to start
        self.carriers = 0  # that are coming in
        self.handed_over = 0.0  # when its radio hands the last frame over: in the order in which they came
        self.eeprom = b"\xff" * 4096
        self.rng = random.Random(id)
        self.first = start
        self.decoder = FrameDecoder()
        self.line: list[Any] = []

    def boot(self) -> None:
        """From the reset on: RAM is new, EEPROM and crystal are the old ones."""
        copy = self.library.with_name(f"{self.library.stem}-{os.getpid()}-{next(Node.copies)}.so")
        shutil.copyfile(self.library, copy)
        self.c = ctypes.CDLL(str(copy))
        copy.unlink()
        for name in ("timesync_network", "timesync_local", "timesync_stamp"):
            getattr(self.c, name).restype = ctypes.c_uint32
            getattr(self.c, name).argtypes = [ctypes.c_uint32]
        for name in ("timesync_in_sync", "timesync_known"):
            getattr(self.c, name).restype = ctypes.c_bool
        for name in ("timesync_hops", "timesync_epoch"):
            getattr(self.c, name).restype = ctypes.c_uint8
        for name in ("timesync_error", "timesync_driver"):
            getattr(self.c, name).restype = ctypes.c_uint16
        self.c.host_messages.restype = ctypes.POINTER(ctypes.c_uint16 * len(MESSAGES))
        self.c.host_sync.restype = ctypes.POINTER(ctypes.c_uint16 * len(SYNC))
        ctypes.memmove(self.address("host_eeprom"), self.eeprom, 4096)
        ctypes.c_uint16.in_dll(self.c, "TOS_NODE_ID").value = self.id
        self.set("host_stride", self.world.stride)
        message = message_struct(PAYLOAD_LIMIT[self.world.deployment.network.tinyos])
        self.sending: Any = message.in_dll(self.c, "host_sending")
        self.wants = ctypes.c_uint8.in_dll(self.c, "host_wants")
        self.alarm = ctypes.c_uint32.in_dll(self.c, "host_alarm")
        self.recorder, self.recorded = self.address("causeway_recorder"), 0
        self.up = True
        self.origin = self.world.now
        self.generation = getattr(self, "generation", 0) + 1
        self.step(start=True)

    def die(self) -> None:
        """Power off."""
        self.eeprom = ctypes.string_at(self.address("host_eeprom"), 4096)
        self.up = False
        self.first = self.rng.randrange(1 << 20)

    def warm(self, ppm: float) -> None:
        """Its crystal changes its speed."""
        self.first, self.origin, self.ppm = self.local(), self.world.now, ppm

    def address(self, name: str) -> int:
        return ctypes.addressof(ctypes.c_uint8.in_dll(self.c, name))

    def get(self, name: str, kind: Any = ctypes.c_uint32) -> Any:
        return kind.in_dll(self.c, name).value

    def set(self, name: str, value: int, kind: Any = ctypes.c_uint32) -> None:
        kind.in_dll(self.c, name).value = value

    def local(self, when: float | None = None) -> int:
        """Its crystal's time, in cycles."""
        elapsed = (self.world.now if when is None else when) - self.origin
        return (self.first + int(elapsed * HZ * (1 + self.ppm * 1e-6))) % (1 << 32)

    def network(self) -> int:
        return int(self.c.timesync_network(self.local()))

    @property
    def in_sync(self) -> bool:
        return self.up and bool(self.c.timesync_in_sync(self.local()))

    @property
    def messages(self) -> dict[str, int]:
        return dict(zip(MESSAGES, self.c.host_messages().contents, strict=True))

    @property
    def sync(self) -> dict[str, int]:
        return dict(zip(SYNC, self.c.host_sync().contents, strict=True))

    @property
    def backwards(self) -> int:
        return int(self.get("host_backwards"))

    def step(self, start: bool = False) -> None:
        if not self.up:
            return
        ended = self.c.host_step(self.local(), int(start))
        if ended:
            assert ended == 2 or self.world.may_restart, f"node {self.id} restarted at {self.world.now:.3f} s"
            self.die()
            self.refused = ended == 2
            if not self.refused:
                self.world.at(0.01, self.boot)
            return
        if self.wants.value:
            self.wants.value = 0
            self.world.request(self)
        self.read_line()
        self.read_recorder()
        ahead = (self.alarm.value - self.local()) % (1 << 32)
        ahead = 0 if ahead >= 1 << 31 else ahead
        generation = self.generation
        self.wake = wake = self.world.now + (ahead + 1) / HZ / (1 + self.ppm * 1e-6)
        self.world.at(wake - self.world.now, lambda: self.on_alarm(generation, wake))

    def read_recorder(self) -> None:
        """Pass new entries of the flight recorder to the world."""
        _, size, last = struct.unpack("<BBH", ctypes.string_at(self.recorder, 4))
        while self.recorded != last:
            entry = ctypes.string_at(self.recorder + 4 + 8 * (self.recorded % size), 8)
            number, peer, tick, kind, sequence = struct.unpack("<HHHBB", entry)
            assert number == self.recorded
            self.recorded = (self.recorded + 1) % (1 << 16)
            self.world.on_event(self, KINDS[kind], peer, sequence, tick)

    def on_alarm(self, generation: int, wake: float) -> None:
        if self.up and generation == self.generation and wake == self.wake:
            self.step()

    def on_carrier(self, more: int) -> None:
        """A frame begins or ends to come in."""
        self.carriers += more
        if self.world.deployment.schedule and self.up:
            self.set("host_carriers", self.carriers, ctypes.c_uint8)

    def hear(self, message: Any, when: float) -> None:
        if self.up and self.get("host_radio_on", ctypes.c_bool):
            noise = self.world.noise
            time = (self.local(when) + self.rng.randint(-noise, noise)) % (1 << 32)
            self.c.host_hear(ctypes.byref(message), ctypes.c_uint32(time), -60)
            self.step()

    def read_line(self) -> None:
        """What went up the line, decoded."""
        used = self.get("host_up_used")
        if used and not self.world.stalled:
            packets = self.decoder.feed(ctypes.string_at(self.address("host_up"), used))
            self.set("host_up_used", 0)
            self.line += [decode_packet(packet) for packet in packets]

    def write_line(self, raw: bytes) -> None:
        self.c.host_line(raw, len(raw))
        self.step()

    def read(self) -> list[Any]:
        """Messages and acknowledgements of the line, in order, since the last call."""
        layout = layout_of(self.world.deployment)
        found = [
            item if isinstance(item, Ack) else (item, decode_message(item, layout)) for item in self.line
        ]
        self.line = []
        return found

    def pairs(self) -> list[tuple[Any, ActiveMessage, Any]]:
        """(heard record, frame, message) for all frames on the line; they must come in pairs."""
        found, record = [], None
        for item in self.read():
            if isinstance(item, Ack):
                continue
            frame, message = item
            name = type(message).__name__
            if name == "Heard":
                assert record is None
                record = message
            elif record is not None:
                found.append((record, frame, message))
                record = None
            else:
                assert name in ("Status", "Health")
        assert record is None
        return found


class World:
    """All nodes and the air between them. `links`: pairs of nodes that hear each other; all pairs by default."""

    def __init__(self, deployment: Deployment, seed: int = 1, loss: float = 0.0, stride: int = 0) -> None:
        self.deployment, self.loss, self.stride = deployment, loss, stride
        self.rng = random.Random(seed)
        self.now = 0.0
        self.noise = 0 if deployment.network.board == "micaz" else 6
        self.radio = BOARDS[deployment.network.board].radio
        self.byte = self.radio.byte_ms / 1000
        self.nodes: list[Node] = []
        self.links: set[tuple[int, int]] | None = None
        self.jammed = False
        self.deaf_to: set[int] = set()  # AM types that get lost
        self.stalled = False
        self.may_restart = False  # a node does so by itself when it is told to, or when its memory is damaged
        self.backoff = (0.0003, 0.0012) if deployment.network.board == "micaz" else (0.0004, 0.0033)
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.order = count()
        self.air: list[tuple[float, float, Node]] = []  # start, end, sender
        self.on_air: Callable[[Node, Any, float], None] = lambda node, message, end: None
        self.on_event: Callable[[Node, str, int, int, int], None] = lambda *event: None

    def add(self, library: Path, id: int, ppm: float = 0.0, start: int = 0, at: float = 0.0) -> Node:
        node = Node(self, library, id, ppm, start)
        self.nodes.append(node)
        self.at(at, node.boot)
        return node

    def chain(self, nodes: Iterable[Node]) -> None:
        """Each hears only its neighbours."""
        ids = [node.id for node in nodes]
        pairs = pairwise(ids)
        self.links = {link for a, b in pairs for link in ((a, b), (b, a))}

    def at(self, delay: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (self.now + max(delay, 0.0), next(self.order), what))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.queue and self.queue[0][0] <= end:
            self.now, _, what = heapq.heappop(self.queue)
            what()
        self.now = end

    def every(self, seconds: float, period: float, look: Callable[[], None]) -> None:
        for _ in range(round(seconds / period)):
            self.run(period)
            look()

    def linked(self, a: Node, b: Node) -> bool:
        return a is not b and (self.links is None or (a.id, b.id) in self.links)

    # The air

    def request(self, node: Node) -> None:
        if self.deployment.schedule and node.get("host_at", ctypes.c_uint8):
            node.set("host_at", 0, ctypes.c_uint8)
            left = (node.get("host_deadline") - node.local()) % (1 << 32)
            wait = left / HZ if left < 1 << 31 else 0.0
            self.at(wait, lambda: self.attempt_once(node, node.generation))
            return
        self.at(self.rng.uniform(*self.backoff), lambda: self.attempt(node, node.generation))

    def attempt(self, node: Node, generation: int) -> None:
        if not node.up or generation != node.generation:
            return
        deadline = node.get("host_deadline")
        if (node.local() - deadline) % (1 << 32) < 1 << 31 and node.local() != deadline:
            node.c.host_sent(BUSY, 0)
            node.step()
            return
        self.air = [item for item in self.air if item[1] > self.now - 1]
        busy = any(start <= self.now < end and self.linked(by, node) for start, end, by in self.air)
        if busy or self.jammed:
            self.at(self.rng.uniform(0.0003, 0.0025), lambda: self.attempt(node, generation))
            return
        self.transmit(node)

    def attempt_once(self, node: Node, generation: int) -> None:
        """At its time, or not at all. A carrier that has just begun is not seen: radios turn round."""
        if not node.up or generation != node.generation:
            return
        if any(start + TURN_ROUND <= self.now < end and self.linked(by, node) for start, end, by in self.air):
            node.c.host_sent(BUSY, 0)
            node.step()
        else:
            self.transmit(node)

    def transmit(self, node: Node) -> None:
        length = node.sending.length
        sfd = self.now + 5 * self.byte
        end = self.now + self.radio.firmware_air_bytes(length, self.deployment.network.tinyos) * self.byte
        self.air.append((self.now, end, node))
        start, generation = self.now, node.generation
        hearers = [other for other in self.nodes if self.linked(node, other)]
        for other in hearers:
            other.on_carrier(1)

        def on_sfd() -> None:
            if node.up and generation == node.generation:
                node.c.host_sfd(ctypes.c_uint32(node.local()))

        def on_end() -> None:
            if not node.up or generation != node.generation:
                for other in hearers:
                    other.on_carrier(-1)
                return
            frame = type(node.sending).from_buffer_copy(node.sending)
            self.on_air(node, frame, end)
            for other in hearers:
                delay = 0.0
                if frame.type not in self.deaf_to and self.arrives(node, other, start, end):
                    other.handed_over = max(other.handed_over, self.now + self.rng.uniform(0.0003, 0.002))
                    delay = other.handed_over - self.now
                    self.at(delay, partial(other.hear, frame, sfd))
                self.at(delay, partial(other.on_carrier, -1))
            node.c.host_sent(SENT, ctypes.c_uint32(node.local(sfd)))
            node.step()

        self.at(sfd - self.now, on_sfd)
        self.at(end - self.now, on_end)

    def arrives(self, sender: Node, receiver: Node, start: float, end: float) -> bool:
        if self.rng.random() < self.loss:
            return False
        return not any(
            s < end and start < e and by is not sender and (by is receiver or self.linked(by, receiver))
            for s, e, by in self.air
        )


def give(node: Node, message: Any) -> None:
    """The node hears a message now."""
    node.hear(frame_of(node.world.deployment, message), node.world.now)
