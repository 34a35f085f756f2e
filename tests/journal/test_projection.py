"""The tables of a log are what the live station made of the same frames, wherever segments end.

docs/reference/formats.md lists what older versions, which decided a second time from the log, had otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from basestation.arrivals import Arrival, Line
from basestation.journal.decision import Fate
from basestation.journal.projection import Projection, project, project_all, project_segment
from basestation.journal.reader import read_journal, read_segment
from basestation.journal.record_format import JournalError, RecordKind, Records, encode_header, encode_record
from basestation.journal.sidecar import DECISIONS
from basestation.live.deciding import again, decide
from basestation.live.happenings import Arrived
from basestation.live.station import Station
from basestation.observer import Reception
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.layout import layout_of
from packet_formats.messages import Data
from packet_formats.records import Heard
from packet_formats.schemes import names
from packet_formats.seal import Seal
from packet_formats.tinyos import encode_packet
from tests.journal.logs import logged, refuse, refuse_damage, simulated
from tests.journal.sealed_lines import attacked_alone, foreign
from tests.live import test_late_beacons as late_beacons
from tests.live import test_strangers as strangers
from tests.live import test_which_message as which
from tests.live.several import Several, SeveralWorld
from tests.live.test_guard import (
    KEY,
    attacked,
    deployment,
    honest_line,
    out_of_sync,
    over_the_wrap,
    put,
    read,
)
from tests.live.world import TICK
from tests.soak import py_fuzz

Corpus = tuple[Deployment, list[Line]]
S = CRYSTAL_HZ


def in_order(lines: list[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: line.mono_ns)


def without_records(setup: Deployment, lines: list[Line], share: float = 0.2) -> list[Line]:
    """Lines that have lost some heard records."""
    chance = random.Random(4)
    return [line for line in lines if not isinstance(said(line, setup), Heard) or chance.random() >= share]


def said(line: Line, setup: Deployment) -> Any:
    assert isinstance(line, Arrival)
    return read(line, setup)[1]


def several(scheme: str, **more: Any) -> Corpus:
    world = SeveralWorld(Several(scheme, **{"seconds": 25, "motes": 4} | more), 5)
    return world.setup, in_order(world.lines())


def lost_records(scheme: str) -> Corpus:
    setup, lines = several(scheme)
    return setup, without_records(setup, lines)


def gap(scheme: str) -> Corpus:
    """The gateway misses some 360 messages of a mote, which the others' stamps name."""
    setup, lines = several(scheme, rate=20.0, seconds=30, motes=3, hears=(1.0,), lines_ms=(2.0,))
    pairs = list(zip(lines[::2], lines[1::2], strict=True))
    missed = [pair for pair in pairs if said(pair[1], setup).source == 0][100:460]
    return setup, [line for pair in pairs if pair not in missed for line in pair]


def outages(scheme: str, keyed: bool = False) -> Corpus:
    """Motes that are not heard of for up to 359 messages."""
    setup, frames = which.deployment(scheme, keyed), []
    for mote, (begin, lost) in enumerate([(240, 16), (150, 359), (200, 57), (20, 240)]):
        came = [*which.sent(setup, 700, mote, which.START + mote * TICK)]
        frames += came[:begin] + came[begin + lost :]
    return setup, which.heard(setup, frames)


def reboots() -> Corpus:
    """Motes that start twelve times, soon or late, after a few messages or many."""
    setup, chance, frames = which.deployment(), random.Random(1), []
    for mote in range(3):
        begin = which.START + mote * TICK
        for boot in range(12):
            came = [*which.sent(setup, chance.choice((1, 3, 40, 300)), mote, begin)]
            frames += [(cycles, replace(data, boot=(boot + 5) % 8)) for cycles, data in came]
            begin = came[-1][0] + chance.choice((1, 20, 400, 4000)) * TICK
    return setup, which.heard(setup, frames)


