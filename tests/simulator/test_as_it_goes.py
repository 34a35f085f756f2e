"""A run that is simulated as it goes is the run that is simulated at once: its messages, made when they are due."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from basestation.simulator import engine, gateway_line
from basestation.simulator import world as network_world
from basestation.simulator.gateway_line import serial_line, simulated_line
from basestation.simulator.options import WorldOptions
from basestation.simulator.scheme_run import StampingMotes
from basestation.simulator.simulated_trace import trace_of
from basestation.simulator.simulation import generate
from basestation.sources import simulated_source
from basestation.sources.base import Spec
from packet_formats.deployment import Deployment, from_dict, load
from packet_formats.framing import FrameCounters
from packet_formats.schemes import names
from tests.simulator.test_engines import READINGS
from tests.simulator.worlds import every_option

TOO_WIDE = ("matrix", "delta-causal")  # for a payload, with eight motes


def network(scheme: str) -> Deployment:
    return from_dict(
        {
            "network": {"name": "test", "board": "micaz", "motes": 8, "hops": 2},
            "clock": {"tick_log2": 7, "epsilon": 3, "delta": 12},
            "stamp": {"scheme": scheme},
        }
    )


def world(setup: Deployment, settings: str) -> WorldOptions:
    return simulated_source.world_of(Spec.parse(f"simulate@?{settings}"), setup)


@pytest.mark.few(4)
@pytest.mark.parametrize("scheme", [name for name in names() if name not in TOO_WIDE])
def test_the_line_is_that_of_the_whole_run(scheme):
    setup = network(scheme)
    options = world(setup, "messages=600&seed=5&rate=0.2&loss=0.1")
    assert list(simulated_line(options, setup)) == list(serial_line(trace_of(generate(options), setup)))


@pytest.mark.few(3)
@pytest.mark.parametrize(("delay_clock", "reception"), READINGS)
def test_the_parts_are_those_of_the_whole_run(monkeypatch, delay_clock, reception):
    """Parts are so short that the room for messages under way is used again and again."""
    monkeypatch.setattr(network_world, "PART", 7)
    for options in every_option(1500, ["enforce"], delay_clock=delay_clock, reception=reception)[::16]:
        assert options.most_under_way + 2 * network_world.PART < options.messages
        whole = engine.generate(options)
        made = [(events.copy(), arrivals.copy()) for events, arrivals in engine.parts(options)]
        events, arrivals = (np.concatenate(tables) for tables in zip(*made, strict=True))
        assert events[:, 3].tolist() == whole.event_message.tolist()
        assert events[:, 0].tolist() == whole.event_kind.tolist()
        assert arrivals[:, 0].tolist() == whole.arrival_message.tolist()
        assert arrivals[:, 1].tolist() == whole.arrival_clock.tolist()


def test_no_more_messages_are_under_way_than_there_is_room_for():
    for delay_clock, reception in READINGS:
        for options in every_option(300, ["paper"], delay_clock=delay_clock, reception=reception)[::9]:
            stream = engine.generate(options)
            sends = np.cumsum(stream.event_kind == 0)
            assert (sends - stream.event_message).max() <= options.most_under_way


def test_the_first_message_does_not_wait_for_the_rest(monkeypatch, root):
    made = []

    def counted(options):
        for events, arrivals in network_world.parts(options):
            made.append(len(events))
            yield events, arrivals

    monkeypatch.setattr(gateway_line.engine, "parts", counted)
    setup = load(root / "examples/micaz.toml")
    lines = simulated_source._play(setup, world(setup, "messages=200000"), 0, FrameCounters())
    assert next(lines).packet
    assert 0 < sum(made) < 5000
    assert len(list(islice(lines, 1000))) == 1000
    assert sum(made) < 30_000


def test_memory_does_not_grow_with_the_run(monkeypatch, root):
    setup = load(root / "examples/micaz.toml")
    made, rooms = [], []

    class Watched(StampingMotes):
        def forget(self, keep: int) -> None:
            super().forget(keep)
            made.append(len(self.sent))

    def tables(options, messages):
        rooms.append(messages)
        return real(options, messages)

    real = network_world._tables
    monkeypatch.setattr(gateway_line, "StampingMotes", Watched)
    monkeypatch.setattr(network_world, "_tables", tables)
    for messages in (200_000, 1_000_000):
        options = world(setup, f"messages={messages}&rate=0.5")
        assert len(list(islice(simulated_line(options, setup), 400))) == 400
    assert max(made) == options.most_under_way, "more than that was sent, and is forgotten"
    assert rooms[0] == rooms[1]
