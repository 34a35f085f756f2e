"""Emulated hours of ten MICAz motes in a storm of faults, in pieces of twenty minutes, each with its own seed.

Resets, restarts, brown-outs, damaged memory, cut links, jamming, bursts of it, a root that is gone for a while, comes
and goes, or dies for good. Every second piece has a key; in half of the pieces a stranger sends frames that he made up,
who knows the layout, and frames that he heard before. The gateway's line goes through a live station and its log.

Every violation is explained by a fault that took from a mote what it knew, or broke what the order rests on
(`violations.py` beside this); one that is not is a fault. So is an exception, a packet that the log lacks, a log that
`verify` finds fault with, a decision that differs when the log is decided again, a message that left twice or never,
and with a key one that no mote sent, or that was played again.

Here the radios are always on; `scheduled_storm.py` does the same to motes that sleep. The logs stay in .soak/logs: for
`memory.py`, which lets one station take them all.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from basestation import cli
from basestation.arrivals import Arrival
from basestation.journal.decision import Fate
from basestation.journal.projection import project_all
from basestation.journal.reader import read_journal
from basestation.journal.record_format import RecordKind
from basestation.journal.writer import JournalWriter
from basestation.live.deciding import again
from basestation.live.happenings import Arrived, Delivered, Happening
from basestation.live.runner import past_due
from basestation.live.station import Station
from basestation.testbed import emulator, faults, images, topologies
from basestation.testbed.judge import decoded, follow, messages_of
from basestation.testbed.recorded_messages import Sent
from basestation.testbed.scenario import ScenarioNetwork
from basestation.testbed.setup import Wish, assemble, networks_in
from basestation.testbed.signals import message_of
from basestation.testbed.truth_log import Event, Power, Reset, Signal, Uart, read
from packet_formats.air import air_format
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment
from packet_formats.framing import FrameDecoder
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message
from packet_formats.records import Beacon
from packet_formats.tinyos import ActiveMessage, decode_packet
from tests.soak import memory
from tests.soak.py_fuzz import Books, Forger, Run
from tests.soak.running import Piece, Search, draw_of
from tests.soak.violations import NS, Storm, explained
from tools.station_run import TruthEvents

AIM = 12 * 3600  # emulated seconds
SECONDS = 1200
MOTES = 10


@dataclass(frozen=True)
class Climate:
    """In which network a storm is, and how dense. Times are seconds."""

    search: str
    example: str
    rate: float  # messages a second of each mote
    begin: float  # in which nothing happens
    heard: float  # in which a stranger listens before he plays frames again
    every: float  # from one fault to the next, on average
    slower: float  # times as long as with radios that are always on motes are off, and jammed


ALWAYS_ON = Climate("storm", "micaz", rate=0.3, begin=15, heard=40, every=12, slower=1)


# ---- What happens ----


def entry(at: float, **keys: object) -> str:
    said = "\n".join(f"{name} = {value!r}".replace("'", '"') for name, value in {"at": at, **keys}.items())
    return f"[[fault]]\n{said}\n"


def misfortune(draw: random.Random, at: float, end: float, slower: float) -> Iterator[str]:
    """One thing that goes wrong."""
    mote = draw.randrange(MOTES)
    match draw.randrange(9):
        case 0:
            yield entry(at, do="reset", mote=mote)
        case 1:
            yield entry(at, do="restart", mote=mote, seconds=slower * draw.uniform(0.1, 60))
        case 2:
            yield entry(at, do="brownout", mote=mote, seconds=draw.uniform(0.01, 2))
        case 3:
            yield entry(at, do="corrupt", mote=mote, bytes=draw.randrange(1, 50))
        case 4:
            yield entry(at, do="jam", seconds=slower * draw.uniform(0.1, 10))
        case 5:  # a burst of losses
            for burst in range(draw.randrange(5, 30)):
                yield entry(at + 0.2 * burst, do="jam", seconds=draw.uniform(0.005, 0.15))
        case 6:
            yield entry(at, do="restart", mote="root", seconds=slower * draw.choice((0.2, 3.0, 30.0, 90.0)))
        case 7:  # a root that comes and goes
            for time in range(draw.randrange(2, 6)):
                yield entry(
                    at + 3 * slower * time, do="restart", mote="root", seconds=slower * draw.uniform(0.1, 2)
                )
        case _:
            pair = [mote, (mote + draw.randrange(1, MOTES)) % MOTES]
            yield entry(at, do="cut", between=pair)
            yield entry(draw.uniform(at, end), do="heal", between=pair)


def timeline(
    draw: random.Random, climate: Climate, deployment: Deployment, seconds: float, heard: list[Signal] | None
) -> str:
    """What goes wrong, as a timeline of the testbed's. `heard`: what a stranger has heard, if there is one."""
    end, begin = seconds - 20, climate.begin if heard is None else climate.heard
    found = [
        line
        for _ in range(draw.randrange(2, 2 + int(2 * seconds / climate.every)))
        for line in misfortune(draw, draw.uniform(begin, end), end, climate.slower)
    ]
    if draw.random() < 0.1:
        found.append(entry(draw.uniform(0.7 * seconds, end), do="kill", mote="root"))
    if heard is not None:
        radio = BOARDS[deployment.network.board].radio
        forger = Forger(draw, Run("", replace(deployment, key=None), []))
        for number in range(draw.randrange(10, int(seconds))):
            message = decode_packet(forger.packet())
            assert isinstance(message, ActiveMessage)
            made_up = air_format(radio).frame(message, number % 256)
            frame = draw.choice(heard).bytes if heard and draw.random() < 0.5 else made_up
            at = moment(draw, deployment, climate.heard, end, heard)
            found.append(entry(at, do="inject", frame=frame.hex()))
    return "".join(found)


