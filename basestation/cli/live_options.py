"""Shared by `listen` and `replay`: options, views, and the end of a run."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from basestation.cli import common, network_options, web_page
from basestation.cli.ending import Ending
from basestation.live.downlink import Orders
from basestation.live.happenings import Alarm, Happening, Note, Sink
from basestation.live.runner import TERMINAL, Runner, Stage
from basestation.live.station import Station
from basestation.views.lines import FinalRows, LinesView, summary, verdict
from basestation.views.ndjson import JsonView
from packet_formats.layout import layout_of
from packet_formats.phrases import visible
from packet_formats.schemes import LEDGER, phi_refusal, policies, refusal

if TYPE_CHECKING:
    from basestation.sources import Source
    from basestation.views.terminal import TerminalView
    from packet_formats.deployment import Deployment

VIEWS = ("lines", "terminal", "none")


@dataclass(frozen=True)
class Choices:
    """The values of the shared options."""

    policy: str | None = None
    phi: int | None = None
    tolerate: float | None = None
    view: str = "lines"
    seconds: float | None = None
    final: bool = False
    as_json: bool = False
    allowance: float | None = None  # on the line of `listen`, and in a log
    web: str | None = None
    web_control: bool = False

    def check(self) -> None:
        """End with a usage error if the options contradict each other."""
        if self.web_control and self.web is None:
            raise click.UsageError("--web-control is for the page of --web")
        if self.web is not None and "@" in self.web:
            raise click.UsageError(
                f"--web {self.web}: should be HOST, PORT or HOST:PORT; put a SOURCE before --web"
            )
        if self.tolerate is not None and self.policy not in (None, LEDGER):
            raise click.UsageError(f"--tolerate is for the policy {LEDGER}, not for {self.policy}")
        if self.as_json and self.view == "terminal":
            raise click.UsageError("--json and --view terminal both write to standard output: choose one")
        if self.view == "terminal" and not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise click.UsageError("--view terminal needs a terminal; use --view lines or --json")

    def station(self, deployment: Deployment) -> Station:
        """The station for these choices. `--policy` alone keeps the deployment's phi and tolerance."""
        observer = deployment.observer
        phi = observer.phi if self.phi is None else self.phi
        policy = LEDGER if self.tolerate is not None else self.policy or observer.policy
        if reason := refusal(policy, deployment.stamp.scheme):
            raise click.UsageError(f"--policy {policy}: it {reason}")
        # In the environment phi is only for the policies that have one.
        context = click.get_current_context(silent=True)
        given = context is not None and context.get_parameter_source("phi") is ParameterSource.COMMANDLINE
        if given and (reason := phi_refusal(policy)):
            raise click.UsageError(f"--phi {phi}: {reason}")
        allowance_ns = None if self.allowance is None else round(self.allowance * 1_000_000)
        return Station(deployment, policy, phi, self.tolerate, allowance_ns=allowance_ns)


OPTIONS = (
    click.option(
        "--policy",
        type=click.Choice(policies()),
        envvar="CAUSEWAY_POLICY",
        help="Delivery policy. [default: the deployment's]",
    ),
    click.option(
        "--phi",
        type=common.Whole(0, 100),
        envvar="CAUSEWAY_PHI",
        help="Share of the safe wait, in per cent. [default: the deployment's]",
    ),
    click.option(
        "--tolerate",
        type=common.FiniteFloat(0, 100),
        metavar="PERCENT",
        envvar="CAUSEWAY_TOLERATE",
        help="Deliver by the ledger: keep violations at or below PERCENT of the messages, with the shortest wait; 0 is "
        "exact. [default: the deployment's]",
    ),
    click.option(
        "--view",
        type=click.Choice(VIEWS),
        default="lines",
        show_default=True,
        envvar="CAUSEWAY_VIEW",
        help="Show plain lines, the full screen, or only the summary.",
    ),
    click.option(
        "--for", "seconds", type=common.FiniteFloat(0), metavar="SECONDS", help="End after this time."
    ),
    click.option(
        "--final",
        is_flag=True,
        envvar="CAUSEWAY_FINAL",
        help="Show messages only when they are delivered. Without it, a message that waits for others by name is also "
        "shown on arrival, marked tentative. The policies none, causal, dapw and cbd always show only final rows.",
    ),
    click.option(
        "--web",
        is_flag=False,
        flag_value=network_options.LOOPBACK,
        metavar="[HOST[:PORT]]",
        envvar="CAUSEWAY_WEB",
        help=f"Also serve a page for browsers, on port {web_page.PORT} or a free one. Without HOST only this machine "
        "reaches the page; with HOST it needs the token that is printed.",
    ),
    click.option(
        "--web-control",
        is_flag=True,
        envvar="CAUSEWAY_WEB_CONTROL",
        help="Let the page change the policy and send settings to motes. Without it, the page is read-only.",
    ),
    common.json_option,
)


