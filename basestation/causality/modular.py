"""Values that travel modulo something, read back: for integers, for arrays, and compiled in the kernels."""

from __future__ import annotations

from typing import Any, overload

from numpy.typing import NDArray

Ints = NDArray[Any]


@overload
def unwrap(field: int, latest: int, modulus: int) -> int: ...
@overload
def unwrap(field: Ints, latest: Ints | int, modulus: int) -> Ints: ...
def unwrap(field: Any, latest: Any, modulus: int) -> Any:
    """The last value up to `latest` that is congruent to `field`."""
    return latest - (latest - field) % modulus


@overload
def nearest(field: int, known: int, modulus: int) -> int: ...
@overload
def nearest(field: Ints, known: Ints | int, modulus: int) -> Ints: ...
def nearest(field: Any, known: Any, modulus: int) -> Any:
    """The value congruent to `field` that is nearest to `known`; of two equally near ones, the lower."""
    return known + (field - known + modulus // 2) % modulus - modulus // 2
