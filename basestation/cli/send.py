"""`basestation send`: send settings, or a message of any type, down to motes."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from basestation.cli import common, network_options
from basestation.cli.completion import complete_source
from basestation.live.commands import (
    ALL,
    LEDS,
    SETTINGS,
    Dispatch,
    Envelopes,
    MoteSetting,
    OrderError,
    check_target,
    name_of,
    raw_order,
    set_order,
    settings_of,
)
from basestation.live.downlink import PATIENCE, TRIES, Reboots, Receipt, Reports, Talk, told
from basestation.sources import Source, SourceError
from basestation.sources.base import Spec, names_source
from basestation.sources.playback import PLAYED
from packet_formats.layout import DataLayout, layout_of
from packet_formats.phrases import many
from packet_formats.records import Command, Health
from packet_formats.tinyos import ActiveMessage

if TYPE_CHECKING:
    from packet_formats.deployment import Deployment

FIRST_SECONDS = 3.0  # a report is answered by then: boot counts are asked for before a reboot
TIME_SECONDS = 15.0  # for the network's time, which commands of a network with a key hold
PAUSE_SECONDS = 0.1  # between two commands; a gateway has room for six, and motes pass each on

NOT_IN_ORDER = (
    "it did not close in order: it may have refused what was sent, or not have read it all; "
    "a station takes commands of other machines only with `listen --serve-control`"
)


def mote_id(text: str) -> int:
    if text == "all":
        return ALL
    if not text.isdecimal() or len(text) > 5 or int(text) >= ALL:
        raise click.BadParameter(f"{text!r} is neither an id, 0 to {ALL - 1}, nor all")
    return int(text)


def a_byte(text: str) -> int:
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number <= 255:
        raise click.BadParameter(f"{text!r} is no number from 0 to 255, such as 0x42")
    return number


def hex_bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not in hex, two digits a byte") from None


def complete_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    said = ctx.params.get(param.name or "") or ()
    if said and said[-1] == "blink":
        return [CompletionItem(led) for led in LEDS if led.startswith(incomplete)]
    found = [CompletionItem(name) for name in SETTINGS if name.startswith(incomplete)]
    if any(not names_source(word) for word in said):
        return found
    sources = complete_source(ctx, param, incomplete)
    return found + [item for item in sources if not item.value.startswith(PLAYED)]


@click.command(
    epilog=common.example(
        """
        basestation send report --wait 10
        basestation send serial@/dev/ttyUSB1:micaz -d site.toml rate 0.5
        basestation send sf@localhost:9002 blink red,yellow --mote 3
        basestation send reboot --mote 3 --mote 7 --wait 30
        basestation send --type 0x42 --hex '01 02 03' --mote 5
        """
    )
)
@click.argument("words", nargs=-1, metavar="[SOURCE]... SETTING...", shell_complete=complete_words)
@network_options.deployment_option
@click.option(
    "--mote",
    "-m",
    "motes",
    type=mote_id,
    multiple=True,
    metavar="ID|all",
    help="Receiver; may be repeated. A gateway has an id too. [default: all; required for reboot]",
)
@click.option(
    "--hops",
    type=click.IntRange(0, 255),
    help="How many times motes may relay it. [default: the deployment's hops]",
)
@click.option(
    "--wait",
    type=common.FiniteFloat(0, min_open=True),
    metavar="SECONDS",
    help="How long to wait for answers: health after report, a new boot count after reboot.",
)
@click.option(
    "--timeout",
    "patience",
    type=common.FiniteFloat(0, min_open=True),
    default=PATIENCE,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the gateway's acknowledgement before another try.",
)
@click.option(
    "--tries", type=common.Whole(1), default=TRIES, show_default=True, help="How many times to try."
)
@click.option(
    "--after",
    type=common.FiniteFloat(0),
    default=0.0,
    metavar="SECONDS",
    help="Pause after opening the line: motes of a testbed@ start within two seconds.",
)
@click.option(
    "--type", "am_type", type=a_byte, metavar="N", help="Send a message of this AM type instead of a setting."
)
@click.option("--hex", "payload", type=hex_bytes, metavar="BYTES", help="The payload of that message.")
@common.key_option()
@common.json_option
def command(
    words: tuple[str, ...],
    deployment: Path | None,
    key: Path | None,
    motes: tuple[int, ...],
    hops: int | None,
    wait: float | None,
    patience: float,
    tries: int,
    after: float,
    am_type: int | None,
    payload: bytes | None,
    as_json: bool,
) -> None:
    """Send settings down to motes: rate MESSAGES-A-SECOND, report, blink LED[,LED], reboot.

    The gateway acknowledges a packet whose check sum is right. Whether motes received it shows only in their answers,
    with --wait. Through a serial forwarder (sf@) no acknowledgement comes back.

    SOURCE is as in `basestation listen`; several gateways all get the packet. The exit code is 1 if a gateway did not
    acknowledge, or a mote did not answer. With --json it prints one object for each command.
    """
    sources = [word for word in words if names_source(word)]
    if list(words[: len(sources)]) != sources:
        raise click.UsageError("sources come first, then settings")
    try:
        settings = settings_of(words[len(sources) :])
        _check(settings, motes, am_type, payload, wait)
        described = network_options.find_deployment(deployment, key)
        orders = _orders(described, settings, motes or (ALL,), hops, am_type, payload or b"")
    except OrderError as error:
        raise click.UsageError(str(error)) from None
    try:
        opened = network_options.open_sources(sources, described, named=deployment is not None)
        session = Session(opened, described, patience, tries, wait, as_json)
        faults = asyncio.run(session.run(orders, after))
    except SourceError as error:
        common.fail(str(error))
    if faults:
        common.fail("; ".join(faults))
    if wait is None:
        where = [*sources, *(["-d", str(deployment)] if deployment else [])]
        where += ["--key", str(key)] if key else []
        common.note(_who_tells(settings, where))


def _who_tells(settings: Sequence[MoteSetting], where: Sequence[str]) -> str:
    """A sentence on how to see that motes received it; `where` holds the options that name the network."""
    if settings and all(setting.command is Command.RATE for setting in settings):
        listen = shlex.join(["basestation", "listen", *where, "--view", "terminal"])
        return f"Whether motes received it shows only in their rates: `{listen}`."
    report = shlex.join(["basestation", "send", *where, "report", "--wait", "10"])
    return f"Whether motes received it shows only in their answers: `{report}`."


def _check(
    settings: Sequence[MoteSetting],
    motes: Sequence[int],
    am_type: int | None,
    payload: bytes | None,
    wait: float | None,
) -> None:
    if am_type is None:
        if payload is not None:
            raise OrderError("--hex needs --type: which AM type shall the message have?")
        if not settings:
            raise OrderError(f"nothing to send: give {', '.join(SETTINGS)}, or --type and --hex")
    elif settings or wait is not None:
        raise OrderError("with --type there is no setting, and no answer to wait for")
    if ALL in motes and len(motes) > 1:
        raise OrderError("--mote all is everybody already")
    if not motes and any(setting.command is Command.REBOOT for setting in settings):
        raise OrderError("whom to reboot? Say --mote ID, or --mote all")


def _orders(
    deployment: Deployment,
    settings: Sequence[MoteSetting],
    motes: Sequence[int],
    hops: int | None,
    am_type: int | None,
    payload: bytes,
) -> list[Dispatch]:
    if am_type is not None:
        return [raw_order(deployment, am_type, payload, mote) for mote in motes]
    budget = deployment.network.hops if hops is None else hops
    asked = [(setting, mote) for setting in settings for mote in motes]
    for setting, mote in asked:
        check_target(setting, mote, deployment)
    return [set_order(setting, mote, budget) for setting, mote in asked]


def motes_there(sources: Sequence[str], deployment: Deployment) -> int:
    """The number of motes that can answer: a testbed may run fewer than the deployment has."""
    most = deployment.network.motes
    specs = [Spec.parse(text) for text in sources]
    if any(spec.kind != "testbed" for spec in specs):
        return most
    return min(most, max(spec.whole("motes", most, 1, ALL) for spec in specs))


class Session:
    """Sends commands one after another, and says what became of each."""

    def __init__(
        self,
        sources: Sequence[Source],
        deployment: Deployment,
        patience: float,
        tries: int,
        wait: float | None,
        as_json: bool,
    ) -> None:
        self._sources, self._deployment = sources, deployment
        self._layout = layout_of(deployment)
        self._there = range(motes_there([source.text for source in sources], deployment))
        self._patience, self._tries, self._wait, self._as_json = patience, tries, wait, as_json
        self._envelopes = Envelopes(deployment)

    async def run(self, orders: Sequence[Dispatch], after: float) -> list[str]:
        """Send all, and return what went wrong."""
        faults: list[str] = []
        async with Talk(self._sources, self._layout, self._deployment) as talk:
            await asyncio.sleep(after)
            for place, order in enumerate(orders):
                if place:
                    await asyncio.sleep(PAUSE_SECONDS)
                faults += await self._carry_out(talk, order)
            for source, known in (await talk.finish()).items():
                if known:
                    common.note(f"{source} has read it all and closed; it says nothing about the gateway")
                else:
                    faults.append(f"{source}: {NOT_IN_ORDER}")
        return faults

    async def _carry_out(self, talk: Talk, order: Dispatch) -> list[str]:
        answers = self._answers(order)
        talk.forget()
        try:
            if isinstance(answers, Reboots):
                await self._ask_first(talk, order, answers)
            number, message, receipts = await self._send(talk, order)
        except OrderError as error:
            return [str(error)]
        self._tell_receipts(order, receipts)
        faults = [f"{receipt.source}: {receipt.error}" for receipt in receipts if receipt.error]
        if answers is not None and len(faults) < len(receipts):
            faults += await self._await(talk, answers)
        if self._as_json:
            common.emit_json(self._plain(order, number, message, receipts, answers), flush=True)
        return faults

    async def _send(self, talk: Talk, order: Dispatch) -> tuple[int, ActiveMessage, tuple[Receipt, ...]]:
        patience = TIME_SECONDS + self._deployment.answer_seconds
        now = await talk.network_time(patience) if self._envelopes.needs_time else None
        number, message = self._envelopes.make(order, now)
        return number, message, await talk.send(message, number % 256, self._patience, self._tries)

    def _answers(self, order: Dispatch) -> Reports | Reboots | None:
        if self._wait is None or order.setting is None:
            return None
        asked = self._there if order.target == ALL else (order.target,)
        if order.setting.command is Command.REPORT:
            return Reports(asked, of_all=order.target == ALL)
        if order.setting.command is Command.REBOOT:
            return Reboots(asked)
        common.note(f"{order.text}: motes do not answer this")
        return None

    async def _ask_first(self, talk: Talk, order: Dispatch, answers: Reboots) -> None:
        """Ask for the boot counts before the reboot. A mote that does not answer is watched all the same."""
        await self._send(talk, set_order(MoteSetting("report", Command.REPORT), order.target, order.hops))
        async for message in talk.heard(FIRST_SECONDS + self._deployment.answer_seconds):
            answers.take(message)
            if not answers.unknown:
                return

    async def _await(self, talk: Talk, answers: Reports | Reboots) -> list[str]:
        assert self._wait is not None
        async for message in talk.heard(self._wait):
            mote = answers.take(message)
            if mote is not None and not self._as_json:
                _say(self._answered(mote, answers))
            if not answers.missing:
                return []
        return [_missing(answers, self._wait)]

    def _tell_receipts(self, order: Dispatch, receipts: Sequence[Receipt]) -> None:
        if not self._as_json:
            for receipt in receipts:
                _say(f"{order.text} to {name_of(order.target, self._deployment)}: {told(receipt)}")

    def _answered(self, mote: int, answers: Reports | Reboots) -> str:
        health, how = (
            answers.answers[mote],
            "has started again" if isinstance(answers, Reboots) else "answers",
        )
        told = f": {_shown(health, self._layout)}" if health else ""
        return f"{name_of(mote, self._deployment)} {how}{told}"

    def _plain(
        self,
        order: Dispatch,
        number: int,
        message: ActiveMessage,
        receipts: Sequence[Receipt],
        answers: Reports | Reboots | None,
    ) -> dict[str, Any]:
        return {
            "order": order.text,
            "mote": "all" if order.target == ALL else order.target,
            "number": None if order.setting is None else number,
            "am_type": message.type,
            "payload": message.data,
            "gateways": receipts,
            "answers": answers
            and [{"mote": mote, "health": health} for mote, health in answers.answers.items()],
            "missing": answers and sorted(answers.missing),
        }


def _say(text: str) -> None:
    common.out.print(text, markup=False, soft_wrap=True)


def _shown(health: Health, layout: DataLayout) -> str:
    parts = [
        f"boot {health.boots}",
        "in sync" if health.in_sync else "out of sync",
        "way to the root not known" if health.hops == 255 else f"{many(health.hops, 'hop')} from the root",
    ]
    if health.battery_mv:
        parts.append(f"{health.battery_mv / 1000:.2f} V")
    if health.layout != layout.hash:
        parts.append(f"built for another deployment (layout {health.layout:08x}, ours {layout.hash:08x})")
    return ", ".join(parts)


def _missing(answers: Reports | Reboots, seconds: float) -> str:
    reboots = isinstance(answers, Reboots)
    what = "not seen to start again" if reboots else "no answer"
    text = f"{what} within {seconds:g} s: {_listed(answers.missing)}"
    if isinstance(answers, Reboots) and answers.unknown:
        text += f" (not heard of before either: {_listed(answers.unknown)})"
    return text


def _listed(motes: set[int]) -> str:
    return ("mote " if len(motes) == 1 else "motes ") + ", ".join(map(str, sorted(motes)))
