"""`figures`: the paper's figures 2 to 7, simulated on all workers, with confidence intervals over the seeds."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import stdev

from rich.console import Console

from basestation.figures.claims import Verdict, judge
from basestation.figures.grid import TITLES, CurvePoint, gather, measure_network, networks
from basestation.simulator.options import OptionError, WorldOptions
from spark_jobs import session
from spark_jobs.advice import report
from spark_jobs.engine import Cores, Spark, Spread
from spark_jobs.session import WrongOption, note

# Student's t, two-sided 95%, for 1, 2, ... degrees of freedom; the last also for more.
T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True, slots=True)
class FigurePoint:
    """A point of a figure: violations (mean, in per cent), and the 95% confidence interval of the mean."""

    figure: int
    curve: str
    law: str
    policy: str
    phi: int
    seeds: int
    mean: float
    low: float
    high: float
    values: tuple[float, ...]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95% confidence interval for the mean of independent runs; one run alone gives no interval."""
    middle = sum(values) / len(values)
    if len(values) < 2:
        return middle, middle
    reach = T95[min(len(values) - 1, len(T95)) - 1] * stdev(values) / sqrt(len(values))
    return max(0.0, middle - reach), min(100.0, middle + reach)


def measure_figures(messages: int, seeds: int, spread: Spread) -> list[CurvePoint]:
    """Measure every point of every figure. The largest networks start first, so that no worker waits at the end."""
    grid = networks(messages, seeds)
    begun = sorted(range(len(grid)), key=lambda place: -dict(grid[place].changes).get("motes", 10))
    found = dict(zip(begun, spread(measure_network, [grid[place] for place in begun]), strict=True))
    return gather([found[place] for place in range(len(grid))])


def points_of(points: Sequence[CurvePoint]) -> list[FigurePoint]:
    return [
        FigurePoint(
            figure=point.curve.figure,
            curve=point.curve.label,
            law=point.law,
            policy=point.policy,
            phi=point.phi,
            seeds=len(point.values),
            mean=point.mean,
            low=interval(point.values)[0],
            high=interval(point.values)[1],
            values=point.values,
        )
        for point in points
    ]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=20_000, help="messages in each network (%(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="networks for each point (%(default)s)")
    parser.add_argument("--out", type=Path, help="write figures.parquet, figures.csv and report.html here")
    session.add_choice(parser, "on this machine's cores")


@contextmanager
def _spread(options: argparse.Namespace) -> Iterator[Spread]:
    if session.is_wanted(options, large=False):
        with session.of(options) as spark:
            yield Spark(spark).each
    else:
        yield Cores().each


def main(options: argparse.Namespace) -> int:
    if options.messages < 100 or options.seeds < 1:
        raise WrongOption("a point needs at least 100 messages and one seed")
    try:
        for network in networks(options.messages, 1):
            WorldOptions(messages=options.messages, **dict(network.changes))
    except OptionError as error:
        raise WrongOption(str(error)) from None
    if options.out is not None:
        session.prepare(options.out)
    with _spread(options) as spread:
        points = measure_figures(options.messages, options.seeds, spread)
    verdicts = judge(points)
    if options.out is not None:
        _write(options.out, points, verdicts, options)
        note(f"wrote figures.parquet, figures.csv and report.html in {options.out}")
    console = Console(highlight=False)
    for verdict in verdicts:
        agrees = "agrees" if verdict.agrees else "DIFFERS"
        console.print(
            f"{agrees:8} figure {verdict.figure}: {verdict.claim}; ours: {verdict.ours}", soft_wrap=True
        )
    return 0


def _write(
    out: Path, points: Sequence[CurvePoint], verdicts: Sequence[Verdict], options: argparse.Namespace
) -> None:
    from basestation.figures.draw import picture  # matplotlib, only for pictures

    report.write_tables(out, "figures", points_of(points))
    agreed = sum(verdict.agrees for verdict in verdicts)
    parts = [
        report.paragraph(
            f"{options.messages} messages a network, {options.seeds} seeds; shaded: 95% confidence for the mean over "
            f"seeds; grey: what the paper states. {agreed} of {len(verdicts)} of the paper's claims agree."
        )
    ]
    for figure in TITLES:
        drawn = picture(figure, points, lambda point: interval(point.values))
        parts.append(report.svg(drawn, f"figure{figure}"))
    cells = [(v.figure, v.claim, v.ours, "yes" if v.agrees else "no") for v in verdicts]
    parts.append(report.sheet(("figure", "the paper says", "we measure", "agrees"), cells))
    report.write_html(out / "report.html", "The paper's figures, simulated again", parts)
