"""A recorded run as something to compare on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from basestation.simulator.options import WorldOptions
from basestation.simulator.trace import stream_of
from basestation.traces.files import read_trace

from .catalogue import Terms
from .measure import Place, Recorded, Row, measure


def measure_trace(folder: Path, names: Sequence[str], terms: Terms) -> Iterator[Row]:
    """Every scheme on the events of a trace, which must hold those of the motes, too."""
    trace = read_trace(folder)
    stream, vectors = stream_of(trace)
    network, clock = trace.deployment.network, trace.deployment.clock
    options = WorldOptions(
        motes=network.motes,
        epsilon=clock.epsilon,
        delta=clock.delta,
        events_per_tick=trace.deployment.stamp.events_per_tick,
        messages=max(stream.messages, 1),
    )
    place = Place(network.motes, clock.epsilon, clock.delta, rate=None, loss=None)
    recorded = [Recorded(stream, vectors, options)]
    for name in names:
        yield measure(place, recorded, name, terms)
