"""`basestation figures`: pictures, points and verdicts, all from what was measured."""

import csv
import json

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from basestation.cli import figures
from basestation.cli.figures import command
from basestation.figures import algorithm_tables


@pytest.mark.parametrize("drawn", [(2, 7), pytest.param((2, 3, 4, 5, 6, 7), marks=pytest.mark.wide)])
def test_everything_is_written(tmp_path, monkeypatch, drawn):
    monkeypatch.setattr(figures, "TITLES", {figure: figures.TITLES[figure] for figure in drawn})
    monkeypatch.setattr(algorithm_tables, "FAULT_RUNS", 5)
    result = CliRunner().invoke(command, ["--out", str(tmp_path), "--messages", "200", "--seeds", "2"])
    assert result.exit_code == 0, result.output
    for figure in drawn:
        assert (tmp_path / f"figure{figure}.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "points.csv").open() as file:
        points = list(csv.DictReader(file))
    assert {row["figure"] for row in points} == {str(figure) for figure in range(2, 8)}
    assert {row["seed"] for row in points} == {"1", "2"}
    full = [row for row in points if row["curve"] == "all kn entries" and row["phi"] == "100"]
    assert full
    assert all(float(row["mean_percent"]) == 0 for row in full)
    assert "claims agree" in (tmp_path / "claims.md").read_text()
    assert (tmp_path / "tables.md").read_text().count("**") == 8
    table = pq.read_table(tmp_path / "figures.parquet")
    assert set(table["figure"].to_pylist()) == {2, 3, 4, 5, 6, 7}
    assert len((tmp_path / "figures.csv").read_text().splitlines()) == len(table) + 1
    assert (tmp_path / "report.html").read_text().count("<svg") == len(drawn)
    assert "figures: without Spark" in result.stderr


def test_verdicts_as_json():
    result = CliRunner().invoke(command, ["--json", "--messages", "200", "--seeds", "1"])
    assert result.exit_code == 0, result.output
    verdicts = [json.loads(line) for line in result.stdout.splitlines()]
    assert {verdict["agrees"] for verdict in verdicts} == {True, False}
    assert all(verdict["claim"] and verdict["ours"] for verdict in verdicts)
