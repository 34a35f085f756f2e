"""What a liar costs: `python -m tests.soak.hostile_costs`. One mote of a network without a key says what cannot be.

A station takes the line of a simulated run as it is, and the same line in which one mote lies in its stamps, receipts,
numbers or boots. For each scheme and each lie it tells how many microseconds a frame takes on average and at worst, how
long the messages of the honest motes are held, and how much memory the station has in the end. It ends with 1 if a
frame takes more than ten times the ordinary, or if somebody is held longer than his rule gives up after. Steps are
lines of Python that were run: unlike seconds they are the same every time.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import islice
from statistics import mean
from types import FrameType
from typing import Any

from basestation.arrivals import Arrival
from basestation.live.happenings import Delivered, Happening
from basestation.live.station import Station
from basestation.simulator.gateway_line import serial_line
from basestation.simulator.simulated_trace import trace_of
from basestation.simulator.simulation import generate
from basestation.sources.base import Spec
from basestation.sources.simulated_source import world_of
from basestation.web.feed import Feed
from packet_formats.deployment import Deployment
from packet_formats.framing import FrameDecoder, crc16
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message, encode_message
from packet_formats.records import Heard
from packet_formats.schemes import names
from packet_formats.tinyos import decode_packet, encode_packet
from tests.firmware.cores import described

MESSAGES = 600
RATE = 0.02  # of sending, for each mote and tick: 50 messages a second of ten motes
ROUND = 256
FAR = 100  # numbers ahead: more than a mote sends in any time to give up in
MOST_TIMES = 10  # what a frame, or a hold, may be of the ordinary
SURELY = 35  # ticks: all motes have received an older message
FEW_MOTES = {"matrix": 4, "delta-causal": 5}  # as many as fit a payload

Frame = tuple[int, Heard, Data]  # the tick of its arrival


# ---- Lies ----


@dataclass
class Liar:
    """The mote that lies, and what it knows of the others: the newest sequence number of each, in its boot."""

    mote: int
    motes: int
    fields: dict[str, int]  # of a stamp: their widths
    draw: random.Random
    newest: list[int]
    number: int = 0  # the scalar clock's, or any other field's of that name

    def stamp(self, told: Data, ahead: int) -> tuple[int, ...]:
        """A stamp whose counters and names are so far ahead of what there is; clocks and ages are as they were."""
        others = [mote for mote in range(self.motes) if mote != self.mote]
        as_it_was = [*told.stamp, *[0] * (len(self.fields) - len(told.stamp))]
        stamp: list[int] = []
        for (name, bits), value in zip(self.fields.items(), as_it_was, strict=True):
            kind = name.rstrip("0123456789")
            match kind:
                case "known":
                    value = self.newest[others[int(name[len(kind) :])]] + 1 + ahead
                case "sent":
                    value = self.newest[int(name[len(kind) :]) // self.motes] + 1 + ahead
                case "source":
                    value = self.draw.choice(others)
                case "sequence" | "residue":
                    value = self.newest[stamp[-1]] + ahead
                case "number":
                    value = self.number + ahead
            stamp.append(value % (1 << bits))
        return tuple(stamp)

    def receipts(self, told: Data, ahead: int) -> tuple[tuple[int, int], ...]:
        named = self.draw.sample(
            [mote for mote in range(self.motes) if mote != self.mote], len(told.receipts)
        )
        return tuple((mote, (self.newest[mote] + ahead) % ROUND) for mote in named)


def _random(liar: Liar, told: Data) -> Data:
    stamp = tuple(liar.draw.randrange(1 << bits) for bits in liar.fields.values())
    receipts = tuple(
        (liar.draw.randrange(liar.motes - 1), liar.draw.randrange(ROUND)) for _ in range(len(told.receipts))
    )
    return replace(told, stamp=stamp, receipts=receipts)


def _most(liar: Liar, told: Data) -> Data:
    stamp = tuple((1 << bits) - 1 for bits in liar.fields.values())
    return replace(told, stamp=stamp, saturated=True)


def _least(liar: Liar, told: Data) -> Data:
    return replace(told, stamp=(0,) * len(liar.fields))


def _ahead(liar: Liar, told: Data) -> Data:
    """Names what never comes."""
    return replace(told, stamp=liar.stamp(told, FAR), receipts=liar.receipts(told, FAR))


def _soon(liar: Liar, told: Data) -> Data:
    """Names what is about to come."""
    ahead = liar.draw.randrange(1, 16)
    return replace(told, stamp=liar.stamp(told, ahead), receipts=liar.receipts(told, ahead))


def _next(liar: Liar, told: Data) -> Data:
    """Names the very next."""
    return replace(told, stamp=liar.stamp(told, 1), receipts=liar.receipts(told, 1))


def _gather(liar: Liar, told: Data) -> Data:
    """Many messages name the same one, which comes after them."""
    ahead = {mote: 15 - newest % 16 + 1 for mote, newest in enumerate(liar.newest)}
    others = [mote for mote in range(liar.motes) if mote != liar.mote]
    named = tuple((mote, (liar.newest[mote] + ahead[mote]) % ROUND) for mote in others[: len(told.receipts)])
    return replace(told, receipts=named)


def _creep(liar: Liar, told: Data) -> Data:
    """Each time a little further than the time before."""
    liar.number += 1
    ahead = min(5 * liar.number, 120)
    return replace(told, stamp=liar.stamp(told, ahead), receipts=liar.receipts(told, ahead))


def _leaps(liar: Liar, told: Data) -> Data:
    """Its own numbers leave out a hundred each time."""
    return replace(told, sequence=told.sequence * FAR % ROUND)


def _boots(liar: Liar, told: Data) -> Data:
    return replace(_soon(liar, told), boot=liar.draw.randrange(8))


def _all(liar: Liar, told: Data) -> Data:
    return liar.draw.choice((_random, _most, _least, _ahead, _soon, _next, _leaps, _boots))(liar, told)


LIES: dict[str, Callable[[Liar, Data], Data]] = {
    "random": _random,
    "most": _most,
    "least": _least,
    "ahead": _ahead,
    "soon": _soon,
    "next": _next,
    "gather": _gather,
    "creep": _creep,
    "leaps": _leaps,
    "boots": _boots,
    "all": _all,
}


# ---- Runs ----


@cache
def ordinary(
    scheme: str, receipts: int = 2, rate: float = RATE, messages: int = MESSAGES, motes: int = 10
) -> tuple[Deployment, list[Frame]]:
    """A simulated run. Its messages name what their mote has surely received, as the firmware's receipts do."""
    deployment = described(
        7, 3, 32, {"scheme": scheme, "receipts": receipts}, motes=FEW_MOTES.get(scheme, motes), data_bytes=0
    )
    world = world_of(Spec.parse(f"simulate@?messages={messages}&rate={rate}"), deployment)
    layout, decoder = layout_of(deployment), FrameDecoder()
    frames: list[Frame] = []
    heard: list[Heard] = []
    for tick, raw in serial_line(trace_of(generate(world), deployment)):
        for packet in decoder.feed(raw):
            message = decode_message(decode_packet(packet), layout)
            if isinstance(message, Heard):
                heard.append(message)
            elif isinstance(message, Data):
                frames.append(
                    (tick, heard[-1], replace(message, receipts=_received(frames, tick, message, receipts)))
                )
    return deployment, frames


