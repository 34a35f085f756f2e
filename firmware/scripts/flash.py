#!/usr/bin/env python3
"""Program a batch of motes, each with its own id, and keep an inventory of what went where.

One mote after another: put it on the programming board and press Enter; the image with its id is written and read back.
Every try is a line of the inventory, on disk before the next one starts. After an interruption run the same command
again: it skips the ids that already have this image.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import avrdude
import build_layout
import image as images

PROJECT = Path(__file__).resolve().parents[2]
COLUMNS = (
    "time",
    "id",
    "result",
    "environment",
    "deployment",
    "layout_sha256",
    "image_sha256",
    "programmer",
    "port",
)
DONE = "programmed"


@dataclass(frozen=True)
class Batch:
    """The image to write, and what the build says about it."""

    image: images.Image
    about: dict[str, Any]

    @property
    def app(self) -> str:
        return str(self.about["app"])


class Inventory:
    """A CSV file with one line a try. It only grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = self._read()

    def _read(self) -> list[dict[str, str]]:
        if not self.path.exists() or self.path.stat().st_size == 0:
            return []
        with self.path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise images.ImageError(
                    f"{self.path}: not an inventory (its first line is not an inventory's)"
                )
            return list(reader)

    def has(self, node_id: int, image_sha256: str) -> bool:
        """Whether the mote's last entry says that it got this image."""
        mine = [row for row in self.rows if row["id"] == str(node_id)]
        return bool(mine) and mine[-1]["result"] == DONE and mine[-1]["image_sha256"] == image_sha256

    def add(self, row: dict[str, str]) -> None:
        """Append a row; it is on disk when this returns."""
        new = not self.path.exists() or self.path.stat().st_size == 0
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            os.fsync(file.fileno())
        self.rows.append(row)


def parse_ids(text: str) -> list[int]:
    """The ids in a text such as `0-9,12`, which is 0 to 9 and 12, each once, in the order given."""
    ids: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            numbers = range(int(first), int(last if dash else first) + 1)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part!r}: ids look like 3 or 0-9 or 0-9,12") from None
        if not numbers or len(numbers) > 0xFFFF:
            raise argparse.ArgumentTypeError(f"{part!r}: no ids from {first} to {last}")
        ids += numbers
    return list(dict.fromkeys(ids))


def load_batch(image_path: Path) -> Batch:
    """The image and its firmware.json, which must belong together."""
    if not image_path.exists():
        raise images.ImageError(f"{_short(image_path)} is not built: pio run -e {image_path.parent.name}")
    image = images.load(image_path)
    record = image_path.parent / build_layout.RECORD
    try:
        about = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise images.ImageError(
            f"{_short(record)} is missing; the build puts it beside the image: build again"
        ) from None
    if about["elf_sha256"] != build_layout.sha256_of(image_path):
        raise images.ImageError(f"{_short(record)} belongs to another image: build again")
    return Batch(image, {**about, "image_sha256": image.sha256})


def _short(path: Path) -> Path:
    return path.relative_to(PROJECT) if path.is_relative_to(PROJECT) else path


def program_one(batch: Batch, node_id: int, options: argparse.Namespace) -> None:
    """Write one mote; avrdude reads back what it wrote."""
    with tempfile.TemporaryDirectory(prefix="causeway-") as folder:
        path = Path(folder) / f"{batch.about['environment']}-{node_id}.hex"
        path.write_text(batch.image.with_id(node_id).ihex(), encoding="ascii")
        words = avrdude.command(options.port, [avrdude.write_flash(str(path))], programmer=options.programmer)
        if options.dry_run:
            print(f"  would run: {avrdude.shown(words)}")
        else:
            avrdude.run(words, options.timeout)


def flash(batch: Batch, ids: Sequence[int], inventory: Inventory, options: argparse.Namespace) -> int:
    """Program all motes; return 0 if every mote has its image now."""
    done = [n for n in ids if not options.again and inventory.has(n, batch.about["image_sha256"])]
    todo = [n for n in ids if n not in done]
    if done:
        print(
            f"{_plural(len(done))} already with this image in {inventory.path}: {_ranges(done)} (--again repeats)"
        )
    print(
        f"{_plural(len(todo))} to program with {batch.about['environment']} for {batch.about['deployment']}"
        + (f": {_ranges(todo)}" if todo else "")
    )
    missed = []
    for number, node_id in enumerate(todo):
        if not _mote_is_there(node_id, first=number == 0, alone=len(todo) == 1, options=options):
            missed += todo[number:]
            break
        if not _program_until_done(batch, node_id, inventory, options):
            missed.append(node_id)
            if not options.prompt:
                missed += todo[number + 1 :]
                break
    if missed:
        print(f"not programmed: {_ranges(missed)}. Run the same command again to go on.", file=sys.stderr)
    return 1 if missed else 0