def hostile(scheme: str, keyed: bool) -> Corpus:
    """Packets that are lost, changed, cut, late or forged; half of the forged ones are of a mote that has the key."""
    run, draw = py_fuzz.run_of(scheme, keyed), random.Random(3)
    station, forger, lines = Station(run.deployment), py_fuzz.Forger(draw, run), list[Line]()
    for line in py_fuzz.lines(draw, py_fuzz.stormy(draw, run.packets, forger)):
        station.take(line)
        forger.now = station.timeline.network_time(line.mono_ns) or forger.now
        lines.append(line)
    return run.deployment, lines


def copies(keyed: bool) -> Corpus:
    """Each message over two ways; some again later, and some with other bytes."""
    setup = which.deployment(keyed=keyed)
    frames = [*which.sent(setup, 300)]
    relayed = [(cycles + 8 * TICK, replace(data, hops=1)) for cycles, data in frames]
    again = [(cycles + 20 * S, data) for cycles, data in frames[100:140]]
    other = [(cycles + TICK, replace(data, data=b"fake")) for cycles, data in frames[100:110]]
    return setup, which.heard(setup, frames + relayed + again + other)


def flashed() -> Corpus:
    setup = which.deployment()
    return setup, which.flashed(setup, S, 1)


def under_attack(scheme: str) -> Corpus:
    network = deployment(scheme)
    return network, [*attacked(network, honest_line(network, 100))]


def attacked_without_records(scheme: str) -> Corpus:
    network = deployment(scheme)
    return network, [*attacked_alone(network, foreign(network, honest_line(network, 100)))]


def wrapped(alone: bool) -> Corpus:
    network = deployment()
    honest, replayed = over_the_wrap(network, alone)
    return network, [*honest, *replayed]


def strays() -> Corpus:
    """Messages that hold no time among others."""
    network, line = deployment(), list[Line]()
    seal = Seal(KEY, layout_of(network))
    for place, arrival in enumerate(honest_line(network, 60)):
        line.append(arrival)
        if isinstance(read(arrival, network)[1], Data):
            line.append(put(out_of_sync(seal, place % 8, place * 37 % 256), arrival))
    return network, line


def posed(times: int, lines: Callable[..., list[Line]]) -> Corpus:
    """Somebody sends records that only a gateway makes."""
    frames = list(strangers.honest())
    forged = [
        (strangers.START + n * 40 * TICK + k, strangers.heard_record(7 * n))
        for n in range(60)
        for k in range(times)
    ]
    return strangers.SETUP, in_order(lines(frames + forged))


def late() -> Corpus:
    lines, _ = late_beacons.lines_of([n % 9 for n in range(200)], [late_beacons.SETUP.late_guess * TICK])
    return late_beacons.SETUP, lines


def untimed() -> Corpus:
    """A log that begins without any heard record."""
    setup, lines = several("shlc")
    return setup, without_records(setup, lines[:100], 1.0) + lines[100:]


def loop(name: str) -> Corpus:
    trace, arrivals = simulated(name, loss=0.1)
    junk = [
        arrivals[50]._replace(packet=packet)
        for packet in (
            b"\x40\x07",
            b"\x42junk",
            b"\x99",
            encode_packet(read(arrivals[1], trace.deployment)[0]),
        )
    ]
    return trace.deployment, [*arrivals[:51], *junk, *arrivals[51:]]


