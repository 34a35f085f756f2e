"""Which message a frame is: no honest message is a copy of another, and the table of a log has what the station had."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from basestation.arrivals import Line
from basestation.deployed import scheme_of
from basestation.journal.field_truth import with_field_truth
from basestation.journal.projection import project_all
from basestation.journal.reader import read_journal
from basestation.live.happenings import Alarm, Arrived, Delivered, Happening, Reboot, Restarted
from basestation.live.station import Station
from basestation.views.lines import row_of
from packet_formats.deployment import CRYSTAL_HZ, Deployment, from_dict
from packet_formats.keys import Key
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message
from packet_formats.records import StartCause
from packet_formats.schemes import names
from packet_formats.seal import Seal
from tests.journal import logs
from tests.live.world import TICK, Gateway, health

START = 100 * CRYSTAL_HZ
EVERY = 64 * TICK  # 0.25 s: 256 periods are a multiple of each stamp's clock
KEY = Key(bytes(range(16)))


def deployment(scheme: str = "shlc", keyed: bool = False) -> Deployment:
    setup = from_dict(
        {
            "network": {"name": "t", "board": "micaz", "motes": 4, "tinyos": 2, "data_bytes": 4},
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 12},
            "stamp": {"scheme": scheme},
        }
        | ({"security": {"mic": 4, "key": "site.key"}} if keyed else {})
    )
    return replace(setup, key=KEY) if keyed else setup


def sent(setup: Deployment, count: int, mote: int = 0, begin: int = START) -> Iterator[tuple[int, Data]]:
    """What a mote sends that starts now: constant data, exactly every period; and when it is heard."""
    scheme, layout = scheme_of(setup), layout_of(setup)
    program, codec = scheme.start(mote), scheme.codec()
    for number in range(count):
        at = begin + number * EVERY
        stamp = codec.encode(program.on_send(at >> 7, number + 1), mote, number + 1)
        data = Data(mote, number % 256, stamp, data=bytes(4))
        if setup.key is not None:
            sealed = Seal(setup.key, layout).sealed_data(data, 0, at)
            data = decode_message(sealed, layout)  # type: ignore[assignment]
        yield at + TICK, data


def heard(setup: Deployment, frames: list[tuple[int, Data]]) -> list[Line]:
    gateway = Gateway(setup)
    for cycles, message in sorted(frames, key=lambda item: item[0]):
        gateway.hear(message, cycles)
    return gateway.out


def logged(setup: Deployment, folder: Path, lines: list[Line]) -> tuple[Station, list[Happening]]:
    """Play lines, and keep the log that the runner would keep."""
    station, found = logs.logged(folder, lines, setup)
    return station, found + station.finish()


def of_the_table(setup: Deployment, folder: Path, names: tuple[str, ...]) -> list[tuple]:
    """Columns of the messages of a log, graph included."""
    tables = [one.messages for one in project_all(read_journal(folder), setup, pytest.fail)]
    rows = [row for table in with_field_truth(tables, setup) for row in table.to_pylist()]
    return [tuple(row[name] for name in names) for row in rows]


def same_in_the_table(setup: Deployment, folder: Path, found: list[Happening]) -> None:
    """The rows of the log are what the station took as messages, and no two have one number."""
    taken = [tuple(one.name) for one in found if isinstance(one, Arrived) and one.number]
    assert of_the_table(setup, folder, ("source", "boot", "sequence")) == taken
    assert len(set(of_the_table(setup, folder, ("source", "number")))) == len(taken)


def of(kind: type, found: list[Happening]) -> list:
    return [item for item in found if isinstance(item, kind)]


def alarms(found: list[Happening]) -> set[str]:
    return {item.what for item in of(Alarm, found)} - {"missing", "mote", "gateway"}


# ---- Outages ----

# Of each mote: the first message that is lost, and how many are.
OUTAGES = [(240, 16), (250, 16), (200, 57), (20, 240)]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("scheme", "keyed"), [*((name, False) for name in names()), ("sequence", True), ("shlc", True)]
)
def test_no_message_after_an_outage_is_a_copy_of_one_before(tmp_path, scheme, keyed):
    """The sequence wraps for the first time inside the outage, and bytes repeat after 256 messages."""
    setup = deployment(scheme, keyed)
    frames = []
    for mote, (begin, lost) in enumerate(OUTAGES):
        came = [*sent(setup, 540, mote, START + mote * TICK)]
        frames += came[:begin] + came[begin + lost :]
    station, found = logged(setup, tmp_path, heard(setup, frames))
    for mote, (_, lost) in zip(station.snapshot(0).motes, OUTAGES, strict=True):
        assert (mote.received, mote.lost, mote.duplicates, mote.reboots) == (540 - lost, lost, 0, 0)
    assert len(of(Delivered, found)) == len(frames)
    assert alarms(found) <= {"losing"}
    same_in_the_table(setup, tmp_path, found)


def test_what_was_sent_before_the_first_message_heard_is_a_message(tmp_path):
    """The station starts as a mote's sequence wraps, and a relay delays the messages, and the boot, before."""
    setup = deployment()
    frames = [*sent(setup, 260)][252:]
    begin, data = frames[4]
    late = [(begin + n * TICK, one) for n, (_, one) in enumerate(frames[:4], 1)]
    late.append((begin + 5 * TICK, replace(data, boot=7, sequence=90)))
    station, found = logged(setup, tmp_path, heard(setup, frames[4:] + late))
    assert (station.received, station.snapshot(0).motes[0].duplicates) == (9, 0)
    came = [one.name.sequence for one in of(Arrived, found) if one.number]
    assert came == [0, -4, -3, -2, -1, 90, 1, 2, 3]
    same_in_the_table(setup, tmp_path, found)


