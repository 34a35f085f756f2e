"""What a value of messages was, over many of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class ValueSummary:
    """What one value of a mote's messages was. NaN, where a sensor gave no reading, is left out."""

    count: int = 0
    least: float = math.inf
    mean: float = 0.0
    most: float = -math.inf
    last: float = math.nan

    def add(self, numbers: NDArray[np.float64]) -> None:
        numbers = numbers[~np.isnan(numbers)]
        if not len(numbers):
            return
        whole = self.mean * self.count + float(numbers.sum())
        self.count += len(numbers)
        self.mean, self.last = whole / self.count, float(numbers[-1])
        self.least, self.most = min(self.least, float(numbers.min())), max(self.most, float(numbers.max()))
