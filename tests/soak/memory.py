"""The memory of a station after hours of a line: `python -m tests.soak.memory` measures it, for
docs/figures/soak.md.

The lines are those of the storms, one after the other, as their logs in .soak/logs have them, and simulated ones:
twenty motes, a message a second in all. So that every part fills up within the first half, a mote boots after forty
messages, and every other message is out of sync. Now and then the time starts afresh; some messages are lost, doubled,
late, changed or cut. Somebody who knows the layout sends frames of his own, and plays old ones again. On one line
nobody tells the time. What a station holds is measured by its parts.
"""

from __future__ import annotations

import gc
import json
import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from basestation.arrivals import Arrival
from basestation.journal.reader import read_journal
from basestation.journal.record_format import RecordKind
from basestation.live.runner import past_due
from basestation.live.station import Station
from basestation.simulator.gateway_line import serial_line
from basestation.simulator.simulated_trace import trace_of
from basestation.simulator.simulation import generate
from basestation.sources.base import Spec
from basestation.sources.simulated_source import world_of
from packet_formats.deployment import CRYSTAL_HZ, Deployment, from_dict, load
from packet_formats.framing import FrameDecoder, crc16
from packet_formats.keys import Key
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message, encode_message
from packet_formats.records import Heard
from packet_formats.seal import Seal
from packet_formats.tinyos import ActiveMessage, decode_packet, encode_packet
from tests.soak.py_fuzz import Forger, Run, stormy
from tests.soak.running import ROOT, results_folder, state_folder, version

HOUR_NS = 3600 * 10**9
HOURS = (1, 2, 4, 6, 8)
STORMS = {"storm": "micaz", "scheduled_storm": "micaz_months"}  # and their examples
BOOT = 1 / 40  # the chance that a mote boots before a message of its: its numbers begin anew
AFRESH = 1 / 2000  # the chance that the network's time does
UNSYNCED = 1 / 2
KEY = Key(bytes(range(16)))


def deployment_of(keyed: bool, example: str = "micaz") -> Deployment:
    plain = load(ROOT / "examples" / f"{example}.toml")
    security = {"security": {"mic": 4, "key": "site.key"}}
    return replace(from_dict(plain.to_dict() | security), key=KEY) if keyed else plain


# ---- The line ----


@dataclass
class Mote:
    boot: int = 0
    sequence: int = 0
    names: dict[int, int] = field(default_factory=dict)  # new sequence numbers, by those of the simulation


class Renumbered:
    """A simulated line, as if its motes booted and its time started afresh now and then."""

    def __init__(self, deployment: Deployment, draw: random.Random) -> None:
        self._layout, self._draw = layout_of(deployment), draw
        self._seal = Seal(deployment.key, self._layout) if deployment.key is not None else None
        self._motes = [Mote() for _ in range(deployment.network.motes)]
        self.epoch = 0

    def pair(self, record: Heard, data: Data) -> tuple[bytes, bytes]:
        """The packets of a record and its message."""
        draw, mote = self._draw, self._motes[data.source]
        if draw.random() < AFRESH:
            self.epoch = (self.epoch + 1) % 256
        if draw.random() < BOOT:
            mote.boot, mote.sequence = (mote.boot + 1) % 8, 0
        mote.names[data.sequence] = mote.sequence
        message = replace(
            data,
            boot=mote.boot,
            sequence=mote.sequence,
            in_sync=draw.random() >= UNSYNCED,
            receipts=tuple((source, self._motes[source].names.get(at, at)) for source, at in data.receipts),
        )
        mote.sequence = (mote.sequence + 1) % 256
        record = replace(record, epoch=self.epoch)
        if self._seal is None:
            frame = encode_message(message, self._layout)
        else:
            frame = self._seal.sealed_data(replace(message, mic=b""), self.epoch, record.time)
        heard = encode_message(replace(record, check=crc16(frame.data)), self._layout)
        return encode_packet(heard), encode_packet(frame)


def line(deployment: Deployment, hours: float, timed: bool = True, seed: int = 1) -> Iterator[Arrival]:
    """A message a second in all, on average. `timed`: the gateway says when it heard each."""
    tick_ns = (10**9 << deployment.clock.tick_log2) // CRYSTAL_HZ
    messages = round(3600 * hours)
    rate = tick_ns / 1e9 / deployment.network.motes
    plain = replace(deployment, key=None)
    world = world_of(Spec.parse(f"simulate@?messages={messages}&rate={rate:.9f}&seed={seed}"), plain)
    draw, decoder = random.Random(seed), FrameDecoder()
    layout, renumbered = layout_of(deployment), Renumbered(deployment, draw)
    for tick, raw in serial_line(trace_of(generate(world), plain)):
        packets = [decode_packet(packet) for packet in decoder.feed(raw)]
        for record, frame in zip(packets[::2], packets[1::2], strict=True):
            assert isinstance(record, ActiveMessage)
            assert isinstance(frame, ActiveMessage)
            heard, data = decode_message(record, layout), decode_message(frame, layout)
            assert isinstance(heard, Heard), heard
            assert isinstance(data, Data), data
            for packet in renumbered.pair(heard, data)[0 if timed else 1 :]:
                yield Arrival(0, tick * tick_ns, tick * tick_ns, packet)