# ---- Copies ----


@pytest.mark.parametrize("keyed", [False, True])
def test_a_copy_within_the_patience_is_one_whatever_its_hops(tmp_path, keyed):
    setup = deployment(keyed=keyed)
    frames = [*sent(setup, 300)]
    relayed = [(cycles + 8 * TICK, replace(data, hops=1)) for cycles, data in frames]
    station, found = logged(setup, tmp_path, heard(setup, frames + relayed))
    (mote,) = station.snapshot(0).motes
    assert (mote.received, mote.duplicates, mote.imitated) == (300, 300, 0)
    same_in_the_table(setup, tmp_path, found)


def test_other_bytes_under_one_number_are_two_messages_and_an_alarm(tmp_path):
    setup = deployment()
    frames = [*sent(setup, 300)]
    other = [(cycles + TICK, replace(data, data=b"fake")) for cycles, data in frames[100:110]]
    station, found = logged(setup, tmp_path, heard(setup, frames + other))
    (mote,) = station.snapshot(0).motes
    assert (mote.received, mote.duplicates, mote.imitated) == (310, 0, 10)
    assert alarms(found) == {"imitated"}
    assert len([one for one in of(Arrived, found) if one.number]) == 310


@pytest.mark.parametrize("seconds", [0.1, 5, 60])
def test_with_a_key_a_message_that_holds_no_time_is_taken_once(tmp_path, seconds):
    """Copies and replays of it are known by their bytes, whatever was heard meanwhile: its MIC is always right."""
    setup = deployment(keyed=True)
    timed = [*sent(setup, 300)]
    seal, layout = Seal(KEY, layout_of(setup)), layout_of(setup)
    stray = [
        decode_message(seal.sealed_data(replace(data, in_sync=False, mic=b""), 0, 0), layout)
        for _, data in sent(setup, 20, mote=1)
    ]
    heard_at = [START + number * EVERY for number in range(20)]
    again = [at + int(seconds * CRYSTAL_HZ) + TICK for at in heard_at]
    frames = [*timed, *zip(heard_at, stray, strict=True), *zip(again, stray, strict=True)]
    station, found = logged(setup, tmp_path, heard(setup, frames))
    assert station.motes[1].strays == 20
    assert len(of(Delivered, found)) == 320
    assert ("replayed" in alarms(found)) == (seconds > 10)
    assert of_the_table(setup, tmp_path, ("source", "sequence")) == [
        (one.name.source, one.name.sequence) for one in of(Arrived, found) if one.number
    ]


