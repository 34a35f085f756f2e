"""`basestation decode`: print frames, binary or hex, as text or as JSON lines."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from basestation.cli import common
from basestation.journal.record_format import FILE_MAGIC
from packet_formats import captures
from packet_formats.framing import crc16
from packet_formats.json_form import packet_to_plain
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, decode_message
from packet_formats.phrases import many
from packet_formats.records import Arrived, Beacon, Downlink, Health, Heard, Proof, Taken
from packet_formats.seal import ROUNDS, TIME_BITS, Seal
from packet_formats.tinyos import ActiveMessage
from packet_formats.values import data_text

CLOCK_BYTES = 4
FROM_LOG = "`basestation log convert LOG --to ndjson | jq -r 'select(.packet).raw' | basestation decode`"
LOG_FILE = (
    f"a part of a log: give its folder to `basestation replay` or `basestation log`, or decode by {FROM_LOG}"
)
PCAP = f"a pcap file, which Wireshark and tshark read; from the log that it was made of: {FROM_LOG}"
NDJSON = "JSON lines; in those of `log convert` the packets are `raw`: jq -r 'select(.packet).raw'"
OTHER_FILES = {
    FILE_MAGIC: LOG_FILE,
    b"\xa1\xb2\xc3\xd4": PCAP,
    b"\xd4\xc3\xb2\xa1": PCAP,
    b"\xa1\xb2\x3c\x4d": PCAP,
    b"\x4d\x3c\xb2\xa1": PCAP,
    b"\x0a\x0d\x0d\x0a": PCAP,  # pcapng
    b'{"': NDJSON,
}
FAULTS_SHOWN = 3  # of each kind; the others are counted


@click.command(
    epilog=common.example(
        """
        basestation decode --json capture.bin
        echo 7e42ffff047d5d04040001003d0e7e | basestation decode
        basestation decode -d examples/micaz.toml --json log.hex.gz | jq .message
        basestation decode --clock-at 6 --json listen.txt
        basestation log convert logs --to ndjson | jq -r 'select(.packet).raw' | basestation decode -d site.toml
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
    help="Raw serial bytes, hex text of serial frames, the hex lines of TinyOS's Listen, or packets in hex lines: "
    "the `raw` of `log convert --to ndjson`.",
)
@common.deployment_option(required=False)
@click.option(
    "--clock-at",
    type=click.IntRange(0, 25),
    metavar="OFFSET",
    help="Payload offset (in a Listen line, minus 5) of a 32-bit little-endian clock; adds `clock`, unwrapped.",
)
@common.key_option(beside=False)
@common.json_option
def command(
    file: Path,
    form: str,
    deployment: Path | None,
    clock_at: int | None,
    key: Path | None,
    as_json: bool,
) -> None:
    """Print the frames in FILE, or on standard input, as text; with --json as JSON lines.

    FILE holds raw serial bytes, hex text of serial frames, the lines of TinyOS's Listen, or packets in hex, one on each
    line; it may be gzipped. The format is detected. Bytes that cannot be decoded are skipped, and reported on standard
    error: the first faults of each kind one by one, the others as a count. With a deployment, `fault` marks a data
    message from a mote that the deployment does not have. With MICs and --key, `mic_check` says whether a message's MIC
    is right; a data message needs the heard record before it.

    The exit code is 1 if the file cannot be read, if nothing in it could be decoded, or if most of its lines have no
    known format; then --format decodes the others.
    """
    described = common.load_deployment(deployment) if deployment else None
    if key is not None and described is None:
        raise click.UsageError("--key needs --deployment: it says what a MIC covers")
    described = described and common.with_key(described, None, key, needed=False)
    check = MicCheck(Seal(described.key, layout_of(described))) if described and described.key else None
    layout, motes = (layout_of(described), described.network.motes) if described else (None, None)
    items, form = _items(file, form)
    faults, unwrap, packets, strangers = _DecodeFaults(file), captures.Unwrapper(), 0, 0
    for item in items:
        if isinstance(item, captures.CaptureFault):
            faults.add(item)
            continue
        plain = _with_clock(packet_to_plain(item.packet, layout, motes), item, clock_at, unwrap)
        if check is not None and isinstance(item.packet, ActiveMessage):
            plain["mic_check"] = check.of(item.packet)
        packets += 1
        strangers += "fault" in plain
        _show(plain, as_json, layout)
    faults.sum_up()
    if not packets:
        common.fail(f"{file}: nothing could be decoded as {form}")
    if layout is not None and layout.mic:
        common.note(f"{file}: {check.summary() if check else common.NOT_CHECKED}")
    if strangers:
        common.note(
            f"{file}: {many(strangers, 'message')} from a source that is not a mote of the deployment"
        )
    wraps = f", clock wrapped {many(unwrap.wraps, 'time')}" if clock_at is not None else ""
    common.note(f"{file}: {many(packets, 'packet')} ({form}), {many(faults.count, 'fault')} reported{wraps}")


def _items(file: Path, asked: str) -> tuple[list[captures.CapturedPacket | captures.CaptureFault], str]:
    """The content of a file, and its format."""
    raw, fault = captures.unzipped(_read(file))
    if fault:
        common.note(f"{file}: {fault}")
    if asked != "auto":
        return list(captures.read(raw, asked)), asked
    if other := _other_file(raw):
        common.fail(f"{file}: {other}")
    form = captures.detect(raw)
    items = list(captures.read(raw, form))
    if why := captures.no_capture(items, form):
        common.fail(f"{file}: {why}. Use --format {form} to decode what can be.")
    return items, form


