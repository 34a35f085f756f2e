"""Print the part of requirements.lock that one extra of pyproject.toml needs, hashes and all.

    python tools/locked_subset.py firmware

The lock says for each package which others need it ("via"). Standard library only: it runs before anything is
installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def subset(lock: str, wanted: set[str]) -> str:
    """The entries of the wanted packages, and of all packages that these need."""
    entries = {_name(entry): entry for entry in re.split(r"(?m)^(?=[a-z0-9])", lock) if _name(entry)}
    if missing := wanted - entries.keys():
        raise ValueError(f"requirements.lock lacks {', '.join(sorted(missing))}: run `make lock`")
    wanted_by = {name: _via(entry) for name, entry in entries.items()}
    found = set(wanted)
    while more := {name for name, via in wanted_by.items() if via & found} - found:
        found |= more
    return "".join(entry for name, entry in entries.items() if name in found)


def _name(text: str) -> str:
    """A package's name as the lock writes it, from the start of a requirement."""
    match = re.match(r"[A-Za-z0-9._-]+", text)
    return re.sub(r"[._-]+", "-", match[0]).lower() if match else ""


def _via(entry: str) -> set[str]:
    return {_name(text) for text in re.findall(r"(?m)^ +# +(?:via +)?([A-Za-z0-9]\S*)", entry)} - {"via"}


def main(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {_name(requirement) for requirement in project["optional-dependencies"][extra]}
    sys.stdout.write(subset((ROOT / "requirements.lock").read_text(encoding="utf-8"), wanted))


if __name__ == "__main__":
    main(sys.argv[1])
