"""`simulate@[DEPLOYMENT]?messages=...`: the paper's model of a network, as a gateway would send it up.

Each data frame follows its heard record, at the time at which the gateway heard it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from basestation.arrivals import Line
from basestation.sources.base import Source, SourceOptions, Spec
from basestation.sources.playback import PlayedSource, arrivals, pace_of
from packet_formats import deployment as deployments
from packet_formats import keys
from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.framing import FrameCounters, FrameDecoder

if TYPE_CHECKING:
    from basestation.simulator.options import WorldOptions

MESSAGES = 10_000
SETTINGS = ("motes", "hops", "messages", "seed", "rate", "loss", "pace")


def make(spec: Spec, gateway: int, options: SourceOptions) -> Source:
    spec.known(*SETTINGS)
    deployment = _deployment(spec, options.deployment)
    world = world_of(spec, deployment)
    return PlayedSource(spec.text, pace_of(spec), partial(_play, deployment, world, gateway))


def _deployment(spec: Spec, given: Deployment | None) -> Deployment:
    """The deployment that is named, or that of the run."""
    if spec.where:
        path = Path(spec.where).expanduser()
        try:
            return keys.with_key(deployments.load(path), path)
        except OSError as error:
            raise spec.wrong(f"{spec.where}: {error.strerror or error}") from None
        except (deployments.DeploymentError, keys.KeyFault) as error:
            raise spec.wrong(f"{spec.where}: {error}") from None
    if given is None:
        raise spec.wrong("needs a deployment, as in simulate@examples/micaz.toml")
    return given


def world_of(spec: Spec, deployment: Deployment) -> WorldOptions:
    """The network to simulate. `rate` is the chance that a mote sends in a tick: a deployment does not say it."""
    from basestation.simulator.options import OptionError, WorldOptions
    from basestation.simulator.simulation import world_for
    from basestation.simulator.topology import TopologyError, in_groups

    network, clock = deployment.network, deployment.clock
    motes = spec.whole("motes", network.motes, 2, network.motes)
    hops = spec.whole("hops", min(network.hops, motes), 1, 15)
    try:
        world = WorldOptions(
            motes=motes,
            epsilon=clock.epsilon,
            delta=clock.delta,
            rate=spec.number("rate", 0.1, 1e-9, 1.0),
            messages=spec.whole("messages", MESSAGES, 1, 10_000_000),
            seed=spec.whole("seed", 1, 0, 2**53),
            loss=spec.number("loss", 0.0, 0.0, 1.0),
            events_per_tick=deployment.stamp.events_per_tick,
            topology=in_groups(motes, hops) if hops > 1 else None,
        )
    except (OptionError, TopologyError) as error:
        raise spec.wrong(str(error)) from None
    return world_for(world, deployment.stamp.scheme)


def _play(
    deployment: Deployment, world: WorldOptions, gateway: int, counters: FrameCounters
) -> Iterator[Line]:
    from basestation.simulator.gateway_line import simulated_line

    line = simulated_line(world, deployment)
    tick_ns = (10**9 << deployment.clock.tick_log2) // CRYSTAL_HZ
    yield from arrivals(_packets(line, tick_ns, counters), gateway, time.monotonic_ns(), time.time_ns())


def _packets(
    line: Iterator[tuple[int, bytes]], tick_ns: int, counters: FrameCounters
) -> Iterator[tuple[int, bytes]]:
    decoder = FrameDecoder()
    decoder.counters = counters
    for tick, data in line:
        for packet in decoder.feed(data):
            yield tick * tick_ns, packet
    decoder.close()
