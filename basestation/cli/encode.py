"""`basestation encode`: turn JSON lines into frames, the inverse of `decode`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from basestation.cli import common
from packet_formats.framing import encode_frame
from packet_formats.json_form import packet_from_plain
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import FormatError, decode_message
from packet_formats.phrases import many
from packet_formats.tinyos import Ack, ActiveMessage, PacketError, encode_packet


@click.command(
    epilog=common.example(
        """
        basestation decode --json capture.bin | basestation encode --format binary > copy.bin
        echo '{"type": 4, "group": 125, "payload": "04000100"}' | basestation encode
        basestation encode -d examples/micaz.toml commands.jsonl
        """
    )
)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), default="-")
@common.deployment_option(required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["hex", "binary"]),
    default="hex",
    show_default=True,
    help="Write one frame a line in hex, or raw serial bytes.",
)
def command(file: Path, deployment: Path | None, form: str) -> None:
    """Turn the JSON lines in FILE, or on standard input, into serial frames.

    A line is an object as `decode --json` prints it. The frame is made from `payload` (hex), `type` and `group` or,
    with --deployment, only from `message`; if both are given they must agree. A line that cannot be encoded, or has a
    key that `decode` never prints, ends the command with the line's number and exit code 1.
    """
    described = common.load_deployment(deployment) if deployment else None
    layout, motes = (layout_of(described), described.network.motes) if described else (None, None)
    try:
        lines = click.open_file(str(file), encoding="utf-8", errors="replace")
    except OSError as error:
        common.fail(f"{file}: {error.strerror or error}")
    with lines:
        unsealed = 0
        for packet in _packets(lines, layout, motes, str(file)):
            unsealed += _is_unsealed(packet, layout)
            frame = encode_frame(encode_packet(packet))
            click.echo(frame if form == "binary" else frame.hex(" "), nl=form == "hex")
    if unsealed:
        what = f"{many(unsealed, 'message')} without a `mic` got one of zeros"
        common.note(f"{what}, which motes and stations refuse: encode makes no MICs")


def _is_unsealed(packet: ActiveMessage | Ack, layout: DataLayout | None) -> bool:
    """Whether it is a message without a MIC, in a network with a key."""
    if layout is None or not layout.mic or not isinstance(packet, ActiveMessage):
        return False
    return getattr(decode_message(packet, layout), "mic", b"") == bytes(layout.mic)


def _packets(
    lines: Iterable[str], layout: DataLayout | None, motes: int | None, name: str
) -> Iterator[ActiveMessage | Ack]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            plain = json.loads(line)
            if not isinstance(plain, dict):
                raise FormatError("not an object")
            packet = packet_from_plain(plain, layout, motes)
            encode_packet(packet)  # refuses a packet that is too long
            yield packet
        except json.JSONDecodeError as error:
            common.fail(f"{name}: line {number}: not a JSON object: {error.msg} at column {error.colno}")
        except (FormatError, PacketError, RecursionError, ValueError) as error:
            common.fail(f"{name}: line {number}: {error}")
