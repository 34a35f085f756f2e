"""Journals for the tests: what a gateway's line would have brought, from simulated runs."""

from collections.abc import Iterable
from pathlib import Path

from basestation.arrivals import Arrival, Gap, Line, PolicyChange
from basestation.journal.decision import Decision, Fate
from basestation.journal.reader import JournalHole, read_journal, read_segment
from basestation.journal.record_format import (
    Ending,
    Record,
    RecordKind,
    encode_record,
    end_mark,
)
from basestation.journal.writer import JournalWriter
from basestation.live.happenings import Happening
from basestation.live.station import Station
from basestation.simulator.gateway_line import serial_line
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from packet_formats.deployment import Deployment, from_dict
from packet_formats.framing import FrameDecoder

TICK_NS = 3_906_250
WALL_NS = 1_700_000_000_000_000_000


# Four bytes, as many as the simulator's messages have: their number, read in three parts.
VALUES = [
    {"name": "light", "type": "u16", "scale": 0.1, "unit": "lx"},
    {"name": "count", "type": "u8", "unit": 'a, "b"'},
    {"name": "t", "type": "i8"},
]


def with_values(deployment, values=VALUES):
    """The deployment, whose messages' data now has names."""
    tables = {**deployment.to_dict(), "data": values}
    if values:
        del tables["network"]["data_bytes"]
    return from_dict(tables)


def simulated(name="shlc", values=(), **options):
    """A run's trace, and the arrivals that a base station would have had from it."""
    world = WorldOptions(**{"messages": 400, "seed": 3} | options)
    deployment = with_values(deployment_for(world, build_scheme(world, name), "cbd", 100), list(values))
    trace = trace_of(generate(world), deployment)
    return trace, arrivals_of(trace)


def arrivals_of(trace):
    decoder, arrivals = FrameDecoder(), []
    for tick, line in serial_line(trace):
        for packet in decoder.feed(line):
            at = tick * TICK_NS + len(arrivals)
            arrivals.append(Arrival(0, at, WALL_NS + at, packet))
    return arrivals


def write(folder: Path, lines, deployment=None, run="run-1", **options):
    """A log of lines, with what a station decides on them; the number of each record."""
    station = deployment and Station(deployment)
    with JournalWriter(folder, deployment, run, "never", **options) as journal:
        return [_append(journal, line, station)[0] for line in lines]


def noting(clock: int, heard: int | None = None) -> Decision:
    """A decision that notes the observer's clock, and when a message was heard."""
    return Decision(Fate.MESSAGE, heard, is_long=True, clock=clock)


def logged(
    folder: Path, lines: Iterable[Line], deployment: Deployment, station: Station | None = None, **options
) -> tuple[Station, list[Happening]]:
    """Play lines, and keep the log that the runner would keep."""
    station = station or Station(deployment)
    with JournalWriter(folder, deployment, "run-1", "never", **options) as journal:
        return station, append(journal, lines, station)


def append(journal: JournalWriter, lines: Iterable[Line], station: Station) -> list[Happening]:
    """Write lines and what the station decides on them."""
    return [happening for line in lines for happening in _append(journal, line, station)[1]]


def _append(journal: JournalWriter, line: Line, station: Station | None) -> tuple[int, list[Happening]]:
    number = journal.append(line)
    found = station.take(line) if station else []
    if station and station.decision is not None:
        journal.append_decision(number, line, station.decision)
    return number, found


def append_note(journal: JournalWriter, text: str, mono_ns: int, wall_ns: int) -> None:
    """A note, as older journals hold them: the station writes none any more."""
    journal._write(RecordKind.NOTE, 0, mono_ns, wall_ns, text.encode())


def write_everything(folder: Path, trace, arrivals, **options):
    """A journal with every kind of record in it."""
    station = Station(trace.deployment)
    with JournalWriter(
        folder, trace.deployment, trace.run, "never", site="hill", sources=["sim@1"], **options
    ) as journal:
        append_note(journal, "begun, in München", 1, WALL_NS)
        for i, arrival in enumerate(arrivals):
            append(journal, [arrival], station)
            if i % 50 == 49:
                journal.append(Gap(0, arrival.mono_ns, arrival.wall_ns, False, "unplugged, «gone»"))
                journal.append(Gap(0, arrival.mono_ns + 1, arrival.wall_ns + 1, True, "back"))
        last = arrivals[-1]
        journal.append_policy(PolicyChange(last.mono_ns, last.wall_ns, "dapw", 40), 1 << 40)
        for packet in (b"\x40\x07", b"\x99 no packet"):
            odd = Arrival(1, last.mono_ns, last.wall_ns, packet)
            journal.append_decision(journal.append(odd), odd, Decision(Fate.NO_MESSAGE))
        counters = {"fed": 12, "crc": {"count": 1, "bytes": 9}}
        journal.append_counters(0, counters, last.mono_ns, last.wall_ns)


def refuse(fault):
    raise AssertionError(str(fault))


def refuse_damage(fault):
    """Records may be missing, but what is there can be read."""
    if not isinstance(fault, JournalHole):
        refuse(fault)


def records(folder: Path):
    return list(read_journal(folder).records(refuse_damage))


def put_behind(path: Path, more: list[Record]) -> int:
    """Write records of any content behind those of a closed segment, and say at which byte."""
    segment = read_segment(path)
    at, after = segment.scan.mark.at, more[-1].number + 1
    raw = b"".join(encode_record(record, segment.salt) for record in more)
    path.write_bytes(segment.raw[:at] + raw + end_mark(after, Ending.CLOSED, 0, 0, segment.salt))
    return at
