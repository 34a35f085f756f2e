"""`basestation replay`: play a log back through the same station."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from basestation.cli import common, live_options
from basestation.cli.ending import Ending
from basestation.journal.reader import read_journal
from basestation.journal.record_format import Header, JournalError
from basestation.journal.strays import known_before
from basestation.live.runner import Player
from packet_formats.deployment import DeploymentError
from packet_formats.schemes import LEDGER


@click.command(
    epilog=common.example(
        """
        basestation replay logs/20250301T120000Z-1f2e3d
        basestation replay logs/20250301T120000Z-1f2e3d --policy none --json
        basestation replay logs/20250301T120000Z-1f2e3d --pace 10 --view terminal
        basestation replay logs/20250301T120000Z-1f2e3d --view none --web
        """
    )
)
@click.argument("log", type=click.Path(path_type=Path))
@click.option(
    "--pace",
    type=common.FiniteFloat(0, 1_000_000),
    default=None,
    help="Speed against real time; 0 is as fast as possible. [default: 0, with --view terminal 1]",
)
@click.option(
    "--deployment",
    "-d",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Use this deployment instead of the one in the log.",
)
@common.key_option()
@live_options.options
def command(
    log: Path, pace: float | None, deployment: Path | None, key: Path | None, choices: live_options.Choices
) -> None:
    """Play a LOG back: the same deliveries as live, or those of another policy.

    The policy is the run's, with the run's changes, unless --policy, --phi, --tolerate or --deployment is given.
    Messages with MICs are checked if there is a key, by --key or beside the file of --deployment; without the key they
    are accepted, and the summary counts them.

    LOG is a run's folder, or a folder that holds one run. --for counts seconds of the log.
    """
    choices.check()
    try:
        journal = read_journal(log)
        described = common.deployment_of(journal, deployment, key)
        completed = _as_it_was(choices, journal.header, deployment is None)
        if completed.policy != choices.policy:
            journal.check_policy(described)
        station = completed.station(described)
        station.timeline.remember(known_before(journal.folder))
        for gateway, name in enumerate(journal.header.sources):
            station.add_gateway(gateway, name)
        speed = (1.0 if choices.view == "terminal" else 0.0) if pace is None else pace
        told = (choices.policy, choices.phi, choices.tolerate, deployment) != (None, None, None, None)
        lines = (journal.lines if told else journal.steps)(lambda fault: common.note(str(fault)))
        page = live_options.page_for(choices, station)
        if page is not None:
            page.keep(None)
            lines = page.recent.through(lines)
        sinks = live_options.views(choices, described) + (page.sinks if page else [])
        player = Player(station, lines, sinks, speed)

        async def work() -> None:
            await player.run(choices.seconds)

        async def served() -> None:
            assert page is not None
            began_ms = journal.header.started_wall_ns / 1e6
            await page.run(
                player,
                work,
                stay=True,
                run=journal.header.run,
                began_ms=began_ms,
                folder_at=None if told else lambda _: journal.folder,
            )

        with Ending() as ending:
            live_options.show(player, served if page else work, choices, ending)
    except (JournalError, DeploymentError) as error:
        common.fail(str(error))
    live_options.judge(player)


def _as_it_was(choices: live_options.Choices, header: Header, by_the_log: bool) -> live_options.Choices:
    """The choices; the run's own settings where none was given."""
    if choices.allowance is None and header.allowance_ns is not None:
        choices = replace(choices, allowance=header.allowance_ns / 1e6)
    if by_the_log and choices.policy is None and choices.tolerate is None and header.policy:
        phi = header.phi if choices.phi is None else choices.phi
        tolerate = header.tolerate if header.policy == LEDGER else None
        choices = replace(choices, policy=header.policy, phi=phi, tolerate=tolerate)
    return choices