def _received(frames: list[Frame], tick: int, message: Data, receipts: int) -> tuple[tuple[int, int], ...]:
    old = (one for at, _, one in reversed(frames) if at < tick - SURELY and one.source != message.source)
    return tuple((one.source, one.sequence) for one in islice(old, receipts))


def lied(deployment: Deployment, frames: list[Frame], lie: str, seed: int, each: int) -> list[Frame]:
    """The same run in which the last mote lies: `each` messages in place of each of its own."""
    layout, motes = layout_of(deployment), deployment.network.motes
    fields = {field.name: field.bits for field in layout.stamp.fields_of(max(layout.items_in.values()))}
    liar = Liar(motes - 1, motes, fields, random.Random(seed), [0] * motes)
    found: list[Frame] = []
    for tick, heard, data in frames:
        if data.source == liar.mote:
            for _ in range(each):
                told = replace(data, sequence=(liar.newest[liar.mote] + 1) % ROUND)
                liar.newest[liar.mote] += 1
                found.append((tick, heard, LIES[lie](liar, told)))
        else:
            liar.newest[data.source] = data.sequence
            liar.number = max(liar.number, data.stamp[0] if data.stamp else 0)
            found.append((tick, heard, data))
    return found


def packets(deployment: Deployment, frames: list[Frame]) -> Iterator[tuple[int, bytes, bytes]]:
    """Each frame's tick, its heard record and itself as they come up the line."""
    layout = layout_of(deployment)
    for place, (tick, heard, data) in enumerate(frames):
        frame = encode_message(data, layout)
        record = replace(heard, sequence=place % ROUND, check=crc16(frame.data))
        yield tick, encode_packet(encode_message(record, layout)), encode_packet(frame)


# ---- Costs ----


@dataclass(frozen=True)
class Cost:
    """Of a run: lines of Python for a frame (or 0), microseconds for a frame, the holds of honest messages in ticks,
    and bytes of memory at the end."""

    steps: float
    steps_worst: int
    us: float
    us_worst: float
    hold: float
    hold_worst: int
    memory: int


