"""Draws the figures of the documents and measures the tables beside them. `make figures` runs it.

    python -m tools.figures [--messages 20000] [--seeds 5] FOLDER

FOLDER gets the paper's figures 2 to 7, points.csv with every point and seed, claims.md with the paper's claims beside
our numbers, and tables.md with results beyond the paper. FOLDER/schemes gets the pictures and tables of all schemes.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tools.pages import table

from . import algorithm_sheets, schemes_sheets
from .claims import ClaimVerdict, judge
from .draw import draw
from .grid import TITLES, FigurePoint, measure_figures

SCHEMES_MESSAGES, SCHEMES_SEEDS = 2000, 2


def write_paper(out: Path, messages: int, seeds: int) -> None:
    with ProcessPoolExecutor(2) as pool:
        points = measure_figures(messages, seeds, pool.map)
    for figure in TITLES:
        draw(figure, points, out)
    write_points(out / "points.csv", points)
    (out / "claims.md").write_text(claims_text(judge(points), messages, seeds))


def write_points(path: Path, points: Sequence[FigurePoint]) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["figure", "curve", "law", "policy", "phi", "seed", "mean_percent"])
        for point in points:
            for seed, value in enumerate(point.values, start=1):
                place = [point.curve.figure, point.curve.label, point.law, point.policy, point.phi]
                rows.writerow([*place, seed, f"{value:.4f}"])


def claims_text(verdicts: Sequence[ClaimVerdict], messages: int, seeds: int) -> str:
    agreed = sum(verdict.agrees for verdict in verdicts)
    lines = [
        f"{agreed} of {len(verdicts)} claims agree ({messages} messages a network, {seeds} seeds; `make figures`).",
        "",
        *table(
            ("figure", "the paper says", "we measure", "agrees"),
            ((v.figure, v.claim, v.ours, "yes" if v.agrees else "**no**") for v in verdicts),
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.figures", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=20_000, help="of each network (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=5, help="networks for each point (default: %(default)s)")
    given = parser.parse_args()
    (given.folder / "schemes").mkdir(parents=True, exist_ok=True)
    write_paper(given.folder, given.messages, given.seeds)
    sheets = algorithm_sheets.sheets(given.messages)
    (given.folder / "tables.md").write_text("\n\n".join(sheet.markdown() for sheet in sheets) + "\n")
    schemes_sheets.write(given.folder / "schemes", SCHEMES_MESSAGES, SCHEMES_SEEDS)


if __name__ == "__main__":
    main()