class MicCheck:
    """Checks the MICs of a capture, as far as the messages before each one allow."""

    def __init__(self, seal: Seal) -> None:
        self._seal, self._counts = seal, Counter[str]()
        self._heard: Heard | None = None
        self._beacons: dict[tuple[int, int], tuple[bytes, Beacon]] = {}

    def of(self, frame: ActiveMessage) -> str | None:
        """`right`, `wrong` or `not checked`; None for a message without a MIC."""
        message = decode_message(frame, self._seal.layout)
        heard, self._heard = self._heard, message if isinstance(message, Heard) else None
        if isinstance(message, Beacon):
            self._beacons[message.sender, message.sequence] = frame.data, message
        if not isinstance(message, Data | Health | Downlink | Arrived | Taken | Proof):
            return None
        wanted = self._wanted(frame.data, message, heard)
        found = "not checked" if not wanted else "right" if message.mic in wanted else "wrong"
        self._counts[found] += 1
        return found

    def summary(self) -> str:
        return "MICs: " + ", ".join(
            f"{self._counts[what]} {what}" for what in ("right", "wrong", "not checked")
        )

    def _wanted(
        self, payload: bytes, message: Data | Health | Downlink | Arrived | Taken | Proof, heard: Heard | None
    ) -> list[bytes]:
        """The MICs that would be right; none if a record to check by is missing."""
        seal = self._seal
        if heard is not None and not (heard.in_sync and heard.check == crc16(payload)):
            heard = None
        if isinstance(message, Health):
            return [seal.health(payload, message, each) for each in range(ROUNDS)]
        if isinstance(message, Data):
            if not message.in_sync:
                return [seal.data(payload, message.source, False, 0, 0)]
            if heard is None:
                return []
            times = seal.data_times(message, heard.round << TIME_BITS | heard.time)
            return [seal.data(payload, message.source, True, heard.epoch, time) for time in times]
        if isinstance(message, Taken) and seal.layout.schedule and heard:
            return [seal.taken(payload, heard.epoch, heard.round << TIME_BITS | heard.time)]
        if isinstance(message, Proof) and (message.sender, message.sequence) in self._beacons:
            return [seal.beacon(*self._beacons[message.sender, message.sequence])]
        return []


class _DecodeFaults:
    """Reports the first faults of each kind, and counts the others."""

    def __init__(self, file: Path) -> None:
        self._file, self._kinds = file, Counter[str]()

    @property
    def count(self) -> int:
        return self._kinds.total()

    def add(self, fault: captures.CaptureFault) -> None:
        self._kinds[fault.kind] += 1
        if self._kinds[fault.kind] <= FAULTS_SHOWN:
            common.note(f"{self._file}: {fault}")

    def sum_up(self) -> None:
        for kind, count in self._kinds.items():
            if count > FAULTS_SHOWN:
                common.note(f"{self._file}: {many(count - FAULTS_SHOWN, 'more fault')}: {kind}")


def _read(file: Path) -> bytes:
    try:
        with click.open_file(str(file), "rb") as stream:
            return bytes(stream.read())
    except IsADirectoryError:
        common.fail(f"{file}: a folder; is it a log? `basestation replay` plays it, {FROM_LOG} decodes it")
    except OSError as error:
        common.fail(f"{file}: {error.strerror or error}")


def _other_file(raw: bytes) -> str | None:
    """If a file is not a capture: its kind, and the command that reads it."""
    return next((told for magic, told in OTHER_FILES.items() if raw.startswith(magic)), None)


def _with_clock(
    plain: dict[str, Any], item: captures.CapturedPacket, clock_at: int | None, unwrap: captures.Unwrapper
) -> dict[str, Any]:
    if item.line:
        plain["line"] = item.line
    if clock_at is not None and isinstance(item.packet, ActiveMessage):
        field = item.packet.data[clock_at : clock_at + CLOCK_BYTES]
        plain["clock"] = unwrap(int.from_bytes(field, "little")) if len(field) == CLOCK_BYTES else None
    return plain


def _show(plain: dict[str, Any], as_json: bool, layout: DataLayout | None) -> None:
    if as_json:
        common.emit_json(plain)
    else:
        common.echo(_readable(plain, layout))


def _readable(plain: dict[str, Any], layout: DataLayout | None) -> str:
    if plain["kind"] == "ack":
        return f"ack token {plain['token']:#04x}"
    sender = "" if plain["source"] is None else f" from {plain['source']}"
    head = f"type {plain['type']:#04x} group {plain['group']:#04x} to {plain['dest']:#06x}{sender}"
    if "message" in plain:
        said = {key: value for key, value in plain["message"].items() if key != "name"}
        if layout and said.pop("values", None):
            said["data"] = data_text(layout, bytes.fromhex(said["data"]))
        body = (
            plain["message"]["name"] + " " + " ".join(f"{key}={_short(value)}" for key, value in said.items())
        )
    elif "unknown" in plain:
        body = f"{plain['payload']} ({plain['unknown']})"
    else:
        body = plain["payload"]
    clock = f" clock {plain['clock']}" if plain.get("clock") is not None else ""
    clock += f" MIC {plain['mic_check']}" if plain.get("mic_check") else ""
    fault = f" ({plain['fault']})" if "fault" in plain else ""
    return f"{head} length {plain['length']}{clock}: {body}{fault}"


def _short(value: object) -> str:
    if isinstance(value, dict):
        return "/".join(str(item) for item in value.values())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if value != "" else "-"
