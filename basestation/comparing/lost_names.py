"""The lost messages that the stamps of a log name.

A name need not be a number: the barrier's is a sequence number modulo 16, and a span of ticks. The lost message was
sent after the last one of its mote that is older than that span, and before the first that is younger. If only one
number between these two fits the name, that is the lost message.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from basestation.causality.causal_graph import Alias
from basestation.causality.order import Message
from basestation.causality.schemes import Scheme, Setting, make_scheme
from basestation.traces.files import Trace
from packet_formats import bulk
from packet_formats.layout import layout_of

Key = tuple[int, int]  # a mote, and a number of its own


class Lost(NamedTuple):
    """A lost message, and the span of ticks in which it was sent, from its name."""

    key: Key
    since: int
    until: int


def lost_names(trace: Trace, sent: Mapping[Key, int], above: Mapping[Key, int]) -> dict[Key, list[Lost]]:
    """The lost messages that each message names. `sent` and `above` hold the arrived messages, in the trace's order."""
    network, clock = trace.deployment.network, trace.deployment.clock
    setting = Setting(network.motes, clock.epsilon, clock.delta, modulus=1 << clock.clock_bits)
    scheme = make_scheme(trace.deployment.stamp.scheme, setting)
    if scheme.alias_of(0) is None:
        return {}
    came = dict(_messages(trace, scheme, sent, above))
    chains = []
    for mote in range(network.motes):
        keys = sorted(key for key in came if key[0] == mote)
        chains.append(Chain(scheme, [came[key] for key in keys], [sent[key] for key in keys]))
    found = {}
    for key, message in came.items():
        aliases = scheme.causes(message, sent[key]).aliases
        lost = [
            Lost((alias.source, number), alias.since, alias.until)
            for alias in aliases
            if alias.source < network.motes and (number := chains[alias.source].lost(alias)) is not None
        ]
        if lost:
            found[key] = lost
    return found


def _messages(
    trace: Trace, scheme: Scheme, sent: Mapping[Key, int], above: Mapping[Key, int]
) -> Iterator[tuple[Key, Message]]:
    """The messages that arrived in sync."""
    layout = layout_of(trace.deployment)
    frames = bulk.Frames.of_payload_list(trace.messages["payload"].to_pylist(), layout)
    stamps = bulk.stamps_of(bulk.decode_data(frames, layout)[0], layout.stamp)
    reader = scheme.codec().reader()
    for key, fields, in_sync in zip(sent, stamps, trace.messages["in_sync"].to_pylist(), strict=True):
        if in_sync:
            stamp = reader.read(fields, *key, sent[key])
            yield key, Message(key[0], key[1] - above[key], stamp, above=above[key])


class Chain(NamedTuple):
    """The arrived messages of one mote, by number, and so by time."""

    scheme: Scheme
    messages: list[Message]
    sent: list[int]

    def lost(self, alias: Alias) -> int | None:
        """The number of the lost message with that name; None if it arrived, or several numbers fit."""
        first, end = bisect_left(self.sent, alias.since), bisect_right(self.sent, alias.until)
        around = self.messages[max(first - 1, 0) : end + 1]
        if first == 0 or end == len(self.messages) or around[0].above != around[-1].above:
            return None
        if any(self.scheme.alias(message) == alias.alias for message in around[1:-1]):
            return None  # it arrived
        numbers = {message.number for message in around}
        fitting = [
            number
            for number in range(around[0].number + 1, around[-1].number)
            if number not in numbers and self.scheme.alias_of(number - around[0].above) == alias.alias
        ]
        return fitting[0] if len(fitting) == 1 else None
