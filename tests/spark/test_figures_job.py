"""The figures' grid over workers: the same points in the same order, and intervals that cover as they say."""

from statistics import fmean

import numpy as np
import pyarrow.parquet as pq
import pytest

from basestation.figures.grid import gather, measure_network, networks
from spark_jobs.engine import Cores
from spark_jobs.figures import interval, measure_figures, points_of
from spark_jobs.run import run


def test_the_points_are_those_of_the_figures_command():
    assert measure_figures(100, 2, Cores(2).each) == gather(
        [measure_network(network) for network in networks(100, 2)]
    )


def test_intervals_cover_the_mean_as_often_as_they_say():
    draw = np.random.default_rng(1)
    inside = 0
    for _ in range(2000):
        low, high = interval((50 + draw.standard_normal(5)).tolist())
        inside += low <= 50 <= high
    assert inside / 2000 == pytest.approx(0.95, abs=0.015)
    assert interval([3.0]) == (3.0, 3.0)
    assert interval([0.0, 0.0]) == (0.0, 0.0)


def test_a_point_holds_its_seeds():
    points = points_of(gather(list(map_two())))
    assert all(point.low <= point.mean <= point.high for point in points)
    assert all(point.mean == fmean(point.values) and len(point.values) == point.seeds for point in points)


def map_two():
    from basestation.figures.grid import measure_network

    return map(
        measure_network, [network for network in networks(100, 2) if network.changes == (("motes", 10),)]
    )


def test_the_command(tmp_path, capsys):
    arguments = ["--no-spark", "--messages", "100", "--seeds", "2", "--out", str(tmp_path)]
    assert run("figures", arguments) == 0
    assert "figure 2: DAPW rises" in capsys.readouterr().out
    table = pq.read_table(tmp_path / "figures.parquet")
    assert set(table["figure"].to_pylist()) == {2, 3, 4, 5, 6, 7}
    assert (tmp_path / "report.html").read_text().count("<svg") == 6
    assert (tmp_path / "figures.csv").exists()
