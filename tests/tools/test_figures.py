"""Everything that `make figures` writes, from small networks."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from basestation.comparing.catalogue import NAMES, Terms
from basestation.comparing.spread import measure_network
from basestation.simulator.options import WorldOptions
from tools.figures import __main__ as figures
from tools.figures import algorithm_sheets, bytes_picture, schemes_sheets


@pytest.mark.wide
def test_the_paper_s_figures_claims_and_tables_are_written(tmp_path: Path) -> None:
    figures.write_paper(tmp_path, messages=200, seeds=2)
    for figure in range(2, 8):
        assert (tmp_path / f"figure{figure}.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "points.csv").open() as file:
        points = list(csv.DictReader(file))
    assert {row["figure"] for row in points} == {str(figure) for figure in range(2, 8)}
    assert {row["seed"] for row in points} == {"1", "2"}
    full = [row for row in points if row["curve"] == "all kn entries" and row["phi"] == "100"]
    assert full
    assert all(float(row["mean_percent"]) == 0 for row in full)
    assert "claims agree" in (tmp_path / "claims.md").read_text()


def test_the_tables_beyond_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithm_sheets, "FAULT_RUNS", 3)
    sheets = list(algorithm_sheets.sheets(200))
    assert len(sheets) == 4
    assert all(len(row) == len(sheet.columns) for sheet in sheets for row in sheet.rows)


@pytest.mark.wide
def test_the_tables_and_pictures_of_all_schemes(tmp_path: Path) -> None:
    schemes_sheets.write(tmp_path, messages=60, seeds=1)
    text = (tmp_path / "tables.md").read_text()
    assert all(f"| {name} |" in text for name in NAMES)
    pictures = {path.stem for path in tmp_path.glob("*.png")}
    assert pictures == {"bytes", "motes", "loss", "rate", "epsilon"}


def test_violations_grow_upwards_and_bytes_to_the_right_with_ours_labelled() -> None:
    rows = measure_network(WorldOptions(messages=150, motes=8, loss=0.3), NAMES, Terms(), 1)
    (axes,) = bytes_picture.bytes_picture(rows).axes
    labels = {text.get_text().partition(", held")[0]: text.xy for text in axes.texts}
    assert not axes.xaxis_inverted()
    assert not axes.yaxis_inverted()
    assert labels["shlc (ours)"] == (1, 0)
    for row in rows:
        name = f"{row.scheme} (ours)" if row.scheme in bytes_picture.OURS else row.scheme
        assert row.scheme == "history" or labels[name] == (row.mean_bytes, row.violations.percent()["mean"])
