"""Analysis of logs and traces on Spark's DataFrames (docs/guide/analysis.md). `spark_jobs.api` has the functions."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_jobs.api import (
        Choice,
        JobError,
        clocks,
        compare,
        continuum,
        frames,
        ingest,
        links,
        messages,
        read_journals,
        recommend,
        runs,
        watch,
    )

__all__ = (
    "Choice",
    "JobError",
    "clocks",
    "compare",
    "continuum",
    "frames",
    "ingest",
    "links",
    "messages",
    "read_journals",
    "recommend",
    "runs",
    "watch",
)


def __getattr__(name: str) -> Any:
    """Import the API at its first use: the commands' help does not need it."""
    if name not in __all__:
        raise AttributeError(f"spark_jobs has no {name}")
    from spark_jobs import api

    return getattr(api, name)
