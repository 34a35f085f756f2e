"""The MICs of a journal's frames are checked in bulk: forged and replayed ones give no message."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from basestation.journal.message_table import Fate, read_messages
from basestation.journal.record_format import Record, RecordKind, Records, encode_record, scan
from packet_formats.keys import Key
from tests.live.test_guard import attacked, deployment, honest_line, play


def test_bulk_takes_what_the_station_takes() -> None:
    network = deployment()
    line = list(attacked(network, honest_line(network, 60)))
    raw = b"".join(
        encode_record(Record(number, RecordKind.FRAME, 0, one.mono_ns, one.wall_ns, one.packet))
        for number, one in enumerate(line)
    )
    records = Records.of(raw, scan(raw, 0).starts)
    station, _ = play(network, line)
    reading = read_messages(records, network)
    assert len(reading.messages) == station.received > 40
    refused = station.snapshot(0).refused
    assert refused is not None
    of_data = int(np.sum(reading.fates == Fate.FORGED))
    assert (
        of_data == station.received + refused["replayed"]
    )  # one forged for each honest one, and the replays
    unchecked = read_messages(records, replace(network, key=None))
    assert len(unchecked.messages) > len(reading.messages)
    assert not len(read_messages(records, replace(network, key=Key(bytes([7] * 16)))).messages)
