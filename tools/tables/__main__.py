"""Measures tables and prints them; with --write they also go into their pages.

python -m tools.tables [--write] [--seeds N] [--processes 2] [NAME...]
"""

from __future__ import annotations

import argparse

from tools.pages import place_of

from . import Workload, delivery, field, gateways, ledger, power, power_runs, schemes, urgent

# From seconds to hours.
TABLES = {
    "power": power.lines,
    "ledger": ledger.lines,
    "schemes": schemes.lines,
    "delivery": delivery.lines,
    "gateways": gateways.lines,
    "urgent": urgent.lines,
    "field": field.lines,
    "runs": power_runs.lines,
    "night": power_runs.night_lines,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.tables", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[[], *TABLES], metavar="NAME", help=", ".join(TABLES))
    parser.add_argument("--write", action="store_true", help="write each table into its page")
    parser.add_argument("--seeds", type=int, help="of each row")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    for name in given.names or TABLES:
        content = "\n".join(TABLES[name](Workload(given.seeds, given.processes)))
        print(content, flush=True)
        if given.write:
            place_of(name).write(content)


if __name__ == "__main__":
    main()
