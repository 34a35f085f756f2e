"""`basestation analyse`: the jobs of `spark_jobs`, on this machine or on a Spark cluster.

To add a job, write a module of this package with a click command named `command`, and a line in `JOBS`.
"""

from __future__ import annotations

import click

from basestation.cli import LazyGroup, common, show_help_alone

JOBS: dict[str, tuple[str, str]] = {
    "ingest": ("basestation.cli.analyse.ingest", "Turn journals, traces and testbed logs into tables."),
    "links": (
        "basestation.cli.analyse.links",
        "Show deliveries, losses, copies, reboots and signal strength of each mote and link over time.",
    ),
    "clocks": (
        "basestation.cli.analyse.clocks",
        "Measure the epsilon and the delta that a deployment really kept.",
    ),
    "watch": (
        "basestation.cli.analyse.watch",
        "Follow a growing folder of logs and keep its link health up to date.",
    ),
    "continuum": ("basestation.cli.analyse.continuum", "Measure each stamp, policy and phi on a trace."),
    "recommend": (
        "basestation.cli.analyse.recommend",
        "Choose the smallest stamp and the shortest wait within a tolerance.",
    ),
    "fit": (
        "basestation.cli.analyse.fit",
        "Predict the violations of a log without causes, by simulating networks like its own.",
    ),
    "changes": (
        "basestation.cli.analyse.changes",
        "Show what became better or worse between two runs, deployments or firmwares.",
    ),
}


@click.group(
    cls=LazyGroup,
    modules=JOBS,
    epilog=common.example(
        """
        basestation analyse continuum --help
        basestation simulate --scheme kn --trace run1 && basestation analyse continuum run1 --out report
        basestation analyse recommend run1 --tolerance 0.5
        """
    ),
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Turn logs and traces into tables, figures and a recommendation.

    The same jobs run on a cluster by `spark-submit spark_jobs/run.py JOB ...`, as `compare` does.
    """
    show_help_alone(ctx)
