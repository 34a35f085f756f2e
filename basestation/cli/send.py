"""`basestation send`: send settings, or a message of any type, down to motes."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from basestation.cli import common, network_options
from basestation.cli.completion import complete_source
from basestation.cli.send_session import Session
from basestation.live.commands import (
    ALL,
    LEDS,
    SETTINGS,
    Dispatch,
    MoteSetting,
    OrderError,
    check_target,
    raw_order,
    set_order,
    settings_of,
)
from basestation.sources import SourceError
from basestation.sources.base import names_source
from basestation.sources.playback import PLAYED
from packet_formats.records import Command

if TYPE_CHECKING:
    from packet_formats.deployment import Deployment


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
        raise click.BadParameter(f"{text!r} is not a number from 0 to 255, such as 0x42")
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
    help="How many times motes may relay the command. [default: the deployment's hops]",
)
@click.option(
    "--wait",
    type=common.FiniteFloat(0, min_open=True),
    metavar="SECONDS",
    help="How long to wait for answers: health for report, a new boot count for reboot.",
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
    am_type: int | None,
    payload: bytes | None,
    as_json: bool,
) -> None:
    """Send settings down to motes: rate MESSAGES-A-SECOND, report, blink LED[,LED], reboot.

    The gateway acknowledges a packet whose check sum is right. Only answers show whether motes received the packet: use
    --wait. A serial forwarder (sf@) passes no acknowledgement back.

    SOURCE is as in `basestation listen`; all gateways get the packet. The exit code is 1 if a gateway did not
    acknowledge, or a mote did not answer. --json prints one object for each command.
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
        faults = asyncio.run(Session(opened, described, wait, as_json).run(orders))
    except SourceError as error:
        common.fail(str(error))
    if faults:
        common.fail("; ".join(faults))
    if wait is None:
        where = [*sources, *(["-d", str(deployment)] if deployment else [])]
        where += ["--key", str(key)] if key else []
        common.note(_how_to_see(settings, where))


def _how_to_see(settings: Sequence[MoteSetting], where: Sequence[str]) -> str:
    """How the user sees whether motes received the command; `where` holds the options that name the network."""
    if settings and all(setting.command is Command.RATE for setting in settings):
        listen = shlex.join(["basestation", "listen", *where, "--view", "terminal"])
        return f"Only the motes' rates show whether they received it: `{listen}`."
    report = shlex.join(["basestation", "send", *where, "report", "--wait", "10"])
    return f"Only the motes' answers show whether they received it: `{report}`."


def _check(
    settings: Sequence[MoteSetting],
    motes: Sequence[int],
    am_type: int | None,
    payload: bytes | None,
    wait: float | None,
) -> None:
    if am_type is None:
        if payload is not None:
            raise OrderError("--hex needs --type, the AM type of the message")
        if not settings:
            raise OrderError(f"nothing to send: give {', '.join(SETTINGS)}, or --type and --hex")
    elif settings or wait is not None:
        raise OrderError("--type sends no setting, and no answer comes: leave out settings and --wait")
    if ALL in motes and len(motes) > 1:
        raise OrderError("--mote all includes every other --mote")
    if not motes and any(setting.command is Command.REBOOT for setting in settings):
        raise OrderError("which motes to reboot? Give --mote ID, or --mote all")


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
