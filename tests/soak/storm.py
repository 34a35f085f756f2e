"""Emulated hours of ten MICAz motes in a storm of faults, in pieces of five minutes, each with its own seed.

Resets, restarts, brown-outs, damaged memory, cut links, jamming, bursts of it, a root that is gone for a while, comes
and goes, or dies for good. Every second piece has a key; in half of the pieces a stranger sends frames that he made up,
who knows the layout, and frames that he heard before. The gateway's line goes through a live station and its log.

Every violation is explained by a fault that took from a mote what it knew, or broke what the order rests on
(`violations.py` beside this); one that is not is a fault. So is an exception, a packet that the log lacks, a log that
`verify` finds fault with, a message that left twice or never, and with a key one that no mote sent, or that was played
again.

One more station takes the lines of all pieces of a process, one after the other, after a long simulated run has filled
what it remembers. `grown_bytes` is by how much the pieces have made it larger: its memory is flat if they stay about 0.
"""

from __future__ import annotations

import contextlib
import gc
import io
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType

from basestation import cli
from basestation.arrivals import Arrival
from basestation.journal.reader import read_journal
from basestation.journal.record_format import RecordKind
from basestation.journal.writer import JournalWriter
from basestation.live.happenings import Arrived, Delivered, Happening
from basestation.live.runner import past_due
from basestation.live.station import Station
from basestation.simulator.gateway_line import serial_line
from basestation.simulator.simulated_trace import trace_of
from basestation.simulator.simulation import generate
from basestation.sources.base import Spec
from basestation.sources.simulate import world_of
from basestation.testbed import engine, faults, images, topologies
from basestation.testbed.air import message_of
from basestation.testbed.judge import decoded, follow, messages_of
from basestation.testbed.recorded_messages import Sent
from basestation.testbed.scenario import ScenarioNetwork
from basestation.testbed.setup import Wish, assemble, networks_in
from basestation.testbed.through_station import TruthEvents
from basestation.testbed.truth_log import Event, Power, Reset, Signal, Uart, read
from packet_formats.air import air_format
from packet_formats.boards import BOARDS
from packet_formats.deployment import CRYSTAL_HZ, Deployment, from_dict, load
from packet_formats.framing import FrameDecoder
from packet_formats.keys import Key
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message
from packet_formats.tinyos import ActiveMessage, decode_packet
from tests.soak.py_fuzz import Books, Forger, Run
from tests.soak.running import ROOT, Piece, Search, draw_of
from tests.soak.violations import NS, Storm, explained

AIM = 24 * 3600  # emulated seconds
SECONDS = 300
MOTES = 10
RATE = 1.0  # messages a second of each mote
BEGIN = 15.0  # seconds in which nothing happens
HEARD = 40.0  # seconds in which a stranger listens before he plays frames again
EVERY = 12.0  # seconds from one fault to the next, on average
KEY = Key(bytes(range(16)))
FILLED = 12_000  # messages after which a station has as much to remember as it may
MOST = 1.5  # times what it had then it may have later


# ---- What happens ----


@cache
def deployment_of(keyed: bool) -> Deployment:
    plain = load(ROOT / "examples" / "micaz.toml")
    security = {"security": {"mic": 4, "key": "site.key"}}
    return replace(from_dict(plain.to_dict() | security), key=KEY) if keyed else plain


def entry(at: float, **keys: object) -> str:
    said = "\n".join(f"{name} = {value!r}".replace("'", '"') for name, value in {"at": at, **keys}.items())
    return f"[[fault]]\n{said}\n"


def misfortune(draw: random.Random, at: float, end: float) -> Iterator[str]:
    """One thing that goes wrong."""
    mote = draw.randrange(MOTES)
    match draw.randrange(9):
        case 0:
            yield entry(at, do="reset", mote=mote)
        case 1:
            yield entry(at, do="restart", mote=mote, seconds=draw.uniform(0.1, 60))
        case 2:
            yield entry(at, do="brownout", mote=mote, seconds=draw.uniform(0.01, 2))
        case 3:
            yield entry(at, do="corrupt", mote=mote, bytes=draw.randrange(1, 50))
        case 4:
            yield entry(at, do="jam", seconds=draw.uniform(0.1, 10))
        case 5:  # a burst of losses
            for burst in range(draw.randrange(5, 30)):
                yield entry(at + 0.2 * burst, do="jam", seconds=draw.uniform(0.005, 0.15))
        case 6:
            yield entry(at, do="restart", mote="root", seconds=draw.choice((0.2, 3.0, 30.0, 90.0)))
        case 7:  # a root that comes and goes
            for time in range(draw.randrange(2, 6)):
                yield entry(at + 3 * time, do="restart", mote="root", seconds=draw.uniform(0.1, 2))
        case _:
            pair = [mote, (mote + draw.randrange(1, MOTES)) % MOTES]
            yield entry(at, do="cut", between=pair)
            yield entry(draw.uniform(at, end), do="heal", between=pair)