@pytest.mark.parametrize("boots", range(1, 8))
def test_copies_are_known_however_often_a_mote_starts_within_the_patience(tmp_path, boots):
    """Seven starts in half a second: each message is delivered once."""
    setup = deployment()
    frames = []
    for boot in range(boots + 1):
        for cycles, data in sent(setup, 1, begin=START + boot * 8 * TICK):
            frames += [
                (cycles + late * TICK, replace(data, boot=boot)) for late in (0, 8 * boots - 8 * boot + 1)
            ]
    station, found = logged(setup, tmp_path, heard(setup, frames))
    assert [item.name.boot for item in of(Arrived, found) if item.number] == list(range(boots + 1))
    (mote,) = station.snapshot(0).motes
    assert (mote.received, mote.duplicates, mote.reboots) == (boots + 1, boots + 1, boots)
    same_in_the_table(setup, tmp_path, found)


# ---- Motes that start anew ----


BEFORE = [60, 150, 230, 490]  # messages of each mote, until it is flashed


def flashed(setup: Deployment, pause: int, boot: int) -> list[Line]:
    """Four motes that are flashed anew with an erased memory; of some the first messages are not heard."""
    frames = []
    for mote, before in enumerate(BEFORE):
        frames += [
            (at, replace(data, boot=boot)) for at, data in sent(setup, before, mote, START + mote * TICK)
        ]
        begin = frames[-1][0] + pause
        frames += list(sent(setup, 150, mote, begin))[mote:]
        report = replace(health(mote, begin + EVERY, setup), boots=0, flags=1 | StartCause.POWER_ON << 2)
        frames.append((begin + 5 * EVERY, report))
    return heard(setup, frames)


@pytest.mark.few(2)
@pytest.mark.parametrize("boot", [0, 1, 5])
@pytest.mark.parametrize("seconds", [0.1, 1, 600])
def test_a_mote_that_was_flashed_anew_is_no_stranger_and_loses_nothing(tmp_path, seconds, boot):
    setup = deployment()
    station, found = logged(setup, tmp_path, flashed(setup, int(seconds * CRYSTAL_HZ), boot))
    assert not alarms(found)
    told = [row_of(item).text for item in of(Reboot, found)]
    assert sorted(text.partition(":")[0] for text in told) == [
        f"mote {mote} started anew" for mote in range(4)
    ]
    assert [item.cause for item in of(Restarted, found)] == ["power-on"] * 4
    for mote, before in zip(station.snapshot(0).motes, BEFORE, strict=True):
        assert (mote.received, mote.lost, mote.reboots, mote.imitated) == (before + 150 - mote.mote, 0, 1, 0)
    same_in_the_table(setup, tmp_path, found)


@pytest.mark.parametrize("before", BEFORE)
def test_a_network_that_was_flashed_anew_starts_without_a_time(tmp_path, before):
    """The time starts afresh, too: the first messages come before it is known."""
    setup = deployment()
    gateway, unsynced, synced = Gateway(setup), Gateway(setup, flags=2), Gateway(setup, epoch=1)
    for cycles, data in sent(setup, before):
        gateway.hear(data, cycles)
    later = 10**9 + gateway.last_ns
    for number, (cycles, data) in enumerate(sent(setup, 300, begin=CRYSTAL_HZ)):
        here = unsynced if number < 10 else synced
        here.hear(replace(data, in_sync=number >= 10), cycles, later)
    station, found = logged(setup, tmp_path, gateway.out + unsynced.out + synced.out)
    assert alarms(found) <= {"epoch"}
    assert [(item.boot, item.before) for item in of(Reboot, found)] == [(0, 0)]
    (mote,) = station.snapshot(0).motes
    assert (mote.received, mote.lost, mote.imitated) == (before + 300, 0, 0)


def test_a_mote_that_was_off_for_as_long_as_it_takes_to_come_round_raises_no_alarm(tmp_path):
    """Its messages look like those of an outage. Its health shows that it has sent less than before."""
    setup, count = deployment(), 230
    before, begin = [*sent(setup, count)], START + (count + 26) * EVERY
    frames = [*before, *sent(setup, 150, begin=begin)]
    first = replace(health(0, START + 200 * EVERY, setup), boots=0, sent=200)
    frames += [(START + 200 * EVERY + 1, first), (begin + 1, replace(first, time=begin, sent=1))]
    station, found = logged(setup, tmp_path, heard(setup, frames))
    assert not alarms(found)
    assert len(of(Restarted, found)) == 1
    (mote,) = station.snapshot(0).motes
    assert (mote.received, mote.lost, mote.duplicates) == (380, 26, 0)
    same_in_the_table(setup, tmp_path, found)
