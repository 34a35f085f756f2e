"""`make bench`: how fast each part is, and against what, measured side by side in one run.

Rates depend on the machine; the ratios hold. `--json` prints one object a line, `--growth` takes longer traces as well,
and names of parts (`python -m tests.bench station analysis`) leave out the others. It fails if the live base station
has become slower than the ratios in `station_ratios.json`; `--store` measures and keeps new ones.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from basestation.testbed.emulator import EmulatorError
from basestation.testbed.images import FirmwareImageError
from spark_jobs.session import JobError
from tests.bench import analysis, journal, kernels, page, pipeline, station, testbed, web


@dataclass(frozen=True)
class Part:
    """A table: what its figures are, and rows of the same columns."""

    title: str
    rows: list[dict[str, Any]]
    fault: str = ""  # what is slower than it was


def kernel_parts() -> Iterator[Part]:
    measured = {
        "simulation, 10 motes": kernels.bench_simulation(10),
        "simulation, 50 motes": kernels.bench_simulation(50),
        "the wire, all kn entries": kernels.bench_decoding(),
    }
    for what, rows in measured.items():
        yield Part(
            f"{what}: messages a second, one core", [asdict(row) | {"ratio": row.ratio} for row in rows]
        )


def journal_parts() -> Iterator[Part]:
    yield Part("the journal: frames a second, one core", _beside_the_line(journal.bench()))


def station_parts() -> Iterator[Part]:
    yield Part("the live base station: frames a second, one core", _beside_the_line(station.bench()))
    paces = station.paces()
    slower = ", ".join(pace.what for pace in paces if pace.is_slower)
    title = "the live base station: frames in 1,000 steps of plain Python, and the stored ratio"
    fault = (
        f"the station is slower than it was with {slower}; to keep the new ratios: --store" if slower else ""
    )
    yield Part(title, [pace._asdict() | {"of stored": pace.ratio / pace.stored} for pace in paces], fault)
    title = "deliveries in real time: how late against their deadlines, ms"
    yield Part(title, [station.punctuality()._asdict()])


def web_parts() -> Iterator[Part]:
    title = f"deliveries in real time with the live page, {web.RATE} messages a second: how late, ms"
    yield Part(title, [row._asdict() for row in web.bench()])


def testbed_parts() -> Iterator[Part]:
    title = "the testbed: emulated seconds in a second, one core, one message a second each"
    yield Part(title, [{"motes": pace.motes, "pace": pace.per_second} for pace in testbed.bench()])


def analysis_parts() -> Iterator[Part]:
    paces = list(analysis.bench())
    title = "the analysis: million messages x configurations a second"
    yield Part(title, [asdict(pace) for pace in paces])
    yield Part("the analysis: ratios", [{"what": what, "ratio": r} for what, r in analysis.ratios(paces)])
    if "--growth" in sys.argv[1:]:
        yield Part("the analysis of longer traces", [asdict(pace) for pace in analysis.growth()])


def pipeline_parts() -> Iterator[Part]:
    paces = list(pipeline.bench((5, 50) if "--growth" in sys.argv[1:] else (1,)))
    title = "a long journal: million records a second, and the most MB of a Python process"
    yield Part(title, [asdict(pace) for pace in paces])
    yield Part("a long journal: ratios", list(pipeline.ratios(paces)))
    yield Part("watch: processor time of a batch", [asdict(cost) for cost in pipeline.watching()])


def page_parts() -> Iterator[Part]:
    title = "the page: milliseconds of script, and between two frames (16.7 is the browser's best)"
    yield Part(title, [asdict(row) for row in page.bench_page()])


PARTS: dict[str, Callable[[], Iterator[Part]]] = {
    "kernels": kernel_parts,
    "journal": journal_parts,
    "station": station_parts,
    "web": web_parts,
    "testbed": testbed_parts,
    "analysis": analysis_parts,
    "pipeline": pipeline_parts,
    "page": page_parts,
}


def _beside_the_line(rates: list[journal.Rate]) -> list[dict[str, Any]]:
    """The first is the line's own rate, which the others must keep up with."""
    line = rates[0].per_second
    return [{"what": r.what, "rate": r.per_second, "times the line": r.per_second / line} for r in rates]


def print_table(part: Part) -> None:
    table = Table(title=part.title)
    for name, value in part.rows[0].items():
        table.add_column(name, justify="left" if isinstance(value, str) else "right")
    for row in part.rows:
        table.add_row(*map(_shown, row.values()))
    Console().print(table)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value or "")


def print_lines(part: Part) -> None:
    for row in part.rows:
        print(json.dumps({"part": part.title, **row}), flush=True)


def main() -> None:
    asked = [name for name in sys.argv[1:] if not name.startswith("-")]
    if unknown := set(asked) - set(PARTS):
        sys.exit(f"no part {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    if "--store" in sys.argv[1:]:
        return station.store()
    show = print_lines if "--json" in sys.argv[1:] else print_table
    faults = []
    for name in asked or PARTS:
        try:
            for part in PARTS[name]():
                show(part)
                faults += [part.fault] if part.fault else []
        except (EmulatorError, FirmwareImageError, ImportError, JobError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
