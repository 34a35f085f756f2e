"""The causal graph of a table of messages, as vector clocks: happened-before as stamps and receipts show it.

`vector` counts for each mote the messages that surely led to a message, `vector_most` those that may have; it is null
where the message's causes are complete, and the vector says it all. A mote's messages have the numbers of
`causality.boots`: a new boot goes on at least 256 above the one before. `causes` names those that a message names
itself, by its stamp or its receipts; its mote's message before goes without saying.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from basestation.causality.causal_graph import ORDER, CausalGraph, Node
from basestation.causality.order import Message
from basestation.causality.schemes import Scheme
from basestation.deployed import scheme_of
from basestation.observer import Observer
from basestation.traces.schema import CAUSES, LATER, binary_column
from packet_formats import bulk
from packet_formats.deployment import Deployment
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data

Columns = dict[str, Any]  # of Arrow, by name
WINDOW = 4096  # messages that a later one may still name
LINGER = 2 * WINDOW  # rows after which nothing more is learnt of one: what it names is out of the window, too


class FieldTruth:
    """Gives tables of messages their vectors; a table that has the truth stays as it is.

    A row waits until what it names has come, or is lost, and it is out of the graph's window: then nothing more is
    learnt of it. Memory does not grow with the run.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._reader = reader_of(deployment)
        self._waiting: list[pa.Table] = []
        self._given = 0

    @property
    def refused(self) -> int:
        """The names that contradict others."""
        return self._reader.refused

    @property
    def settled(self) -> int:
        """The number of rows, from the first on, whose causes are final."""
        return self._given + self._reader.settled

    def add(self, table: pa.Table) -> Iterator[pa.Table]:
        """Take the next rows of the run, and give those that are settled by now, in the same tables."""
        if table["vector"].null_count < len(table):
            yield table
            return
        self._reader.read(table)
        self._waiting.append(table)
        yield from self.ready(LINGER)

    def finish(self) -> Iterator[pa.Table]:
        """Nothing more comes: all that is left."""
        self._reader.finish()
        yield from self.ready()

    def ready(self, behind: int = 0) -> Iterator[pa.Table]:
        """The tables that are settled and at least `behind` rows older than the newest."""
        while self._waiting and self._reader.settled >= len(self._waiting[0]) + behind:
            table = self._waiting.pop(0)
            self._given += len(table)
            yield with_columns(table, self._reader.told(len(table)))


class Reader(Protocol):
    """Reads tables of messages. `settled`: of the rows not returned yet, how many are final, from the first on."""

    settled: int

    @property
    def refused(self) -> int: ...

    def read(self, table: pa.Table) -> object: ...

    def finish(self) -> None: ...

    def told(self, count: int) -> Columns:
        """The columns of the next rows; a number is null where the table has it."""


def reader_of(deployment: Deployment, window: int = WINDOW) -> Reader:
    """The graph of stamps that name nothing is made by a kernel, where numba is installed. Results are the same."""
    if names_nothing(deployment):
        try:
            from .plain_truth import PlainReader
        except ImportError:
            pass
        else:
            return PlainReader(deployment, window)
    return FieldReader(deployment, window)


def names_nothing(deployment: Deployment) -> bool:
    """Whether neither stamps nor receipts of its messages name a cause."""
    scheme = type(scheme_of(deployment))
    plain = scheme.causes is Scheme.causes and scheme.alias is Scheme.alias
    return plain and not layout_of(deployment).receipts


def with_field_truth(tables: Iterable[pa.Table], deployment: Deployment) -> Iterator[pa.Table]:
    """The tables of a run with their vectors."""
    truth = FieldTruth(deployment)
    for table in tables:
        yield from truth.add(table)
    yield from truth.finish()


def with_columns(table: pa.Table, columns: Columns) -> pa.Table:
    """The table with these in place of its own; it may have fewer."""
    if "number" in table.column_names:
        columns = columns | {"number": pc.coalesce(columns["number"], table["number"])}
    for name in columns.keys() & set(table.column_names):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(place), columns[name])
    return table


def _vectors(vectors: list[list[int] | None], motes: int) -> pa.ChunkedArray:
    nothing = [0] * motes
    rows = np.array([vector or nothing for vector in vectors], "<i4").reshape(len(vectors), motes)
    return vector_column(rows, np.array([vector is not None for vector in vectors], np.bool_))


def vector_column(rows: NDArray[np.int32], known: NDArray[np.bool_]) -> pa.ChunkedArray:
    whole = binary_column(rows)
    return pc.if_else(pa.array(known), whole, pa.scalar(None, whole.type))


