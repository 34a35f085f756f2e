"""`basestation listen`: watch a network live, in causal order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
from basestation.serving.forwarder import Forwarder
from basestation.sources import Source, SourceError
from packet_formats import sf_protocol
from packet_formats.phrases import many

if TYPE_CHECKING:
    from basestation.journal.retention import Keep
    from basestation.journal.writer import Sync
    from basestation.live.station import Station
    from packet_formats.deployment import Deployment
    from packet_formats.tinyos import ActiveMessage


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
    choices.check()
    if serve_control and serve is None:
        raise click.UsageError("--serve-control is for the clients of --serve")
    logging = _logging(logs, sync, keep)
    described = network_options.find_deployment(deployment, key)
    voice = output_options.Voice()
    try:
        opened = network_options.open_sources(
            sources, described, patient, voice.say, named=deployment is not None
        )
    except SourceError as error:
        common.fail(str(error))
    station = choices.station(described)
    opened_outputs = outputs.open(described, voice)
    clients = None if serve is None else _Clients(serve, serve_control, opened, described, voice.say)
    _listen(station, opened, choices, logging, opened_outputs, clients)


def _listen(
    station: Station,
    sources: Sequence[Source],
    choices: live_options.Choices,
    logging: _Logging | None,
    outputs: output_options.OpenOutputs,
    clients: _Clients | None,
) -> None:
    page = live_options.page_for(choices, station, sources)
    sinks = [*live_options.views(choices, station.deployment), *outputs.sinks]
    sinks += [clients.forwarder] if clients else []
    sinks += page.sinks if page else []
    try:
        with Ending() as ending, contextlib.ExitStack() as stack:
            log = open_log(stack, station, sources, *logging, outputs.voice.say) if logging else None
            kept = page.keep(log) if page else log
            runner = Runner(station, sources, sinks, kept, logging.folder if logging else None)

            async def work() -> None:
                outputs.begin(runner)
                if clients is not None:
                    await clients.admit(runner)
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
    if clients is not None:
        common.note(clients.summary())
    _judge(runner)


class _Logging(NamedTuple):
    """The options of the log."""

    folder: Path
    sync: Sync
    keep: Keep | None


def _logging(folder: Path | None, sync: Sync, texts: Sequence[str]) -> _Logging | None:
    """The options of the log; a usage error for a wrong `--keep`, or for one without a log."""
    try:
        keep = parse_keep(texts)
    except ValueError as error:
        raise click.UsageError(f"--keep {error}") from None
    if keep is not None and folder is None:
        raise click.UsageError("--keep is for --log FOLDER, which is not given")
    return None if folder is None else _Logging(folder, sync, keep)


def _judge(runner: Runner) -> None:
    """End with a fault if the log is not complete, or if no packet could be read."""
    if runner.unlogged:
        common.fail(f"{many(runner.unlogged, 'record')} could not be written to the log")
    if runner.unsynced:
        common.fail(f"the disk failed while the log was written: {runner.unsynced}")
    live_options.judge(runner)


class _Clients:
    """The clients of `--serve`, at HOST, PORT or HOST:PORT; without a port each TinyOS version has its own."""

    def __init__(
        self,
        where: str,
        control: bool,
        sources: Sequence[Source],
        deployment: Deployment,
        say: Callable[[str], None],
    ) -> None:
        self._host, port = network_options.served_at("--serve", where)
        self._ports = dict(sf_protocol.PORT) if port is None else {deployment.network.tinyos: port}
        self._sources, self._deployment = sources, deployment
        self._runner: Runner | None = None
        self.forwarder = Forwarder(self._send, deployment.network.board, say, self._remark, control)

    async def admit(self, runner: Runner) -> None:
        """Open the ports, for a run."""
        self._runner = runner
        try:
            await self.forwarder.open(self._host, self._ports)
        except (OSError, ValueError) as error:  # ValueError: not a host's name at all
            reason = (error.strerror if isinstance(error, OSError) else None) or "no such host"
            raise SourceError(f"--serve: can't serve on {self._host}: {reason}") from None
        network_options.warn_if_everywhere("--serve", self._host)
        ports = (f"port {port} for TinyOS {version}" for version, port in self.forwarder.ports.items())
        common.note(f"serving on {self._host}, {', '.join(ports)}")

    def summary(self) -> str:
        counts = self.forwarder.counters
        text = f"served {many(counts.served, 'client')}: {many(counts.forwarded, 'message')} to them, "
        text += f"{counts.sent} from them sent, {counts.refused} refused"
        return text + f"; {counts.dropped} too slow, {counts.strangers} refused access"

    def _remark(self, by: str, message: ActiveMessage, shown: bool) -> None:
        if self._runner is not None:
            self._runner.remark(f"by --serve, {by}: {told_message(message, self._deployment)}", shown)

    async def _send(self, packet: bytes) -> None:
        """Send a client's packet down every line; `SourceError` if all lines fail."""
        failures = []
        for source in self._sources:
            try:
                await source.send(packet)
            except SourceError as error:
                failures.append(error)
        if len(failures) == len(self._sources):
            raise failures[0]
