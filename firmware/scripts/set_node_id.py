#!/usr/bin/env python3
"""Write a node id into a built image without building again: as an ELF file, or as a hex file for avrdude."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import build_layout
import image as images


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: set_node_id.py .pio/build/micaz/firmware.elf 7 -o mote7.hex",
    )
    parser.add_argument("image", type=Path, help="firmware.elf as built")
    parser.add_argument(
        "id", type=lambda text: int(text, 0), nargs="?", help="the new id; without it, show the id"
    )
    parser.add_argument(
        "-o", "--output", type=Path, help="where to: NAME.elf or NAME.hex (needed with an id)"
    )
    options = parser.parse_args(arguments)
    if options.id is not None and options.output is None:
        parser.error("an id needs -o: the image is only overwritten if you name it")
    try:
        image = images.load(options.image)
        if options.id is None:
            print(f"node id {image.node_id}, at {image.id_flash:#x} in flash")
            return 0
        check(options.image.parent / build_layout.RECORD, options.id)
        write(image.with_id(options.id), options.output)
        print(f"{options.output}: node id {options.id}", file=sys.stderr)
    except (images.ImageError, build_layout.BuildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def check(record: Path, node_id: int) -> None:
    """Check that the deployment has this id, if the build's record lies beside the image."""
    if record.exists():
        about = json.loads(record.read_text(encoding="utf-8"))
        build_layout.check_id(node_id, about["app"], about["motes"])


def write(image: images.Image, path: Path) -> None:
    if path.suffix == ".hex":
        path.write_text(image.ihex(), encoding="ascii")
    elif path.suffix == ".elf":
        path.write_bytes(image.elf)
    else:
        raise images.ImageError(f"{path}: name it .elf or .hex")


if __name__ == "__main__":
    sys.exit(main())
