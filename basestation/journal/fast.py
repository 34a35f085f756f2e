"""The compiled forms of what reads journals, where numba is installed; else the plain ones. Results are the same."""

from __future__ import annotations

from functools import cache

from .record_format import Walk, walk_intact


@cache
def walk() -> Walk:
    """Loaded when first needed: numba takes half a second."""
    try:
        from .walking import walk_fast
    except ImportError:
        return walk_intact
    return walk_fast
