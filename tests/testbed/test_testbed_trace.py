"""A run of the testbed as a trace: the line as a base station reads it, the truth beside it."""

import numpy as np
import pytest

from basestation.testbed.testbed_trace import network_of, trace_of
from basestation.testbed.truth_log import RecordedEvent, Start, TruthError, Uart
from tests.testbed.worlds import MS, SECOND, World, deployment, stamped


def vectors(trace):
    return [np.frombuffer(vector, "<i4").tolist() for vector in trace.messages["vector"].to_pylist()]


def test_messages_carry_what_led_to_them():
    world = World()
    world.boot()
    gateway = world.gateway
    world.send(1 * SECOND, stamped(world, 0, 1, 1 * SECOND), to=(1, gateway))
    world.send(2 * SECOND, stamped(world, 1, 1, 2 * SECOND), to=(gateway,))
    world.send(3 * SECOND, stamped(world, 2, 1, 3 * SECOND))  # nobody heard it
    world.send(4 * SECOND, stamped(world, 2, 2, 4 * SECOND), to=(gateway,))
    world.copy(4 * SECOND + 20 * MS, 1, stamped(world, 2, 2, 4 * SECOND), to=(gateway,))  # a copy
    trace = trace_of(world.events(), world.network)
    assert trace.messages["source"].to_pylist() == [0, 1, 2]
    assert trace.messages["sequence"].to_pylist() == [1, 1, 2]
    assert vectors(trace) == [[1, 0, 0], [1, 1, 0], [0, 0, 2]]
    assert trace.messages["number"].to_pylist() == [1, 1, 2]
    assert trace.events.select(["kind", "mote", "source", "sequence"]).to_pylist() == [
        {"kind": kind, "mote": mote, "source": source, "sequence": number}
        for kind, mote, source, number in [
            ("send", 0, 0, 1),
            ("receive", 1, 0, 1),
            ("send", 1, 1, 1),
            ("send", 2, 2, 1),
            ("send", 2, 2, 2),
        ]
    ]


def test_events_and_messages_have_one_clock():
    """The clock's upper bits hold the epoch, which a recorder does not keep."""
    world = World()
    world.boot(epoch=2)
    for second in (1, 2, 3):
        message = stamped(world, 0, second, second * SECOND)
        world.send(second * SECOND, message, to=(1, world.gateway))
    trace = trace_of(world.events(), world.network)
    sent = trace.messages["sent"].to_pylist()
    assert len(sent) == 3
    assert sent[0] > 1 << 24
    events = trace.events.to_pylist()
    assert [event["clock"] for event in events if event["kind"] == "send"] == sent


def test_the_own_time_of_a_mote_out_of_sync_is_nobodys():
    world = World()
    world.record(0, 0, "boot", 0, 1)
    world.record(0, 0, "epoch", 255, tick=3)
    world.record(1 * SECOND, 0, "send", 0, 1, tick=757)
    world.record(2 * SECOND, 0, "epoch", 1, tick=540)
    world.record(3 * SECOND, 0, "send", 0, 2, tick=560)
    world.record(4 * SECOND, 0, "boot", 0, 2)
    world.record(4 * SECOND, 0, "epoch", 255, tick=3)
    world.record(5 * SECOND, 0, "send", 0, 1, tick=700)
    events = trace_of(world.events(), world.network).events
    assert events["clock"].to_pylist() == [0, 560, 560]
    assert events["sequence"].to_pylist() == [1, 2, 1]
    assert events["number"].to_pylist() == [1, 2, 3]


def test_the_same_log_is_the_same_run():
    runs = set()
    for _ in range(2):
        world = World()
        world.boot()
        world.send(1 * SECOND, stamped(world, 0, 1, 1 * SECOND), to=(world.gateway,))
        runs.add(trace_of(world.events(), world.network).run)
    assert len(runs) == 1


def test_a_log_that_does_not_fit_is_refused():
    with pytest.raises(TruthError, match="not a start event"):
        network_of([], deployment())
    with pytest.raises(TruthError, match="which has 3 motes: if it has 2 gateways, say --gateways 2"):
        network_of([Start(0, 1, 5, 1)], deployment())
    assert network_of([Start(0, 1, 5, 1)], deployment(), 2).gateways == (3, 4)
    assert network_of([Start(0, 1, 3, 1)], deployment()).motes == (0, 1)


@pytest.mark.parametrize("said", [1, 3])
def test_a_wrong_number_of_gateways_is_noticed_though_the_deployment_has_more_motes(said):
    """Two motes, two gateways, and a deployment with more motes than the run."""
    lines = [Uart(1, 2, b"x"), Uart(2, 3, b"x"), RecordedEvent(3, 1, 0, "send", 0, 0, 0)]
    events = [Start(0, 1, 4, 1), *lines]
    with pytest.raises(TruthError, match="node 2 is the first that has a host; say --gateways 2"):
        network_of(events, deployment(), said)
    assert network_of(events, deployment(), 2).motes == (0, 1)
