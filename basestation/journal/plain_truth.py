"""The causal graph of messages that name nothing, made by a kernel: seven times as fast as `field_truth.FieldReader`,
and tested equal to it. Most stamps are such: kn, DPC and the hybrid clocks, without receipts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from basestation.causality.kernels.plain_graph import (
    COUNT,
    OLDEST,
    SETTLED,
    Limits,
    Nodes,
    add_messages,
    finish,
)
from basestation.causality.modular import unwrap
from basestation.causality.schemes import TimedScheme
from basestation.deployed import scheme_of
from basestation.observer import PATIENCE, Observer
from basestation.traces.schema import CAUSES, LATER
from packet_formats.deployment import Deployment
from packet_formats.layout import layout_of

from .field_truth import Columns, decoded, guessed_early, is_numbered, messages_in, vector_column

Ints = NDArray[np.int64]


class PlainReader:
    """Reads tables of messages as `FieldReader` does."""

    refused = 0

    def __init__(self, deployment: Deployment, window: int) -> None:
        clock, self._deployment = deployment.clock, deployment
        self._scheme, self._layout = scheme_of(deployment), layout_of(deployment)
        self._observer = Observer(deployment, "none")
        together = clock.delta + 2 * clock.epsilon
        self._limits = Limits(PATIENCE * together, together + 1, window, self._scheme.reach)
        self._motes = deployment.network.motes
        self._newest = np.full(self._motes, -1, np.int64)
        self._rows = np.zeros(0, np.int64)  # the nodes of those not told yet, -1 for none
        self.settled = 0
        self._nodes = Nodes.empty(0, self._motes)
        self._at = np.zeros(4, np.int64)

    def read(self, table: pa.Table) -> None:
        number, above = self._numbered(table)
        here = np.flatnonzero(number >= 1)
        data, heard = decoded(table, self._layout)[0][here], table["heard"].to_numpy()[here]
        new = Nodes.empty(len(here), self._motes)
        new.source[:], new.number[:], new.above[:] = data["source"], number[here], above[here]
        new.complete[:] = data["complete"]
        sent = heard
        if isinstance(self._scheme, TimedScheme):
            late = np.where(guessed_early(table, self._deployment)[here], self._deployment.late_guess, 0)
            latest = heard + self._scheme.lead + late
            sent = unwrap(data["clock"].astype(np.int64), latest, self._scheme.modulus)
        time = np.where(_plain(table["in_sync"])[here], sent, heard)
        self._make_room(new)
        rows = np.full(len(table), -1, np.int64)
        rows[here] = self._at[COUNT] + np.arange(len(here))
        self._rows = np.concatenate((self._rows, rows))
        add_messages(self._nodes, self._newest, self._at, heard, time, self._limits)
        self._count()

    def finish(self) -> None:
        finish(self._nodes, self._newest, self._at, self._limits)
        self._count()

    def told(self, count: int) -> Columns:
        rows, self._rows = self._rows[:count], self._rows[count:]
        self.settled -= count
        known, nodes = rows >= 0, self._nodes
        here, at = np.flatnonzero(known), rows[known]
        vector, most = (np.zeros((count, self._motes), "<i4") for _ in range(2))
        number = np.zeros(count, np.int64)
        number[here], most[here] = nodes.number[at], nodes.shown[at]
        vector[here, nodes.source[at]] = nodes.number[at]
        unsure = (most != vector).any(axis=1)
        none = pa.array([], CAUSES.value_type)
        nothing = pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), none, CAUSES)
        causes = pc.if_else(pa.array(known), nothing, pa.scalar(None, CAUSES))
        return {
            "vector": vector_column(vector, known),
            LATER: vector_column(most, unsure),
            "causes": causes,
            "number": pa.array(number, mask=~known),
        }

    def _numbered(self, table: pa.Table) -> tuple[Ints, Ints]:
        """The number of each row, and how far it is above its sequence number; 0 where it has none.

        They are in the table; those of a table without any are what the observer would give.
        """
        if is_numbered(table):
            number = pc.fill_null(table["number"], 0).to_numpy()
            return number, number - table["sequence"].to_numpy()
        found = [
            self._observer.receive(data, heard, guessed=early, digest=digest)
            for data, heard, early, digest in messages_in(table, self._deployment)
        ]
        pairs = [
            (0, 0) if one.message is None or one.stray else (one.message.number, one.message.above)
            for one in found
        ]
        number, above = np.array(pairs, np.int64).reshape(-1, 2).T
        return number, above

    def _make_room(self, new: Nodes) -> None:
        """Drop the nodes that are not needed any more, and append new ones."""
        nodes, at = self._nodes, self._at
        places = np.arange(at[COUNT])
        keep = places >= min(at[SETTLED], at[OLDEST])
        keep[self._rows[self._rows >= 0]] = True
        keep[self._newest[self._newest >= 0]] = True
        waiting = ~nodes.settled
        for links in (nodes.cause[waiting], nodes.first[waiting]):
            keep[links[links >= 0]] = True
        self._nodes, moved = nodes.kept(keep, new)
        self._rows, self._newest = moved[self._rows], moved[self._newest]
        for pointer in (SETTLED, OLDEST, COUNT):
            at[pointer] = np.count_nonzero(keep[: at[pointer]])

    def _count(self) -> None:
        final = self._rows < 0
        final[~final] = self._nodes.settled[self._rows[~final]]
        self.settled = len(final) if final.all() else int(np.argmin(final))


def _plain(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    return np.asarray(column.to_numpy(), np.bool_)
