"""A report as one HTML page, which contains its pictures as SVG and needs no other file."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; font-size: 13px; margin: 1em 0 }
td, th { padding: 2px 8px; text-align: right; border-bottom: 1px solid #ddd }
td:first-child, th:first-child { text-align: left }
tr.own { background: #eef6ff }
svg { max-width: 100%; height: auto }
p.note { color: #666 }
p.answer { font-size: 1.35em; margin: 0.6em 0 }
details { margin: 0.8em 0; border-top: 1px solid #ddd; padding-top: 0.4em }
summary { cursor: pointer; font-weight: 600 }
"""


def page(title: str, parts: Iterable[str]) -> str:
    body, title = "\n".join(parts), html.escape(title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n{body}\n</body></html>\n"
    )


def paragraph(text: str, kind: str = "") -> str:
    mark = f' class="{kind}"' if kind else ""
    return f"<p{mark}>{html.escape(text)}</p>"


def heading(text: str) -> str:
    return f"<h2>{html.escape(text)}</h2>"


def folded(title: str, parts: Iterable[str]) -> str:
    """Parts that open on a click."""
    body = "\n".join(parts)
    return f"<details><summary>{html.escape(title)}</summary>\n{body}</details>"


def sheet(columns: Sequence[str], rows: Iterable[Sequence[str]], marked: Sequence[bool] = ()) -> str:
    """An HTML table; `marked` rows are highlighted."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    lines = []
    for number, row in enumerate(rows):
        own = ' class="own"' if number < len(marked) and marked[number] else ""
        lines.append(f"<tr{own}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>")
    return f"<table><tr>{head}</tr>\n" + "\n".join(lines) + "</table>"


def svg(figure: Figure, name: str) -> str:
    """A picture for the page. `name` keeps its references apart from those of other pictures."""
    from matplotlib import rc_context

    out = StringIO()
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
