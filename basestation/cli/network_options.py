"""The options for the network and its sources, the same in all commands that talk to gateways.

The command line comes first, then the environment, then the deployment, and last what is in this folder or plugged in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from basestation.cli import common
from basestation.cli.completion import complete_deployment
from basestation.journal.record_format import MOST_SOURCES
from basestation.sources import (
    KINDS,
    READERS,
    Source,
    SourceError,
    SourceOptions,
    SourceUsageError,
    open_source,
    plugged_in,
)
from basestation.sources.base import Spec, port_number, split_host
from basestation.sources.source_choice import choose
from basestation.sources.tcp import is_everywhere

if TYPE_CHECKING:
    from packet_formats.deployment import Deployment

F = TypeVar("F", bound=Callable[..., object])

HERE = Path("deployment.toml")
LOOPBACK = "127.0.0.1"


def deployment_option(function: F) -> F:
    """Give a command the option ``--deployment FILE``, as the parameter ``deployment`` for `find_deployment`."""
    option = click.option(
        "--deployment",
        "-d",
        type=click.Path(path_type=Path),
        envvar="CAUSEWAY_DEPLOYMENT",
        shell_complete=complete_deployment,
        metavar="FILE",
        help="The deployment.toml that describes the network. [default: the one in this folder]",
    )
    return option(function)


def find_deployment(given: Path | None, key: Path | None = None) -> Deployment:
    """The deployment that was named, or the one in this folder, with its key if it has one: from `key` or beside it."""
    if given is None:
        if not HERE.exists():
            raise click.UsageError(
                "which network? Give --deployment FILE, set CAUSEWAY_DEPLOYMENT, or go where a deployment.toml is"
            )
        common.note(f"using {HERE}")
    path = given or HERE
    return common.with_key(common.load_deployment(path), path, key)


def served_at(option: str, where: str) -> tuple[str, int | None]:
    """The host and port that an option such as --web names: HOST, PORT or HOST:PORT; this machine without a host."""
    host, digits = ("", where) if where.isdecimal() else split_host(where)
    port = None if digits is None else port_number(digits)
    if digits is not None and port is None:
        raise click.UsageError(
            f"{option} {where}: should be HOST, PORT or HOST:PORT, such as {LOOPBACK}:18085"
        )
    return host or LOOPBACK, port


def warn_if_everywhere(option: str, address: str) -> None:
    if is_everywhere(address):
        common.note(
            f"{option} {address}: everybody on every network that this machine is in can connect; "
            "give one address of this machine to be reached there alone",
            style="yellow",
        )


def open_sources(
    given: Sequence[str],
    deployment: Deployment,
    patient: bool = False,
    say: Callable[[str], None] = common.note,
    *,
    named: bool,
) -> list[Source]:
    """Open the sources that were given or can be found: `SourceError` if there is none, wrong usage if one is none.

    They tell the user what goes on by `say`. `named`: somebody named the deployment; it did not merely lie here.
    """
    chosen = choose(given, os.environ, deployment.observer.source)
    if chosen.why:
        common.note(chosen.why)
    if chosen.by_deployment and not named:
        for text in chosen.texts:
            _refuse_if_it_acts(text)
    if len(chosen.texts) > MOST_SOURCES:
        raise SourceError(f"{len(chosen.texts)} sources: the log tells {MOST_SOURCES} apart")
    settings = SourceOptions(deployment=deployment, patient=patient, say=say)
    try:
        return [open_source(text, number, settings) for number, text in enumerate(chosen.texts)]
    except SourceUsageError as error:
        raise click.UsageError(str(error)) from None


def _refuse_if_it_acts(text: str) -> None:
    """A deployment that merely lies in this folder may be anybody's: its sources may read, and no more."""
    kind = Spec.parse(text).kind
    if (kind in KINDS and kind not in READERS) or kind in [entry.name for entry in plugged_in()]:
        raise SourceError(
            f"{HERE}, which lies in this folder, names the source {text}, which can write files or start programs: "
            f"if you want that, say --deployment {HERE}, or give the source yourself"
        )
