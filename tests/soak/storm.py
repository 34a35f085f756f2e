"""Emulated hours of ten MICAz motes in a storm of faults, in pieces of two minutes, each with its own seed.

Resets, restarts, brown-outs, damaged memory, cut links, jamming, a root that is gone for a while; in every third piece
also frames that somebody made up who knows the layout. The gateway's line goes through a live station and its log. A
fault is an exception, a packet that the log lacks, or a message that left twice or never. Violations are counted and
not judged: memory that is damaged, and frames that are made up, may cause them.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from basestation.arrivals import Arrival
from basestation.journal.reader import read_journal
from basestation.journal.record_format import RecordKind
from basestation.journal.writer import JournalWriter
from basestation.live.runner import past_due
from basestation.live.station import Station
from basestation.testbed import engine, faults, images, topologies
from basestation.testbed.scenario import ScenarioNetwork
from basestation.testbed.setup import Wish, assemble, networks_in
from basestation.testbed.through_station import TruthEvents, field_run
from basestation.testbed.truth_log import Event, read
from packet_formats.air import air_format
from packet_formats.boards import BOARDS
from packet_formats.deployment import load
from packet_formats.framing import FrameDecoder
from packet_formats.layout import layout_of
from packet_formats.tinyos import decode_packet
from tests.soak.py_fuzz import Books, Run, forged
from tests.soak.running import ROOT, Piece, Search, draw_of

AIM = 24 * 3600  # emulated seconds
SECONDS = 120
MOTES = 10
RATE = 1.0  # messages a second of each mote
BEGIN = 15.0  # seconds in which nothing happens


def entry(at: float, **keys: object) -> str:
    said = "\n".join(f"{name} = {value!r}".replace("'", '"') for name, value in {"at": at, **keys}.items())
    return f"[[fault]]\n{said}\n"


def timeline(draw: random.Random, network: ScenarioNetwork, seconds: float, forging: bool) -> str:
    """What goes wrong, as a timeline of the testbed's."""
    found = []
    end = seconds - 20
    for _ in range(draw.randrange(3, 12)):
        at, mote = draw.uniform(BEGIN, end), draw.randrange(MOTES)
        match draw.randrange(7):
            case 0:
                found.append(entry(at, do="reset", mote=mote))
            case 1:
                found.append(entry(at, do="restart", mote=mote, seconds=draw.uniform(0.1, 20)))
            case 2:
                found.append(entry(at, do="brownout", mote=mote, seconds=draw.uniform(0.01, 2)))
            case 3:
                found.append(entry(at, do="corrupt", mote=mote, bytes=draw.randrange(1, 50)))
            case 4:
                found.append(entry(at, do="jam", seconds=draw.uniform(0.1, 5)))
            case 5:
                found.append(entry(at, do="restart", mote="root", seconds=draw.uniform(0.1, 30)))
            case _:
                pair = [mote, (mote + draw.randrange(1, MOTES)) % MOTES]
                found += [
                    entry(at, do="cut", between=pair),
                    entry(draw.uniform(at, end), do="heal", between=pair),
                ]
    if forging:
        run, radio = Run("", network.deployment, []), BOARDS[network.deployment.network.board].radio
        for number in range(draw.randrange(5, 40)):
            message = decode_packet(forged(draw, run))
            frame = air_format(radio).frame(message, number)  # type: ignore[arg-type]
            found.append(entry(draw.uniform(BEGIN, end), do="inject", frame=frame.hex()))
    return "".join(found)


def emulate(number: int, seconds: float, place: Path) -> tuple[list[Event], ScenarioNetwork]:
    draw = draw_of("storm", number)
    deployment = load(ROOT / "examples" / "micaz.toml")
    topology = topologies.grid(MOTES, hops=deployment.network.hops)
    (network,) = networks_in([deployment], topology)
    programs = {network.name: images.programs_for(deployment, RATE)}
    script = faults.parse(timeline(draw, network, seconds, forging=number % 3 == 2), [network])
    wish = Wish(seed=number, seconds=seconds, script=script)
    scenario = assemble([network], topology, programs, place, wish).text()
    with engine.start(engine.build(), scenario, place / "truth") as run:
        run.finish()
    return list(read(place / "truth")), network


def listen(events: list[Event], network: ScenarioNetwork, folder: Path) -> tuple[Books, list[str]]:
    """A station and its log at the gateway's line: what it told of, and what is wrong."""
    station, decoder = Station(network.deployment), FrameDecoder()
    books, packets = Books(layout_of(network.deployment)), []
    with JournalWriter(folder, network.deployment, "storm", "never") as journal:
        for event in TruthEvents.of(events).uarts:
            for packet in decoder.feed(event.bytes) if event.node in network.gateways else ():
                line = Arrival(0, event.t, event.t, packet)
                journal.append(line)
                packets.append(packet)
                for happening in (*past_due(station, event.t), *station.take(line)):
                    books.take(happening)
    for happening in station.finish():
        books.take(happening)
    told: list[str] = []
    records = read_journal(folder).records(lambda fault: told.append(str(fault)))
    if [record.payload for record in records if record.kind == RecordKind.FRAME] != packets:
        told.append("the log lacks packets")
    return books, told + books.wrong()


def piece(number: int, seconds: float = SECONDS) -> Piece:
    row = "faults and made-up frames" if number % 3 == 2 else "faults"
    with tempfile.TemporaryDirectory(prefix="causeway-storm-") as place:
        try:
            events, network = emulate(number, seconds, Path(place))
            books, told = listen(events, network, Path(place) / "log")
            run = field_run(events, network)
        except Exception as error:
            return Piece(row, {"seconds": int(seconds)}, [f"piece {number}: {error!r}"])
    counts = {
        "seconds": int(seconds),
        "messages": books.arrived,
        "delivered": books.delivered,
        "violations": run.violations.pairs,
    }
    return Piece(row, counts, [f"piece {number}: {fault}" for fault in told])


SEARCH = Search("storm", "seconds", AIM, piece)

if __name__ == "__main__":
    sys.exit(SEARCH.main())
