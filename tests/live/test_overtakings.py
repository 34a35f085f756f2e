"""The station's own count of what left after its effects: what is sure, and what may be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from basestation.arrivals import Arrival, Line
from basestation.causality.order import Message
from basestation.deployed import scheme_of
from basestation.live.happenings import Arrived, Delivered, Name
from basestation.live.station import Station
from basestation.simulator.gateway_line import serial_line
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_named, build_scheme, generate
from basestation.traces.schema import matrix_of
from basestation.views.lines import summary
from packet_formats.deployment import from_dict
from packet_formats.framing import FrameDecoder
from packet_formats.messages import Data
from packet_formats.schemes import descriptor
from tests.live.world import TICK, Gateway, names, play

START = 1000
BARRIER = from_dict(
    {
        "network": {"name": "test", "board": "micaz", "motes": 4, "data_bytes": 4},
        "clock": {"tick_log2": 7, "epsilon": 3, "delta": 12},  # WIN is 18
        "stamp": {"scheme": "barrier"},
    }
)


class BarrierMotes:
    """Motes that stamp with barrier; what one sends, the others named hear at once."""

    def __init__(self) -> None:
        self.scheme = scheme_of(BARRIER)
        self.programs = [self.scheme.start(mote) for mote in range(BARRIER.network.motes)]

    def send(self, mote: int, tick: int, *receivers: int) -> Data:
        """The first message of a mote."""
        stamp = self.programs[mote].on_send(tick, 1)
        for other in receivers:
            self.programs[other].on_receive(tick, [Message(mote, 1, stamp)])
        return Data(mote, 0, self.scheme.codec().encode(stamp, mote, 1), data=bytes(4))


def overtaken_unseen(late: int) -> Station:
    """0#0 leads to 1#0, which no gateway hears, and 1#0 leads to 2#0, 19 ticks later. 0#0 is heard later than it
    was sent, and delta is broken if that is after 2#0."""
    motes, gateway = BarrierMotes(), Gateway(BARRIER)
    cause = motes.send(0, START, 1)
    motes.send(1, START, 2)
    effect = motes.send(2, START + 19, 3)
    station = Station(BARRIER)
    for data, tick in sorted(((effect, START + 20), (cause, START + late)), key=lambda one: one[1]):
        gateway.hear(data, tick * TICK)
    gateway.hear(motes.send(3, START + 100), (START + 100) * TICK)
    found = play(station, gateway.out)
    assert names(found)[:2] == (["2#0", "0#0"] if late > 20 else ["0#0", "2#0"])
    return station


def test_what_is_older_than_the_greatest_that_left_by_more_than_win_is_possibly_overtaken() -> None:
    """No stamp names it any more, so it was counted as checked fully, and in order."""
    snapshot = overtaken_unseen(late=22).snapshot(0)
    assert (snapshot.delivery.overtaken, snapshot.delivery.possible, snapshot.delivery.most) == (0, 1, 1)
    assert snapshot.known == pytest.approx(2 / 3)
    expected = "at least 0, at most 1 of 3 messages (0.0% to 33.3%) came after one of their effects"
    assert f"delivered by barrier: {expected}" in list(summary(snapshot))


def test_within_delta_nothing_is_in_doubt() -> None:
    snapshot = overtaken_unseen(late=12).snapshot(0)
    assert snapshot.delivery.most == 0
    assert snapshot.known == 1


def test_complete_goes_by_where_messages_left() -> None:
    """The effect came before its cause had left, and its stamp does not name the cause."""
    for late, complete in ((12, True), (22, False)):
        station = overtaken_unseen(late)
        node = station.violations.node(Name(2, 0, 0))
        assert node is not None
        assert station.violations.is_complete(node.note) is complete


# ---- Against the truth ----

OPTIONS = WorldOptions(motes=6, messages=600, loss=0.1, seed=5)
CASES = [
    *((scheme, policy) for scheme in ("shlc", "hlc", "kn") for policy in ("none", "dapw", "cbd", "sequence")),
    *(
        (scheme, policy)
        for scheme in ("barrier", "delta-vector", "vector")
        for policy in ("none", scheme, "sequence")
    ),
    *((scheme, policy) for scheme in ("dpc1", "last-sender", "sequence") for policy in ("none", "sequence")),
]


def truly_overtaken(order: Sequence[tuple[int, int]], vectors: dict[tuple[int, int], list[int]]) -> int:
    """How many came out after a message whose true vector covers them."""
    reach, count = [0] * OPTIONS.motes, 0
    for source, number in order:
        count += reach[source] >= number
        own = [n - (mote == source) for mote, n in enumerate(vectors[source, number])]
        reach = [max(pair) for pair in zip(reach, own, strict=True)]
    return count


@pytest.mark.few(12)
@pytest.mark.parametrize("drop", [0, 7])
@pytest.mark.parametrize(("scheme", "policy"), CASES)
def test_the_truth_lies_between_the_bounds(scheme: str, policy: str, drop: int) -> None:
    """Whatever the policy, and whichever messages are lost on the line: every seventh, or none."""
    build = build_scheme if descriptor(scheme).is_ordered else build_named
    deployment = deployment_for(OPTIONS, build(OPTIONS, scheme), "cbd", 100)
    trace = trace_of(generate(OPTIONS), deployment)
    table, tick_ns = trace.messages, int(deployment.clock.tick_seconds * 1e9)
    rows = matrix_of(table["vector"], OPTIONS.motes).tolist()
    sent = zip(table["source"].to_pylist(), table["number"].to_pylist(), strict=True)
    vectors = dict(zip(sent, rows, strict=True))
    decoder = FrameDecoder()
    packets = [(tick, packet) for tick, raw in serial_line(trace) for packet in decoder.feed(raw)]
    pairs = zip(packets[::2], packets[1::2], strict=True)  # a heard record and its frame
    kept = [one for at, pair in enumerate(pairs) if not drop or at % drop for one in pair]
    lines: list[Line] = [Arrival(0, tick * tick_ns, tick * tick_ns, packet) for tick, packet in kept]
    station = Station(deployment, policy, 30 if policy == "dapw" else 100)
    found = play(station, lines) + station.finish()
    snapshot = station.snapshot(0)
    came = [
        (one.name.source, one.name.sequence + 1) for one in found if isinstance(one, Arrived) and one.name
    ]
    left = [(one.name.source, one.name.sequence + 1) for one in found if isinstance(one, Delivered)]
    for order, bounds in ((came, snapshot.arrival), (left, snapshot.delivery)):
        truth = truly_overtaken(order, vectors)
        assert bounds.messages == len(order) > 400
        assert bounds.overtaken <= truth <= bounds.most
    if policy in ("cbd", "barrier"):
        assert snapshot.delivery.most == 0
