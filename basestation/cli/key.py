"""`basestation key`: the key of a network."""

from __future__ import annotations

from pathlib import Path

import click

from basestation.cli import SuggestingGroup, common


@click.group(
    cls=SuggestingGroup,
    epilog=common.example("basestation key new site.key"),
)
def command() -> None:
    """Make the key of a network whose messages have MICs ([security] in its deployment)."""


@command.command(epilog=common.example("basestation key new site.key"))
@click.argument("file", type=click.Path(path_type=Path))
def new(file: Path) -> None:
    """Make a random key and write it to FILE, which must not exist yet. Only you can read the file.

    The file stays beside the deployment, which names it: [security] with mic = 4 and key = "FILE". Then flash all motes
    and gateways again. With the key, any radio can send as every mote: keep a copy where only you can read it. A key
    is never overwritten, and never shown.
    """
    from packet_formats.keys import KeyFault, new_key

    try:
        new_key(file)
    except KeyFault as error:
        common.fail(str(error))
    common.echo(f"{file}: a new key, which only you can read")
    common.note(f'in the deployment beside it: [security] with mic = 4 and key = "{file.name}"')
