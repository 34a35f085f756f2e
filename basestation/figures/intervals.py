"""Confidence intervals for the points of the paper's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import stdev

from .grid import CurvePoint

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


def with_intervals(points: Sequence[CurvePoint]) -> list[FigurePoint]:
    return [
        FigurePoint(
            point.curve.figure,
            point.curve.label,
            point.law,
            point.policy,
            point.phi,
            len(point.values),
            point.mean,
            *interval(point.values),
            point.values,
        )
        for point in points
    ]
