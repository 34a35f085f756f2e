"""Measures tables and prints them; with --write they also go into their pages.

python -m tools.tables [--write] [--seeds N] [--processes 2] [NAME...]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tools.pages import MarkedPlace

from . import ROOT, Effort, delivery, field, gateways, ledger, power, power_runs, schemes, urgent


class Table(NamedTuple):
    """A table's page, and the function that measures it."""

    page: str
    lines: Callable[[Effort], Iterator[str]]

    def place(self, name: str) -> MarkedPlace:
        page = ROOT / "docs" / self.page
        return MarkedPlace(page, f"<!-- {name}: made by `make tables` -->", f"<!-- end of {name} -->")


# From seconds to hours.
TABLES = {
    "power": Table("reference/power.md", power.lines),
    "periods": Table("reference/power.md", power.period_lines),
    "ledger": Table("evidence/algorithms.md", ledger.lines),
    "schemes": Table("evidence/schemes.md", schemes.lines),
    "delivery": Table("reference/firmware.md", delivery.lines),
    "gateways": Table("reference/live.md", gateways.lines),
    "urgent": Table("reference/power.md", urgent.lines),
    "field": Table("evidence/algorithms.md", field.lines),
    "runs": Table("reference/power.md", power_runs.lines),
    "night": Table("reference/power.md", power_runs.night_lines),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.tables", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[[], *TABLES], metavar="NAME", help=", ".join(TABLES))
    parser.add_argument("--write", action="store_true", help="write each table into its page")
    parser.add_argument("--seeds", type=int, help="of each row")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    for name in given.names or TABLES:
        content = "\n".join(TABLES[name].lines(Effort(given.seeds, given.processes)))
        print(content, flush=True)
        if given.write:
            TABLES[name].place(name).write(content)


if __name__ == "__main__":
    main()
