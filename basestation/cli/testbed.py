"""`basestation testbed`: the real firmware on emulated motes, with gateways as TCP ports and a report of the truth."""

from __future__ import annotations

import gzip
import math
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table

from basestation.cli import INTERRUPTED, common
from basestation.cli.progress import progress
from basestation.simulator.topology import TopologyError
from basestation.testbed import capture, emulator, faults, images, sensors, topologies, truth_log
from basestation.testbed.emulator import OpenPort, TestbedRun
from basestation.testbed.energy import JOINING, Battery
from basestation.testbed.judge import judge
from basestation.testbed.scenario import Port, ScenarioError, ScenarioNetwork
from basestation.testbed.setup import Wish, assemble, networks_in, refuse_too_many
from basestation.testbed.testbed_report import ARRIVE, TestbedReport, lines_of, too_few
from basestation.testbed.topologies import RadioTopology, Wanted
from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment
from packet_formats.phrases import many
from packet_formats.power import ASLEEP_MA, CELLS_MAH

EXAMPLE = images.PROJECT / "examples" / "micaz.toml"
FILE = click.Path(path_type=Path)
LOOK = 0.2  # seconds between looks at how far the run is
TROUBLE = (
    TopologyError,
    ScenarioError,
    faults.FaultError,
    sensors.SensorsError,
    images.FirmwareImageError,
    emulator.EmulatorError,
    capture.PcapError,
    truth_log.TruthError,
)
PARENT = "CAUSEWAY_TESTBED_PARENT"  # the id of a process with which this one ends
MOST_PACE = 1e6
MOST_MOTES = 1000
SHAPES = ("grid", "line")
FILES = ("lits", "gains", "links")


class Pace(click.ParamType[float]):
    """Emulated seconds per real second; 0 is as fast as possible."""

    name = "real|fast|FACTOR"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            factor = {"real": 1.0, "fast": 0.0}.get(value)
            factor = float(value) if factor is None else factor
        except ValueError:
            self.fail(f"{value!r} is neither real nor fast nor a number", param, ctx)
        if not 0 <= factor <= MOST_PACE:
            self.fail(f"{value} is not a pace", param, ctx)
        return factor


NETWORK_OPTIONS = [
    click.option(
        "--motes",
        type=common.Whole(1, MOST_MOTES),
        help="How many motes to run. [default: all of the deployment]",
    ),
    click.option(
        "--gateways", type=common.Whole(1), help="How many gateways. [default: as many as the deployment has]"
    ),
    click.option(
        "--topology",
        default="grid",
        show_default=True,
        metavar="WHAT",
        help="grid, line, lits:FILE (id, x, y), gains:FILE (TOSSIM) or links:FILE (sender receiver p); a file's "
        "first places are gateways.",
    ),
    click.option(
        "--range",
        "reach",
        type=common.FiniteFloat(0.001, 1e6),
        help="Range of a mote; in a grid or line neighbours are 10 apart. [default: just enough for the deployment's "
        "hops]",
    ),
    click.option(
        "--loss",
        type=common.FiniteFloat(0, 0.99),
        default=0.0,
        help="The share of frames that each link loses by chance. [default: 0]",
    ),
    click.option("--noise", type=FILE, help="Noise readings in dBm: one line per millisecond."),
    click.option(
        "--rate",
        type=common.FiniteFloat(0.001, 100),
        help="Messages per second from each mote. [default: the firmware's]",
    ),
    click.option(
        "--app",
        help="The motes' app: one of firmware/apps, or a folder (docs/guide/apps.md). [default: mote]",
    ),
]
RUN_OPTIONS = [
    click.option(
        "--seconds",
        type=common.FiniteFloat(0.001),
        help="How long to run, in the motes' time. [default: until Ctrl-C]",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**63 - 1),
        default=1,
        show_default=True,
        help="Seed of all random numbers.",
    ),
    click.option(
        "--pace", type=Pace(), help="Speed against real time. [default: real; with --seconds: fast]"
    ),
    click.option(
        "--faults", "timeline", type=FILE, help="A TOML timeline of faults (docs/reference/testbed.md)."
    ),
    click.option(
        "--sensors",
        "readings",
        type=FILE,
        help="A CSV of sensor readings: time,mote,sensor,value (docs/reference/testbed.md).",
    ),
    click.option(
        "--port", type=click.IntRange(0, 65535), help="TCP port of the first gateway; the next ones follow."
    ),
    click.option(
        "--pty",
        "ptys",
        type=FILE,
        multiple=True,
        help="Link this path to a gateway's pty; one for each gateway.",
    ),
    click.option("--wait", is_flag=True, help="Start when every port has a client."),
]
ENERGY_OPTIONS = [
    click.option(
        "--capacity",
        type=common.FiniteFloat(1, 1e6),
        default=CELLS_MAH,
        show_default=True,
        help="Charge of a mote's cells in mAh.",
    ),
    click.option(
        "--energy-from",
        "since",
        type=common.FiniteFloat(0),
        help="Count charge from this second on, when all motes have joined. [default: with a schedule "
        f"{JOINING:g}, if the run is longer; else 0]",
    ),
    click.option(
        "--asleep",
        type=common.FiniteFloat(9, 1e5),
        default=1000 * ASLEEP_MA,
        show_default=True,
        help="What a whole mote draws asleep, in uA: measure yours.",
    ),
]
RESULT_OPTIONS = [
    click.option("--truth", "log", type=FILE, help="Write the truth log to this file."),
    click.option(
        "--pcap", "capture", type=FILE, help="Write the frames on the air to this file, for Wireshark."
    ),
    click.option("--keep", type=FILE, help="Keep the scenario and the images in this folder."),
    click.option(
        "--check",
        is_flag=True,
        help="End with exit code 1 if anything went wrong, or too few messages arrived.",
    ),
]


