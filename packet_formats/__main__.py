"""The command line: `python -m packet_formats header deployment.toml -o layout.h`, or `... vectors -o vectors.json`.

The firmware build runs `header` and `key` in a Python without other packages.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from packet_formats import cheader, keys
from packet_formats.deployment import DeploymentError, load


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m packet_formats",
        description="Generate what the firmware is built and tested with.",
        epilog="example: python -m packet_formats header examples/paper.toml -o causeway_layout.h",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    header = commands.add_parser(
        "header",
        help="the C header of a deployment",
        description="Write the C header that the firmware of a deployment is built with.",
        epilog="example: python -m packet_formats header examples/micaz.toml -o causeway_layout.h",
    )
    header.add_argument("deployment", type=Path, help="a deployment.toml")
    key = commands.add_parser(
        "key",
        help="the C header with a deployment's key",
        description="Write the key of a deployment for the firmware's build, readable only by its owner.",
        epilog="example: python -m packet_formats key site.toml -o build/causeway_key.h",
    )
    key.add_argument("deployment", type=Path, help="a deployment.toml with [security]")
    key.add_argument("-o", "--output", type=Path, required=True, help="a file")
    vectors = commands.add_parser(
        "vectors",
        help="golden vectors for many layouts, as JSON",
        description="Write field values, payload and frame of messages in many layouts, to test other readers with.",
        epilog="example: python -m packet_formats vectors -o packet_formats/vectors.json",
    )
    for command in (header, vectors):
        command.add_argument("-o", "--output", type=Path, help="a file; standard output if not given")
    options = parser.parse_args(arguments)
    try:
        if options.command == "key":
            keys.write_header(options.deployment, options.output)
        else:
            _write(options.output, _header(options.deployment) if options.command == "header" else _vectors())
    except (DeploymentError, keys.KeyFault) as error:
        return _fault(f"{options.deployment}: {error}")
    except OSError as error:
        return _fault(f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        return 130
    return 0


def _header(path: Path) -> str:
    return cheader.render(load(path))


def _vectors() -> str:
    from packet_formats import vectors  # needs construct, which `header` must not

    return vectors.render()


def _write(path: Path | None, text: str) -> None:
    """Write the file only when its content changes, so that a build does not start again."""
    if path is None:
        sys.stdout.write(text)
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _fault(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
