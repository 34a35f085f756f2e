"""Two gateways on the real firmware: idle records never pass a frame, and the merged station keeps order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from basestation.testbed import topologies
from basestation.testbed.setup import Wish
from basestation.testbed.truth_log import Event, Uart
from packet_formats.boards import BOARDS
from packet_formats.deployment import load
from packet_formats.framing import FrameDecoder
from packet_formats.layout import layout_of
from packet_formats.messages import decode_message
from packet_formats.records import Heard, Idle
from packet_formats.tinyos import ActiveMessage, decode_packet
from tools.grid_run import run_on
from tools.station_run import station_run

pytestmark = pytest.mark.wide


def records(events: list[Event], node: int, layout) -> list[Heard | Idle]:
    """What a gateway's line says of its time."""
    decoder, found = FrameDecoder(), []
    for event in events:
        if isinstance(event, Uart) and event.node == node:
            for packet in decoder.feed(event.bytes):
                frame = decode_packet(packet)
                if isinstance(frame, ActiveMessage):
                    message = decode_message(frame, layout)
                    if isinstance(message, Heard | Idle) and message.in_sync:
                        found.append(message)
    return found


@pytest.mark.parametrize("board", ["barrier", "mica2"])
def test_an_idle_record_never_passes_a_frame(board, root):
    deployment = load(root / "examples" / f"{board}.toml")
    deployment = replace(deployment, network=replace(deployment.network, hops=1))
    margin = BOARDS[deployment.network.board].radio.signal_margin_db
    topology = topologies.grid(6, 2, hops=1, margin=margin)
    heard = {(mote, gateway): 0.7 for mote in range(6) for gateway in range(6, 8)}
    wish = Wish(seed=3, seconds=40)
    with run_on(replace(topology, deliveries=heard), deployment, wish, rate=1) as (came, network):
        events = list(came)
    layout = layout_of(network.deployment)
    for node in network.gateways:
        told = records(events, node, layout)
        idle = [one for one in told if isinstance(one, Idle)]
        assert len(idle) > 200
        latest = 0
        for one in told:
            assert isinstance(one, Idle) or one.time >= latest
            latest = one.time if isinstance(one, Idle) else latest
    run = station_run(events, network)
    assert len(run.delivered) > 100
    assert run.violations.pairs == 0