CORPUS: dict[str, Callable[[], Corpus]] = {
    **{f"two gateways, {name}": lambda name=name: several(name, motes=3, idle_ms=30.0) for name in names()},
    **{f"outages, {name}": lambda name=name: outages(name) for name in ("vector", "shlc")},
    **{f"gap, {name}": lambda name=name: gap(name) for name in ("vector", "barrier")},
    **{f"lost records, {name}": lambda name=name: lost_records(name) for name in ("shlc", "barrier", "vector")},
    **{f"attacked, {name}": lambda name=name: under_attack(name) for name in ("shlc", "sequence")},
    **{f"attacked alone, {name}": lambda name=name: attacked_without_records(name) for name in ("shlc", "sequence")},
    **{f"hostile, {name}": lambda name=name: hostile(name, True) for name in ("shlc", "sequence")},
    "hostile, no key": lambda: hostile("barrier", False),
    "junk": lambda: loop("kn"),
    "reboots": reboots,
    "foreign gateway": lambda: several("shlc", foreign=(1,), beacon_ms=20.0),
    "foreign gateways": lambda: several("barrier", foreign=(0, 1)),
    "keyed": lambda: outages("shlc", keyed=True),
    "copies": lambda: copies(False),
    "copies, keyed": lambda: copies(True),
    "flashed": flashed,
    "wrapped": lambda: wrapped(False),
    "wrapped alone": lambda: wrapped(True),
    "strays": strays,
    "posed": lambda: posed(1, strangers.pairs),
    "posed alone": lambda: posed(4, strangers.alone),
    "late beacons": late,
    "untimed": untimed,
}  # fmt: skip


class Watched(Station):
    """A station that remembers what its observer made of each message."""

    def __init__(self, setup: Deployment) -> None:
        super().__init__(setup)
        self.receptions: list[Reception] = []
        receive = self.observer.receive

        def watched(*args: Any) -> Reception:
            self.receptions.append(receive(*args))
            return self.receptions[-1]

        self.observer.receive = watched  # type: ignore[method-assign]


def rows_of(station: Watched, found: list[Any]) -> Iterator[tuple[Any, ...]]:
    """The messages as the station had them."""
    shift = station.deployment.clock.tick_log2
    arrived = [one for one in found if isinstance(one, Arrived) and isinstance(one.message, Data)]
    for one, reception in zip(arrived, station.receptions, strict=True):
        message, told = reception.message, one.heard
        cycles = one.clock if one.cycles is None else one.cycles
        if message is None or cycles is None:
            continue
        stamp: Any = None
        if station.deployment.scheme.is_ordered and not reception.stray:
            stamp = message.stamp.r, message.stamp.c, list(message.stamp.kn)
        yield (
            *one.name,
            None if reception.stray else message.number,
            cycles >> shift,
            one.clock >> shift,
            one.frame.data,
            one.mono_ns,
            message.in_sync,
            *((None, None, None) if told is None else (told.time, told.gateway, told.rssi)),
            stamp,
        )


NAMES = ("source", "boot", "sequence", "number", "heard", "clock", "payload", "mono_ns", "in_sync")
HEARD = ("heard_time", "gateway", "rssi")


def projected_rows(table: pa.Table, ordered: bool) -> Iterator[tuple[Any, ...]]:
    for row in table.to_pylist():
        stamp = row["stamp"]
        is_read = ordered and row["number"] is not None
        yield *(row[name] for name in NAMES + HEARD), tuple(stamp.values()) if is_read else None


def table_of(projections: list[Projection]) -> pa.Table:
    return pa.concat_tables([one.messages for one in projections])


@pytest.mark.few(12)
@pytest.mark.parametrize("name", CORPUS)
def test_the_table_is_what_the_station_had(tmp_path: Path, name: str) -> None:
    """And what the log says if it is decided again."""
    setup, lines = CORPUS[name]()
    station, found = logged(tmp_path, lines, setup, Watched(setup), segment_bytes=5000)
    journal = read_journal(tmp_path)
    projections = project_all(journal, setup, refuse)
    assert len(projections) > 1
    assert all(not one.count(Fate.UNDECIDED) for one in projections)
    table = table_of(projections)
    assert list(projected_rows(table, setup.scheme.is_ordered)) == list(rows_of(station, found))
    assert len(table) == station.received - sum(one.count(Fate.UNTIMED) for one in projections) > 5
    copies = sum(one.count(Fate.DUPLICATE) for one in projections)
    assert copies == sum(counts.duplicates for counts in station.motes.values())
    assert np.all(np.diff(table["batch"].to_numpy()) > 0)
    checked = again(journal, setup, refuse)
    assert (checked.undecided, checked.differing) == (0, [])
    assert decide(journal, setup, refuse) == checked.decisions
    assert table_of(project_all(journal, setup, refuse)).equals(table)


