"""The tables of docs/reliability.md, from what the searches said last: `python -m tests.soak.report`.

A search prints one JSON object for each of its rows. Every number in it is a column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.soak.running import ROOT, state_folder
from tools.pages import MarkedPlace, table

SEARCHES = {
    "c_fuzz": "Firmware: libFuzzer with the address and undefined-behaviour sanitizers, by scheme; aim 1,000,000,000",
    "py_fuzz": "Base station: hostile frames for the decoder and for stations; aim 10,000,000",
    "crash_states": "Log: states that a power cut may leave; aim 10,000",
    "kills": "kill -9: of `listen` at full line rate, aim 1,000; of `ingest` and `watch`, aim 100 each",
    "poison": "Jobs on poisoned input: truncated, changed and hostile tables and journals",
    "root_storm": "The root dies, at any moment and for any time; aim 100 timelines",
    "storm": "24 emulated hours of ten MICAz in a storm of faults",
}
PLACE = MarkedPlace(
    ROOT / "docs" / "reliability.md", "<!-- tables: made by `make soak` -->", "<!-- end of the tables -->"
)


def keep(name: str, printed: str) -> None:
    """Keep what a search printed, if it is something."""
    if printed.strip():
        folder = state_folder() / "said"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.jsonl").write_text(printed)


def rows_of(name: str) -> list[dict[str, Any]]:
    path = state_folder() / "said" / f"{name}.jsonl"
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
    return [{key: value for key, value in row.items() if key != "search"} for row in found]


def lines() -> Iterator[str]:
    for name, title in SEARCHES.items():
        yield f"**{title}** (`{name}`)"
        yield ""
        rows = rows_of(name)
        if not rows:
            yield "Not run yet."
        else:
            yield from _table(rows)
        yield ""


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The rows; the sums of their counts last, if there are several."""
    heads = list(dict.fromkeys(key for row in rows for key in row))
    shown = [*rows, _sums(rows, heads)] if len(rows) > 1 and "row" in heads else rows
    yield from table(
        [head.replace("_", " ") for head in heads],
        [[_cell(row.get(head)) for head in heads] for row in shown],
    )


def _sums(rows: list[dict[str, Any]], heads: list[str]) -> dict[str, Any]:
    counts = {
        head: sum(row.get(head, 0) for row in rows)
        for head in heads
        if all(type(row.get(head, 0)) is int for row in rows)
    }
    return {"row": "all"} | counts


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def write() -> None:
    PLACE.write("\n" + "\n".join(lines()).rstrip() + "\n")


if __name__ == "__main__":
    write()
