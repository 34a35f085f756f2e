"""The options for the network and its sources, the same in all commands that talk to gateways.

Precedence: the command line, the environment, the deployment, then this folder and the attached ports.
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
    """The given deployment, or the one in this folder, with its key, if any, from the file `key` or beside it."""
    if given is None:
        if not HERE.exists():
            raise click.UsageError(
                "which network? Give --deployment FILE, set CAUSEWAY_DEPLOYMENT, or go to a deployment.toml's folder"
            )
        common.note(f"using {HERE}")
    path = given or HERE
    return common.with_key(common.load_deployment(path), path, key)


def served_at(option: str, where: str) -> tuple[str, int | None]:
    """The host and port in an option such as --web: HOST, PORT or HOST:PORT; without a host, this machine."""
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
            f"{option} {address}: every machine on all networks of this machine can connect; "
            "give one address of this machine to be reached only there",
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
    """Open the sources that were given or found: `SourceError` without any, a usage error for a wrong one.

    Their notes for the user go to `say`. `named`: the deployment was given, not just found in this folder.
    """
    chosen = choose(given, os.environ, deployment.observer.source)
    if chosen.why:
        common.note(chosen.why)
    if chosen.by_deployment and not named:
        for text in chosen.texts:
            _refuse_if_it_acts(text)
    if len(chosen.texts) > MOST_SOURCES:
        raise SourceError(f"{len(chosen.texts)} sources: a log can have {MOST_SOURCES}")
    settings = SourceOptions(deployment=deployment, patient=patient, say=say)
    try:
        return [open_source(text, number, settings) for number, text in enumerate(chosen.texts)]
    except SourceUsageError as error:
        raise click.UsageError(str(error)) from None


def _refuse_if_it_acts(text: str) -> None:
    """A deployment found in this folder may be a stranger's: its sources may only read."""
    kind = Spec.parse(text).kind
    if (kind in KINDS and kind not in READERS) or kind in [entry.name for entry in plugged_in()]:
        raise SourceError(
            f"{HERE} in this folder names the source {text}, which can write files or start programs: "
            f"to allow that, give --deployment {HERE}, or give the source yourself"
        )
