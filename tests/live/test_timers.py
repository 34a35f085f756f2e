"""Timers are not in the log: what they do must not depend on when they go off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from basestation.arrivals import Arrival
from basestation.journal.decision import Noted
from basestation.live.happenings import Arrived, Delivered
from basestation.live.station import Station
from packet_formats.deployment import Deployment, from_dict
from packet_formats.framing import crc16
from packet_formats.layout import layout_of
from packet_formats.messages import Data, encode_message
from packet_formats.records import Heard
from packet_formats.tinyos import encode_packet

CYCLES = 32  # of a tick
TICK_NS = CYCLES * 10**9 // 32768


def deployment(policy: str) -> Deployment:
    return from_dict(
        {
            "network": {"name": "timers", "board": "micaz", "motes": 2, "data_bytes": 0},
            "clock": {"tick_log2": 5, "epsilon": 1, "delta": 5},
            "stamp": {"scheme": "dpc1"},
            "observer": {"policy": policy},
        }
    )


def lines(setup: Deployment) -> Iterator[Arrival]:
    """Two messages, twenty ticks apart, each behind its heard record."""
    layout = layout_of(setup)
    for mote, ticks in enumerate((0, 20)):
        at, cycles = 10**9 + ticks * TICK_NS, 32768 + ticks * CYCLES
        frame = encode_message(Data(mote, 0, (cycles // CYCLES % layout.stamp.modulus,)), layout)
        record = Heard(2, 0, mote, 0, 3, -60, 100, crc16(frame.data), cycles)
        yield Arrival(0, at, at, encode_packet(encode_message(record, layout)))
        yield Arrival(0, at + 1, at + 1, encode_packet(frame))


def run(policy: str, ahead: int, clocks: dict[int, int | None]) -> tuple[list[object], dict[int, int | None]]:
    """Deliveries, and the clocks that a log would keep. A timer goes off `ahead` ticks after the last line's time."""
    setup = deployment(policy)
    station, found = Station(setup, allowance_ns=0), []
    kept: dict[int, int | None] = {}
    for number, line in enumerate(lines(setup)):
        if ahead and number == 3:
            found += station.advance(line.mono_ns + ahead * TICK_NS)
        happened = station.take(line, Noted(clocks.get(number)))
        for happening in happened:
            if isinstance(happening, Arrived) and isinstance(happening.message, Data):
                kept[number] = happening.clock
        found += happened
    found += station.finish()
    return [(h.name, h.arrived, h.left, h.late) for h in found if isinstance(h, Delivered)], kept


@pytest.mark.parametrize("policy", ["none", "sequence", "causal", "dapw", "cbd"])
def test_a_timer_that_runs_ahead_of_the_next_line_changes_no_delivery(policy: str) -> None:
    live, kept = run(policy, 3, {})
    assert len(live) == 2
    assert run(policy, 0, kept)[0] == live
