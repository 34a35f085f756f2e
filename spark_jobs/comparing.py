"""Traces and tables as sources of `basestation.comparing`, and the page of the comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from basestation.analysis import page
from basestation.comparing.catalogue import Terms
from basestation.comparing.comparison import ComparisonRow, KnownStream
from basestation.comparing.comparison_columns import table_of
from basestation.comparing.comparison_table import COLUMNS, LEGEND, about, cells
from basestation.comparing.recorded_run import options_in, place_in
from basestation.comparing.spread import Compared, Spot
from basestation.simulator.options import WorldOptions
from basestation.traces.files import TraceError
from spark_jobs.result_files import write_page, write_tables
from spark_jobs.storage import Place
from spark_jobs.traces.field import known_stream
from spark_jobs.traces.trace_files import TraceFault, TraceFiles, open_traces


@dataclass(frozen=True, slots=True)
class Recorded:
    """A trace as a source of `compare`."""

    trace: TraceFiles

    def network(self) -> WorldOptions:
        return options_in(self.trace.deployment, self.trace.rows)

    def stream(self, scheme: str) -> KnownStream:
        try:
            return known_stream(self.trace)
        except TraceFault as fault:
            raise TraceError(str(fault)) from None


def trace_spots(folders: Sequence[Place]) -> tuple[list[Spot], list[str]]:
    """The runs in these traces and tables, and the faults of the others."""
    traces, faults = open_traces(folders)
    told = [str(fault) for fault in faults]
    told += [why for trace in traces if (why := trace.why_empty)]
    spots = [
        Spot(trace.run, place_in(trace.deployment), (Recorded(trace),)) for trace in traces if trace.rows
    ]
    return spots, told


def write(out: Place, found: Sequence[Compared], terms: Terms) -> None:
    """Write `compare.parquet`, `compare.csv` and `report.html`."""
    from basestation.comparing.comparison_plot import picture  # matplotlib, only for pictures

    write_tables(out, {"compare": table_of(found, terms)})
    parts: list[str] = []
    for name, rows in _chapters(found):
        parts += [page.heading(name), page.svg(picture(rows), name)]
        for place in dict.fromkeys(row.place for row in rows):
            here = [row for row in rows if row.place == place]
            parts += [page.paragraph(about(here[0])), page.sheet(COLUMNS, [cells(row) for row in here])]
    parts += [page.paragraph(line, "note") for line in LEGEND]
    write_page(out, "Every scheme on the same events", parts)


def _chapters(found: Sequence[Compared]) -> Iterator[tuple[str, list[ComparisonRow]]]:
    """The parts of the report: one for each run, and one for all simulated networks."""
    for one in found:
        if one.spot.run is not None:
            yield f"Run {one.spot.run}", one.rows
    if swept := [row for one in found if one.spot.run is None for row in one.rows]:
        yield "Simulated networks", swept
