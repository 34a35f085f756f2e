"""The tables of docs/figures/soak.md, from the results of the searches: `python -m tests.soak.report`.

Every count of a row is a column.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from textwrap import fill
from typing import Any

from tests.soak import memory
from tests.soak.running import ROOT, Search
from tools.pages import MarkedPlace, table

SEARCHES = {
    "c_fuzz": "Firmware: libFuzzer with the address and undefined-behaviour sanitizers, by scheme",
    "py_fuzz": "Base station: hostile frames for the decoder and for stations",
    "crash_states": "Log: states that a power cut may leave",
    "kills": "kill -9: of `listen` at full line rate, aim 1,000; of `ingest` and `watch`, aim 100 each",
    "storm": "Ten MICAz in a storm of faults, 12 emulated hours",
    "scheduled_storm": "Ten MICAz that sleep, in a storm of faults, 12 emulated hours",
}
PLACE = MarkedPlace(
    ROOT / "docs" / "figures" / "soak.md",
    "<!-- tables: made by `make soak` -->",
    "<!-- end of the tables -->",
)


def search_of(name: str) -> Search:
    found: Search = import_module(f"tests.soak.{name}").SEARCH
    return found


def lines() -> Iterator[str]:
    """All tables."""
    for name, title in SEARCHES.items():
        yield f"**{title}** (`{name}`)"
        yield ""
        yield from _section(name)
        yield ""
    yield "**Memory of a station after hours of its line, in kilobytes by part** (`memory`)"
    yield ""
    with suppress(FileNotFoundError):
        found = memory.measured()
        yield f"Measured at commit {found['version']}."
        yield ""
        yield from _table(found["rows"], sums=False)


def _section(name: str) -> Iterator[str]:
    search = search_of(name)
    state = search.load()
    done = state.total(search.unit)
    yield f"{done:,} of {search.aim:,} {search.unit} done ({_share(done / search.aim)})."
    if done:
        by_version = ", ".join(f"{version} {units:,}" for version, units in state.versions.items())
        yield fill(f"By commit: {by_version}.", 120)
        yield ""
        yield from _table([{"row": row} | counts for row, counts in sorted(state.rows.items())])


def _share(part: float) -> str:
    return f"{100 * part:.0f}%" if part >= 0.1 else f"{100 * part:.2g}%"


def _table(rows: list[dict[str, Any]], sums: bool = True) -> Iterator[str]:
    """The rows; the sums of their counts last, if there are several."""
    heads = list(dict.fromkeys(key for row in rows for key in row))
    total = {head: sum(row.get(head, 0) for row in rows) for head in heads[1:]}
    shown = [*rows, {"row": "all"} | total] if sums and len(rows) > 1 else rows
    yield from table(
        [head.replace("_", " ") for head in heads],
        [[_cell(row.get(head, "")) for head in heads] for row in shown],
    )


def _cell(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,}"


def write() -> None:
    PLACE.write("\n" + "\n".join(lines()).rstrip() + "\n")


if __name__ == "__main__":
    write()