def timeline(draw: random.Random, deployment: Deployment, seconds: float, heard: list[bytes] | None) -> str:
    """What goes wrong, as a timeline of the testbed's. `heard`: the frames that a stranger has, if there is one."""
    end = seconds - 20
    found = [
        line
        for _ in range(draw.randrange(2, 2 + int(2 * seconds / EVERY)))
        for line in misfortune(draw, draw.uniform(BEGIN if heard is None else HEARD, end), end)
    ]
    if draw.random() < 0.1:
        found.append(entry(draw.uniform(0.7 * seconds, end), do="kill", mote="root"))
    if heard is not None:
        radio = BOARDS[deployment.network.board].radio
        forger = Forger(draw, Run("", replace(deployment, key=None), []))
        for number in range(draw.randrange(10, int(seconds))):
            message = decode_packet(forger.packet())
            assert isinstance(message, ActiveMessage)
            made_up = air_format(radio).frame(message, number)
            frame = draw.choice(heard) if heard and draw.random() < 0.5 else made_up
            found.append(entry(draw.uniform(HEARD, end), do="inject", frame=frame.hex()))
    return "".join(found)


@dataclass(frozen=True)
class Emulated:
    network: ScenarioNetwork
    events: list[Event]
    script: tuple[str, ...]


def emulate(number: int, seconds: float, place: Path, keyed: bool, stranger: bool) -> Emulated:
    """The same seed gives the same frames until a stranger sends: what he plays again is from a run before."""
    draw = draw_of("storm", number)
    deployment = deployment_of(keyed)
    topology = topologies.grid(MOTES, hops=deployment.network.hops)
    (network,) = networks_in([deployment], topology)
    programs = {network.name: images.programs_for(deployment, RATE)}

    def run(seconds: float, script: tuple[str, ...]) -> list[Event]:
        wish = Wish(seed=number, seconds=seconds, script=script)
        scenario = assemble([network], topology, programs, place, wish).text()
        with engine.start(engine.build(), scenario, place / "truth") as going:
            going.finish()
        return list(read(place / "truth"))

    heard = (
        [one.bytes for one in run(HEARD, ()) if isinstance(one, Signal) and one.bytes] if stranger else None
    )
    script = faults.parse(timeline(draw, deployment, seconds, heard), [network])
    return Emulated(network, run(seconds, script), script)


# ---- The station ----


@dataclass
class Listened:
    books: Books
    lines: list[Arrival]
    order: list[Sent]  # as it was delivered, of what can be ordered
    faults: list[str]


def listen(emulated: Emulated, folder: Path) -> Listened:
    """A station and its log at the gateway's line: what it told of, and what is wrong."""
    network, truth = emulated.network, TruthEvents.of(emulated.events)
    deployment = network.deployment
    layout = layout_of(deployment)
    book, _ = messages_of(truth.recorded, network)
    follow(book, decoded(truth.signals, network, layout), truth.received, network)
    by = None if deployment.key is None else [sent_by_motes(truth.signals, deployment)]
    books, station, decoder = Books(layout, by=by), Station(deployment), FrameDecoder()
    numbers: dict[int, Sent] = {}
    known: set[int] = set()  # messages of the motes that have come
    left: set[Data] = set()
    uarts = [event for event in truth.uarts if event.node in network.gateways]
    found = Listened(books, [line for event in uarts for line in _arrivals(decoder, event)], [], [])

    def take(happening: Happening) -> None:
        books.take(happening)
        if isinstance(happening, Arrived) and isinstance(happening.message, Data):
            data = happening.message
            sent = book.find(data.source, data.sequence, happening.mono_ns)
            if sent is None or not is_of(sent, data) or id(sent) in known:
                return  # a stranger's, or played again
            known.add(id(sent))
            if data.in_sync and happening.cycles is not None:
                numbers[happening.number] = sent
        elif isinstance(happening, Delivered):
            if happening.number in numbers:
                found.order.append(numbers[happening.number])
            data = replace(happening.data, hops=0)
            if deployment.key is not None and data.in_sync and data in left:
                found.faults.append(f"{happening.name} was played again, and believed: {data}")
            left.add(data)

    with JournalWriter(folder, deployment, "storm", "never") as journal:
        for line in found.lines:
            journal.append(line)
            for happening in (*past_due(station, line.mono_ns), *station.take(line)):
                take(happening)
    for happening in station.finish():
        take(happening)
    found.faults += [*log_faults(folder, [line.packet for line in found.lines]), *books.wrong()]
    return found


def is_of(sent: Sent, data: Data) -> bool:
    """Whether this is the message that its mote sent, but for what relays change."""
    return sent.data is not None and replace(sent.data, hops=0) == replace(data, hops=0)


