"""A run whose observer's clock lags behind the tick in which messages were heard, as with several gateways."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from basestation.causality.stream import Stream
from basestation.comparing.catalogue import Terms, build
from basestation.simulator import simulation as simulator
from basestation.simulator.options import WorldOptions
from basestation.simulator.scheme_run import play, stamp_messages
from basestation.simulator.simulation import generate


def lagging(stream: Stream, most: int) -> Stream:
    """The same arrivals, with an observer's clock up to `most` ticks behind."""
    heard = stream.arrival_clock
    lag = np.random.default_rng(1).integers(0, most, len(heard))
    return replace(
        stream,
        arrival_clock=np.maximum.accumulate(heard - lag),
        arrival_batch=np.arange(len(heard)),
        arrival_fresh=np.zeros(len(heard), np.int8),
        arrival_heard=heard,
    )


@pytest.mark.parametrize("name", ["barrier", "delta-vector", "shlc", "kn", "hlc"])
def test_stamps_are_read_when_they_were_heard(name):
    """The lag is longer than a clock field's round: read by the observer's clock, an l would be a round too old."""
    run = generate(WorldOptions(motes=6, epsilon=3, delta=12, messages=600, rate=0.05))
    stream = lagging(run.stream, 60)
    played = play(stream, build(name, run.options, Terms()))
    assert len(played.order) == stream.arrivals
    assert simulator.engine.violations(stream, run.vectors, played.order).pairs == 0


def test_sends_keep_the_numbers_that_the_stream_gives_them():
    """A recorded run may begin when motes have sent before."""
    run = generate(WorldOptions(motes=4, messages=60))
    later = replace(run.stream, sent_index=run.stream.sent_index + 7)
    messages = stamp_messages(later, build("barrier", run.options, Terms()))
    assert [message.sequence for message in messages] == later.sent_index.tolist()
