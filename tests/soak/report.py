"""The tables of docs/reliability.md, from the states of the searches: `python -m tests.soak.report`.

Every count of a row is a column. A table stays as it is on the page until this machine has done more of that search
than the page tells of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from tests.soak.running import ROOT, Search
from tools.pages import MarkedPlace, table

SEARCHES = {
    "c_fuzz": "Firmware: libFuzzer with the address and undefined-behaviour sanitizers, by scheme",
    "py_fuzz": "Base station: hostile frames for the decoder and for stations",
    "crash_states": "Log: states that a power cut may leave",
    "kills": "kill -9: of `listen` at full line rate, aim 1,000; of `ingest` and `watch`, aim 100 each",
    "poison": "Jobs on poisoned input: truncated, changed and hostile tables and journals",
    "root_storm": "The root dies, at any moment and for any time",
    "storm": "Ten MICAz in a storm of faults; the aim is 24 emulated hours",
}
PLACE = MarkedPlace(
    ROOT / "docs" / "reliability.md", "<!-- tables: made by `make soak` -->", "<!-- end of the tables -->"
)


def search_of(name: str) -> Search:
    found: Search = import_module(f"tests.soak.{name}").SEARCH
    return found


def rows_of(name: str) -> list[dict[str, Any]]:
    return [{"row": row} | counts for row, counts in sorted(search_of(name).load().rows.items())]


def lines(page: str) -> Iterator[str]:
    """All tables: of each search what this machine did, or what the page says if that is more."""
    for name, title in SEARCHES.items():
        yield f"**{title}** (`{name}`)"
        yield ""
        yield from said_on(page, name) if _stays(page, name) else _section(name)
        yield ""


def _section(name: str) -> Iterator[str]:
    search, done = search_of(name), _done_here(name)
    yield f"{done:,} of {search.aim:,} {search.unit} done ({_share(done / search.aim)})."
    if done:
        yield ""
        yield from _table(rows_of(name))


def _share(part: float) -> str:
    return f"{100 * part:.0f}%" if part >= 0.1 else f"{100 * part:.2g}%"


def said_on(page: str, name: str) -> list[str]:
    """The lines of a search on the page, without its title."""
    _, _, rest = page.partition(f"(`{name}`)\n")
    return re.split(rf"^(?:\*\*|{PLACE.end})", rest, maxsplit=1, flags=re.M)[0].strip().splitlines()


def _done_there(page: str, name: str) -> int:
    found = re.match(r"([\d,]+) of ", "\n".join(said_on(page, name)))
    return int(found[1].replace(",", "")) if found else 0


def _done_here(name: str) -> int:
    return sum(row.get(search_of(name).unit, 0) for row in rows_of(name))


def _stays(page: str, name: str) -> bool:
    return said_on(page, name) != [] and _done_here(name) <= _done_there(page, name)


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """The rows; the sums of their counts last, if there are several."""
    heads = list(dict.fromkeys(key for row in rows for key in row))
    sums = {head: sum(row.get(head, 0) for row in rows) for head in heads[1:]}
    shown = [*rows, {"row": "all"} | sums] if len(rows) > 1 else rows
    yield from table(
        [head.replace("_", " ") for head in heads],
        [[_cell(row.get(head, "")) for head in heads] for row in shown],
    )


def _cell(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value


def write() -> list[str]:
    """Write the tables into the page. What stays although this machine did some of it is returned, in words."""
    page = PLACE.page.read_text()
    PLACE.write("\n" + "\n".join(lines(page)).rstrip() + "\n")
    return [
        f"{PLACE.page.name}: the table of {name} stays: it tells of {_done_there(page, name):,}, "
        f"here {_done_here(name):,} were done"
        for name in SEARCHES
        if _done_here(name) and _stays(page, name)
    ]


if __name__ == "__main__":
    for kept in write():
        print(kept)
