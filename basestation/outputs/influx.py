"""A run as InfluxDB's line protocol: posted to a server in batches, or appended to a file.

Measurements: `message` for each delivery, with its values as fields; `mote` for what is known of each mote, and
`network`, every 10 s; `alarm`. The tags are `network` and `mote`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from basestation.live.counters import Snapshot
from basestation.live.happenings import Alarm, Delivered, Happening
from basestation.outputs import OutputError, OutputUnavailable
from basestation.outputs.outbox import Outbox, Say
from basestation.outputs.plain_forms import arrival_wall_ns, plain_mote, plain_network, plain_values
from basestation.outputs.posting import Address, PostError, post, read_address
from packet_formats.ages import is_or_more
from packet_formats.deployment import Deployment
from packet_formats.layout import DataLayout, layout_of

QUEUED = 20_000  # lines
BATCH = 1000
LINGER_S = 1.0  # that the first of a batch waits for others
PAUSES_S = (1.0, 4.0, 15.0)  # before a server that is away or busy is tried again
TOKEN = "CAUSEWAY_INFLUX_TOKEN"
DATABASE = "causeway"
# fields of `message` that are not values
OWN = ("sequence", "place", "held_ms", "late", "in_sync", "age_ms", "age_or_more")


class Place(Protocol):
    name: str

    def write(self, text: str) -> None:
        """Write whole lines; `OutputError` if they can't be written."""


class InfluxOutput:
    """A sink. `where` is a server's URL, or a file."""

    def __init__(self, where: str, deployment: Deployment, say: Say) -> None:
        self._network, self._layout = deployment.network.name, layout_of(deployment)
        self._place: Place = Server(where) if where.startswith(("http://", "https://")) else LineFile(where)
        self._outbox: Outbox[Happening | Snapshot] = Outbox(
            self._place.name, self._write, say, QUEUED, most=BATCH, linger_s=LINGER_S
        )

    def take(self, happening: Happening) -> None:
        if isinstance(happening, Delivered | Alarm):
            self._outbox.put(happening)

    def take_snapshot(self, snapshot: Snapshot) -> None:
        self._outbox.put(snapshot)

    def close(self) -> None:
        self._outbox.close()

    def _write(self, items: list[Happening | Snapshot]) -> None:
        lines = [line for item in items for line in lines_of(item, self._network, self._layout)]
        text = "".join(f"{line}\n" for line in lines)
        for pause in (*PAUSES_S, None):
            try:
                return self._place.write(text)
            except Busy:
                if pause is None or self._outbox.ending.wait(pause):
                    raise


class Busy(OutputError):
    """The same may work later."""


class LineFile:
    def __init__(self, path: str) -> None:
        self.name, self._path = path, Path(path)
        try:
            self._path.open("a").close()
        except OSError as error:
            raise OutputUnavailable(f"--influx {path}: {error.strerror}") from None

    def write(self, text: str) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise OutputError(str(error.strerror)) from None


class Server:
    """A server of version 1 or 2. A URL without a path is /write of version 1, for the database causeway."""

    def __init__(self, url: str) -> None:
        try:
            address = read_address(url)
        except ValueError as error:
            raise OutputError(
                f"--influx: {error}; should be a file, or look like http://localhost:8086/write?db=causeway"
            ) from None
        parts = urlsplit(address.url)
        if parts.path.strip("/") == "":
            parts = parts._replace(path="/write", query=parts.query or f"db={DATABASE}")
        headers = address.headers
        if token := os.environ.get(TOKEN, "").strip():
            headers = headers | {"Authorization": f"Token {token}"}
        self._address = Address(urlunsplit(parts), address.host, headers)
        self.name = f"InfluxDB at {address.host}"

    def write(self, text: str) -> None:
        try:
            post(self._address, text.encode(), "text/plain; charset=utf-8")
        except PostError as error:
            busy = error.status is None or error.status >= 500 or error.status == 429
            said = f": {error.said}" if error.said else ""
            raise (Busy if busy else OutputError)(f"{error}{said}") from None


# ---- The lines ----


def lines_of(item: Happening | Snapshot, network: str, layout: DataLayout) -> Iterator[str]:
    if isinstance(item, Delivered):
        yield line(
            "message", {"network": network, "mote": item.name.source}, _message(item, layout), _moment(item)
        )
    elif isinstance(item, Alarm):
        fields = {"raised": item.raised, "text": item.text}
        tags = {"network": network, "what": item.what, "subject": item.subject}
        yield line("alarm", tags, fields, item.wall_ns)
    elif isinstance(item, Snapshot):
        fields = plain_network(item)
        yield line("network", {"network": network}, fields | {"alarms": len(item.alarms)}, item.wall_ns)
        for mote in item.motes:
            fields = plain_mote(mote, item.wall_ns) | {"alarms": len(mote.alarms), "silence_s": mote.silent_s}
            tags = {"network": network, "mote": fields.pop("mote")}
            yield line("mote", tags, fields, item.wall_ns)


def _message(item: Delivered, layout: DataLayout) -> dict[str, Any]:
    values = {
        name if name not in OWN else f"value_{name}": number
        for name, number in plain_values(item, layout).items()
    }
    numbers = {name: None if number is None else float(number) for name, number in values.items()}
    return numbers | {
        "sequence": item.name.sequence,
        "place": item.place,
        "held_ms": item.held_ms,
        "late": item.late,
        "in_sync": item.in_sync,
        "age_ms": layout.age_ms(item.data.age),
        "age_or_more": is_or_more(item.data.age) if layout.has_age else None,
    }


def _moment(item: Delivered) -> int:
    """When it came. Messages that came at once differ in the last digits: of two at one time a server keeps one."""
    return arrival_wall_ns(item) // 1000 * 1000 + item.number % 1000


def line(measurement: str, tags: Mapping[str, object], fields: Mapping[str, Any], wall_ns: int) -> str:
    """One line. What is not known has no field; a value is always a fraction, so that its type never changes."""
    head = ",".join(
        [_name(measurement), *(f"{_name(key)}={_name(str(value))}" for key, value in tags.items())]
    )
    said = ",".join(f"{_name(key)}={_field(value)}" for key, value in fields.items() if value is not None)
    return f"{head} {said} {wall_ns}"


def _name(text: str) -> str:
    """A measurement, key or tag: a backslash escapes, so none of the text's own may stand there."""
    text = text.replace("\\", "/").replace("\n", " ")
    return "".join(f"\\{sign}" if sign in ",= " else sign for sign in text) or "-"


def _field(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}i"
    if isinstance(value, float):
        return repr(value)
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{text}"'
