"""A report as one HTML page, which contains its pictures as SVG and needs no other file."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from io import StringIO
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5em auto; max-width: 76em; padding: 0 1em; color: #222;
       overflow-wrap: anywhere }
h1 { font-size: 1.6em; line-height: 1.2 }
.wide { overflow-x: auto; margin: 1em 0 }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums }
td, th { padding: 3px 8px; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap }
td:first-child, th:first-child { text-align: left }
th { padding: 0; background: #fff }
th button { all: unset; box-sizing: border-box; width: 100%; padding: 3px 8px; cursor: pointer }
th button:focus-visible { outline: 2px solid #06c }
th[aria-sort=ascending] button::after { content: " ▲" }
th[aria-sort=descending] button::after { content: " ▼" }
tr.own { background: #e8f2ff }
tr.take { background: #fdecea; font-weight: 600 }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 32em), 1fr)); gap: 1em }
svg { max-width: 100%; height: auto }
p.note { color: #595959 }
p.answer { font-size: 1.35em; margin: 0.6em 0 }
details { margin: 0.8em 0; border-top: 1px solid #ddd; padding-top: 0.4em }
summary { cursor: pointer; font-weight: 600; padding: 0.2em 0 }
@media (max-width: 30em) {
  body { margin: 0.8em auto; padding: 0 0.7em }
  td, th button { padding: 4px 5px }
  table { font-size: 12px }
}
"""

# A click on a heading sorts by it, again: the other way round. Numbers by value, also in "0.1..0.3" and "<0.01".
SCRIPT = """
const value = text => {
  const number = parseFloat(text.replace(/^[<≤]/, ""));
  return text === "" || text === "?" ? [2, 0] : Number.isNaN(number) ? [1, text] : [0, number];
};
const compare = (a, b) => a[0] - b[0] || (a[0] === 1 ? a[1].localeCompare(b[1]) : a[1] - b[1]);
for (const heading of document.querySelectorAll("th")) {
  heading.firstElementChild.addEventListener("click", () => {
    const body = heading.closest("table").tBodies[0], at = heading.cellIndex;
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...body.rows].map(row => [value(row.cells[at].textContent), row]);
    rows.sort((a, b) => down ? compare(b[0], a[0]) : compare(a[0], b[0]));
    body.append(...rows.map(pair => pair[1]));
  });
}
"""


def page(title: str, parts: Iterable[str]) -> str:
    body, title = "\n".join(parts), html.escape(title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n{body}\n<script>{SCRIPT}</script></body></html>\n"
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


def sheet(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    marked: Sequence[bool] = (),
    taken: Sequence[bool] = (),
) -> str:
    """An HTML table that a click on a heading sorts; `marked` rows are highlighted, what is to be `taken` more so."""
    head = "".join(f'<th scope="col"><button>{html.escape(name)}</button></th>' for name in columns)
    lines = []
    for row, own, take in zip_longest(rows, marked, taken):
        kind = ' class="take"' if take else ' class="own"' if own else ""
        lines.append(f"<tr{kind}>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>")
    body = "\n".join(lines)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def pictures(parts: Iterable[str]) -> str:
    """Pictures side by side where there is room, and else below one another."""
    return '<div class="pictures">' + "\n".join(parts) + "</div>"


def svg(figure: Figure, name: str) -> str:
    """A picture for the page. `name` keeps its references apart from those of other pictures."""
    from matplotlib import rc_context

    out = StringIO()
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.DOTALL)
