"""The observer over the real serial format delivers what the simulator's bulk delivery says it must."""

import numpy as np
import pytest

from basestation.causality.modular import nearest
from basestation.observer import Observer
from basestation.simulator import engine
from basestation.simulator.gateway_line import serial_line
from basestation.simulator.options import WorldOptions
from basestation.simulator.simulated_trace import deployment_for, trace_of
from basestation.simulator.simulation import build_scheme, generate
from packet_formats.framing import FrameDecoder
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message
from packet_formats.records import Heard
from packet_formats.tinyos import decode_packet

OPTIONS = WorldOptions(messages=300, seed=5)


def over_the_wire(run, deployment, chunk):
    """Message numbers and the tick in which each left, from bytes in chunks of any size."""
    layout, decoder, observer = layout_of(deployment), FrameDecoder(), Observer(deployment)
    out, heard = [], 0
    for tick, line in serial_line(trace_of(run, deployment)):
        out += observer.due(tick - 1)
        for at in range(0, len(line), chunk):
            for packet in decoder.feed(line[at : at + chunk]):
                message = decode_message(decode_packet(packet), layout)
                if isinstance(message, Heard):
                    heard = nearest(message.time, heard, 1 << 32)
                else:
                    assert isinstance(message, Data)
                    reception = observer.receive(message, heard >> deployment.clock.tick_log2)
                    assert reception.message is not None
                    out += reception.deliveries
        out += observer.due(tick)
    while (at := observer.next_due()) is not None:
        out += observer.due(at)
    return [(int.from_bytes(d.message.data, "little"), d.left) for d in out], observer, decoder


@pytest.mark.few(12)
@pytest.mark.parametrize(
    ("name", "entries"), [("kn", "all"), ("kn", 2), ("dpc1", "all"), ("hlc", "all"), ("shlc", "all")]
)
@pytest.mark.parametrize(
    ("policy", "phi", "tolerate"),
    [
        *(
            ("none", 100, None),
            ("causal", 100, None),
            ("dapw", 40, None),
            ("cbd", 40, None),
            ("cbd", 0, None),
        ),
        *(("ledger", 100, 0.0), ("ledger", 100, 2.5)),
    ],
)
def test_live_equals_bulk(name, entries, policy, phi, tolerate):
    run = generate(OPTIONS)
    scheme = build_scheme(OPTIONS, name, entries=entries)
    deployment = deployment_for(OPTIONS, scheme, policy, phi, tolerate)
    live, observer, decoder = over_the_wire(run, deployment, chunk=7)
    observed = engine.observe(run.stream, engine.stamp(run.stream, scheme), scheme)
    bulk = engine.deliver(run.stream, observed, scheme, policy, phi, tolerate=tolerate)
    numbers = run.stream.arrival_message[bulk.order].tolist()
    assert live == list(zip(numbers, bulk.left.tolist(), strict=True))
    assert observer.received == run.stream.arrivals
    assert observer.late == bulk.late
    assert decoder.counters.dropped_bytes == 0


def test_a_second_gateway_gives_a_copy():
    run = generate(OPTIONS)
    deployment = deployment_for(OPTIONS, build_scheme(OPTIONS, "shlc"), "cbd", 100)
    layout, observer = layout_of(deployment), Observer(deployment)
    message = Data(source=3, sequence=250, stamp=(4, 0), data=bytes(layout.data_bytes))
    assert observer.receive(message, 5).message is not None
    assert observer.receive(message, 6).message is None
    assert (observer.received, observer.duplicates) == (1, 1)
    rebooted = Data(source=3, sequence=250, stamp=(6, 0), boot=1, data=bytes(layout.data_bytes))
    assert observer.receive(rebooted, 7).numbered.before == 0
    assert len(observer.due(1000)) == 2
    assert run.stream.arrivals > 0


def test_a_stamp_from_the_future_is_cut_and_counted():
    deployment = deployment_for(OPTIONS, build_scheme(OPTIONS, "kn"), "cbd", 100)
    observer = Observer(deployment)
    # r unwraps to now + epsilon, and c adds epsilon: no clock can show that.
    now = 100
    taken = observer.receive(
        Data(source=0, sequence=0, stamp=((now + 10) % 32, 10, *[3] * 11), data=bytes(4)), now
    )
    assert taken.message is not None
    assert taken.bounded
    assert taken.message.stamp.top == now + 10
    assert not any(taken.message.stamp.kn)
    assert observer.bounded == 1


def test_the_line_carries_a_heard_record_before_each_frame():
    run = generate(OPTIONS)
    deployment = deployment_for(OPTIONS, build_scheme(OPTIONS, "shlc"), "cbd", 100)
    line = b"".join(part for _, part in serial_line(trace_of(run, deployment)))
    packets = FrameDecoder().feed(line)
    kinds = [type(decode_message(decode_packet(packet), layout_of(deployment))) for packet in packets]
    assert kinds == [Heard, Data] * run.stream.arrivals
    assert np.all(np.diff([tick for tick, _ in serial_line(trace_of(run, deployment))]) >= 0)