allowance_option = click.option(
    "--allowance",
    type=common.FiniteFloat(0, 60_000),
    metavar="MS",
    envvar="CAUSEWAY_ALLOWANCE",
    help="The longest extra delay of a frame on the line. [default: 172, a full queue at 57600 baud]",
)


options = common.grouped(OPTIONS, Choices, "choices")


class Notes:
    """A sink for runs with JSON or no output: notes, and alarms on request, go to standard error."""

    def __init__(self, alarms: bool = False) -> None:
        self._shown = (Note, Alarm) if alarms else (Note,)

    def take(self, happening: Happening) -> None:
        if isinstance(happening, self._shown):
            common.note(happening.text)

    def close(self) -> None:
        pass


def page_for(choices: Choices, station: Station, sources: Sequence[Source] = ()) -> web_page.WebPage | None:
    """The live page, if `--web` was given; its address is bound at once."""
    if choices.web is None:
        return None
    chosen = web_page.choose(choices.web, choices.web_control)
    return web_page.WebPage(chosen, station, sources, on_screen=choices.view == "terminal")


def views(choices: Choices, deployment: Deployment) -> list[Sink]:
    """The sinks that show the run, but the full screen, which `show` adds."""
    shown = _views(choices, deployment)
    return [FinalRows(sink) for sink in shown] if choices.final else shown


def _views(choices: Choices, deployment: Deployment) -> list[Sink]:
    if choices.as_json:
        return [JsonView(lambda plain: common.emit_json(plain, flush=True), layout_of(deployment)), Notes()]
    if choices.view == "lines":
        return [LinesView(_write_line, common.note, layout_of(deployment))]
    return [Notes(alarms=True)] if choices.view == "none" else []


def _write_line(line: str, style: str | None) -> None:
    if common.out.is_terminal:
        common.out.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
    else:
        print(visible(line), flush=True)


def show(
    stage: Stage, work: Callable[[], Coroutine[Any, Any, None]], choices: Choices, ending: Ending
) -> None:
    """Run until the end or Ctrl-C, on the full screen if chosen, then print the summary."""

    async def run() -> None:
        ending.stop_by(stage.stop)
        await work()

    with short_collections():
        asyncio.run(_on_screen(stage, work, choices, ending) if choices.view == "terminal" else run())
    for line in summary(stage.snapshot()):
        common.note(line)


def judge(stage: Stage) -> None:
    """End with a fault if packets came, but no message of the deployment."""
    if wrong := verdict(stage.snapshot()):
        common.fail(wrong)


@contextlib.contextmanager
def short_collections() -> Iterator[None]:
    """Exclude all present objects from Python's garbage collection.

    A pass over all imported modules takes a tenth of a second, in which no message is delivered.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def _on_screen(
    stage: Stage, work: Callable[[], Coroutine[Any, Any, None]], choices: Choices, ending: Ending
) -> None:
    from basestation.views.terminal import TerminalView

    deployment, send = stage.station.deployment, None
    if isinstance(stage, Runner):
        orders = Orders(stage.sources, deployment, stage.station.timeline.network_time)
        stage.sinks.append(orders)
        send = _logged(stage, orders)
    names = {mote.id: mote.name for mote in deployment.motes}
    view = TerminalView(stage, choices.final, layout_of(deployment), send, names)
    stage.sinks.append(view)
    task = asyncio.create_task(work())
    task.add_done_callback(lambda done: _leave(view, done, choices))
    ending.stop_by(
        view.exit, on_screen=True
    )  # here Ctrl-C is a key; the signal may come from another process
    try:
        await view.run_async()
    finally:
        stage.stop()
        await task


def _logged(stage: Runner, orders: Orders) -> Callable[[str, int], Coroutine[Any, Any, str]]:
    """Send settings for the user at the terminal, and log it."""

    async def send(words: str, mote: int) -> str:
        told = await orders.send(words, mote)
        stage.remark(f"{TERMINAL}: {told}", shown=False)
        return told

    return send


def _leave(view: TerminalView, done: asyncio.Task[None], choices: Choices) -> None:
    """Close the screen after a fault, or if `--for` was given; otherwise it stays open after the end."""
    if done.cancelled() or done.exception() is not None or choices.seconds is not None:
        view.exit()
