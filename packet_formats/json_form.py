"""Packets and messages as plain JSON values, and back: what `decode` prints and `encode` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from types import NoneType
from typing import Any

from packet_formats.ages import is_again, is_or_more
from packet_formats.layout import DataLayout, StampLayout
from packet_formats.messages import Data, FormatError, Message, Unknown, decode_message, encode_message
from packet_formats.phrases import did_you_mean
from packet_formats.records import Health, members, records_of
from packet_formats.tinyos import BROADCAST, TYPE_OF, Ack, ActiveMessage
from packet_formats.values import data_of, values_in

# All keys that `decode` prints for a packet: `encode` takes these and no others.
KEYS = (
    *("tinyos", "kind", "dest", "source", "type", "group", "length", "payload", "token"),
    *("message", "unknown", "fault", "line", "clock", "mic_check"),
)


DERIVED = ("age_ms", "age_or_more", "again", "duty")  # for people: what else a message says decides


def packet_to_plain(
    packet: ActiveMessage | Ack, layout: DataLayout | None = None, motes: int | None = None
) -> dict[str, Any]:
    """A packet as one object. A layout adds its content as `message`, or as `unknown` why it was not read.

    The number of motes adds a `fault` to a data message from outside the network.
    """
    if isinstance(packet, Ack):
        plain: dict[str, Any] = {"tinyos": packet.tinyos, "kind": "ack", "token": packet.token}
        return plain | {"type": None, "group": None, "length": 0, "payload": ""}
    plain = {"tinyos": packet.tinyos, "kind": packet.kind, "dest": packet.dest, "source": packet.source}
    plain |= {"type": packet.type, "group": packet.group}
    plain |= {"length": len(packet.data), "payload": packet.data.hex()}
    if packet.token is not None:
        plain["token"] = packet.token
    if layout is not None:
        message = decode_message(packet, layout)
        if isinstance(message, Unknown):
            plain["unknown"] = str(message)
        else:
            plain["message"] = message_to_plain(message, layout)
            if fault := _stranger(message, motes):
                plain["fault"] = fault
    return plain


def packet_from_plain(
    plain: Mapping[str, Any], layout: DataLayout | None = None, motes: int | None = None
) -> ActiveMessage | Ack:
    """The inverse of `packet_to_plain`. Payload and message, if both are given, must agree.

    A message without its header fields needs a layout. With the number of motes, a data message from outside the
    network is refused.
    """
    for key in plain:
        if key not in KEYS:
            hint = did_you_mean(key, KEYS) or f"; known: {', '.join(KEYS)}"
            raise FormatError(f"a packet has no key {key!r}{hint}")
    tinyos = _whole(plain, "tinyos", layout.tinyos if layout else 1)
    kind = plain.get("kind", "data")
    if not isinstance(kind, str) or (tinyos, kind) not in TYPE_OF:
        raise FormatError(f"no packet of kind {kind!r} in TinyOS {tinyos}")
    if kind == "ack":
        return Ack(tinyos, _whole(plain, "token"))
    if plain.get("message") is None or layout is None:
        packet = _as_given(plain, tinyos)
    else:
        packet = _as_said(plain, tinyos, layout)
    if layout is not None and (fault := _stranger(decode_message(packet, layout), motes)):
        raise FormatError(fault)
    return replace(packet, kind=kind, token=_optional(plain, "token"))


def _as_given(plain: Mapping[str, Any], tinyos: int) -> ActiveMessage:
    """The message made from header fields and payload."""
    if "message" in plain and "payload" not in plain:
        raise FormatError("a message without a payload needs the deployment")
    payload = _hex(plain, "payload")
    if _whole(plain, "length", len(payload)) != len(payload):
        raise FormatError(f"length = {plain['length']}, but the payload has {len(payload)} bytes")
    dest, source = _whole(plain, "dest", BROADCAST), _optional(plain, "source")
    return ActiveMessage(tinyos, dest, _whole(plain, "group"), _whole(plain, "type"), payload, source)


def _as_said(plain: Mapping[str, Any], tinyos: int, layout: DataLayout) -> ActiveMessage:
    """The message made from its own fields."""
    if tinyos != layout.tinyos:
        raise FormatError(f"tinyos = {tinyos}, the deployment's is {layout.tinyos}")
    message = message_from_plain(plain["message"], layout)
    if "payload" not in plain:
        return encode_message(message, layout, _whole(plain, "dest", BROADCAST), _optional(plain, "source"))
    packet = _as_given(plain, tinyos)
    if decode_message(packet, layout) != message:
        raise FormatError("payload and message differ; remove one of them")
    return packet


def _stranger(message: Message | Unknown, motes: int | None) -> str | None:
    """The fault of a data message whose source is outside the network."""
    if isinstance(message, Data) and motes is not None and message.source >= motes:
        return f"source {message.source} is no mote of this deployment, which has 0..{motes - 1}"
    return None


def message_to_plain(message: Message, layout: DataLayout) -> dict[str, Any]:
    plain = {"name": type(message).__name__.lower(), **asdict(message)}
    for name in ("mic", "tail"):
        if more := plain.pop(name, b""):
            plain[name] = more.hex()
    if isinstance(message, Health) and message.tail:
        plain["duty"] = message.duty
    if isinstance(message, Data):
        names = (field.name for field in layout.stamp.fields)
        plain["stamp"] = dict(zip(names, message.stamp, strict=False))
        plain["receipts"] = [list(receipt) for receipt in message.receipts]
        plain["data"] = message.data.hex()
        plain |= _age_of(plain.pop("age"), layout)
        if layout.values:
            plain["values"] = values_in(layout, message.data)
    return plain


def _age_of(code: int, layout: DataLayout) -> dict[str, Any]:
    """The age of a message's event: as its byte, in ms, whether it may be more, and whether the message was sent
    before."""
    if not layout.has_age:
        return {}
    derived = {"age_ms": layout.age_ms(code), "age_or_more": is_or_more(code), "again": is_again(code)}
    return {"age": code} | derived


def message_from_plain(plain: Any, layout: DataLayout) -> Message:
    if not isinstance(plain, Mapping):
        raise FormatError("message must be an object")
    message = _message_from_plain(plain, layout)
    computed = message_to_plain(message, layout)
    for key in DERIVED:
        if key in plain and plain[key] != computed.get(key):
            raise FormatError(f"{key} differs from the computed value; leave it out")
    return message


def _message_from_plain(plain: Mapping[str, Any], layout: DataLayout) -> Message:
    name, values = plain.get("name"), {key: value for key, value in plain.items() if key != "name"}
    if name == "data":
        _refuse_unknown(values, Data, "values", *DERIVED)
        return _data_from_plain(values, layout)
    named = {record.__name__.lower(): record for record in records_of(layout.mic).values()}
    record = named.get(str(name))
    if record is None:
        raise FormatError(f"message name {name!r} must be one of data, {', '.join(named)}")
    _refuse_unknown(values, record, *DERIVED)
    integers: dict[str, Any] = {member.name: _whole(values, member.name) for member in members(record)}
    tail: dict[str, Any] = {"tail": _hex(values, "tail")} if "tail" in values else {}
    return record(**integers, **_mic(values, layout), **tail)


def _mic(values: Mapping[str, Any], layout: DataLayout) -> dict[str, Any]:
    """The MIC, if one is given."""
    if "mic" not in values:
        return {}
    if not layout.mic:
        raise FormatError("this deployment has no key, so its messages have no MIC")
    return {"mic": _hex(values, "mic")}


def _refuse_unknown(values: Mapping[str, Any], kind: type[Message], *more: str) -> None:
    known = [*(field.name for field in fields(kind)), *more]
    for key in values:
        if key not in known:
            raise FormatError(f"a {kind.__name__.lower()} message has no {key}; it has {', '.join(known)}")


def _data_from_plain(values: Mapping[str, Any], layout: DataLayout) -> Data:
    stamp = values.get("stamp", None if layout.stamp.fields else {})
    names = _stamp_names(stamp, layout.stamp)
    receipts = values.get("receipts", [])
    if not isinstance(receipts, list) or any(not isinstance(r, list) or len(r) != 2 for r in receipts):
        raise FormatError("receipts must be a list of [source, sequence]")
    return Data(
        source=_whole(values, "source"),
        sequence=_whole(values, "sequence"),
        stamp=tuple(_whole(stamp, name) for name in names),
        in_sync=_truth(values, "in_sync", True),
        saturated=_truth(values, "saturated", False),
        complete=_truth(values, "complete", False),
        boot=_whole(values, "boot", 0),
        hops=_whole(values, "hops", 0),
        receipts=tuple((_integer("receipt", slot[0]), _integer("receipt", slot[1])) for slot in receipts),
        data=_application_data(values, layout),
        age=_whole(values, "age", 0),
        **_mic(values, layout),
    )


def _application_data(values: Mapping[str, Any], layout: DataLayout) -> bytes:
    """The data from its bytes or its values. If both are given they must agree."""
    data = _hex(values, "data") if "data" in values else None
    if "values" not in values:
        return data or b""
    named = values["values"]
    if not isinstance(named, Mapping) or any(
        type(each) not in (int, float, NoneType) for each in named.values()
    ):
        raise FormatError("values must be an object of numbers")
    try:
        packed = data_of(layout, named)
    except (ValueError, OverflowError) as error:
        raise FormatError(str(error)) from error
    if data not in (None, packed):
        raise FormatError("data and values differ; remove one of them")
    return packed


def _stamp_names(stamp: Any, layout: StampLayout) -> list[str]:
    """The names of a stamp's fields: all, or those of fewer items where its length is variable."""
    counts = [[field.name for field in layout.fields_of(n)] for n in range(layout.least, layout.most + 1)]
    for names in counts:
        if isinstance(stamp, Mapping) and set(stamp) == set(names):
            return names
    fewer = f", or the fields of {layout.least} items or more" if layout.is_variable else ""
    raise FormatError(f"stamp must be an object with {', '.join(counts[-1])}{fewer}")


def _whole(values: Mapping[str, Any], key: str, default: int | None = None) -> int:
    if key not in values and default is None:
        raise FormatError(f"{key} is missing")
    return _integer(key, values.get(key, default))


def _optional(values: Mapping[str, Any], key: str) -> int | None:
    return None if values.get(key) is None else _whole(values, key)


def _integer(key: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise FormatError(f"{key} = {value!r} must be a whole number")
    return value


def _truth(values: Mapping[str, Any], key: str, default: bool) -> bool:
    value = values.get(key, default)
    if not isinstance(value, bool):
        raise FormatError(f"{key} = {value!r} must be true or false")
    return value


def _hex(values: Mapping[str, Any], key: str) -> bytes:
    value = values.get(key)
    if value is None:
        raise FormatError(f"{key} is missing")
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError) as error:
        raise FormatError(f"{key} = {value!r} must be hex digits, two to a byte") from error