def _mote_is_there(node_id: int, *, first: bool, alone: bool, options: argparse.Namespace) -> bool:
    if not options.prompt or alone:
        return True
    what = "Put the mote" if first else "Take the mote off, put the next one"
    return _ask(f"{what} for id {node_id} on the board, then Enter (q ends): ") != "q"


def _program_until_done(
    batch: Batch, node_id: int, inventory: Inventory, options: argparse.Namespace
) -> bool:
    while True:
        started = datetime.now(UTC)
        try:
            program_one(batch, node_id, options)
        except avrdude.ProgrammingError as error:
            _note(
                batch,
                node_id,
                inventory,
                options,
                started,
                f"failed: {str(error).splitlines()[0].rstrip(':')}",
            )
            print(f"id {node_id}: {error}", file=sys.stderr)
            if not options.prompt or _ask("Enter tries again, s skips this mote: ") in ("s", "q"):
                return False
        else:
            _note(batch, node_id, inventory, options, started, DONE)
            took = (datetime.now(UTC) - started).total_seconds()
            print(
                f"id {node_id}: "
                + ("nothing written (dry run)" if options.dry_run else f"{DONE} in {took:.1f} s")
            )
            return True


def _note(
    batch: Batch, node_id: int, inventory: Inventory, options: argparse.Namespace, time: datetime, result: str
) -> None:
    if options.dry_run:
        return
    about = {
        key: str(batch.about[key]) for key in ("environment", "deployment", "layout_sha256", "image_sha256")
    }
    row = {"time": time.isoformat(timespec="seconds"), "id": str(node_id), "result": result, **about}
    inventory.add({**row, "programmer": options.programmer, "port": options.port})


def _ask(question: str) -> str:
    try:
        return input(question).strip().lower()
    except EOFError:
        return "q"


def _plural(count: int) -> str:
    return f"{count} mote" + ("" if count == 1 else "s")


def _ranges(ids: Sequence[int]) -> str:
    """The ids as text: 0, 1, 2, 5 is 0-2,5."""
    parts: list[list[int]] = []
    for node_id in sorted(ids):
        if parts and node_id == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], node_id]
        else:
            parts.append([node_id])
    return ",".join("-".join(str(n) for n in part) for part in parts)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
        "  flash.py -e micaz --ids 0-9 --programmer mib520 --port /dev/ttyUSB0\n"
        "  flash.py -e micaz_gateway --ids 20 --programmer mib600 --port 192.168.1.30\n",
    )
    made.add_argument("--ids", type=parse_ids, required=True, help="3, 0-9 or 0-9,12")
    made.add_argument(
        "-e", "--environment", default="micaz", help="which image: micaz, micaz_gateway, mica2, ..."
    )
    made.add_argument("--image", type=Path, help="firmware.elf, if it is not in .pio/build/ENVIRONMENT")
    made.add_argument(
        "--port", default=os.environ.get("CAUSEWAY_PORT", ""), help="tty, or a MIB600's host name"
    )
    made.add_argument("--programmer", choices=avrdude.PROGRAMMERS, default="mib510")
    made.add_argument("--inventory", type=Path, default=Path("inventory.csv"), help="default: inventory.csv")
    made.add_argument("--again", action="store_true", help="also motes that already have this image")
    made.add_argument("--no-prompt", dest="prompt", action="store_false", help="never ask; stop at a failure")
    made.add_argument("--dry-run", action="store_true", help="show what would be done")
    made.add_argument("--timeout", type=float, default=avrdude.TIMEOUT_S, help="seconds for one mote")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    options.prompt = options.prompt and not options.dry_run
    if options.prompt and len(options.ids) > 1 and not sys.stdin.isatty():
        print(
            "error: motes are swapped by hand, but there is no terminal to ask on (--no-prompt)",
            file=sys.stderr,
        )
        return 2
    options.prompt = options.prompt and sys.stdin.isatty()
    try:
        batch = load_batch(options.image or PROJECT / ".pio" / "build" / options.environment / "firmware.elf")
        for node_id in options.ids:
            build_layout.check_id(node_id, batch.app, batch.about["motes"])
        options.port = avrdude.port_of(options.port, options.programmer)
        return flash(batch, options.ids, Inventory(options.inventory), options)
    except (images.ImageError, build_layout.BuildError, avrdude.ProgrammingError) as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
    except KeyboardInterrupt:
        print(
            "\ninterrupted: the mote on the board may be half programmed; run the same command again to go on",
            file=sys.stderr,
        )
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
