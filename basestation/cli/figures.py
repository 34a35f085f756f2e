"""`basestation figures`: draw the paper's figures 2 to 7 again, with its claims beside our numbers."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import click
from rich.table import Table

from basestation.cli import common
from basestation.figures.algorithm_tables import sheets
from basestation.figures.claims import Verdict, judge
from basestation.figures.grid import TITLES, CurvePoint, gather, measure_network, networks


@click.command(
    epilog=common.example(
        """
        basestation figures --out docs/figures
        basestation figures --messages 2000 --seeds 1 --json
        """
    )
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Write pictures and tables here."
)
@click.option(
    "--messages", type=common.Whole(100), default=20_000, show_default=True, help="Messages per network."
)
@click.option("--seeds", type=common.Whole(1), default=5, show_default=True, help="Networks per point.")
@common.json_option
def command(out: Path | None, messages: int, seeds: int, as_json: bool) -> None:
    """Draw the paper's figures 2 to 7 from our own runs, and check its claims against them.

    With --out it writes a PNG for each figure, points.csv with every point and seed, claims.md with the paper's claims
    beside ours, and tables.md with what the paper does not show: exactness under loss, the modulus, faults, counter
    widths.
    """
    grid = networks(messages, seeds)
    with common.progress(grid, f"simulating {len(grid)} networks") as each:
        points = gather([measure_network(network) for network in each])
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

    out.mkdir(parents=True, exist_ok=True)
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
    with common.progress(sheets(messages), "measuring tables") as each:
        (out / "tables.md").write_text("\n\n".join(sheet.markdown() for sheet in each) + "\n")
    common.note(f"wrote points.csv, claims.md and tables.md in {out}")


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
        table.add_row(verdict.figure, verdict.claim, verdict.ours, "yes" if verdict.agrees else "[bold]no[/]")
    common.out.print(table)
