"""The 95% confidence interval of a mean over independent runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import stdev

# Student's t, two-sided 95%, for 1, 2, ... degrees of freedom; the last also for more.
T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def reach(values: Sequence[float]) -> float:
    """Half the width of the interval; 0 for a single run, which gives none."""
    if len(values) < 2:
        return 0.0
    return T95[min(len(values) - 1, len(T95)) - 1] * stdev(values) / sqrt(len(values))
