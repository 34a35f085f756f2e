"""Writes generated text into the documents, each between two marks of its page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[1] / "docs"


class PageError(ValueError):
    """A page lacks the marks."""


class MarkedPlace(NamedTuple):
    """The place on a page for text that a command generates."""

    page: Path
    begin: str
    end: str

    def insert(self, text: str, content: str) -> str:
        """The page's text with new content between the marks."""
        before, begin, rest = text.partition(self.begin)
        _, end, after = rest.partition(self.end)
        if not begin or not end:
            raise PageError(f"{self.page.name} lacks the marks {self.begin} ... {self.end}")
        return f"{before}{begin}\n{content}\n{end}{after}"

    def write(self, content: str) -> None:
        self.page.write_text(self.insert(self.page.read_text(), content))


def place_of(name: str) -> MarkedPlace:
    """The place of a measured table, on whichever page has its marks."""
    begin = f"<!-- {name}: made by `make tables` -->"
    for page in DOCS.rglob("*.md"):
        if begin in page.read_text():
            return MarkedPlace(page, begin, f"<!-- end of {name} -->")
    raise PageError(f"no page has the mark {begin}")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The lines of a table in Markdown, with numbers to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    right = [all(re.fullmatch(r"[-–0-9., ]*", row[i]) for row in cells) for i in range(len(heads))]
    yield f"| {' | '.join(heads)} |"
    yield f"| {' | '.join('---:' if numeric else '---' for numeric in right)} |"
    for row in cells:
        yield f"| {' | '.join(row)} |"
