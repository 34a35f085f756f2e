"""`basestation doctor`: find faults, and say how to cure them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from basestation.cli import PROVIDED_BY, common, network_options
from basestation.cli.completion import complete_source
from basestation.doctor import check_deployment, check_machine
from basestation.doctor.findings import FAILURE, GOOD, WARNING, Finding, failure, warning
from basestation.live.commands import ALL, Envelopes, MoteSetting, NetworkTime, OrderError, set_order
from basestation.live.runner import Runner
from basestation.live.station import Station
from basestation.sources import Source, SourceError, SourceOptions, open_source
from basestation.sources.playback import PLAYED
from packet_formats import deployment as deployments
from packet_formats import keys
from packet_formats.phrases import many
from packet_formats.records import Command
from packet_formats.tinyos import encode_packet

if TYPE_CHECKING:
    from basestation.doctor.check_line import Examination
    from packet_formats.deployment import Deployment

STYLES = {GOOD: "green", WARNING: "yellow", FAILURE: "bold red"}
LISTEN_SECONDS = 15.0
ASK_AFTER = 1.0  # seconds for the line to settle
TOKEN = 0xD0


@click.command(
    epilog=common.example(
        """
        basestation doctor
        basestation doctor -d site.toml
        basestation doctor serial@/dev/ttyUSB1:micaz -d site.toml
        basestation doctor sf@localhost:9002 -d site.toml --for 70 --json
        """
    )
)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...", shell_complete=complete_source)
@network_options.deployment_option
@click.option(
    "--for",
    "seconds",
    type=common.FiniteFloat(0, min_open=True),
    metavar="SECONDS",
    help=f"How long to listen. [default: {LISTEN_SECONDS:g}, and two periods if the motes have a schedule]",
)
@click.option(
    "--ask", is_flag=True, help="Request a report from gateway and motes instead of waiting for one."
)
@click.option(
    "--rate",
    type=common.FiniteFloat(0, min_open=True),
    help="Messages per second from each mote, for the budget. [default: the firmware's]",
)
@common.key_option()
@common.json_option
@click.pass_context
def command(
    ctx: click.Context,
    sources: tuple[str, ...],
    deployment: Path | None,
    key: Path | None,
    seconds: float | None,
    ask: bool,
    rate: float | None,
    as_json: bool,
) -> None:
    """Check this machine; with a deployment, its layout and budget; with a SOURCE, its line and motes.

    Each check is good, a warning or a failure, with its cure. doctor listens to a SOURCE for a while: is it our
    gateway, is its line quick enough for delta, do the motes fit the deployment? The exit code is 1 if a check failed.
    """
    if ask and not sources:
        raise click.UsageError("--ask needs a SOURCE")
    shown = common.table("area", "check", "verdict", "finding")
    verdicts = []
    for finding in _findings(sources, deployment, key, seconds, ask, rate):
        verdicts.append(finding.verdict)
        if as_json:
            common.emit_json(finding, flush=True)
        else:
            _add(shown, finding)
    if not as_json:
        common.out.print(shown)
    _sum_up(verdicts)
    if FAILURE in verdicts:
        ctx.exit(1)


def _findings(
    sources: Sequence[str],
    path: Path | None,
    key: Path | None,
    seconds: float | None,
    ask: bool,
    rate: float | None,
) -> Iterator[Finding]:
    deployment = None
    if path is not None or sources or network_options.HERE.exists():
        deployment = _load(path or network_options.HERE, key)
    deployed = () if isinstance(deployment, Finding | None) else deployment.observer.source
    yield from check_machine.examine(
        PROVIDED_BY, Path(os.environ.get("CAUSEWAY_LOG", "logs")), deployed, os.environ, sources
    )
    if isinstance(deployment, Finding):
        yield deployment
    elif deployment is not None:
        yield from check_deployment.examine(deployment, rate)
        yield from check_deployment.gateways(deployment, len(sources or deployed))
        if sources:
            yield from _heard(sources, deployment, seconds or LISTEN_SECONDS + deployment.answer_seconds, ask)


def _load(path: Path, key: Path | None) -> Deployment | Finding:
    try:
        return keys.with_key(deployments.load(path), path, key)
    except keys.KeyFault as error:
        return failure(
            "deployment", "key", str(error), "docs/reference/security.md says how a key is made and kept"
        )
    except OSError as error:
        cure = "--deployment names the file that describes the network; examples/ has some"
        return failure("deployment", "file", f"{path}: {error.strerror or error}", cure)
    except deployments.DeploymentError as error:
        return failure("deployment", "file", f"{path}: {error}", "docs/reference/deployment.md has every key")


def _heard(texts: Sequence[str], deployment: Deployment, seconds: float, ask: bool) -> Iterator[Finding]:
    from basestation.doctor.check_line import Examination

    settings = SourceOptions(deployment=deployment, say=common.note)
    askable = not ask and not all(text.startswith(PLAYED) for text in texts)
    examination = Examination(deployment, len(texts), askable)
    station = Station(deployment, "none", 100)
    try:
        opened = [open_source(text, number, settings) for number, text in enumerate(texts)]
        runner = Runner(station, opened, [examination])
        common.note(f"listening for {seconds:g} s ...")
        trouble = asyncio.run(_listen(runner, opened, examination, seconds, ask))
    except SourceError as error:
        yield failure("line", "opening", str(error), "basestation ports shows what is there")
        return
    if trouble is not None:
        yield trouble
    yield from examination.findings(runner.snapshot(), [source.counters for source in opened], seconds)


async def _listen(
    runner: Runner, sources: Sequence[Source], examination: Examination, seconds: float, ask: bool
) -> Finding | None:
    asking = (
        asyncio.create_task(_ask(sources, examination, runner.station.timeline.network_time)) if ask else None
    )
    try:
        await runner.run(seconds)
    finally:
        if asking is not None:
            asking.cancel()
    if asking is not None and asking.done() and not asking.cancelled():
        return asking.result()
    return None


async def _ask(
    sources: Sequence[Source], examination: Examination, network_time: Callable[[int], NetworkTime | None]
) -> Finding | None:
    deployment = examination.deployment
    await asyncio.sleep(ASK_AFTER)
    order = set_order(MoteSetting("report", Command.REPORT), ALL, deployment.network.hops)
    try:
        _, message = Envelopes(deployment).make(order, network_time(time.monotonic_ns()))
    except OrderError as error:
        return warning("line", "downwards", str(error))
    packet = encode_packet(replace(message, kind="data-ack", token=TOKEN))
    for line, source in enumerate(sources):
        began = time.monotonic_ns()
        try:
            await source.send(packet)
        except SourceError as error:
            return failure(source.text, "downwards", str(error))
        if not source.text.startswith("sf@"):  # a forwarder does not pass acknowledgements on
            examination.ask(line, began)
    return None


def _add(table: Table, finding: Finding) -> None:
    text = Text(finding.text)
    if finding.cure:
        text.append(f"\n-> {finding.cure}", style="dim")
    table.add_row(finding.area, finding.check, Text(finding.verdict, STYLES[finding.verdict]), text)


def _sum_up(verdicts: Sequence[str]) -> None:
    failures, warnings = verdicts.count(FAILURE), verdicts.count(WARNING)
    if not failures and not warnings:
        common.note("Everything is fine.")
        return
    common.note(f"{many(failures, 'failure')}, {many(warnings, 'warning')} in {many(len(verdicts), 'check')}")
