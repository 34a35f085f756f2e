"""`basestation figures`: draw the paper's figures 2 to 7 again, with its claims beside our numbers."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from basestation.cli import common, job_options
from basestation.figures.algorithm_tables import sheets
from basestation.figures.claims import Verdict, judge
from basestation.figures.grid import TITLES, CurvePoint, measure_figures
from basestation.figures.intervals import interval, with_intervals
from basestation.simulator.options import OptionError, WorldOptions

if TYPE_CHECKING:
    from spark_jobs.engines import EngineOptions


@click.command(
    cls=job_options.JobCommand,
    epilog=common.example(
        """
        basestation figures --out docs/figures
        basestation figures --messages 2000 --seeds 1 --json
        basestation figures --seeds 100 --out figures --spark
        """
    ),
)
@job_options.out_option("Write pictures, tables and report.html here.")
@click.option(
    "--messages", type=common.Whole(100), default=20_000, show_default=True, help="Messages per network."
)
@click.option("--seeds", type=common.Whole(1), default=5, show_default=True, help="Networks per point.")
@common.json_option
@job_options.engine_options
def command(out: Path | None, messages: int, seeds: int, as_json: bool, engine: EngineOptions) -> None:
    """Draw the paper's figures 2 to 7 from our own runs, and check its claims against them.

    With --out it writes a PNG for each figure, points.csv with every point and seed, claims.md with the paper's claims
    beside ours, and tables.md with what the paper does not show: exactness under loss, the modulus, faults, counter
    widths. figures.parquet, figures.csv and report.html have the 95% confidence interval of each point.
    """
    from spark_jobs.engines import chosen
    from spark_jobs.session import prepare

    try:
        WorldOptions(messages=messages)
    except OptionError as error:
        raise click.UsageError(str(error)) from None
    if out is not None:
        prepare(out)
    with chosen("figures", engine) as workers:
        points = measure_figures(messages, seeds, workers.each)
    verdicts = judge(points)
    if out is not None:
        _write(out, points, verdicts, messages, seeds)
    if as_json:
        for verdict in verdicts:
            common.emit_json(verdict)
    else:
        _show(verdicts)


def _write(
    out: Path, points: Sequence[CurvePoint], verdicts: Sequence[Verdict], messages: int, seeds: int
) -> None:
    from basestation.figures.draw import draw  # matplotlib, only for pictures

    for figure in TITLES:
        common.note(f"wrote {draw(figure, points, out)}")
    with (out / "points.csv").open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["figure", "curve", "law", "policy", "phi", "seed", "mean_percent"])
        for point in points:
            for seed, value in enumerate(point.values, start=1):
                place = [point.curve.figure, point.curve.label, point.law, point.policy, point.phi]
                rows.writerow([*place, seed, f"{value:.4f}"])
    (out / "claims.md").write_text(_markdown(verdicts, messages, seeds))
    (out / "tables.md").write_text("\n\n".join(sheet.markdown() for sheet in sheets(messages)) + "\n")
    common.note(f"wrote points.csv, claims.md and tables.md in {out}")
    _write_report(out, points, verdicts, messages, seeds)


def _write_report(
    out: Path, points: Sequence[CurvePoint], verdicts: Sequence[Verdict], messages: int, seeds: int
) -> None:
    from basestation.analysis import page
    from basestation.figures.draw import picture
    from spark_jobs.result_files import write_page, write_rows

    write_rows(out, "figures", with_intervals(points))
    agreed = sum(verdict.agrees for verdict in verdicts)
    parts = [
        page.paragraph(
            f"{messages} messages a network, {seeds} seeds; shaded: 95% confidence for the mean over seeds; grey: what "
            f"the paper states. {agreed} of {len(verdicts)} of the paper's claims agree."
        )
    ]
    for figure in TITLES:
        drawn = picture(figure, points, lambda point: interval(point.values))
        parts.append(page.svg(drawn, f"figure{figure}"))
    cells = [(str(v.figure), v.claim, v.ours, "yes" if v.agrees else "no") for v in verdicts]
    parts.append(page.sheet(("figure", "the paper says", "we measure", "agrees"), cells))
    write_page(out, "The paper's figures, simulated again", parts)
    common.note(f"wrote figures.parquet, figures.csv and report.html in {out}")


def _markdown(verdicts: Sequence[Verdict], messages: int, seeds: int) -> str:
    agreed = sum(verdict.agrees for verdict in verdicts)
    lines = [
        f"{agreed} of {len(verdicts)} claims agree ({messages} messages a network, {seeds} seeds; "
        f"`basestation figures --out docs/figures`).",
        "",
        "| figure | the paper says | we measure | agrees |",
        "|---|---|---|---|",
        *(f"| {v.figure} | {v.claim} | {v.ours} | {'yes' if v.agrees else '**no**'} |" for v in verdicts),
    ]
    return "\n".join(lines) + "\n"


def _show(verdicts: Sequence[Verdict]) -> None:
    table = Table(title="The paper's claims and our measurements")
    for name in ("figure", "the paper says", "we measure", "agrees"):
        table.add_column(name)
    for verdict in verdicts:
        table.add_row(
            verdict.figure, verdict.claim, verdict.ours, Text("yes") if verdict.agrees else Text("no", "bold")
        )
    common.out.print(table)
