"""Reads what a run shows without knowing what happened before what (`basestation/analysis/facts.py`)."""

from __future__ import annotations

import numpy as np

from basestation.analysis.facts import Arrivals
from spark_jobs.traces.segments import load, whole
from spark_jobs.traces.trace_files import TraceFault, TraceFiles


def arrivals_in(trace: TraceFiles) -> Arrivals:
    """The arrivals of a trace in sync. A few columns of the whole run are in memory: 50 bytes a message."""
    if why := trace.why_empty:
        raise TraceFault(why)
    timed = trace.layout.stamp.clock_bits > 0
    view = load(whole(trace), ["boot", "sequence", *(["stamp.r"] if timed else [])])
    if not len(view.clock):
        raise TraceFault(f"{trace.folder}: no message that arrived in this run is in sync")
    delay = np.maximum(view.column("heard") - view.column("stamp.r"), 0) if timed else None
    source, life, sequence = (view.column(name).astype(np.int64) for name in ("source", "boot", "sequence"))
    return Arrivals(trace.motes, source, life, sequence, view.clock, delay)
