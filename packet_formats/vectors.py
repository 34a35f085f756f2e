"""Golden vectors: for many layouts, field values, payload bytes and whole serial frames, as one JSON file.

The firmware's tests read it, and so do ours. It is the same every time: if it changes, the wire format changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from packet_formats.deployment import Deployment, from_dict
from packet_formats.framing import encode_frame
from packet_formats.json_form import message_to_plain
from packet_formats.keys import Key
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, Message, decode_message, encode_message
from packet_formats.records import RECORDS, Arrived, Beacon, Downlink, Health, Record, members
from packet_formats.seal import BLOCK, Seal, command_time
from packet_formats.tinyos import ActiveMessage, encode_packet

# (epsilon, delta, motes, stamp settings); each is made for both TinyOS versions.
CASES: tuple[tuple[int, int, int, dict[str, Any]], ...] = (
    (10, 10, 10, {"scheme": "shlc"}),
    (10, 10, 10, {"scheme": "shlc", "carry": "pair"}),
    (10, 10, 50, {"scheme": "shlc", "counter_bits": 7, "receipts": 2}),
    (3, 32, 20, {"scheme": "shlc", "receipts": 3}),
    (40, 200, 300, {"scheme": "shlc"}),
    (10, 10, 10, {"scheme": "hlc"}),
    (10, 10, 10, {"scheme": "hlc", "carry": "sum"}),
    (2, 16, 8, {"scheme": "hlc", "receipts": 1}),
    (100, 900, 1000, {"scheme": "hlc", "events_per_tick": 3}),
    (10, 10, 10, {"scheme": "dpc1"}),
    (10, 10, 10, {"scheme": "dpc1", "packing": "bytes"}),
    (10, 30, 250, {"scheme": "dpc2", "receipts": 2}),
    (10, 20, 10, {"scheme": "dpc2", "packing": "bytes"}),
    (10, 10, 10, {"scheme": "kn"}),
    (10, 10, 10, {"scheme": "kn", "packing": "bytes"}),
    (10, 10, 10, {"scheme": "kn", "entries": 2, "count": "sends"}),
    (10, 10, 10, {"scheme": "kn", "entries": 6, "packing": "bytes", "receipts": 1}),
    (5, 10, 50, {"scheme": "kn", "entries": 3, "events_per_tick": 50}),
    (1, 1, 1, {"scheme": "kn"}),
    (4, 60, 240, {"scheme": "kn", "entries": 4, "receipts": 2}),
    (10, 10, 10, {"scheme": "sequence"}),
    (3, 32, 20, {"scheme": "sequence", "receipts": 3}),
    (10, 10, 10, {"scheme": "scalar"}),
    (10, 10, 10, {"scheme": "last-sender"}),
    (40, 200, 300, {"scheme": "last-sender", "receipts": 2}),
    (10, 10, 10, {"scheme": "history"}),
    (10, 10, 250, {"scheme": "history", "entries": 3}),
    (10, 10, 10, {"scheme": "vector"}),
    (2, 16, 20, {"scheme": "vector"}),
    (1, 1, 1, {"scheme": "vector"}),
    (10, 10, 4, {"scheme": "matrix"}),
    (10, 10, 4, {"scheme": "delta-causal"}),
    (10, 10, 10, {"scheme": "delta-vector"}),
    (100, 900, 5, {"scheme": "delta-vector", "receipts": 1}),
    (10, 10, 10, {"scheme": "two-hop"}),
    (3, 32, 10, {"scheme": "barrier"}),
    (3, 32, 50, {"scheme": "barrier"}),
    (10, 10, 10, {"scheme": "barrier", "receipts": 2}),
    (3, 32, 200, {"scheme": "barrier"}),
    (10, 10, 10, {"scheme": "shlc"}),
    (3, 32, 10, {"scheme": "barrier"}),
    (2, 241, 10, {"scheme": "shlc"}),
    (3, 1200, 10, {"scheme": "barrier", "receipts": 1}),
    (2, 1600, 10, {"scheme": "sequence"}),
)
# The [radio] of some cases, in networks of three hops.
SCHEDULES: dict[int, dict[str, Any]] = {
    41: {"period_ms": 16000, "window_ms": 7504},
    42: {"period_ms": 8000, "window_ms": 1152},
    43: {"period_ms": 8000, "window_ms": 3000},
}
# The [[data]] of some cases; each type is there, and scales that are exact and that are not.
VALUES: dict[int, list[dict[str, Any]]] = {
    39: [
        {"name": "light", "sensor": "light", "scale": 0.5, "unit": "lx"},
        {"name": "count", "type": "u8"},
        {"name": "tilt", "type": "i8", "scale": -2, "offset": 90, "unit": "deg"},
        {"name": "level", "type": "i16", "scale": 0.001, "unit": "m"},
        {"name": "pulses", "type": "u32", "scale": 0.1},
        {"name": "balance", "type": "i32"},
    ],
    40: [
        {"name": "temperature", "sensor": "temperature", "scale": 0.0625, "offset": -39.6, "unit": "°C"},
        {"name": "battery", "sensor": "battery"},
    ],
}

# With a MIC: a clock that is a sum, one that is not, none, two-byte sources, names of a variable number.
# And with a schedule.
SEALED_CASES = (0, 5, 20, 4, 35, 41)
KEY = Key(bytes(range(16)))


class Draw:
    """Draws numbers that look random and are the same in every Python."""

    def __init__(self, seed: str) -> None:
        self._seed, self._count = seed, 0

    def upto(self, most: int) -> int:
        self._count += 1
        digest = hashlib.sha256(f"{self._seed} {self._count}".encode("ascii")).digest()
        return int.from_bytes(digest[:8], "big") % (most + 1)


def render() -> str:
    """The file's text."""
    layouts = [_layout_vectors(deployment) for deployment in deployments()]
    records = [vector for tinyos in (1, 2) for vector in _record_vectors(tinyos)]
    head = {"about": "Golden vectors of the wire. Generated by packet_formats; do not edit.", "version": 1}
    sealed = [_sealed_vectors(_deployment(n, tinyos, mic=4)) for n in SEALED_CASES for tinyos in (1, 2)]
    return _compact(
        {**head, "layouts": layouts, "records": records, "key": KEY.secret.hex(), "sealed": sealed}
    )


