"""`make soak`: each search for some minutes, one after the other, then what they found into
docs/figures/soak.md."""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.soak.report import SEARCHES, write


def main() -> int:
    reader = argparse.ArgumentParser(
        prog="python -m tests.soak", epilog="Example: python -m tests.soak --minutes 5 c_fuzz kills"
    )
    reader.add_argument("--minutes", type=float, default=10, help="for each search [default: 10]")
    reader.add_argument("--no-write", action="store_true", help="leave docs/figures/soak.md as it is")
    reader.add_argument(
        "searches", nargs="*", metavar="SEARCH", help=f"of {', '.join(SEARCHES)} [default: all]"
    )
    asked = reader.parse_args()
    if wrong := [name for name in asked.searches if name not in SEARCHES]:
        reader.error(f"no search is named {wrong[0]}; there are {', '.join(SEARCHES)}")
    worst = 0
    for name in asked.searches or SEARCHES:
        words = [sys.executable, "-m", f"tests.soak.{name}", "--minutes", str(asked.minutes)]
        search = subprocess.Popen(words)
        try:
            worst = max(worst, search.wait())
        except KeyboardInterrupt:  # the search gets it too, and ends in order
            worst = max(worst, search.wait())
            break
    if not asked.no_write:
        write()
    return worst


if __name__ == "__main__":
    sys.exit(main())
