"""Two data messages in one frame, where motes keep a schedule: a gateway takes them apart, so a host never sees one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from construct import Bytes, ConstructError, Struct, Terminated

from packet_formats.layout import DataLayout
from packet_formats.records import BUNDLE_TYPE
from packet_formats.tinyos import ActiveMessage


@cache
def bundle_struct(layout: DataLayout) -> Any:
    """The construct definition: both have the length of the layout's data messages."""
    return Struct("first" / Bytes(layout.length), "second" / Bytes(layout.length), Terminated)


def join(first: bytes, second: bytes, layout: DataLayout) -> bytes:
    """The payload of a bundle of two data payloads."""
    return bytes(bundle_struct(layout).build({"first": first, "second": second}))


def parts_of(message: ActiveMessage, layout: DataLayout) -> tuple[ActiveMessage, ...]:
    """The two messages of a bundle of this layout, as if each had come by itself; other messages unchanged."""
    if message.type != BUNDLE_TYPE or not layout.bundle_bytes:
        return (message,)
    try:
        parsed = bundle_struct(layout).parse(message.data)
    except ConstructError:
        return (message,)
    return tuple(
        replace(message, type=layout.am_type, data=bytes(payload))
        for payload in (parsed.first, parsed.second)
    )
