"""`basestation decode`: frames, binary or hex, to JSON lines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from basestation.cli import common
from packet_formats import captures
from packet_formats.layout import DataLayout, layout_of
from packet_formats.plain import packet_to_plain
from packet_formats.tinyos import ActiveMessage

CLOCK_BYTES = 4


@click.command(
    epilog=common.example(
        """
        basestation decode --json capture.bin
        echo 7e42ffff047d5d04040001003d0e7e | basestation decode
        basestation decode -d examples/micaz.toml --json log.hex.gz | jq .message
        basestation decode --clock-at 6 --json listen.txt
        """
    )
)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), default="-")
@click.option(
    "--format",
    "form",
    type=click.Choice(["auto", *captures.FORMATS]),
    default="auto",
    show_default=True,
    help="Raw serial bytes, hex text of serial frames, or the hex lines of TinyOS's Listen.",
)
@common.deployment_option(required=False)
@click.option(
    "--clock-at",
    type=click.IntRange(0, 25),
    metavar="OFFSET",
    help="Payload byte (a Listen line's, less 5) of a 32-bit little-endian clock: adds `clock`, unwrapped.",
)
@common.json_option
def command(file: Path, form: str, deployment: Path | None, clock_at: int | None, as_json: bool) -> None:
    """Turn the frames in FILE, or on standard input, into JSON lines.

    FILE holds raw serial bytes, hex text of serial frames, or the lines of TinyOS's Listen, gzipped or not;
    which of them is found out. What cannot be decoded is reported on standard error and passed over; the exit
    code is 1 only if the file cannot be read or nothing in it could be decoded.
    """
    layout = layout_of(common.load_deployment(deployment)) if deployment else None
    raw, fault = captures.unzipped(_read(file))
    if fault:
        common.note(f"{file}: {fault}")
    form = captures.detect(raw) if form == "auto" else form
    tally: Counter[str] = Counter()
    unwrap = captures.Unwrapper()
    for item in captures.read(raw, form):
        if isinstance(item, captures.Fault):
            tally["faults"] += 1
            common.note(f"{file}: {item}")
            continue
        tally["packets"] += 1
        _show(_described(item, layout, clock_at, unwrap), as_json)
    if not tally["packets"]:
        common.fail(f"{file}: nothing could be decoded as {form}")
    wraps = f", clock wrapped {unwrap.wraps} times" if clock_at is not None else ""
    common.note(f"{file}: {tally['packets']} packets ({form}), {tally['faults']} faults reported{wraps}")


def _read(file: Path) -> bytes:
    try:
        with click.open_file(str(file), "rb") as stream:
            return bytes(stream.read())
    except OSError as error:
        common.fail(f"{file}: {error.strerror or error}")


def _described(
    item: captures.Found, layout: DataLayout | None, clock_at: int | None, unwrap: captures.Unwrapper
) -> dict[str, Any]:
    plain = packet_to_plain(item.packet, layout)
    if item.line:
        plain["line"] = item.line
    if clock_at is not None and isinstance(item.packet, ActiveMessage):
        field = item.packet.data[clock_at : clock_at + CLOCK_BYTES]
        plain["clock"] = unwrap(int.from_bytes(field, "little")) if len(field) == CLOCK_BYTES else None
    return plain


def _show(plain: dict[str, Any], as_json: bool) -> None:
    if as_json:
        common.emit_json(plain)
    else:
        click.echo(_readable(plain))


def _readable(plain: dict[str, Any]) -> str:
    if plain["kind"] == "ack":
        return f"ack token {plain['token']:#04x}"
    sender = "" if plain["source"] is None else f" from {plain['source']}"
    head = f"type {plain['type']:#04x} group {plain['group']:#04x} to {plain['dest']:#06x}{sender}"
    if "message" in plain:
        said = {key: value for key, value in plain["message"].items() if key != "name"}
        body = (
            plain["message"]["name"] + " " + " ".join(f"{key}={_short(value)}" for key, value in said.items())
        )
    elif "unknown" in plain:
        body = f"{plain['payload']} ({plain['unknown']})"
    else:
        body = plain["payload"]
    clock = f" clock {plain['clock']}" if plain.get("clock") is not None else ""
    return f"{head} length {plain['length']}{clock}: {body}"


def _short(value: object) -> str:
    if isinstance(value, dict):
        return "/".join(str(item) for item in value.values())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if value != "" else "-"