def _arrivals(decoder: FrameDecoder, event: Uart) -> list[Arrival]:
    return [Arrival(0, event.t, event.t, packet) for packet in decoder.feed(event.bytes)]


def sent_by_motes(signals: list[Signal], deployment: Deployment) -> set[Data]:
    layout, found = layout_of(deployment), set()
    for signal in signals:
        raw = None if signal.node is None else message_of(signal, deployment.network.board, layout.tinyos)
        message = decode_message(raw, layout) if raw else None
        if isinstance(message, Data):
            found.add(replace(message, hops=0))
    return found


def log_faults(folder: Path, packets: list[bytes]) -> Iterator[str]:
    told: list[str] = []
    records = read_journal(folder).records(lambda fault: told.append(str(fault)))
    if [record.payload for record in records if record.kind == RecordKind.FRAME] != packets:
        yield "the log lacks packets"
    yield from told
    with contextlib.redirect_stdout(io.StringIO()):
        code = cli.main(["log", "verify", str(folder)])
    if code:
        yield f"verify ends with {code}"


# ---- Its memory ----


def size_of(station: Station) -> int:
    """The bytes of all that a station holds."""
    seen: set[int] = set()
    waiting: list[object] = [station]
    total = 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType | BuiltinFunctionType):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        waiting += gc.get_referents(one)
    return total


class Veteran:
    """A station that has seen much already, and goes on."""

    def __init__(self, deployment: Deployment) -> None:
        self._station, self._now = Station(deployment), 0
        world = world_of(Spec.parse(f"simulate@?messages={FILLED}&rate=0.002"), deployment)
        tick_ns, decoder = (NS << deployment.clock.tick_log2) // CRYSTAL_HZ, FrameDecoder()
        line = serial_line(trace_of(generate(world), deployment))
        self.take([Arrival(0, t * tick_ns, t * tick_ns, one) for t, raw in line for one in decoder.feed(raw)])
        self.first = self.size = size_of(self._station)

    def take(self, lines: list[Arrival]) -> None:
        """The lines of a run; its time goes on from where the run before ended."""
        began = self._now
        for line in lines:
            self._now = began + line.mono_ns
            for _ in self._station.take(line._replace(mono_ns=self._now, wall_ns=self._now)):
                pass
        self.size = size_of(self._station)


@cache
def veteran(keyed: bool) -> Veteran:
    return Veteran(deployment_of(keyed))


# ---- A piece ----


def storm_of(emulated: Emulated) -> Storm:
    """What there was of faults, by mote."""
    network = emulated.network
    id_of = {node: identity for identity, node in enumerate(network.motes)}
    boots: dict[int, list[int]] = {mote: [] for mote in range(MOTES)}
    for event in emulated.events:
        if isinstance(event, Reset) or (isinstance(event, Power) and event.on):
            boots.get(id_of.get(event.node, -1), []).append(event.t)
    damaged: dict[int, list[int]] = {mote: [] for mote in range(MOTES)}
    strange: list[int] = []
    for line in emulated.script:
        _, at, verb, *words = line.split()
        if verb == "corrupt":
            damaged[id_of[int(words[0])]].append(round(float(at) * 1e9))
        elif verb == "inject":
            strange.append(round(float(at) * 1e9))
    believed = strange if network.deployment.key is None else []
    return Storm(boots, damaged, believed, network.deployment)


def piece(number: int, seconds: float = SECONDS) -> Piece:
    keyed, stranger = number % 2 == 1, number % 4 >= 2
    row = ("with a key" if keyed else "without a key") + (", a stranger" if stranger else "")
    counts: Counter[str] = Counter(seconds=int(seconds))
    with tempfile.TemporaryDirectory(prefix="causeway-storm-") as place:
        try:
            emulated = emulate(number, seconds, Path(place), keyed, stranger)
            found = listen(emulated, Path(place) / "log")
            why, unexplained = explained(found.order, storm_of(emulated))
            old = veteran(keyed)
            before = old.size
            old.take(found.lines)
        except Exception as error:
            return Piece(row, counts, [f"piece {number}: {error!r}"])
    counts["messages"], counts["delivered"] = found.books.arrived, found.books.delivered
    counts["grown_bytes"] = old.size - before
    counts["violations"] = sum(why.values()) + len(unexplained)
    for reason in Storm.REASONS:
        counts[reason] = why[reason]
    told = found.faults + unexplained
    if old.size > MOST * old.first:
        told.append(f"a station's memory grew from {old.first} to {old.size} bytes")
    return Piece(row, counts, [f"piece {number}: {fault}" for fault in told])


SEARCH = Search("storm", "seconds", AIM, piece)

if __name__ == "__main__":
    sys.exit(SEARCH.main())
