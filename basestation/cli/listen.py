"""`basestation listen`: watch a network live, in causal order."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from basestation.cli import common, live_options, network_options, output_options
from basestation.cli.completion import complete_source
from basestation.cli.ending import Ending
from basestation.journal.record_format import JournalError
from basestation.journal.retention import parse_keep
from basestation.journal.writer import SYNCS
from basestation.live.commands import told_message
from basestation.live.run_log import open_log
from basestation.live.runner import Runner
from basestation.serving.forwarder import Forwarder, Send, ServingCounters
from basestation.sources import Source, SourceError
from packet_formats import sf_protocol
from packet_formats.phrases import many

if TYPE_CHECKING:
    from basestation.journal.retention import Keep
    from basestation.journal.writer import Sync
    from packet_formats.deployment import Deployment


@click.command(
    epilog=common.example(
        r"""
        basestation listen serial@/dev/ttyUSB1:micaz -d examples/micaz.toml
        basestation listen -d examples/micaz.toml --view terminal --log logs
        basestation listen sf@field1:9002 sf@field2:9002 -d site.toml --json | jq 'select(.event=="delivered")'
        basestation listen 'simulate@?messages=500&pace=5' -d examples/micaz.toml
        basestation listen -d site.toml --log logs --keep 30d --keep 20GB
        basestation listen -d site.toml --log logs \
            --on-alarm 'command:sh -c "notify-send Causeway \"$CAUSEWAY_ALARM_TEXT\""'
        basestation listen -d site.toml --view none --log logs --web 0.0.0.0:8080
        MOTECOM=serial@/dev/ttyUSB1:57600 basestation listen -d site.toml --policy dapw --phi 60
        """
    )
)
@click.argument("sources", nargs=-1, metavar="[SOURCE]...", shell_complete=complete_source)
@network_options.deployment_option
@live_options.options
@live_options.allowance_option
@click.option(
    "--log",
    "logs",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="CAUSEWAY_LOG",
    metavar="FOLDER",
    help="Log everything, in a new folder for this run inside FOLDER.",
)
@click.option(
    "--sync",
    type=click.Choice(SYNCS),
    default="interval",
    show_default=True,
    envvar="CAUSEWAY_SYNC",
    help="When to write the log to disk: with every frame, soon after, or when the system chooses.",
)
@click.option(
    "--keep",
    multiple=True,
    envvar="CAUSEWAY_KEEP",
    metavar="DAYS|GB",
    help="Delete runs in the folder of --log beyond this age, such as 30d, or this size, such as 20GB; may be given "
    "twice. A new run begins each day.",
)
@click.option(
    "--serve",
    is_flag=False,
    flag_value=network_options.LOOPBACK,
    metavar="[HOST[:PORT]]",
    envvar="CAUSEWAY_SERVE",
    help=f"Also be a serial forwarder, for TinyOS 1 on port {sf_protocol.PORT[1]} and 2 on {sf_protocol.PORT[2]}; "
    "without HOST for this machine only. Clients of other machines can only read.",
)
@click.option(
    "--serve-control",
    is_flag=True,
    envvar="CAUSEWAY_SERVE_CONTROL",
    help="Allow clients of other machines to send to motes: anyone who reaches the port can.",
)
@click.option(
    "--patient",
    is_flag=True,
    envvar="CAUSEWAY_PATIENT",
    help="Wait for a source that is missing at the start.",
)
@common.key_option()
@output_options.options
def command(
    sources: tuple[str, ...],
    deployment: Path | None,
    key: Path | None,
    logs: Path | None,
    sync: Sync,
    keep: tuple[str, ...],
    serve: str | None,
    serve_control: bool,
    patient: bool,
    choices: live_options.Choices,
    outputs: output_options.Outputs,
) -> None:
    """Watch a network live: messages are delivered in causal order.

    SOURCE is serial@PORT[:BAUD-or-platform], network@HOST:PORT, sf@HOST:PORT, replay@FILE, testbed@ or simulate@;
    several are gateways of one network. Without a SOURCE, listen uses MOTECOM, or the deployment's source, or the port
    that looks like a gateway's.

    Ctrl-C ends the run: held messages are delivered, a summary is printed, and the exit code is 0.
    """
    if serve_control and serve is None:
        raise click.UsageError("--serve-control is for the clients of --serve")
    kept = _read_keep(keep, logs)
    described = network_options.find_deployment(deployment, key)
    voice = output_options.Voice()
    try:
        opened = network_options.open_sources(
            sources, described, patient, voice.say, named=deployment is not None
        )
    except SourceError as error:
        common.fail(str(error))
    _listen(opened, described, choices, logs, sync, kept, serve, serve_control, outputs, voice)


def _listen(
    sources: list[Source],
    deployment: Deployment,
    choices: live_options.Choices,
    logs: Path | None,
    sync: Sync,
    kept: Keep | None,
    serve: str | None,
    serve_control: bool,
    outputs: output_options.Outputs,
    voice: output_options.Voice,
) -> None:
    station = choices.station(deployment)
    opened = outputs.open(deployment, voice)
    sinks = [*live_options.views(choices, deployment), *opened.sinks]
    forwarder = None
    if serve is not None:
        host, ports = _where(serve, deployment)
        forwarder = Forwarder(
            _down(sources),
            deployment.network.board,
            voice.say,
            lambda by, message, shown: runner.remark(
                f"by --serve, {by}: {told_message(message, deployment)}", shown
            ),
            serve_control,
        )
        sinks.append(forwarder)
    page = live_options.page_for(choices, station, sources)
    sinks += page.sinks if page else []
    try:
        with Ending() as ending, contextlib.ExitStack() as stack:
            log = open_log(stack, logs, station, sync, sources, kept, voice.say) if logs else None
            runner = Runner(station, sources, sinks, page.keep(log) if page else log, logs)

            async def work() -> None:
                opened.begin(runner)
                if forwarder is not None:
                    await _serve(forwarder, host, ports)
                await runner.run(choices.seconds)

            async def served() -> None:
                assert page is not None
                await page.run(
                    runner,
                    work,
                    stay=choices.seconds is None,
                    run=log.folder.name if log else None,
                    folder_at=log.folder_at if log else None,
                )

            live_options.show(runner, served if page else work, choices, ending)
    except (SourceError, JournalError) as error:
        common.fail(str(error))
    if forwarder is not None:
        common.note(_served(forwarder.counters))
    _judge(runner)


def _read_keep(texts: Sequence[str], logs: Path | None) -> Keep | None:
    """The value of `--keep`; a usage error for a wrong value, or without a log."""
    try:
        keep = parse_keep(texts)
    except ValueError as error:
        raise click.UsageError(f"--keep {error}") from None
    if keep is not None and logs is None:
        raise click.UsageError("--keep is for --log FOLDER, which is not given")
    return keep


def _judge(runner: Runner) -> None:
    """End with a fault if the log is not complete, or if no packet could be read."""
    if runner.unlogged:
        common.fail(f"{many(runner.unlogged, 'record')} could not be written to the log")
    if runner.unsynced:
        common.fail(f"the disk failed while the log was written: {runner.unsynced}")
    live_options.judge(runner)


def _where(serve: str, deployment: Deployment) -> tuple[str, dict[int, int]]:
    """Where to serve: both versions on their own ports, or the deployment's version on the given port."""
    host, port = network_options.served_at("--serve", serve)
    return host, dict(sf_protocol.PORT) if port is None else {deployment.network.tinyos: port}