class Steps:
    """Counts the lines of Python that are run inside `with`."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Steps:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        self.count += event == "line"
        return self._trace


class Fed:
    """A station, and if asked for the live page's feed, which takes the station's happenings."""

    def __init__(self, deployment: Deployment, page: bool) -> None:
        self._station = Station(deployment)
        self._feed = Feed(self._station) if page else None

    def take(self, record: Arrival, frame: Arrival) -> list[Happening]:
        return self._told(self._station.take(record) + self._station.take(frame))

    def finish(self) -> list[Happening]:
        return self._told(self._station.finish())

    def _told(self, found: list[Happening]) -> list[Happening]:
        if self._feed is not None:
            for one in found:
                self._feed.take(one)
            self._feed.changes.clear()  # as the server does, ten times a second
        return found


def cost(deployment: Deployment, frames: list[Frame], steps: bool, page: bool = False) -> Cost:
    liar, tick_ns = deployment.network.motes - 1, int(deployment.clock.tick_seconds * 1e9)
    lines = [
        (
            Arrival(0, tick * tick_ns, tick * tick_ns, record),
            Arrival(0, tick * tick_ns, tick * tick_ns, frame),
        )
        for tick, record, frame in packets(deployment, frames)
    ]
    tracemalloc.start()
    station = Fed(deployment, page)
    for record, frame in lines:
        station.take(record, frame)
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    gc.collect()
    gc.disable()  # it would strike some frames and not others
    station, holds = Fed(deployment, page), []
    took_ns, counted = [], []
    for record, frame in lines:
        counter = Steps()
        if steps:
            with counter:
                found = station.take(record, frame)
        else:
            began = time.thread_time_ns()
            found = station.take(record, frame)
            took_ns.append(time.thread_time_ns() - began)
        counted.append(counter.count)
        holds += [
            one.left - one.arrived for one in found if isinstance(one, Delivered) and one.name.source != liar
        ]
    holds += [
        one.left - one.arrived
        for one in station.finish()
        if isinstance(one, Delivered) and one.name.source != liar
    ]
    gc.enable()
    us = [ns / 1000 for ns in took_ns] or [0.0]
    return Cost(mean(counted), max(counted), mean(us), max(us), mean(holds), max(holds), memory)


def main() -> int:
    module = "python -m tests.soak.hostile_costs"
    reader = argparse.ArgumentParser(
        prog=module, description=__doc__, epilog=f"Example: {module} --lie soon --page vector"
    )
    reader.add_argument("schemes", nargs="*", metavar="SCHEME", help="[default: all]")
    reader.add_argument("--lie", action="append", choices=[*LIES], help="[default: each lie]")
    reader.add_argument("--page", action="store_true", help="with what the live page makes of each frame")
    reader.add_argument("--json", action="store_true", help="print one object for each run")
    asked = reader.parse_args()
    if unknown := [name for name in asked.schemes if name not in names()]:
        reader.error(f"no scheme {', '.join(unknown)}: there are {', '.join(names())}")
    wrong = []
    for scheme in asked.schemes or names():
        deployment, frames = ordinary(scheme)
        plain = cost(deployment, frames, steps=False, page=asked.page)
        _tell(scheme, "ordinary", plain, plain, asked.json)
        for lie in asked.lie or LIES:
            found = cost(
                deployment, lied(deployment, frames, lie, seed=1, each=1), steps=False, page=asked.page
            )
            _tell(scheme, lie, found, plain, asked.json)
            give_up = deployment.observer.give_up
            wrong += [f"{scheme}, {lie}: {fault}" for fault in faults(found, plain, give_up)]
    for fault in wrong:
        print(fault, file=sys.stderr)
    return int(bool(wrong))


def faults(found: Cost, plain: Cost, give_up: int) -> Iterator[str]:
    """Where a liar costs more than he may."""
    for what in ("steps", "steps_worst", "us", "us_worst", "memory"):
        times = getattr(found, what) / (getattr(plain, what) or 1)
        if times > MOST_TIMES:
            yield f"{what} is {times:.1f} times the ordinary"
    if found.hold_worst > max(plain.hold_worst, give_up + 1):
        yield f"an honest message was held {found.hold_worst} ticks, though the rule gives up after {give_up}"


def _tell(scheme: str, lie: str, found: Cost, plain: Cost, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"scheme": scheme, "lie": lie} | asdict(found)), flush=True)
        return
    pairs = ((found.us, plain.us), (found.us_worst, plain.us_worst))
    costs = "  ".join(f"{one:7.0f} us ({one / usual:4.1f} times)" for one, usual in pairs)
    holds = f"held {found.hold:5.1f} ticks, at most {found.hold_worst:3}"
    print(f"{scheme:12} {lie:8} {costs}  {holds}  {found.memory // 1024:5} KiB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