PANELS = {
    "Topology and radio": ("topology", "reach", "noise"),
    "Energy": ("capacity", "since", "asleep"),
    "Ports": ("port", "ptys", "wait"),
    "Files": ("log", "capture", "keep"),
}


@click.command(
    cls=common.PanelCommand,
    panels=PANELS,
    epilog=common.example(
        """
        basestation testbed
        basestation testbed --motes 10 --seconds 60 --check
        basestation testbed my.toml --topology lits:mote_coordinates.dat --range 30 --faults storm.toml
        basestation testbed examples/mica2.toml --seconds 600 --energy-from 60 --json
        basestation testbed tinyos1.toml tinyos2.toml --motes 4 --seconds 60 --pcap ether.pcap
        """
    ),
)
@click.argument("deployments", nargs=-1, type=FILE, metavar="[DEPLOYMENT]...")
@common.add_options([*NETWORK_OPTIONS, *RUN_OPTIONS, *ENERGY_OPTIONS, *RESULT_OPTIONS])
@common.json_option
def command(deployments: tuple[Path, ...], as_json: bool, **given: Any) -> None:
    """Run the real firmware on emulated motes that share one radio channel, and report what happened.

    Each DEPLOYMENT is a network of its own; all of them share the channel. The default is examples/micaz.toml. A
    gateway is reached at network@127.0.0.1:PORT, as raw bytes of its serial line.
    """
    _refuse_odd(given)
    described = [common.with_key(common.load_deployment(path), path) for path in deployments or (EXAMPLE,)]
    if given["since"] is None:
        given["since"] = _found_itself(described, given["seconds"])
    try:
        report, whole = _run(described, given)
    except TROUBLE as error:
        common.fail(str(error))
    if as_json:
        common.emit_json(report)
    else:
        _show(report)
    troubles = report.troubles + too_few(report, _should_arrive(described, given))
    for trouble in troubles:
        common.note(trouble, style="yellow")
    if not whole and given["seconds"] is not None:
        click.get_current_context().exit(INTERRUPTED)
    if given["check"] and troubles:
        click.get_current_context().exit(1)


def _should_arrive(deployments: Sequence[Deployment], given: dict[str, Any]) -> float:
    """The least share of messages that these networks should bring; 0 where the intended losses are not known.

    With --loss it is the share that would arrive without retransmissions: motes do better.
    """
    if given["timeline"] or given["noise"] or given["topology"].startswith(("links:", "gains:")):
        return 0.0
    hops = max(deployment.network.hops for deployment in deployments)
    return ARRIVE * float(1 - given["loss"]) ** hops