async def _serve(forwarder: Forwarder, host: str, ports: dict[int, int]) -> None:
    try:
        await forwarder.open(host, ports)
    except (OSError, ValueError) as error:  # ValueError: not a host's name at all
        reason = (error.strerror if isinstance(error, OSError) else None) or "no such host"
        raise SourceError(f"--serve: can't serve on {host}: {reason}") from None
    network_options.warn_if_everywhere("--serve", host)
    common.note(f"serving on {host}, {_ports(forwarder)}")


def _ports(forwarder: Forwarder) -> str:
    return ", ".join(f"port {port} for TinyOS {version}" for version, port in forwarder.ports.items())


def _served(counters: ServingCounters) -> str:
    text = f"served {many(counters.served, 'client')}: {many(counters.forwarded, 'message')} to them, "
    text += f"{counters.sent} from them sent, {counters.refused} refused"
    return text + f"; {counters.dropped} too slow, {counters.strangers} refused access"


def _down(sources: Sequence[Source]) -> Send:
    """A function that sends a client's packet down every line. It fails only if all lines fail."""

    async def send(packet: bytes) -> None:
        failures = []
        for source in sources:
            try:
                await source.send(packet)
            except SourceError as error:
                failures.append(error)
        if len(failures) == len(sources):
            raise failures[0]

    return send
