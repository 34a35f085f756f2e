"""`basestation analyse`: run the jobs of `spark_jobs`, on this machine or on a Spark cluster."""

from __future__ import annotations

import sys

import click

from basestation.cli import common


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
    epilog=common.example(
        """
        basestation analyse
        basestation analyse continuum --help
        basestation simulate --scheme kn --trace run1 && basestation analyse continuum run1 --out report
        basestation analyse recommend run1 --tolerance 0.5
        """
    ),
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Analyse logs and traces with `basestation analyse JOB ...`. Without a JOB, the jobs are listed.

    The same jobs run on a cluster by `spark-submit spark_jobs/run.py JOB ...`.
    """
    from spark_jobs.run import main

    sys.exit(main(arguments or ("--help",), "basestation analyse"))
