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
from basestation.sources import Source, SourceError, SourceOptions, SourceUsageError, open_source
from basestation.sources.base import port_number, split_host
from basestation.sources.source_choice import choose

if TYPE_CHECKING:
    from packet_formats.deployment import Deployment

F = TypeVar("F", bound=Callable[..., object])

HERE = Path("deployment.toml")
LOOPBACK = "127.0.0.1"
MOST_SOURCES = 256


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


def find_deployment(given: Path | None) -> Deployment:
    """The deployment that was named, or the one in this folder, with its key if it has one."""
    if given is None:
        if not HERE.exists():
            raise click.UsageError(
                "which network? Give --deployment FILE, set CAUSEWAY_DEPLOYMENT, or go where a deployment.toml is"
            )
        common.note(f"using {HERE}")
    path = given or HERE
    return common.with_key(common.load_deployment(path), path)


def served_at(option: str, where: str) -> tuple[str, int | None]:
    """The host and port that an option such as --web names: HOST, PORT or HOST:PORT; this machine without a host."""
    host, digits = ("", where) if where.isdecimal() else split_host(where)
    port = None if digits is None else port_number(digits)
    if digits is not None and port is None:
        raise click.UsageError(
            f"{option} {where}: should be HOST, PORT or HOST:PORT, such as {LOOPBACK}:18085"
        )
    return host or LOOPBACK, port


def open_sources(
    given: Sequence[str],
    deployment: Deployment,
    patient: bool = False,
    say: Callable[[str], None] = common.note,
) -> list[Source]:
    """Open the sources that were given or can be found: `SourceError` if there is none, wrong usage if one is none.

    They tell the user what goes on by `say`.
    """
    chosen = choose(given, os.environ, deployment.observer.source)
    if chosen.why:
        common.note(chosen.why)
    if len(chosen.texts) > MOST_SOURCES:
        raise SourceError(f"{len(chosen.texts)} sources: the log tells {MOST_SOURCES} apart")
    settings = SourceOptions(deployment=deployment, patient=patient, say=say)
    try:
        return [open_source(text, number, settings) for number, text in enumerate(chosen.texts)]
    except SourceUsageError as error:
        raise click.UsageError(str(error)) from None
