"""`basestation demo`: the whole chain, from the firmware on ten motes to a picture of what each byte gains."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import click

from basestation.cli import common
from basestation.cli.live_options import Notes
from basestation.journal.writer import JournalWriter, new_run_id
from basestation.live.happenings import Sink
from basestation.live.runner import Runner
from basestation.live.station import Station
from basestation.simulator.simulated_trace import trace_of as simulated_trace
from basestation.simulator.simulation import generate
from basestation.sources import SourceError, SourceOptions, open_source
from basestation.sources.base import Spec
from basestation.sources.simulate import world_of
from basestation.testbed import engine, images, truth_log
from basestation.testbed.testbed_trace import network_of
from basestation.testbed.testbed_trace import trace_of as emulated_trace
from basestation.traces.files import Trace, write_trace
from basestation.views.lines import LinesView, summary
from basestation.views.ndjson import JsonView
from basestation.views.streams import StreamsView
from packet_formats.deployment import Deployment, load
from packet_formats.layout import layout_of

MOTES, HOPS = 10, 3
RATE = 2.0  # messages a second of each mote
EXAMPLE = images.PROJECT / "examples" / "micaz.toml"
# What the picture compares: every stamp, without a wait, at a fifth of it, and at all of it.
CONTINUUM = (
    "--policy=none",
    "--policy=cbd",
    "--phi=0",
    "--phi=20",
    "--phi=100",
    "--packing=bits",
    "--count=sends",
)


@dataclass(frozen=True)
class Ground:
    """The source to listen to, and the log that says afterwards what really happened."""

    source: str
    truth: Path | None  # the testbed's log; the simulator's world can be made again


@click.command(
    epilog=common.example(
        """
        basestation demo
        basestation demo --seconds 10 --out /tmp/show
        basestation demo --on simulator
        basestation demo --json | jq 'select(.event=="delivered")'
        """
    )
)
@click.option(
    "--seconds",
    type=common.FiniteFloat(1, 3600),
    default=30.0,
    show_default=True,
    help="How long to run live.",
)
@click.option("--seed", type=common.Whole(0), default=1, show_default=True, help="Same seed, same motes.")
@click.option(
    "--on",
    type=click.Choice(["testbed", "simulator"]),
    help="Emulated motes with the real firmware, or the paper's model. [default: the testbed where it can run]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo"),
    show_default=True,
    help="Folder for the log, the trace and the picture; each run makes a folder of its own in it.",
)
@common.json_option
def command(seconds: float, seed: int, on: str | None, out: Path, as_json: bool) -> None:
    """Run ten motes over three hops live: their firmware stamps, we log, order and analyse.

    With --json it prints one object for each event, as `basestation listen --json` does, then one for each
    configuration of the continuum.
    """
    deployment = _deployment()
    folder = out / new_run_id()
    folder.mkdir(parents=True)
    ground = _ground(on, deployment, folder, seconds, seed)
    common.note(
        f"{MOTES} motes, the farthest {HOPS} hops away; {layout_of(deployment).stamp.bits} bits of stamp, "
        f"{deployment.observer.policy}, phi {deployment.observer.phi}%, for {seconds:g} s."
    )
    _listen(ground, deployment, folder / "log", seconds, as_json)
    trace = _trace(ground, deployment)
    write_trace(trace, folder / "trace")
    _continuum(folder, as_json)
    common.note(
        "These clocks are so close that every stamp gives the same order. What each byte gains where clocks "
        "differ more is in docs/figures/figure6.png; basestation figures draws it."
    )
    common.note(f"Log, trace and continuum are in {folder}; the picture is {folder / 'report.html'}.")
    common.note(f"To see more: basestation log summary {folder / 'log'}")


def _deployment() -> Deployment:
    """The example with ten motes. The gateway is the root and has the id after theirs."""
    example = load(EXAMPLE)
    network = replace(example.network, name="demo", motes=MOTES, hops=HOPS)
    return replace(example, network=network, clock=replace(example.clock, root=MOTES))


def _ground(on: str | None, deployment: Deployment, folder: Path, seconds: float, seed: int) -> Ground:
    """Choose the testbed if it can be built, else the simulator, and say why."""
    if on != "simulator":
        common.note("Building the firmware and the emulator, unless they are built already ...")
        try:
            engine.build()
            images.programs_for(deployment, RATE)
        except (engine.EngineError, images.FirmwareImageError) as error:
            if on == "testbed":
                common.fail(str(error))
            common.note(
                f"The firmware on emulated motes is left out: {error}\nThe paper's model takes its place."
            )
        else:
            log = folder / "truth.jsonl"
            return Ground(f"testbed@?motes={MOTES}&rate={RATE:g}&seed={seed}&truth={log}", log)
    chance = RATE * deployment.clock.tick_seconds  # that a mote sends in a tick
    messages = round(seconds * RATE * MOTES)
    return Ground(f"simulate@?messages={messages}&rate={chance:g}&seed={seed}", None)


def _views(deployment: Deployment, as_json: bool) -> list[Sink]:
    if as_json:
        return [JsonView(common.emit_json, layout_of(deployment)), Notes()]
    if common.out.is_terminal:
        return [StreamsView(common.out)]
    return [LinesView(lambda line, _style: click.echo(line), common.note)]


def _listen(ground: Ground, deployment: Deployment, log: Path, seconds: float, as_json: bool) -> None:
    """Do what `basestation listen SOURCE --log FOLDER` does, for a given time."""
    station = Station(deployment, deployment.observer.policy, deployment.observer.phi)
    try:
        source = open_source(ground.source, 0, SourceOptions(deployment=deployment, say=common.note))
        with JournalWriter(log, deployment, log.parent.name, sources=[ground.source]) as journal:
            runner = Runner(station, [source], _views(deployment, as_json), journal)
            asyncio.run(runner.run(seconds))
    except SourceError as error:
        common.fail(str(error))
    for line in summary(runner.snapshot()):
        common.note(line)


def _trace(ground: Ground, deployment: Deployment) -> Trace:
    """The trace of what arrived, beside what really happened."""
    if ground.truth is None:
        world = world_of(Spec.parse(ground.source), deployment)
        return simulated_trace(generate(world), deployment)
    events = list(truth_log.read(ground.truth))
    return emulated_trace(events, network_of(events[0], deployment))


def _continuum(folder: Path, as_json: bool) -> None:
    from spark_jobs.run import main

    words = ["continuum", str(folder / "trace"), "--no-spark", "--out", str(folder), *CONTINUUM]
    code = main([*words, "--json"] if as_json else words)
    if code:
        sys.exit(code)
