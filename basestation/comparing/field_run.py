"""A field log as a stream of events, made from its causal graph, so that schemes can be played on it.

Receptions that leave no sign in the log are missing. Known receptions are placed at the next send of their mote, the
last possible moment. A message that never arrived is taken to be sent between its neighbours, and to be received by
the motes that name it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from basestation.causality.causal_graph import Alias
from basestation.causality.order import Message
from basestation.causality.schemes import Scheme, Setting, make_scheme
from basestation.causality.stream import RECEIVE, SEND, Int32, Stream
from basestation.traces.files import Trace, TraceError
from basestation.traces.schema import LATER
from packet_formats import bulk
from packet_formats.layout import layout_of

Key = tuple[int, int]  # a mote, and a number of its own


def field_stream(trace: Trace) -> tuple[Stream, Int32, Int32]:
    """The stream, and for each message how many of each mote's messages surely led to it, and how many may have.
    Messages whose causes are not known are left out."""
    told = trace.messages["vector"].is_valid()
    if not pc.any(told).as_py():
        raise TraceError(
            f"run {trace.run} tells nothing of what led to its messages: `log convert` makes it anew"
        )
    run = _FieldRun(replace(trace, messages=trace.messages.filter(told)))
    return run.stream(), run.counted(run.sure), run.counted(run.most)


class _FieldRun:
    def __init__(self, trace: Trace) -> None:
        messages, self._motes = trace.messages, trace.deployment.network.motes
        told = [_vector(value) for value in messages["vector"].to_pylist()]
        later = [_vector(value) if value else None for value in messages[LATER].to_pylist()]
        source, sequence = messages["source"].to_pylist(), messages["sequence"].to_pylist()
        self._keys: list[Key] = [(mote, told[row][mote]) for row, mote in enumerate(source)]
        self.sure = dict(zip(self._keys, told, strict=True))
        self.most = {key: more or self.sure[key] for key, more in zip(self._keys, later, strict=True)}
        self._above = {key: key[1] - number for key, number in zip(self._keys, sequence, strict=True)}
        sent = np.where(
            messages["in_sync"].to_numpy(),
            pc.struct_field(messages["stamp"], "r").to_numpy(),
            messages["heard"].to_numpy(),
        )
        self._sent = dict(zip(self._keys, sent.tolist(), strict=True))
        clock = messages["clock"]
        self._heard = messages["heard"].to_numpy()
        self._clock = np.where(clock.is_null().to_numpy(), self._heard, clock.fill_null(0).to_numpy())
        self._batch = messages["batch"].to_numpy()
        lost = lost_names(trace, self._sent, self._above)
        self._knew = self._known_of(lost)
        self._own = self._numbers()
        for one in (one for named in lost.values() for one in named):
            self._sent[one.key] = min(max(self._sent[one.key], one.since), one.until)
        self._order = self._causal_order()
        self._at = {key: place for place, key in enumerate(self._order)}
        has_clock = trace.deployment.scheme.has_clock
        read = zip(self._keys, messages["in_sync"].to_pylist(), strict=True)
        self._lower_guesses({key for key, in_sync in read if in_sync and has_clock})

    def _numbers(self) -> list[list[int]]:
        """Each mote's numbers, with the missing ones between two of a boot."""
        own: list[list[int]] = []
        for mote in range(self._motes):
            came = sorted(number for source, number in self._keys if source == mote)
            for before, after in pairwise(list(came)):
                if self._above[mote, before] == self._above[mote, after]:
                    for lost in range(before + 1, after):
                        part = (lost - before) / (after - before)
                        first, last = self._sent[mote, before], self._sent[mote, after]
                        self._sent[mote, lost] = round(first + part * (last - first))
                        came.append(lost)
            own.append(sorted(came))
        return own

    def _known_of(self, lost: dict[Key, list[LostMessage]]) -> dict[Key, list[int]]:
        """As `sure`, with the lost messages that stamps name."""
        if not lost:
            return self.sure
        knew = {key: list(vector) for key, vector in self.sure.items()}
        came = [sorted(number for source, number in knew if source == mote) for mote in range(self._motes)]
        for key in sorted(knew, key=lambda key: (self._sent[key], sum(self.sure[key]))):
            mine = knew[key]
            for (source, number), _, _ in lost.get(key, ()):
                mine[source] = max(number, mine[source])
            for source, number in enumerate(list(mine)):
                place = bisect_right(came[source], number - (source == key[0]))
                if place:  # effects know the causes of their causes
                    mine[:] = map(max, mine, knew[source, came[source][place - 1]])
        return knew

    def _causal_order(self) -> list[Key]:
        """Each message after its causes; a lost message right after the one before it."""
        order = []
        for key in sorted(
            self._keys, key=lambda key: (sum(map(self._index, range(self._motes), self._knew[key])), key)
        ):
            order.append(key)
            mote, number = key
            while (mote, number + 1) in self._sent and (mote, number + 1) not in self.sure:
                number += 1
                order.append((mote, number))
        return order

    def _lower_guesses(self, read: set[Key]) -> None:
        """Move guessed times of sending before those of the effects."""
        for key in reversed(self._order):
            for source, number in enumerate(self._knew.get(key, ())):
                place = self._index(source, number) - (source == key[0])
                if place and (cause := (source, self._own[source][place - 1])) not in read:
                    self._sent[cause] = min(self._sent[cause], self._sent[key])

    def _index(self, mote: int, number: int) -> int:
        """How many messages of a mote there are up to a number."""
        return bisect_right(self._own[mote], number)

    def counted(self, vectors: dict[Key, list[int]]) -> Int32:
        rows = np.zeros((len(self._order), self._motes), np.int32)
        for place, (mote, number) in enumerate(self._order):
            vector = vectors.get((mote, number))
            if vector is not None:
                rows[place] = list(map(self._index, range(self._motes), vector))
            rows[place, mote] = self._index(mote, number)
        return rows

    def stream(self) -> Stream:
        clocks, known = [-(1 << 60)] * self._motes, [[0] * self._motes for _ in range(self._motes)]
        sent, events = [], []
        for place, (mote, number) in enumerate(self._order):
            clocks[mote] = max(clocks[mote], self._sent[mote, number])
            for cause in self._received(mote, self._knew.get((mote, number)), known[mote]):
                if self._at[cause] < place:  # else a name was misread
                    events.append((RECEIVE, mote, clocks[mote], self._at[cause]))
            sent.append((mote, self._index(mote, number), clocks[mote]))
            events.append((SEND, mote, clocks[mote], place))
        rows = zip(
            map(self._at.__getitem__, self._keys), self._clock.tolist(), self._batch.tolist(), strict=True
        )
        arrivals = [(place, clock, batch, 0) for place, clock, batch in rows]
        tables = (np.array(table, np.int64) for table in (sent, events, arrivals))
        return replace(Stream.from_tables(self._motes, *tables), arrival_heard=self._heard)

    def _received(self, mote: int, vector: list[int] | None, known: list[int]) -> list[Key]:
        """The newest message of each mote that it did not know at its last send, in causal order; updates `known`."""
        if vector is None:
            return []
        new = []
        for source, number in enumerate(vector):
            place = self._index(source, number)
            if source != mote and number > known[source] and place:
                new.append((source, self._own[source][place - 1]))
            known[source] = max(number, known[source])
        covers = [self._knew[key] for key in new if key in self._knew]
        direct = [
            (s, k) for s, k in new if not any(v[s] >= k for v in covers if v is not self._knew.get((s, k)))
        ]
        return sorted(direct, key=self._at.__getitem__)


def _vector(value: bytes) -> list[int]:
    return [int(number) for number in np.frombuffer(value, "<i4")]


# ---- Lost messages that stamps name ----


class LostMessage(NamedTuple):
    """A lost message, and the span of ticks in which it was sent, from its name."""

    key: Key
    since: int
    until: int


def lost_names(
    trace: Trace, sent: Mapping[Key, int], above: Mapping[Key, int]
) -> dict[Key, list[LostMessage]]:
    """The lost messages that each message names. `sent` and `above` hold the arrived messages, in the trace's order.

    A name need not be a number: the barrier's is a sequence number modulo 16, and a span of ticks. The lost message was
    sent after the last one of its mote that is older than that span, and before the first that is younger. If only one
    number between these two fits the name, that is the lost message.
    """
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
            LostMessage((alias.source, number), alias.since, alias.until)
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