def moment(
    draw: random.Random, deployment: Deployment, begin: float, end: float, heard: list[Signal]
) -> float:
    """When an attacker sends: at any time, or, under a schedule, mostly while motes listen."""
    at, period = draw.uniform(begin, end), deployment.radio.period_ms / 1000
    if not period or not heard or draw.random() < 0.2:
        return at
    awake = draw.choice(heard).begin / NS + draw.uniform(-0.05, 0.05)
    return min(max(begin, at - (at - awake) % period), end)


@dataclass(frozen=True)
class Emulated:
    network: ScenarioNetwork
    events: list[Event]
    script: tuple[str, ...]


def emulate(
    number: int, seconds: float, place: Path, climate: Climate, deployment: Deployment, stranger: bool
) -> Emulated:
    """The same seed gives the same frames until a stranger sends: what he plays again is from a run before."""
    draw = draw_of(climate.search, number)
    topology = topologies.grid(MOTES, hops=deployment.network.hops)
    (network,) = networks_in([deployment], topology)
    programs = {network.name: images.programs_for(deployment, climate.rate)}

    def run(seconds: float, script: tuple[str, ...]) -> list[Event]:
        wish = Wish(seed=number, seconds=seconds, script=script)
        scenario = assemble([network], topology, programs, place, wish).text()
        with emulator.start(emulator.build(), scenario, place / "truth") as going:
            going.finish()
        return list(read(place / "truth"))

    heard = None
    if stranger:
        heard = [one for one in run(climate.heard, ()) if isinstance(one, Signal) and one.bytes]
    script = faults.parse(timeline(draw, climate, deployment, seconds, heard), [network])
    return Emulated(network, run(seconds, script), script)


# ---- The station ----


@dataclass
class Listened:
    books: Books
    lines: list[Arrival]
    order: list[Sent]  # as it was delivered, of what can be ordered
    faults: list[str]


def listen(emulated: Emulated, folder: Path) -> Listened:
    """Run a station with its log on the gateway's line: what it delivered, and the faults."""
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
            number = journal.append(line)
            for happening in (*past_due(station, line.mono_ns), *station.take(line)):
                take(happening)
            if station.decision is not None:
                journal.append_decision(number, line, station.decision)
    for happening in station.finish():
        take(happening)
    found.faults += [*log_faults(folder, [line.packet for line in found.lines]), *books.wrong()]
    found.faults += decision_faults(folder, deployment, station)
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


def decision_faults(folder: Path, deployment: Deployment, station: Station) -> Iterator[str]:
    """The log decided again says the same, and its tables have what the station counted."""
    journal, told = read_journal(folder), list[object]()
    found = again(journal, deployment, told.append)
    yield from found.differing
    if found.undecided:
        yield f"{found.undecided} frames are undecided"
    tables = project_all(journal, deployment, told.append)
    for fate, counted in {
        Fate.MESSAGE: station.received - sum(table.count(Fate.UNTIMED) for table in tables),
        Fate.DUPLICATE: sum(counts.duplicates for counts in station.motes.values()),
    }.items():
        if (rows := sum(table.count(fate) for table in tables)) != counted:
            yield f"{rows} rows are {fate.name.lower()}, the station counted {counted}"


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
    return Storm(boots, damaged, believed, network.deployment, list(root_spoke(emulated)))


def root_spoke(emulated: Emulated) -> Iterator[tuple[int, int]]:
    """When the gateway, which is the root, sent a beacon, and of which epoch."""
    network = emulated.network
    signals = [event for event in emulated.events if isinstance(event, Signal)]
    for seen in decoded(signals, network, layout_of(network.deployment)):
        message = seen.message
        if isinstance(message, Beacon) and message.hops == 0 and seen.signal.node in network.gateways:
            yield seen.signal.begin, message.epoch


def piece(number: int, climate: Climate = ALWAYS_ON, seconds: float = SECONDS) -> Piece:
    keyed, stranger = number % 2 == 1, number % 4 >= 2
    row = ("with a key" if keyed else "without a key") + (", a stranger" if stranger else "")
    deployment = memory.deployment_of(keyed, climate.example)
    log = memory.log_of(climate.search, number)
    with tempfile.TemporaryDirectory(prefix="causeway-storm-") as place:
        try:
            emulated = emulate(number, seconds, Path(place), climate, deployment, stranger)
            found = listen(emulated, log)
            why, unexplained = explained(found.order, storm_of(emulated))
        except Exception:
            lines = traceback.format_exc().splitlines()
            return Piece(row, {}, [f"piece {number}: {' '.join(lines[-4:])}"])
    counts = {
        "seconds": int(seconds),
        "messages": found.books.arrived,
        "delivered": found.books.delivered,
        "violations": sum(why.values()) + len(unexplained),
    }
    counts |= {reason: why[reason] for reason in Storm.REASONS}
    return Piece(row, counts, [f"piece {number}: {fault}" for fault in found.faults + unexplained])


SEARCH = Search("storm", "seconds", AIM, piece)

if __name__ == "__main__":
    sys.exit(SEARCH.main())
