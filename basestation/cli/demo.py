"""`basestation demo`: the whole chain, from the firmware on ten motes to what its stamp gains on the same run."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table

from basestation.cli import common
from basestation.cli.live_options import Notes
from basestation.comparing.comparison import ComparisonRow
from basestation.journal.writer import JournalWriter, new_run_id
from basestation.live.happenings import Delivered, Happening, Sink
from basestation.live.runner import Runner
from basestation.live.station import Station
from basestation.simulator.simulated_trace import trace_of as simulated_trace
from basestation.simulator.simulation import generate
from basestation.sources import SourceError, SourceOptions, open_source
from basestation.sources.base import Spec
from basestation.sources.simulate import world_of
from basestation.testbed import emulator, images, truth_log
from basestation.testbed.testbed_trace import network_of
from basestation.testbed.testbed_trace import trace_of as emulated_trace
from basestation.traces.files import Trace, write_trace
from basestation.views.lines import LinesView, summary
from basestation.views.ndjson import JsonView
from basestation.views.streams import StreamsView
from packet_formats.deployment import Deployment, load
from packet_formats.layout import layout_of

SEED = 1
RATE = 4.0  # messages a second of each mote, on the simulator
APP = "alarm"  # of firmware/apps
EXAMPLE = images.PROJECT / "examples" / "alarm.toml"
BRIGHT, DARK = 800, 100  # readings of the light
SHADOWS_FROM, SHADOW_EVERY, SHADOW_SECONDS = 3.0, 0.4, 0.9  # seconds; by then all motes know the time
PAPERS = "kn"  # the paper's stamp, with all entries
SHADOWS = (
    "A shadow falls on one mote after another. It sends an alarm (kind 1), the others answer (kind 2), "
    "and it tells the end (kind 3)."
)
MODEL = "Motes of the paper's model send at random, and hear one another."
MOVES = "↑2: it left two places earlier than it came; ↓2: two places later."


@dataclass(frozen=True)
class Ground:
    """The source to listen to, what its motes do, and the log that says afterwards what really happened."""

    source: str
    deployment: Deployment
    does: str
    truth: Path | None  # the testbed's log; the simulator's world can be made again


class LongestHeld:
    """A sink that keeps the delivery that was held longest."""

    def __init__(self) -> None:
        self.found: Delivered | None = None

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Delivered) and (
            self.found is None or happening.held_ms > self.found.held_ms
        ):
            self.found = happening

    def close(self) -> None:
        pass


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
    help="Folder for the log and the trace; each run makes a folder of its own in it.",
)
@common.json_option
def command(seconds: float, on: str | None, out: Path, as_json: bool) -> None:
    """Run ten motes over three hops live: their firmware stamps, we log and order.

    A shadow falls on one mote after another. Each tells the others, which answer: so most messages have a cause.

    Then it orders the same run in four ways and compares them: on arrival, by the paper's stamp with its full wait and
    with about the hold of ours, and by our stamp.
    With --json it prints one object for each event, as `basestation listen --json` does, then one for each way to
    order the run.
    """
    folder = out / new_run_id()
    folder.mkdir(parents=True)
    ground = _ground(on, load(EXAMPLE), folder, seconds)
    network, stamp = ground.deployment.network, layout_of(ground.deployment).stamp
    common.note(
        f"{network.motes} motes, the farthest {network.hops} hops away; stamp {stamp.scheme}, "
        f"{stamp.least_size} to {stamp.size} bytes, for {seconds:g} s."
    )
    common.note(ground.does if as_json or common.out.is_terminal else f"{ground.does} {MOVES}")
    longest = _listen(ground, folder / "log", seconds, as_json)
    trace = _trace(ground)
    write_trace(trace, folder / "trace")
    _compare(trace, as_json)
    common.note(
        "The holds above the table are the live run's, by this host's clock. The table plays the run again, in ticks "
        "of the network's clock: all messages whose motes knew the time, also those that came after the live run."
    )
    common.note(f"The log and the trace are in {folder}. To see more:")
    common.note(f"  basestation log summary {folder / 'log'}")
    if longest is not None:
        common.note(f"  basestation why {folder / 'log'} {longest.name}")
    common.note(f"  basestation compare --trace {folder / 'trace'}")


def _ground(on: str | None, deployment: Deployment, folder: Path, seconds: float) -> Ground:
    """Choose the testbed if it can be built, else the simulator, and say why."""
    if on != "simulator":
        common.note("Building the firmware and the emulator, unless they are built already ...")
        try:
            emulator.build(say=common.note)
            images.programs_for(deployment, app=APP)
        except (emulator.EmulatorError, images.FirmwareImageError) as error:
            if on == "testbed":
                common.fail(str(error))
            common.note(
                f"The firmware on emulated motes is left out: {error}\nThe paper's model takes its place."
            )
        else:
            log, light = folder / "truth.jsonl", folder / "light.csv"
            light.write_text("\n".join(_shadows(deployment.network.motes, seconds)) + "\n")
            source = f"testbed@?app={APP}&sensors={light}&seed={SEED}&truth={log}"
            return Ground(source, deployment, SHADOWS, log)
    chance = RATE * deployment.clock.tick_seconds  # that a mote sends in a tick
    messages = round(seconds * RATE * deployment.network.motes)
    unnamed = replace(deployment, data=())  # the model's data is no alarm's
    return Ground(f"simulate@?messages={messages}&rate={chance:g}&seed={SEED}", unnamed, MODEL, None)


def _shadows(motes: int, seconds: float) -> Iterator[str]:
    """What the motes' light sensors show, for `basestation testbed --sensors`."""
    chance, at, last = random.Random(SEED), SHADOWS_FROM, 0
    yield "time,mote,sensor,value"
    yield from (f"0,{mote},light,{BRIGHT}" for mote in range(motes))
    while at < seconds:
        last = (last + chance.randrange(3, motes - 2)) % motes
        yield f"{at:.2f},{last},light,{DARK}"
        yield f"{at + SHADOW_SECONDS:.2f},{last},light,{BRIGHT}"
        at += SHADOW_EVERY


