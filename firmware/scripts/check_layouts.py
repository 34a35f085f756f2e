"""Every kind of image, for check.sh: writes the headers of each into a folder of its own, and lists them.

    python3 firmware/scripts/check_layouts.py FOLDER

A line has the name of a kind, which is its folder's, its board and the driver of that board's radio. A kind that
differs from others in its stamp only has just a name. Standard library only.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from packet_formats import cheader  # noqa: E402
from packet_formats.boards import BOARDS  # noqa: E402
from packet_formats.deployment import Deployment, from_dict  # noqa: E402
from packet_formats.keys import Key, render_header  # noqa: E402
from packet_formats.schemes import descriptor, names  # noqa: E402

Table = dict[str, Any]
KEY: Table = {"security": {"mic": 4, "key": "site.key"}}
# What comes on top of a schedule: stamps that differ in length, and urgent windows.
MORE: Table = {"stamp": {"scheme": "barrier"}, "radio": {"urgent_ms": 2000}}


def example(name: str, changes: Table | None = None) -> Deployment:
    """The example of this name. Of its tables `stamp` is replaced, and keys of others are added or changed."""
    tables: Table = tomllib.loads((ROOT / "examples" / f"{name}.toml").read_text(encoding="utf-8"))
    del tables["observer"]  # images know nothing of it, and it may not go with another stamp
    for table, keys in (changes or {}).items():
        tables[table] = keys if table == "stamp" else {**tables.get(table, {}), **keys}
    deployment = from_dict(tables)
    return replace(deployment, key=Key(bytes(16))) if deployment.security.mic else deployment


def images() -> Iterator[tuple[str, Deployment]]:
    for board in BOARDS:
        yield board, example(board)
        yield f"{board}-tinyos2", example(board, {"network": {"tinyos": 2}})
        yield f"{board}-key", example(board, KEY)
        yield f"{board}-schedule", example(f"{board}_months")
        yield f"{board}-schedule-key", example(f"{board}_months", {**MORE, **KEY})
    yield "sensors", example("alarm")


def stamps() -> Iterator[tuple[str, Deployment]]:
    for name in names():
        if descriptor(name).in_firmware:
            yield f"stamp-{name}", example("vector", {"stamp": {"scheme": name}})


def write(folder: Path, deployment: Deployment) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "causeway_layout.h").write_text(cheader.render(deployment), encoding="utf-8")
    if deployment.key:
        (folder / "causeway_key.h").write_text(render_header(deployment.key), encoding="utf-8")


def main(folder: Path) -> None:
    for name, deployment in images():
        write(folder / name, deployment)
        board = BOARDS[deployment.network.board]
        print(name, board.name, board.radio.driver)
    for name, deployment in stamps():
        write(folder / name, deployment)
        print(name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
