"""Golden vectors of one layout as a C header, for firmware/test/test_core.

python -m tests.firmware.core_vectors          writes firmware/test/test_core/core_vectors.h again
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from basestation.causality.schemes import TimedScheme
from basestation.deployed import timed_scheme_of
from packet_formats.deployment import Deployment, load
from packet_formats.framing import encode_frame
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data, encode_data, encode_message, encode_record
from packet_formats.records import RECORDS, Record, members
from packet_formats.tinyos import encode_packet
from tests.firmware.bridge import ROOT, head_of
from tests.firmware.papers import BarrierReference, Reference, Sent, reference_of

FOLDER = ROOT / "firmware" / "test" / "test_core"
START, SEND, RECEIVE = range(3)
Program = Reference | BarrierReference
EVENTS = 150
PAPERS_EVENTS = 450  # enough for counters to go past 256 from where they can start
FIRST = 127


def render(deployment: Deployment) -> str:
    layout, chance = layout_of(deployment), random.Random(1)
    if deployment.scheme.is_ordered:
        events, bounded = _events(layout, timed_scheme_of(deployment), chance)
    else:
        events, bounded = _papers_events(deployment, layout, chance)
    tables = {
        "message_t MESSAGES": [_message(message, layout) for message in _messages(layout, chance)],
        "event_t EVENTS": events,
        "record_t RECORDS": [_record(record, layout) for record in _records(chance)],
    }
    body = "\n".join(
        f"static const {name}[] PROGMEM = {{\n{_rows(rows)}}};\n" for name, rows in tables.items()
    )
    head = f"/* Golden vectors of\n{_wrapped(layout.canonical, ' * ')}"
    return f"{head} * Made by tests/firmware/core_vectors.py: do not edit. */\n#define BOUNDED {bounded}\n\n{body}"


def _rows(rows: Iterable[str]) -> str:
    return "".join(_wrapped(f"{{{row}}},", "    ") for row in rows)


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(text, 110, initial_indent=indent, subsequent_indent=indent) + "\n"


def _bytes(raw: bytes) -> str:
    return "{" + ", ".join(f"0x{byte:02X}" for byte in raw) + "}"


def _messages(layout: DataLayout, chance: random.Random) -> list[Data]:
    """Flag and escape bytes among the ids, so that the line has something to escape."""
    found = []
    stamp = layout.stamp
    for items, (source, sequence) in enumerate([(0, 0), (0x7D, 0x7E), (1, 0x5E), (0x7E, 0xFF)]):
        tops = [field.top for field in stamp.fields_of(items if stamp.is_variable else stamp.most)]
        if layout.stamp.scheme == "last-sender":
            tops = [0, 255]  # what it names is a mote's
        found.append(
            Data(
                source=source,
                sequence=sequence,
                stamp=tuple(chance.randint(0, top) for top in tops),
                in_sync=chance.random() < 0.5,
                saturated=chance.random() < 0.5,
                complete=chance.random() < 0.5,
                boot=chance.randrange(8),
                hops=chance.randrange(4),
                receipts=((0x7D, 0x11),) * min(1, layout.receipts),
                data=chance.randbytes(layout.data_bytes),
            )
        )
    return found


def _message(message: Data, layout: DataLayout) -> str:
    payload, frame = (
        encode_data(message, layout),
        encode_frame(encode_packet(encode_message(message, layout))),
    )
    head = f"{message.source}, {message.sequence}, 0x{payload[layout.flags_at]:02X}, {len(payload)}, {len(frame)}"
    return f"{head}, {_bytes(payload)}, {_bytes(frame)}"


def _records(chance: random.Random) -> list[Record]:
    return [_any(record, chance) for record in RECORDS for _ in range(2)]


def _any(record: type[Record], chance: random.Random) -> Record:
    values: dict[str, Any] = {member.name: chance.choice(member.range) for member in members(record)}
    return record(**values)


def _record(record: Record, layout: DataLayout) -> str:
    raw = encode_record(record, layout.byteorder) + bytes(layout.tail(type(record)))
    return f"0x{record.AM_TYPE:02X}, {len(raw)}, {_bytes(raw)}"


def _events(layout: DataLayout, scheme: TimedScheme, chance: random.Random) -> tuple[list[str], int]:
    """One mote among others, across the wrap of its ticks, with impossible stamps now and then."""
    wrap = 1 << 32 - layout.tick_log2
    now = wrap - 40
    mote, peer = scheme.start(0, now), scheme.start(0, now)
    rows, clock, peer_clock = [_event(layout, START, 0, now, bytes(layout.stamp.size))], now, now
    for _ in range(EVENTS):
        now += chance.random() < 0.4
        clock = max(clock, now + chance.randint(0, scheme.epsilon) // 2)
        peer_clock = max(peer_clock, now + chance.randint(0, scheme.epsilon) // 2)
        if chance.random() < 0.4:
            stamp = mote.on_send(clock)
            raw = layout.stamp.pack(scheme.encode(stamp))
            rows.append(_event(layout, SEND, int(scheme.saturated(stamp)), clock % wrap, raw))
            peer.merge(peer_clock, [scheme.decode(scheme.encode(stamp), peer_clock)])
            continue
        raw = layout.stamp.pack(scheme.encode(peer.on_send(peer_clock)))
        if chance.random() < 0.05:
            raw = chance.randbytes(layout.stamp.size)
        elif chance.random() < 0.1:
            raw = layout.stamp.pack([chance.randint(0, field.top) for field in layout.stamp.fields])
        before = mote.bounded
        try:
            fields: Sequence[int] = layout.stamp.unpack(raw)
        except ValueError:
            rows.append(_event(layout, RECEIVE, 2, clock % wrap, raw))
            continue
        mote.merge(clock, [scheme.decode(fields, clock)])
        rows.append(_event(layout, RECEIVE, int(mote.bounded > before), clock % wrap, raw))
    return rows, mote.bounded


def _papers_events(
    deployment: Deployment, layout: DataLayout, chance: random.Random
) -> tuple[list[str], int]:
    """A mote and two peers, of whose messages some are lost and some come after later ones."""
    wrap = 1 << 32 - layout.tick_log2
    now = wrap - 40
    epsilon, motes = deployment.clock.epsilon, deployment.network.motes
    mote, *peers = (reference_of(deployment, me) for me in (1, motes - 1, 0))
    numbers, clocks = dict.fromkeys((mote, *peers), FIRST), dict.fromkeys((mote, *peers), now)
    started = now - deployment.lead  # so that a mote that is silent at first soon speaks
    rows, flying = [_event(layout, START, 0, started, bytes(layout.stamp.size))], dict[Program, list[Sent]]()
    for one in clocks:
        one.start(started)

    def sent_by(one: Program) -> Sent:
        numbers[one] += 1
        return one.send(clocks[one], numbers[one])

    for _ in range(PAPERS_EVENTS):
        now += chance.random() < 0.4
        for one in clocks:
            clocks[one] = max(clocks[one], now + chance.randint(0, epsilon) // 2)
        if chance.random() < 0.3:
            sent = sent_by(mote)
            rows.append(_papers_event(layout, SEND, clocks[mote] % wrap, sent, int(sent.saturated)))
            for peer in peers if sent.message.in_sync else ():
                peer.receive(clocks[peer], sent)
            continue
        peer, other = chance.sample(peers, 2)
        sent = sent_by(peer)
        if not sent.message.in_sync:
            continue
        flying.setdefault(peer, []).append(sent)
        if chance.random() < 0.7:
            other.receive(clocks[other], flying[peer][-1])
        if chance.random() < 0.8:
            sent = flying[peer].pop(chance.randrange(len(flying[peer])))
            before = mote.bounded
            mote.receive(clocks[mote], sent)
            rows.append(_papers_event(layout, RECEIVE, clocks[mote] % wrap, sent, int(mote.bounded > before)))
            flying[peer] = [one for one in flying[peer] if numbers[peer] - one.message.sequence < 8]
    assert min(numbers.values()) > 256
    return rows, mote.bounded


def _papers_event(layout: DataLayout, kind: int, tick: int, sent: Sent, result: int = 0) -> str:
    raw = layout.stamp.pack(sent.fields)
    return _event(layout, kind, result, tick, raw, sent.source, sent.sequence)


def _event(
    layout: DataLayout, kind: int, result: int, tick: int, stamp: bytes, source: int = 0, sequence: int = 0
) -> str:
    head = head_of(layout, source, sequence)
    items = layout.stamp.items_in[len(stamp)]
    return f"{kind}, {result}, {tick}UL, {items}, {_bytes(head)}, {_bytes(stamp)}"


def main() -> None:
    Path(FOLDER / "core_vectors.h").write_text(render(load(FOLDER / "deployment.toml")))


if __name__ == "__main__":
    main()