def deployments() -> list[Deployment]:
    return [_deployment(number, tinyos) for number in range(len(CASES)) for tinyos in (1, 2)]


def _deployment(number: int, tinyos: int, mic: int = 0) -> Deployment:
    epsilon, delta, motes, stamp = CASES[number]
    values, radio = VALUES.get(number, []), SCHEDULES.get(number)
    return from_dict(
        {
            "network": {
                "name": f"case{number}-tinyos{tinyos}",
                "board": ("micaz", "mica2")[number % 2],
                "motes": motes,
                "tinyos": tinyos,
                **({"sensor_board": "mts310"} if values else {"data_bytes": number % 5}),
                **({"hops": 3} if radio else {}),
            },
            "clock": {"tick_log2": 5 + number % 6, "epsilon": epsilon, "delta": delta},
            "stamp": stamp,
            "data": values,
            **({"radio": radio} if radio else {}),
            **({"security": {"mic": mic, "key": "known.key"}} if mic else {}),
        }
    )


def _layout_vectors(deployment: Deployment) -> dict[str, Any]:
    layout = layout_of(deployment)
    return {
        "deployment": deployment.to_dict(),
        "canonical": layout.canonical,
        "hash": layout.hash,
        "am_type": layout.am_type,
        "length": layout.length,
        "fields": [[field.name, field.offset, field.bits] for field in layout.stamp.fields],
        "messages": [_vector(message, layout) for message in _data_messages(layout)],
    }


def _vector(message: Message, layout: DataLayout) -> dict[str, Any]:
    packet = encode_message(message, layout)
    return {
        "message": message_to_plain(message, layout),
        "payload": packet.data.hex(),
        "frame": encode_frame(encode_packet(packet)).hex(),
    }


def _data_messages(layout: DataLayout) -> Iterator[Data]:
    """Messages of all zeros, of all ones, and some in between with bytes that the line must escape."""
    stamp = layout.stamp
    tops = [field.top for field in stamp.fields]
    least = len(stamp.fields_of(stamp.least))
    most = (1 << 8 * layout.source_bytes) - 1
    full_receipts = tuple((most - 1, 255) for _ in range(layout.receipts))
    yield Data(0, 0, (0,) * least, in_sync=False, data=bytes(layout.data_bytes))
    full = b"\xff" * layout.data_bytes
    oldest = 255 * layout.has_age
    yield Data(most, 255, tuple(tops), True, True, True, 7, 3, full_receipts, full, age=oldest)
    draw = Draw(layout.canonical)
    for _ in range(2):
        used = draw.upto(layout.receipts)
        if stamp.is_variable:
            items = stamp.least + draw.upto(stamp.most - stamp.least)
            tops = [field.top for field in stamp.fields_of(items)]
        yield Data(
            source=draw.upto(most),
            sequence=(0x7E, 0x7D, 0x5E)[draw.upto(2)],
            stamp=tuple(draw.upto(top) for top in tops),
            saturated=bool(draw.upto(1)),
            complete=bool(draw.upto(1)),
            boot=draw.upto(7),
            hops=draw.upto(3),
            receipts=tuple((draw.upto(most), draw.upto(0x50)) for _ in range(used)),
            data=bytes(draw.upto(255) for _ in range(layout.data_bytes)),
            age=draw.upto(255) if layout.has_age else 0,
        )


def _sealed_vectors(deployment: Deployment) -> dict[str, Any]:
    """One layout with a MIC: what each MIC covers, the MIC, and the message with it."""
    layout = layout_of(deployment)
    vectors = _layout_vectors(deployment)
    return {**vectors, "messages": [*_sealed_data(layout), *_sealed_records(layout)]}


