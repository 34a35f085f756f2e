"""The figures' grid over workers: the same points in the same order, and intervals that cover as they say."""

from statistics import fmean

import numpy as np
import pytest

from basestation.figures.grid import gather, measure_figures, measure_network, networks
from basestation.figures.intervals import interval, with_intervals
from spark_jobs.engines import Cores


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
    points = with_intervals(gather(list(map_two())))
    assert all(point.low <= point.mean <= point.high for point in points)
    assert all(point.mean == fmean(point.values) and len(point.values) == point.seeds for point in points)


def map_two():
    return map(
        measure_network, [network for network in networks(100, 2) if network.changes == (("motes", 10),)]
    )
