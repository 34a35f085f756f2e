"""A table with a title, in Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from tools.pages import table


@dataclass(frozen=True, slots=True)
class Sheet:
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        return "\n".join([f"**{self.title}**", "", *table(self.columns, self.rows)])