def _sealed_data(layout: DataLayout) -> Iterator[dict[str, Any]]:
    """Data in and out of sync, at any time and at the network time's beginning, before which it has wrapped."""
    seal, draw = Seal(KEY, layout), Draw(f"sealed {layout.canonical}")
    for data in _data_messages(layout):
        for cycles in (draw.upto((1 << 37) - 1), 5, (1 << 32) + 5):
            epoch, time = draw.upto(255), seal.data_time(data, cycles)
            frame = seal.sealed_data(data, epoch, cycles)
            covered = seal.covered_data(frame.data, data.source, data.in_sync, epoch, time)
            yield _sealed(data, layout, frame, covered, {"cycles": cycles, "epoch": epoch})


def _sealed_records(layout: DataLayout) -> Iterator[dict[str, Any]]:
    seal, draw = Seal(KEY, layout), Draw(f"sealed records {layout.canonical}")
    for health in _records(Health, draw):
        assert isinstance(health, Health)
        health = replace(health, layout=layout.hash, tail=_tail(Health, layout, draw))
        round_ = draw.upto(31)
        frame = seal.sealed_health(health, round_)
        yield _sealed(
            health, layout, frame, seal.covered_health(frame.data, health, round_), {"round": round_}
        )
    for downlink in _records(Downlink, draw):
        assert isinstance(downlink, Downlink)
        cycles, epoch = draw.upto((1 << 37) - 1), draw.upto(255)
        downlink = replace(downlink, sequence=command_time(cycles) & 0xFFFF)
        frame = seal.sealed_downlink(downlink, epoch, cycles)
        covered = seal.covered_downlink(frame.data, downlink.target, epoch, command_time(cycles))
        yield _sealed(downlink, layout, frame, covered, {"cycles": cycles, "epoch": epoch})
    for arrived in _records(Arrived, draw):
        assert isinstance(arrived, Arrived)
        data_mic = bytes(draw.upto(255) for _ in range(layout.mic))
        covered = seal.covered_arrived(arrived, data_mic)
        frame = encode_message(replace(arrived, mic=seal.arrived(arrived, data_mic)), layout)
        yield _sealed(arrived, layout, frame, covered, {"data_mic": data_mic.hex()})
    for beacon in _records(Beacon, draw):
        assert isinstance(beacon, Beacon)
        beacon = replace(beacon, tail=_tail(Beacon, layout, draw))
        proof, payload = seal.proof(beacon), encode_message(beacon, layout).data
        frame = encode_message(proof, layout)
        yield _sealed(proof, layout, frame, seal.covered_beacon(payload, beacon), {"beacon": payload.hex()})


def _tail(record: type[Record], layout: DataLayout, draw: Draw) -> bytes:
    return bytes(draw.upto(255) for _ in range(layout.tail(record)))


def _sealed(
    message: Message, layout: DataLayout, frame: ActiveMessage, covered: bytes, more: dict[str, Any]
) -> dict[str, Any]:
    found: Any = decode_message(frame, layout)
    return {
        "message": message_to_plain(found, layout),
        **more,
        "header": covered[:BLOCK].hex(),
        "covered": covered[BLOCK:].hex(),
        "mic": found.mic.hex(),
        "payload": frame.data.hex(),
    }


def _record_vectors(tinyos: int) -> Iterator[dict[str, Any]]:
    """The fixed messages, which are the same in every deployment of one TinyOS version but for the group."""
    layout = layout_of(_deployment(0, tinyos))
    draw = Draw(f"tinyos={tinyos}")
    for record in RECORDS:
        for message in _records(record, draw):
            yield {"tinyos": tinyos, "group": layout.group, **_vector(message, layout)}


def _records(record: type[Record], draw: Draw) -> Iterator[Record]:
    ranges: dict[str, Any] = {member.name: member.range for member in members(record)}
    yield record(**{name: span.start for name, span in ranges.items()})
    yield record(**{name: span.stop - 1 for name, span in ranges.items()})
    yield record(**{name: span[draw.upto(len(span) - 1)] for name, span in ranges.items()})


def _compact(value: dict[str, Any]) -> str:
    """JSON with one line a vector: a changed vector shows as one changed line."""
    lines = []
    for name, items in value.items():
        if not isinstance(items, list):
            lines.append(f"{json.dumps(name)}: {json.dumps(items)}")
            continue
        body = ",\n".join(_lines(item) for item in items)
        lines.append(f"{json.dumps(name)}: [\n{body}\n]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _lines(item: dict[str, Any]) -> str:
    if "messages" not in item:
        return json.dumps(item)
    head = json.dumps({key: value for key, value in item.items() if key != "messages"})
    messages = ",\n  ".join(json.dumps(message) for message in item["messages"])
    return f'{head[:-1]}, "messages": [\n  {messages}\n]}}'