def listen(station: Station, hours: float, timed: bool = True) -> Iterator[int]:
    """Let a station take the line, with an attacker's frames and with faults; yield the time after each frame.

    On a line without times the attacker sends nothing, since his frames would carry a time.
    """
    draw, now = random.Random("memory"), 0
    forger = Forger(draw, Run("", station.deployment, []))

    def packets() -> Iterator[bytes]:
        nonlocal now
        for arrival in line(station.deployment, hours, timed):
            now = arrival.mono_ns
            yield arrival.packet

    for packet in stormy(draw, packets(), forger) if timed else packets():
        forger.now = station.timeline.network_time(now) or forger.now
        for _ in chain(past_due(station, now), station.take(Arrival(0, now, now, packet))):
            pass
        yield now


# ---- The lines of storms ----


def log_of(search: str, number: int) -> Path:
    """Where the log of a piece goes; a former one is removed."""
    folder = state_folder() / "logs" / f"{search}-{number:04}"
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def listen_to_storms(station: Station, logs: list[Path]) -> Iterator[int]:
    """Let a station take the lines of logs, one after the other; the time after each frame."""
    now = 0
    for log in logs:
        began = now
        for record in read_journal(log).records(lambda fault: None):
            if record.kind == RecordKind.FRAME:
                now = began + record.mono_ns
                for _ in chain(past_due(station, now), station.take(Arrival(0, now, now, record.payload))):
                    pass
                yield now


# ---- What a station holds ----


def sizes(station: Station) -> dict[str, int]:
    """Its bytes by part; what two parts share is the first one's."""
    observer, timeline = station.observer, station.timeline
    parts: dict[str, list[object]] = {
        "numbers": [observer._numbers, observer._strays],
        "graph": [station.violations],
        "guard": [timeline.guard],
        "counts": [station.motes, timeline.gateways, station.alarms, station.reasons],
        "held": [observer._rule],
        "rest": [station],
    }
    seen: set[int] = {id(station), id(observer), id(timeline), id(station.deployment)}
    found = {name: sum(size_of(root, seen) for root in roots) for name, roots in parts.items()}
    for own in (station, observer, timeline):
        found["rest"] += sys.getsizeof(own) + sum(size_of(one, seen) for one in gc.get_referents(own))
    return found


def size_of(root: object, seen: set[int]) -> int:
    """The bytes of an object and of all objects reached from it, except those in `seen`."""
    waiting, total = [root], 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType | BuiltinFunctionType):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        waiting += gc.get_referents(one)
    return total


# ---- The table ----


def measure(station: Station, times: Iterator[int]) -> Iterator[dict[str, float]]:
    """The kilobytes of a station by part, after these hours, and when there is no more."""
    waiting, now, frames = list(HOURS), 0, 0
    for frames, now in enumerate(times, 1):
        if waiting and now >= waiting[0] * HOUR_NS:
            yield _row(station, waiting.pop(0), frames)
    if waiting:
        yield _row(station, round(now / HOUR_NS, 1), frames)


def _row(station: Station, hours: float, frames: int) -> dict[str, float]:
    parts = sizes(station)
    boots = sum(mote.reboots for mote in station.motes.values())
    kilobytes = {name: round(size / 1000) for name, size in parts.items()}
    return (
        {"hours": hours, "frames": frames, "boots": boots}
        | kilobytes
        | {"all": round(sum(parts.values()) / 1000)}
    )


def lines() -> Iterator[tuple[str, Station, Iterator[int]]]:
    """What is measured: its name, a station, and its line."""
    for keyed in (False, True):
        key = "with a key" if keyed else "without a key"
        for search, example in STORMS.items():
            logs = sorted((state_folder() / "logs").glob(f"{search}-[0-9]*"))
            of_these = [log for log in logs if int(log.name[-4:]) % 2 == keyed]
            if of_these:
                station = Station(deployment_of(keyed, example))
                yield f"{search}, {key}", station, listen_to_storms(station, of_these)
        station = Station(deployment_of(keyed))
        yield f"simulated, {key}", station, listen(station, HOURS[-1] + 0.1)
    station = Station(deployment_of(False))
    yield "simulated, no time", station, listen(station, HOURS[-1] + 0.1, timed=False)


def main() -> int:
    rows = []
    for name, station, times in lines():
        for row in measure(station, times):
            rows.append({"row": name} | row)
            print(json.dumps(rows[-1]), flush=True)
    _path().write_text(json.dumps({"version": version(), "rows": rows}, indent=1) + "\n")
    return 0


def measured() -> dict[str, Any]:
    """What was measured last."""
    found: dict[str, Any] = json.loads(_path().read_text())
    return found


def _path() -> Path:
    return results_folder() / "memory.json"


if __name__ == "__main__":
    sys.exit(main())
