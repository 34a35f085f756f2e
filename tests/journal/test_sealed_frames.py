"""The MICs of a journal's frames are checked in bulk: forged and replayed ones give no message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from basestation.arrivals import Arrival
from basestation.journal.message_table import Fate, ReadMessages, read_messages
from basestation.journal.record_format import Record, RecordKind, Records, encode_record, scan
from packet_formats.deployment import Deployment
from packet_formats.keys import Key
from packet_formats.layout import layout_of
from packet_formats.messages import Data, encode_message
from packet_formats.records import Beacon, Heard
from packet_formats.seal import Seal
from packet_formats.tinyos import encode_packet
from tests.live.test_guard import (
    KEY,
    MOTES,
    WRONG,
    S,
    attacked,
    deployment,
    honest_line,
    out_of_sync,
    over_the_wrap,
    play,
    put,
    read,
)


def foreign(network: Deployment, line: Iterable[Arrival], gateway: int = 0) -> Iterator[Arrival]:
    """The same frames behind a gateway that sends no heard records; four times a second a beacon and its proof."""
    layout, seal = layout_of(network), Seal(KEY, layout_of(network))
    sequence, told_ns = 0, -S
    for arrival in line:
        arrival = arrival._replace(gateway=gateway)
        _, message = read(arrival, network)
        if not isinstance(message, Heard):
            yield arrival
        elif arrival.mono_ns - told_ns >= S // 4:
            sequence, told_ns = sequence + 1, arrival.mono_ns
            beacon = Beacon(MOTES, MOTES, message.epoch, sequence, 0, 1, 0, message.time)
            for one in (beacon, seal.proof(beacon)):
                yield arrival._replace(packet=encode_packet(encode_message(one, layout)))


def attacked_alone(network: Deployment, line: Iterable[Arrival]) -> Iterator[Arrival]:
    """Between honest frames without records: forged ones, and old ones that are played again."""
    wrong, sent = Seal(WRONG, layout_of(network)), list[Arrival]()
    for arrival in line:
        yield arrival
        _, message = read(arrival, network)
        if isinstance(message, Data):
            number = (message.sequence + 1) % 256
            yield put(wrong.sealed_data(replace(message, sequence=number, mic=b""), 0, 12345), arrival)
            sent.append(arrival)
            if arrival.mono_ns - sent[0].mono_ns > S // 2:
                yield arrival._replace(packet=sent.pop(0).packet)


def records_of(line: Iterable[Arrival]) -> Records:
    raw = b"".join(
        encode_record(Record(number, RecordKind.FRAME, one.gateway, one.mono_ns, one.wall_ns, one.packet))
        for number, one in enumerate(line)
    )
    return Records.of(raw, scan(raw, 0).starts)


def named(reading: ReadMessages) -> list[tuple[int, bytes]]:
    return [
        (row["source"], row["payload"]) for row in reading.messages.select(["source", "payload"]).to_pylist()
    ]


def test_bulk_takes_what_the_station_takes() -> None:
    network = deployment()
    line = list(attacked(network, honest_line(network, 60)))
    records = records_of(line)
    station, _ = play(network, line)
    reading = read_messages(records, network)
    assert len(reading.messages) == station.received > 40
    refused = station.snapshot(0).refused
    assert refused is not None
    # One forged message and one forged health report for each honest message, and the replays.
    forged = int(np.sum(reading.fates == Fate.FORGED))
    assert forged == 2 * station.received + refused["replayed"]
    unchecked = read_messages(records, replace(network, key=None))
    assert len(unchecked.messages) > len(reading.messages)
    assert not len(read_messages(records, replace(network, key=Key(bytes([7] * 16)))).messages)


@pytest.mark.parametrize("scheme", ["shlc", "barrier", "sequence"])
def test_rows_without_heard_records_are_checked_by_their_mic(scheme: str) -> None:
    network = deployment(scheme)
    honest = list(foreign(network, honest_line(network, 60)))
    alone = read_messages(records_of(honest), network)
    reading = read_messages(records_of(attacked_alone(network, honest)), network)
    assert len(alone.messages) == 60
    assert named(reading) == named(alone)
    assert reading.messages["stamp"] == alone.messages["stamp"]
    assert not np.isin(alone.fates, (Fate.FORGED, Fate.UNCHECKED)).any()
    assert np.sum(reading.fates == Fate.FORGED) >= 60


def test_hosts_have_clocks_of_their_own() -> None:
    """Two gateways at two base stations, merged: the time on a line goes by that line's host."""
    network = deployment()
    line = honest_line(network, 60)
    other = [
        one._replace(mono_ns=one.mono_ns + 10_000 * S, wall_ns=one.wall_ns + 10)
        for one in foreign(network, line, 1)
    ]
    both = sorted([*foreign(network, line), *other], key=lambda one: one.wall_ns)
    reading = read_messages(records_of(both), network)
    assert len(reading.messages) == 60
    assert not np.isin(reading.fates, (Fate.FORGED, Fate.UNCHECKED)).any()


def test_who_cannot_be_checked_is_not_called_forged() -> None:
    network = deployment()
    line = [one for one in honest_line(network, 20) if not isinstance(read(one, network)[1], Heard)]
    reading = read_messages(records_of(line), network)
    assert not len(reading.messages)
    assert set(reading.fates.tolist()) == {Fate.UNCHECKED}


def test_messages_out_of_sync_move_no_numbers() -> None:
    """They may be old ones, played again: nobody knows, so the others are numbered as if they were not there."""
    network = deployment()
    honest = honest_line(network, 60)
    seal, line = Seal(KEY, layout_of(network)), list[Arrival]()
    for place, arrival in enumerate(honest):
        line.append(arrival)
        if isinstance(read(arrival, network)[1], Data):
            line.append(put(out_of_sync(seal, place % 8, place * 37 % 256), arrival))
    alone, reading = (read_messages(records_of(one), network) for one in (honest, line))
    station, _ = play(network, line)
    rows = reading.messages.to_pylist()
    assert len(rows) == station.received == 120
    synced = [row for row in rows if row["in_sync"]]
    expected = alone.messages.to_pylist()
    for name in ("source", "boot", "sequence", "number", "stamp"):
        assert [row[name] for row in synced] == [row[name] for row in expected]
    assert all(row["number"] is None for row in rows if not row["in_sync"])


@pytest.mark.parametrize("scheme", ["shlc", "sequence"])
@pytest.mark.parametrize("alone", [False, True])
def test_over_a_wrap_of_the_time_nothing_is_forged_and_a_round_later_all_is(scheme: str, alone: bool) -> None:
    network = deployment(scheme)
    honest, replayed = over_the_wrap(network, alone)
    reading = read_messages(records_of(honest), network)
    assert len(reading.messages) == 10
    assert not np.isin(reading.fates, (Fate.FORGED, Fate.UNCHECKED)).any()
    again = read_messages(records_of([*honest, *replayed]), network)
    assert named(again) == named(reading)
    assert int(np.sum(again.fates == Fate.FORGED)) == 10
    assert not (again.fates == Fate.UNCHECKED).any()
