"""The causal graph of a long run, made in parts that know nothing of each other, and joined.

A part begins with `WARM_UP` rows of the part before, which are read and not given out, and with the newest message of
each mote before those. Its graph gives `local` vectors: what led to a message as far as the part tells. Whoever knows
a mote's message of the part knows that mote's newest before it, too, and all that led to that. So what is known at the
beginning of a part (`Past`) goes from part to part by the vectors of a few messages, and raises the vectors of all
rows where it holds.

The graph of the whole run would tell a little more: a message at the beginning of the warm-up may name one before it,
and that name can't be read. `vector` has no false entry. What was known of the motes heard last before the warm-up
bounds what may be missing, and `vector_most` is raised to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from basestation.observer import PATIENCE
from basestation.traces.schema import LATER, binary_column, matrix_of
from packet_formats.deployment import Deployment

from .field_truth import WINDOW, FieldTruth, Tail

WARM_UP = 2 * WINDOW
Vectors = NDArray[np.int32]
Tails = dict[int, Tail]


def tails_of(table: pa.Table, first: int) -> Tails:
    """The newest message of each mote in these rows, of which the first has this place in the run."""
    known = pc.is_valid(table["number"])
    names = ("source", "number", "sequence", "heard")
    source, number, sequence, heard = (table[name].filter(known).to_numpy() for name in names)
    rows = first + np.flatnonzero(known.to_numpy(zero_copy_only=False))
    order = np.lexsort((number, source))
    last = order[np.flatnonzero(np.diff(source[order], append=-1))]
    columns = (source, number, number - sequence, heard, rows)
    found = (Tail(*row) for row in zip(*(column[last].tolist() for column in columns), strict=True))
    return {tail.source: tail for tail in found if tail.number >= 1}


def newer_of(before: Mapping[int, Tail], later: Mapping[int, Tail]) -> Tails:
    """The newest of each mote, of those before some rows and those in them."""
    newer = {m: tail for m, tail in later.items() if m not in before or tail.number > before[m].number}
    return dict(before) | newer


def local_truth(
    deployment: Deployment,
    tails: Iterable[Tail] | None,
    warm_up: Iterable[pa.Table],
    own: Iterable[pa.Table],
    later: Iterable[pa.Table],
) -> Iterator[pa.Table]:
    """The own rows with their local vectors. `later` is read until everything of them is settled.

    Without tails the rows are the whole run.
    """
    truth, counts = FieldTruth(deployment, tails), [0, 0]

    def counted(tables: Iterable[pa.Table], which: int) -> Iterator[pa.Table]:
        for table in tables:
            counts[which] += len(table)
            yield table

    def given() -> Iterator[pa.Table]:
        for table in chain(counted(warm_up, 0), counted(own, 1)):
            yield from truth.add(table)
        for table in later:
            if truth.settled >= sum(counts):
                yield from truth.ready()
                return
            yield from truth.add(table)
        yield from truth.finish()

    at = 0
    for table in given():
        if counts[0] <= at < sum(counts):
            yield table
        at += len(table)


class NewestVectors:
    """The local vectors of the motes' newest messages in some rows."""

    def __init__(self, motes: int) -> None:
        self._motes, self._found = motes, dict[int, tuple[int, bytes]]()

    def add(self, table: pa.Table) -> None:
        known = table.filter(pc.is_valid(table["vector"]))
        for mote, tail in tails_of(known, 0).items():
            if tail.number > self._found.get(mote, (0, b""))[0]:
                self._found[mote] = tail.number, known["vector"][tail.row].as_py()

    def rows(self) -> tuple[NDArray[np.int64], Vectors]:
        """Whose they are, and the vectors."""
        whole = b"".join(vector for _, vector in self._found.values())
        vectors = np.frombuffer(whole, "<i4").reshape(-1, self._motes)
        return np.array(list(self._found), np.int64), vectors


@dataclass(frozen=True, slots=True)
class Past:
    """What is known before a row: the newest message of each mote, by number, and the vectors of those messages."""

    newest: NDArray[np.int64]  # 0 for none
    vectors: Vectors  # of each mote's newest

    @classmethod
    def nothing(cls, motes: int) -> Past:
        return cls(np.zeros(motes, np.int64), np.zeros((motes, motes), np.int32))

    def raised(self, local: Vectors) -> Vectors:
        """Local vectors, with all that led to what they know of this past."""
        knows = (local >= self.newest) & (self.newest > 0)
        kinds, kind = np.unique(np.packbits(knows, axis=1), axis=0, return_inverse=True)
        which = np.unpackbits(kinds, axis=1, count=len(self.newest)).astype(np.bool_)
        floors = [self.vectors[row].max(axis=0, initial=0) for row in which]
        return np.maximum(local, np.array(floors, np.int32).reshape(-1, local.shape[1])[kind.reshape(-1)])

    def after(self, motes: NDArray[np.int64], local: Vectors) -> Past:
        """The past of a later row, given the local vectors of these motes' newest messages before it."""
        newest, vectors = self.newest.copy(), self.vectors.copy()
        newest[motes], vectors[motes] = local[np.arange(len(motes)), motes], self.raised(local)
        return Past(newest, vectors)

    def doubt(self, tails: Iterable[Tail], start: int, begins: int, deployment: Deployment) -> Vectors:
        """All that a part may miss whose warm-up begins at row `start`, and itself at tick `begins`."""
        patience = PATIENCE * (deployment.clock.delta + 2 * deployment.clock.epsilon)
        recent = [
            tail.source for tail in tails if tail.row >= start - WINDOW or tail.heard >= begins - patience
        ]
        found: Vectors = self.vectors[recent].max(axis=0, initial=0)
        return found


def with_past(table: pa.Table, past: Past, doubt: Vectors) -> pa.Table:
    """A part's rows, with the vectors that the whole run has."""
    motes = len(doubt)
    known = pc.is_valid(table["vector"]).to_numpy(zero_copy_only=False)
    vector = past.raised(matrix_of(table["vector"], motes))
    most = np.maximum(np.maximum(matrix_of(table[LATER], motes), doubt), vector)
    unsure = known & (most > vector).any(axis=1)
    for name, rows, told in (("vector", vector, known), (LATER, most, unsure)):
        place = table.schema.get_field_index(name)
        column = pc.if_else(pa.array(told), binary_column(rows.astype("<i4")), pa.scalar(None, pa.binary()))
        table = table.set_column(place, table.schema.field(place), column)
    return table