def _views(deployment: Deployment, as_json: bool) -> list[Sink]:
    if as_json:
        return [JsonView(common.emit_json, layout_of(deployment)), Notes()]
    if common.out.is_terminal:
        return [StreamsView(common.out)]
    return [LinesView(lambda line, _style: common.echo(line), common.note, layout_of(deployment))]


def _listen(ground: Ground, log: Path, seconds: float, as_json: bool) -> Delivered | None:
    """Do what `basestation listen SOURCE --log FOLDER` does, for a given time; what was held longest."""
    deployment, longest = ground.deployment, LongestHeld()
    station = Station(deployment, deployment.observer.policy, deployment.observer.phi)
    try:
        source = open_source(ground.source, 0, SourceOptions(deployment=deployment, say=common.note))
        with JournalWriter(log, deployment, log.parent.name, sources=[ground.source]) as journal:
            runner = Runner(station, [source], [*_views(deployment, as_json), longest], journal)
            asyncio.run(runner.run(seconds))
    except SourceError as error:
        common.fail(str(error))
    for line in summary(runner.snapshot()):
        common.note(line)
    return longest.found


def _trace(ground: Ground) -> Trace:
    """The trace of what arrived, beside what really happened."""
    deployment = ground.deployment
    if ground.truth is None:
        world = world_of(Spec.parse(ground.source), deployment)
        return simulated_trace(generate(world), deployment)
    events = list(truth_log.read(ground.truth))
    return emulated_trace(events, network_of(events, deployment))


def _compare(trace: Trace, as_json: bool) -> None:
    """Order the same run in several ways, and say in one sentence what our stamp gains."""
    from basestation.comparing.recorded_run import ways_to_order

    tick_ms, ours = 1000 * trace.deployment.clock.tick_seconds, trace.deployment.stamp.scheme
    ways = ways_to_order(trace, ours, PAPERS)
    if as_json:
        for way, row in ways.items():
            common.emit_json({"way": way, **row.to_dict()})
        return
    table = Table("the same run ordered by", box=SIMPLE_HEAD, padding=0)
    for heading in ("bytes", "before a cause", "mean hold", "longest"):
        table.add_column(heading, justify="right")
    for way, row in ways.items():
        held = (f"{ticks * tick_ms:.0f} ms" for ticks in (row.hold_mean, row.hold_max))
        table.add_row(way, f"{row.mean_bytes:.2g}", str(row.violations.forward), *held)
    common.out.print(table)
    common.out.print(_gained(ways["arrival"], ways[PAPERS], ways[ours], tick_ms))


def _gained(arrival: ComparisonRow, paper: ComparisonRow, ours: ComparisonRow, tick_ms: float) -> str:
    wrong, delivered = ours.violations.forward, ours.violations.delivered
    order = "every message came after its causes" if not wrong else f"{wrong} messages came before a cause"
    return (
        f"With {ours.mean_bytes:.1f} bytes {order}, held {ours.hold_mean * tick_ms:.0f} ms on average; "
        f"the paper's stamp needs {paper.size} bytes and {paper.hold_mean * tick_ms:.0f} ms, and in order of arrival "
        f"{arrival.violations.forward} of {delivered} messages come before a cause."
    )
