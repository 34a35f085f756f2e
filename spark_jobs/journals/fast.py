"""The compiled forms of what reads journals, where numba is installed; else the plain ones. Results are the same."""

from __future__ import annotations

from functools import cache

from basestation.journal.message_table import Numbering, number_by_objects
from basestation.journal.record_format import Walk, walk_intact


@cache
def walk() -> Walk:
    """Loaded when first needed: numba takes half a second."""
    try:
        from spark_jobs.journals.walking import walk_fast
    except ImportError:
        return walk_intact
    return walk_fast


@cache
def numbering() -> Numbering:
    try:
        from spark_jobs.journals.numbering import number_by_kernel
    except ImportError:
        return number_by_objects
    return number_by_kernel
