"""Runs a deployment's images on a grid of motes, to the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from basestation.testbed import emulator, images, topologies
from basestation.testbed.scenario import ScenarioNetwork
from basestation.testbed.setup import Wish, assemble, networks_in
from basestation.testbed.truth_log import Event, read
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment


@contextmanager
def run_on_grid(
    deployment: Deployment,
    motes: int,
    wish: Wish,
    rate: float | None = None,
    loss: float = 0.0,
    app: str | None = None,
) -> Iterator[tuple[Iterator[Event], ScenarioNetwork]]:
    """The events of a finished run, read one by one, and its network.

    `rate` is each mote's messages a second; None leaves the firmware's own. `loss` is the share of frames that each
    link loses, `app` the motes' (docs/guide/apps.md); None: the stock app.
    """
    margin = BOARDS[deployment.network.board].radio.signal_margin_db
    topology = topologies.lossy(topologies.grid(motes, hops=deployment.network.hops, margin=margin), loss)
    with run_on(topology, deployment, wish, rate, app) as found:
        yield found


@contextmanager
def run_on(
    topology: topologies.RadioTopology,
    deployment: Deployment,
    wish: Wish,
    rate: float | None = None,
    app: str | None = None,
) -> Iterator[tuple[Iterator[Event], ScenarioNetwork]]:
    """The same on any topology."""
    (network,) = networks_in([deployment], topology)
    programs = {network.name: images.programs_for(network.deployment, rate, app=app)}
    with TemporaryDirectory(prefix="causeway-grid-") as place:
        folder = Path(place)
        scenario = assemble([network], topology, programs, folder, wish).text()
        with emulator.start(emulator.build(), scenario, folder / "truth") as run:
            run.finish()
        yield read(folder / "truth"), network