def _found_itself(deployments: Sequence[Deployment], seconds: float | None) -> float:
    """The second from which on charge counts: while motes join, they listen for long."""
    if all(deployment.schedule is None for deployment in deployments):
        return 0.0
    if seconds is None or seconds > JOINING:
        return JOINING
    common.note(f"Days include the time in which motes join, up to {JOINING:g} s.")
    return 0.0


def _refuse_odd(given: dict[str, Any]) -> None:
    kind, _, name = given["topology"].partition(":")
    if kind not in (*SHAPES, *FILES) or bool(name) != (kind in FILES):
        raise click.BadParameter(
            f"{given['topology']!r} is none of grid, line, lits:FILE, gains:FILE, links:FILE",
            param_hint="--topology",
        )
    if kind == "lits" and given["reach"] is None:
        raise click.UsageError("lits needs --range: how far a mote is heard")
    if kind in ("gains", "links") and given["reach"] is not None:
        raise click.UsageError(f"--range means nothing with {kind}: the file has the links")
    if None not in (given["seconds"], given["since"]) and given["since"] >= given["seconds"]:
        raise click.UsageError("--energy-from is after the end of the run: it must be less than --seconds")
    if given["wait"] and given["port"] is None:
        raise click.UsageError("--wait needs --port")


def _run(deployments: Sequence[Deployment], given: dict[str, Any]) -> tuple[TestbedReport, bool]:
    """Run, and return the report and whether the run ended by itself."""
    for deployment in deployments:
        images.refuse_board(deployment)
    refuse_too_many(deployments, given["motes"] or 0)
    topology = topologies.lossy(_topology(deployments, given), given["loss"])
    networks = networks_in(deployments, topology)
    boards = {node: network.deployment.network.board for network in networks for node in network.nodes}
    if given["capture"] is not None:
        capture.check(boards.values())
    script = faults.load(given["timeline"], networks) if given["timeline"] else ()
    script += sensors.load(given["readings"], networks) if given["readings"] else ()
    with _folder(given["keep"]) as folder:
        wish = _wish(given, networks, script, folder)
        _describe(networks, topology)
        programs = {
            network.name: images.programs_for(network.deployment, given["rate"], given["app"], common.note)
            for network in networks
        }
        scenario = assemble(networks, topology, programs, folder, wish)
        text = scenario.text()
        (folder / "scenario.txt").write_text(text)
        log = given["log"] or folder / "truth.jsonl"
        with emulator.start(emulator.build(say=common.note), text, log) as run:
            whole = _watch(run, wish, networks)
        if given["capture"] is not None:
            capture.write(given["capture"], truth_log.read(log), boards)
        battery = Battery(given["capacity"], given["since"], given["asleep"] / 1000)
        return judge(truth_log.read(log), networks, battery), whole


def _topology(deployments: Sequence[Deployment], given: dict[str, Any]) -> RadioTopology:
    kind, _, name = given["topology"].partition(":")
    described = [deployment.network for deployment in deployments]
    most, margin = (
        min(one.motes for one in described),
        max(BOARDS[one.board].radio.signal_margin_db for one in described),
    )
    gateways = given["gateways"] or max(one.gateways for one in described)
    if kind in SHAPES:
        lay_out = topologies.grid if kind == "grid" else topologies.line
        hops = min(one.hops for one in described)
        return lay_out(given["motes"] or most, gateways, hops, reach=given["reach"], margin=margin)
    wanted = Wanted(given["motes"], gateways, margin)
    found = _from_file(kind, Path(name), given["reach"], wanted)
    if wanted.motes is None and found.motes > most:
        return _from_file(kind, Path(name), given["reach"], replace(wanted, motes=most))
    return found


def _from_file(kind: str, path: Path, reach: float, wanted: Wanted) -> RadioTopology:
    if kind == "lits":
        return topologies.from_coordinates(path, reach, wanted)
    return topologies.from_gains(path, wanted) if kind == "gains" else topologies.from_links(path, wanted)