class FieldReader:
    """Reads tables of messages into a causal graph, row by row, as the observer reads what arrives."""

    def __init__(self, deployment: Deployment, window: int = WINDOW) -> None:
        self._deployment, self._motes = deployment, deployment.network.motes
        self._observer = Observer(deployment, "none")
        self.graph: CausalGraph = self._observer.graph(window)
        self._nodes: list[Node | None] = []
        self.settled = 0  # rows from the first on whose vectors are final
        self._above: dict[int, int] = {}

    @property
    def refused(self) -> int:
        return self.graph.refused

    def read(self, table: pa.Table) -> list[Node | None]:
        """The node of each row; None for a copy of an earlier one, a stray, and one that cannot be numbered."""
        messages = messages_in(table, self._deployment)
        if is_numbered(table):
            numbers = zip(*(table[name].to_pylist() for name in ("sequence", "number")), strict=True)
            named = zip(messages, numbers, strict=True)
            found = [self._place(*message[:-1], *number) for message, number in named]
        else:
            found = [self._read(*message) for message in messages]
        self._nodes += found
        self._count()
        return found

    def finish(self) -> None:
        self.graph.finish()
        self._count()

    def take(self, count: int) -> list[Node | None]:
        """The nodes of the first rows that were not taken yet."""
        taken, self._nodes = self._nodes[:count], self._nodes[count:]
        self.settled -= count
        return taken

    def told(self, count: int) -> Columns:
        nodes = self.take(count)
        return {
            "vector": _vectors([None if node is None else node.vector for node in nodes], self._motes),
            LATER: _vectors([None if node is None else node.most for node in nodes], self._motes),
            "causes": pa.array([None if node is None else node.note for node in nodes], CAUSES),
            # The graph also knows from others' stamps how many were lost.
            "number": pa.array([None if node is None else node.number for node in nodes], pa.int64()),
        }

    def _read(self, data: Data, heard: int, guessed: bool, digest: int) -> Node | None:
        found = self._observer.receive(data, heard, guessed=guessed, digest=digest)
        return None if found.message is None or found.stray else self._add(found.message, data, heard)

    def _place(self, data: Data, heard: int, guessed: bool, sequence: int, number: int | None) -> Node | None:
        """The node of a row by the number that the table has."""
        if number is None:
            return None
        above = number - sequence
        fresh = above > self._above.get(data.source, above - 1)
        self._above[data.source] = max(above, self._above.get(data.source, above))
        message = self._observer.read(data, sequence, number, fresh, heard, guessed)
        return self._add(message, data, heard)

    def _add(self, message: Message, data: Data, heard: int) -> Node | None:
        if message.number < 1:  # sent before the first that was heard
            return None
        node = self.graph.add(message, heard, data.receipts, data.complete)[0]
        self._note_causes()
        return node

    def _note_causes(self) -> None:
        """Note what settled messages name, before they leave the graph's window."""
        while self.graph.settled:
            node = self.graph.settled.popleft()
            named = (cause for cause, how in node.causes.items() if how != ORDER)
            node.note = sorted((cause.source, cause.number) for cause in named)

    def _count(self) -> None:
        self._note_causes()
        while self.settled < len(self._nodes):
            node = self._nodes[self.settled]
            if node is not None and not node.settled:
                break
            self.settled += 1


def is_numbered(table: pa.Table) -> bool:
    """Whether the rows have numbers; the traces of older versions have none."""
    return bool(table["number"].null_count < len(table))


def messages_in(table: pa.Table, deployment: Deployment) -> Iterator[tuple[Data, int, bool, int]]:
    """The messages of a table, when they were heard, whether that was guessed too early, and their digests."""
    layout = layout_of(deployment)
    rows, digests = decoded(table, layout)
    names = ("source", "sequence", "saturated", "complete", "boot", "receipt_source", "receipt_sequence")
    early = guessed_early(table, deployment).tolist()
    more = zip(table["heard"].to_pylist(), early, digests.tolist(), strict=True)
    columns = [rows[name].tolist() for name in names]
    stamps = bulk.stamps_of(rows, layout.stamp)
    said = [row.tobytes() for row in rows["data"]]
    told = zip(*columns, stamps, said, table["in_sync"].to_pylist(), more, strict=True)
    for source, sequence, saturated, complete, boot, motes, numbers, stamp, what, in_sync, known in told:
        own = (source, sequence)
        receipts = tuple(pair for pair in zip(motes, numbers, strict=True) if pair != own)
        yield Data(source, sequence, stamp, in_sync, saturated, complete, boot, 0, receipts, what), *known


def guessed_early(table: pa.Table, deployment: Deployment) -> NDArray[np.bool_]:
    """Rows whose stamp, as it was read, is further ahead of `heard` than a known time allows."""
    r, guessed = pc.struct_field(table["stamp"], "r").to_numpy(), table["heard_time"].is_null().to_numpy()
    return np.asarray(guessed & (r > table["heard"].to_numpy() + deployment.lead), np.bool_)


def decoded(table: pa.Table, layout: DataLayout) -> tuple[NDArray[np.void], NDArray[np.uint32]]:
    """What the payloads hold, and their digests."""
    frames = bulk.Frames.of_payload_list(table["payload"].to_pylist(), layout)
    return bulk.decode_data(frames, layout)[0], bulk.data_digests(frames, layout)