# ---- What is lost, and what was decided later ----


@pytest.fixture
def log(tmp_path: Path) -> tuple[Deployment, Path]:
    setup, lines = several("shlc", motes=3)
    logged(tmp_path / "run", lines, setup)
    return setup, tmp_path / "run"


def records_of(folder: Path) -> Records:
    (segment,) = read_journal(folder).segments(refuse)
    return segment.records


def test_what_is_lost_changes_no_other_row(log: tuple[Deployment, Path]) -> None:
    """Neither a frame without its decision, nor a decision without its frame, which is not the next frame's."""
    setup, folder = log
    records, chance = records_of(folder), np.random.default_rng(1)
    whole = {row["batch"]: row for row in project(records, setup).messages.to_pylist()}
    left = records.chosen(chance.random(len(records)) < 0.7)
    found = project(left, setup)
    decided = set(left.decisions()["frame"].tolist())
    there = [number for number in left.of_kind(RecordKind.FRAME).head["number"].tolist() if number in decided]
    rows = found.messages.to_pylist()
    assert [row["batch"] for row in rows] == [number for number in there if number in whole]
    assert all(row == whole[row["batch"]] for row in rows)
    assert 0 < found.count(Fate.UNDECIDED) < len(found.frames)
    assert found.count(Fate.MESSAGE) == len(rows) < len(whole)


def without_decisions(folder: Path, decider: int) -> Path:
    """The same log as one that has none, and where the decisions are then put."""
    (path,) = read_journal(folder).paths
    segment = read_segment(path)
    assert segment.header is not None
    header = encode_header(replace(segment.header, decider=decider))
    kinds = {kind: [] for kind in (True, False)}  # type: dict[bool, list[bytes]]
    for record in segment.records:
        kinds[record.kind == RecordKind.DECISION].append(encode_record(record, segment.salt))
    path.write_bytes(header + b"".join(kinds[False]))
    later = folder / DECISIONS / path.name
    later.parent.mkdir()
    later.write_bytes(encode_header(segment.header) + b"".join(kinds[True]))
    return later


@pytest.mark.parametrize("decider", [0, 1])
def test_decisions_that_were_made_later_count(log: tuple[Deployment, Path], decider: int) -> None:
    setup, folder = log
    wanted = table_of(project_all(read_journal(folder), setup, refuse))
    later = without_decisions(folder, decider)
    assert table_of(project_all(read_journal(folder), setup, refuse_damage)).equals(wanted)
    later.unlink()
    with pytest.raises(JournalError, match=r"the log has no decisions: `basestation log decide .*run` makes"):
        project_all(read_journal(folder), setup, refuse_damage)


def test_the_frame_behind_which_the_writer_was_interrupted_is_counted(tmp_path: Path) -> None:
    setup, lines = several("shlc", motes=3)
    logged(tmp_path, lines[:2], setup)
    (path,) = read_journal(tmp_path).paths
    segment = read_segment(path)
    path.write_bytes(segment.raw[: segment.scan.starts[-1]])
    found = project_segment(read_segment(path), setup)
    assert found.fates.tolist() == [Fate.RECORD, Fate.UNDECIDED]
    assert not len(found.messages)


def test_a_log_that_was_decided_for_another_network_gives_no_rows(log: tuple[Deployment, Path]) -> None:
    found = project(records_of(log[1]), several("vector", motes=3)[0])
    assert not len(found.messages)
    assert found.count(Fate.UNDECIDED) == len(found.frames) // 2