def _wish(
    given: dict[str, Any], networks: Sequence[ScenarioNetwork], script: tuple[str, ...], folder: Path
) -> Wish:
    pace = given["pace"]
    if pace is None:
        pace = 1.0 if given["seconds"] is None else 0.0
    noise = given["noise"]
    return Wish(
        seed=given["seed"],
        pace=pace,
        seconds=given["seconds"],
        ports=_ports(given, sum(len(network.gateways) for network in networks), pace),
        wait=given["wait"],
        readings=None if noise is None else _plain_text(noise, folder),
        script=script,
        states=given["since"],
    )


def _ports(given: dict[str, Any], gateways: int, pace: float) -> tuple[Port, ...]:
    """The gateways' ports. A run as fast as possible opens none unless asked to: their numbers would differ each
    time."""
    first, ptys = given["port"], given["ptys"]
    if first is None and not ptys and pace == 0:
        return ()
    if len(ptys) > gateways:
        raise click.UsageError(f"{many(len(ptys), '--pty')}, and {many(gateways, 'gateway')}")
    if first and first + gateways > 65536:
        raise click.UsageError(f"--port {first}: there are not enough ports above it")
    return tuple(
        Port(first + number if first else 0, ptys[number].absolute() if number < len(ptys) else None)
        for number in range(gateways)
    )


def _plain_text(path: Path, folder: Path) -> Path:
    """The noise readings, unpacked as the engine needs them."""
    raw = path.read_bytes()
    if raw[:2] != b"\x1f\x8b":
        return path
    unpacked = folder / "noise.txt"
    unpacked.write_bytes(gzip.decompress(raw))
    return unpacked


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
    else:
        with TemporaryDirectory(prefix="causeway-testbed-") as place:
            yield Path(place)


def _describe(networks: Sequence[ScenarioNetwork], topology: RadioTopology) -> None:
    hops = topology.hops()
    near = [found for found in hops if found is not None]
    for network in networks:
        allowed = network.deployment.network.hops
        common.note(
            f"{network.name}: {many(topology.motes, 'mote')}, {many(topology.gateways, 'gateway')}; "
            f"{many(near.count(1), 'mote has', 'motes have')} a good link to a gateway, "
            f"the farthest is {many(max(near, default=0), 'good hop')} away; weaker links carry now and then"
        )
        if any(found is None or found > allowed for found in hops):
            far = sum(found is None or found > allowed for found in hops)
            common.note(
                f"{network.name}: {many(far, 'mote is', 'motes are')} more than the deployment's "
                f"{many(allowed, 'hop')} away, or have no way at all: --range changes that",
                style="yellow",
            )


def _watch(run: TestbedRun, wish: Wish, networks: Sequence[ScenarioNetwork]) -> bool:
    """Print the addresses, and wait for the end; True if the run ended by itself."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no engine is left behind
    parent = os.environ.get(PARENT)
    try:
        for port in run.ports(len(wish.ports)):
            common.note(_where(port, networks))
        if wish.seconds is None:
            common.note("Ctrl-C ends the run.")
        total = None if wish.seconds is None else math.ceil(wish.seconds)
        with progress(total, "emulated seconds") as advance:
            done = 0
            while run.running:
                run.wait(LOOK)
                if parent is not None and os.getppid() != int(parent):
                    raise KeyboardInterrupt  # the parent was killed, and could not end this process
                now = int(run.seconds())
                advance(max(now - done, 0))
                done = max(now, done)
    except KeyboardInterrupt:
        run.interrupt()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return run.finish()


def _where(port: OpenPort, networks: Sequence[ScenarioNetwork]) -> str:
    network = next(network for network in networks if port.node in network.gateways)
    ways = [f"network@127.0.0.1:{port.tcp}"] if port.tcp is not None else []
    ways += [f"serial@{port.pty}:57600"] if port.pty is not None else []
    return f"{network.name}, gateway {network.id_of(port.node)}: {' or '.join(ways)}"


def _show(report: TestbedReport) -> None:
    table = Table(box=SIMPLE_HEAD, show_header=False, padding=(0, 1))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for name, words in lines_of(report):
        table.add_row(name, words)
    common.out.print(table)
