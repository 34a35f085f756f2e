"""The simulation engine: the kernels of `engine_numba`, or the slower objects of `engine_objects` without the extra
`analysis`. Both have the same functions with the same results."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import engine_numba as engine
else:
    try:
        import numba  # noqa: F401
    except ImportError:
        from . import engine_objects as engine
    else:
        from . import engine_numba as engine

IS_FAST = engine.__name__.endswith("numba")

__all__ = ["IS_FAST", "engine"]
