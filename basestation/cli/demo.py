"""`basestation demo`: all steps, from the firmware on ten motes to the gain of its stamp on the same run."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from basestation.cli import common, live_options
from basestation.cli.ending import Ending
from basestation.comparing.comparison import ComparisonRow
from basestation.journal.writer import JournalWriter, new_run_id
from basestation.live.happenings import Delivered, Happening
from basestation.live.runner import Runner
from basestation.simulator.simulated_trace import trace_of as simulated_trace
from basestation.simulator.simulation import generate
from basestation.sources import SourceError, SourceOptions, open_source
from basestation.sources.base import Spec
from basestation.sources.simulated_source import world_of
from basestation.testbed import emulator, images, truth_log
from basestation.testbed.testbed_trace import network_of
from basestation.testbed.testbed_trace import trace_of as emulated_trace
from basestation.traces.files import Trace, write_trace
from packet_formats.deployment import Deployment, load
from packet_formats.layout import layout_of

SEED = 1
RATE = 4.0  # messages a second of each mote, on the simulator
APP = "alarm"  # of firmware/apps
EXAMPLE = images.PROJECT / "examples" / "alarm.toml"
BRIGHT, DARK = 800, 100  # readings of the light
SHADOWS_FROM, SHADOW_EVERY, SHADOW_SECONDS = 3.0, 0.4, 0.9  # seconds; after three all motes know the time
PAPERS = "kn"  # the paper's stamp, with all entries
SHADOWS = (
    "A shadow falls on one mote after another. It sends an alarm (kind 1), the others answer (kind 2), "
    "and it reports the end (kind 3)."
)
MODEL = "The motes of the paper's model send at random, and hear one another."
MOVES = "↑2: delivered two places earlier than it arrived; ↓2: two places later."


@dataclass(frozen=True)
class Ground:
    """The source, what its motes do, and the log of what really happened."""

    source: str
    deployment: Deployment
    does: str
    truth: Path | None  # the testbed's log; the simulator can repeat its run


class LongestHeld:
    """A sink that keeps the delivery with the longest hold."""

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
    """Run ten motes over three hops live: the firmware stamps messages, the station logs and orders them.

    A shadow falls on one mote after another. Each sends an alarm, which the others answer: so most messages have a
    cause.

    Then the command orders the same run in four ways and compares them: on arrival, by the paper's stamp with its full
    wait and with about our hold, and by our stamp. --json prints one object for each event, as `basestation listen
    --json` does, then one for each way to order the run.
    """
    folder = out / new_run_id()
    folder.mkdir(parents=True)
    ground = _ground(on, load(EXAMPLE), folder, seconds)
    network, stamp = ground.deployment.network, layout_of(ground.deployment).stamp
    common.note(
        f"{network.motes} motes, the farthest {network.hops} hops away; stamp {stamp.scheme}, "
        f"{stamp.least_size} to {stamp.size} bytes, for {seconds:g} s."
    )
    common.note(ground.does if as_json else f"{ground.does} {MOVES}")
    longest = _listen(ground, folder / "log", seconds, as_json)
    trace = _trace(ground)
    write_trace(trace, folder / "trace")
    _compare(trace, as_json)
    common.note(
        "The holds above the table are those of the live run, by this host's clock. The table is of a replay in ticks "
        "of the network's clock, with all messages whose motes knew the time, even those after the live run."
    )
    common.note(f"The log and the trace are in {folder}. To see more:")
    common.note(f"  basestation log summary {folder / 'log'}")
    if longest is not None:
        common.note(f"  basestation why {folder / 'log'} {longest.name}")
    common.note(f"  basestation compare {folder / 'trace'}")


def _ground(on: str | None, deployment: Deployment, folder: Path, seconds: float) -> Ground:
    """Choose the testbed if it can be built, else the simulator, and note the reason."""
    if on != "simulator":
        common.note("Building the firmware and the emulator, unless they are built already ...")
        try:
            emulator.build(say=common.note)
            images.programs_for(deployment, app=APP)
        except (emulator.EmulatorError, images.FirmwareImageError) as error:
            if on == "testbed":
                common.fail(str(error))
            common.note(f"No emulated motes: {error}\nThe paper's model takes their place.")
        else:
            log, light = folder / "truth.jsonl", folder / "light.csv"
            light.write_text("\n".join(_shadows(deployment.network.motes, seconds)) + "\n")
            source = f"testbed@?app={APP}&sensors={light}&seed={SEED}&truth={log}"
            return Ground(source, deployment, SHADOWS, log)
    chance = RATE * deployment.clock.tick_seconds  # of a mote to send in a tick
    messages = round(seconds * RATE * deployment.network.motes)
    unnamed = replace(deployment, data=())  # the model's data are not alarms
    return Ground(f"simulate@?messages={messages}&rate={chance:g}&seed={SEED}", unnamed, MODEL, None)


def _shadows(motes: int, seconds: float) -> Iterator[str]:
    """The readings of the motes' light sensors, for `basestation testbed --sensors`."""
    chance, at, last = random.Random(SEED), SHADOWS_FROM, 0
    yield "time,mote,sensor,value"
    yield from (f"0,{mote},light,{BRIGHT}" for mote in range(motes))
    while at < seconds:
        last = (last + chance.randrange(3, motes - 2)) % motes
        yield f"{at:.2f},{last},light,{DARK}"
        yield f"{at + SHADOW_SECONDS:.2f},{last},light,{BRIGHT}"
        at += SHADOW_EVERY


def _listen(ground: Ground, log: Path, seconds: float, as_json: bool) -> Delivered | None:
    """Do what `basestation listen SOURCE --log FOLDER` does, for a given time; the delivery with the longest hold."""
    deployment, longest = ground.deployment, LongestHeld()
    on_terminal = not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    choices = live_options.Choices(
        view="terminal" if on_terminal else "lines", seconds=seconds, as_json=as_json
    )
    station = choices.station(deployment)
    try:
        source = open_source(ground.source, 0, SourceOptions(deployment=deployment, say=common.note))
        with (
            Ending() as ending,
            JournalWriter(log, deployment, log.parent.name, sources=[ground.source]) as journal,
        ):
            runner = Runner(station, [source], [*live_options.views(choices, deployment), longest], journal)
            live_options.show(runner, partial(runner.run, seconds), choices, ending)
    except SourceError as error:
        common.fail(str(error))
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
    """Order the same run in several ways, and print the gain of our stamp in one sentence."""
    from basestation.comparing.recorded_run import ways_to_order

    tick_ms, ours = 1000 * trace.deployment.clock.tick_seconds, trace.deployment.stamp.scheme
    ways = ways_to_order(trace, ours, PAPERS)
    if as_json:
        for way, row in ways.items():
            common.emit_json({"way": way, **row.to_dict()})
        return
    numbers = ("bytes", "before a cause", "mean hold", "longest")
    table = common.table("the same run ordered by", *numbers, right=numbers, padding=0)
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
