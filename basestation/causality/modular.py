"""Values that travel modulo something, read back: for integers, for arrays, and compiled in the kernels."""

from __future__ import annotations

from typing import Any, TypeVar

from numpy.typing import NDArray

Number = TypeVar("Number", int, NDArray[Any])


def unwrap(field: Number, latest: Number, modulus: int) -> Number:
    """The last value up to `latest` that is congruent to `field`."""
    value: Number = latest - (latest - field) % modulus
    return value


def nearest(field: Number, known: Number, modulus: int) -> Number:
    """The value congruent to `field` that is nearest to `known`; of two equally near ones, the lower."""
    value: Number = known + (field - known + modulus // 2) % modulus - modulus // 2
    return value
