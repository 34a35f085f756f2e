"""How fast the testbed is: emulated seconds in a second of one core, at one message a second from each mote."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from basestation.testbed import emulator, images, topologies
from basestation.testbed.setup import Wish, assemble, networks_in
from packet_formats.deployment import load

MOTES = (2, 10, 20, 50)
SECONDS = 30.0


class Pace(NamedTuple):
    motes: int
    per_second: float  # emulated seconds in one of the processor's


def bench() -> Iterator[Pace]:
    """Beside the gateway, of which each network has one."""
    program = emulator.build()
    for motes in MOTES:
        with TemporaryDirectory() as place:
            scenario = _scenario(motes, Path(place))
            before = _processor_seconds()
            with emulator.start(program, scenario, Path(place) / "truth") as run:
                run.finish()
            yield Pace(motes, SECONDS / (_processor_seconds() - before))


def _scenario(motes: int, folder: Path) -> str:
    example = load(images.PROJECT / "examples" / "micaz.toml")
    network = replace(example.network, motes=max(motes, example.network.motes))
    deployment = replace(example, network=network, clock=replace(example.clock, root=network.motes))
    topology = topologies.grid(motes, hops=network.hops)
    networks = networks_in([deployment], topology)
    programs = {network.name: images.programs_for(deployment, rate=1.0)}
    return assemble(networks, topology, programs, folder, Wish(seconds=SECONDS)).text()


def _processor_seconds() -> float:
    """Of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
