"""`basestation why`: the causes of one message of a log, and the reason for its hold."""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict
from pathlib import Path

import click

from basestation.cli import common
from basestation.journal.reader import read_journal
from basestation.journal.record_format import JournalError
from basestation.live.deciding import station_of
from basestation.live.explain import Witness
from basestation.live.runner import Player
from basestation.live.station import Station
from packet_formats.deployment import DeploymentError
from packet_formats.phrases import many

NAME = re.compile(r"(?P<source>\d+)#(?P<sequence>-?\d+)(?:@(?P<boot>[0-7]))?")


def message_name(text: str) -> tuple[int, int, int | None]:
    """A message's mote, number and boot, from its name as the views show it."""
    found = NAME.fullmatch(text)
    if found is None:
        raise click.BadParameter(
            f"{text} does not name a message: 7#12 is message 12 of mote 7, 7#12@2 that of its boot 2"
        )
    source, sequence, boot = found.groups()
    return int(source), int(sequence), None if boot is None else int(boot)


@click.command(
    epilog=common.example(
        """
        basestation why logs/20250301T120000Z-1f2e3d 7#12
        basestation why logs/20250301T120000Z-1f2e3d 7#12 --json
        """
    )
)
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("message", type=message_name)
@common.deployment_option(required=False)
@common.key_option()
@common.json_option
def command(
    run: Path,
    message: tuple[int, int, int | None],
    deployment: Path | None,
    key: Path | None,
    as_json: bool,
) -> None:
    """Show the causes of a MESSAGE of a RUN, and why it was held.

    RUN is a run's log, or a folder that holds one. MESSAGE is mote#number as the views show it, such as 7#12. If the
    mote's memory was erased, 7#12 is the first message of that number, and 7#12@2 the one of boot 2. The log is played
    back by the policy of the run.
    """
    try:
        journal = read_journal(run)
        described = common.deployment_of(journal, deployment, key)
        station = station_of(journal, described)
        witness = Witness(station, *message)
        player = Player(station, journal.steps(lambda fault: common.note(str(fault)), described), [witness])
        witness.stop = player.stop
        asyncio.run(player.run())
    except (
        JournalError,
        DeploymentError,
        ValueError,
    ) as error:  # ValueError: a policy that cannot read the stamp
        common.fail(str(error))
    if witness.found is None:
        common.fail(f"{journal.folder}: {_absent(station, *message)}")
    if described.security.mic and described.key is None:
        common.note(f"{many(station.received, 'message')} unchecked: {common.NOT_CHECKED}")
    found = witness.explain()
    if as_json:
        common.emit_json({"run": journal.header.run} | asdict(found))
    else:
        for line in found.text:
            common.echo(line)


def _absent(station: Station, source: int, sequence: int, boot: int | None) -> str:
    """Why a message cannot be explained, and which messages can."""
    motes = station.deployment.network.motes
    if source >= motes:
        return f"there is no mote {source}; the deployment has 0 to {motes - 1}"
    counts = station.motes.get(source)
    if counts is None or counts.span is None:
        return f"no message of mote {source} arrived"
    span = counts.span
    of = "" if boot is None else f" in boot {boot}"
    there = f"{source}#{span.first} to {source}#{span.newest}"
    return f"{source}#{sequence} never arrived{of}; mote {source} has {there}"
