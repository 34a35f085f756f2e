"""Delays that were measured, in place of the paper's law: drawn whole."""

from __future__ import annotations

import numpy as np
import pytest

from basestation.simulator import engine
from basestation.simulator.measured_delays import LOST, MeasuredDelays
from basestation.simulator.options import OptionError, WorldOptions

MOTES = 3
# Mote 0's messages take either of two ways; mote 1 never reaches mote 2; mote 2 is slower than delta to the observer.
DELAYS = MeasuredDelays(
    (
        ((LOST, 1.0, 1.0, 2.5), (LOST, LOST, 3.0, 8.0)),
        ((2.0, LOST, LOST, 4.0),),
        ((1.0, 1.0, LOST, 11.0), (1.5, 1.5, LOST, LOST)),
    )
)


def world(seed=1, **changes):
    base = {"motes": MOTES, "epsilon": 1, "delta": 10, "rate": 0.2, "messages": 300, "measured": DELAYS}
    return WorldOptions(**base | {"seed": seed} | changes)


def test_measured_delays_are_those_of_the_stream():
    stream = engine.generate(world(delay_clock="global", reception="immediate"))
    senders = stream.sent_by[stream.arrival_message]
    assert set(senders) == {0, 1}
    took = stream.arrival_clock - stream.sent_at[stream.arrival_message]
    assert set(took[senders == 1]) <= {3, 4, 5}  # 4 ticks, seen by two clocks that may be one apart
    assert {2, 3, 8} <= set(took[senders == 0]) <= {1, 2, 3, 4, 7, 8, 9}
    received = stream.event_kind != 0
    heard = set(
        zip(
            stream.sent_by[stream.event_message[received]].tolist(),
            stream.event_mote[received].tolist(),
            strict=True,
        )
    )
    assert heard == {(0, 1), (0, 2), (1, 0), (2, 0), (2, 1)}


def test_a_row_is_drawn_whole():
    """Mote 0's message is at mote 1 only when it is quick to the observer."""
    stream = engine.generate(world(delay_clock="global", reception="immediate"))
    of_0 = np.flatnonzero(stream.sent_by == 0)
    took = {
        int(message): int(clock - stream.sent_at[message])
        for message, clock in zip(stream.arrival_message, stream.arrival_clock, strict=True)
    }
    at_1 = set(stream.event_message[(stream.event_kind != 0) & (stream.event_mote == 1)].tolist())
    assert all((took[int(message)] < 6) == (int(message) in at_1) for message in of_0)


@pytest.mark.parametrize(
    "changes",
    [{"motes": 4}, {"loss": 0.1}, {"recipients": "one"}, {"measured": MeasuredDelays(((), (), ()))}],
)
def test_it_says_everything_itself(changes):
    with pytest.raises(OptionError, match="measured"):
        world(**changes)
