"""Writes the causal graph of messages as a ShiViz log or for Graphviz.

The graph is that of the vectors in the table: the truth, where it is known, else what the messages name. So
every arrow is true, but some may be missing.

ShiViz has a line with the host and its vector clock, then a line with the event. A vector clock counts the events in
the log, since ShiViz knows no others: each mote's messages that arrived, and the observer's receptions.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import IO

import numpy as np
import pyarrow as pa

from basestation.traces.schema import LATER
from packet_formats.deployment import Deployment

from .field_truth import with_field_truth

OBSERVER = "observer"
Clock = dict[str, int]


@dataclass(frozen=True, slots=True)
class KnownCauses:
    """Counts of the messages, and of those all of whose causes are known."""

    messages: int
    complete: int


class DrawnGraph:
    """The rows of a table, the direct causes of each, and an order in which each comes after its causes."""

    def __init__(self, messages: pa.Table, deployment: Deployment) -> None:
        if messages["vector"].null_count:
            messages = pa.concat_tables([messages[:0], *with_field_truth([messages], deployment)])
        self.source: list[int] = messages["source"].to_pylist()
        self.sequence: list[int] = messages["sequence"].to_pylist()
        self._vectors = [np.frombuffer(vector, "<i4").tolist() for vector in messages["vector"].to_pylist()]
        self.unsure = [most is not None for most in messages[LATER].to_pylist()]
        # Of each mote: its numbers, and their rows
        self._own: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for row, source in enumerate(self.source):
            self._own[source].append((self._vectors[row][source], row))
        for rows in self._own.values():
            rows.sort()
        counts = [[self._place(mote, number) for mote, number in enumerate(v)] for v in self._vectors]
        self.order = sorted(range(len(counts)), key=lambda row: (sum(counts[row]), row))
        self.known = KnownCauses(len(counts), self.unsure.count(False))

    def causes(self, row: int) -> list[int]:
        """The newest message of each mote that led to this one."""
        found = []
        for mote, number in enumerate(self._vectors[row]):
            place = self._place(mote, number - (mote == self.source[row]))
            if place:
                found.append(self._own[mote][place - 1][1])
        return found

    def direct(self, row: int) -> list[int]:
        """Those of them that did not lead to another of them."""
        causes = self.causes(row)
        return [cause for cause in causes if not any(self._led(cause, other) for other in causes)]

    def name(self, row: int) -> str:
        return f"{self.source[row]}#{self.sequence[row]}"

    def _led(self, cause: int, other: int) -> bool:
        source = self.source[cause]
        return cause != other and self._vectors[other][source] >= self._vectors[cause][source]

    def _place(self, mote: int, number: int) -> int:
        """How many of a mote's messages up to a number arrived."""
        return bisect_right(self._own[mote], (number, len(self.source))) if mote in self._own else 0


def write_shiviz(messages: pa.Table, deployment: Deployment, file: IO[str]) -> KnownCauses:
    """Write the motes' events, each after its causes, then the observer's, in order of arrival."""
    graph = DrawnGraph(messages, deployment)
    clocks: dict[int, Clock] = {}
    for row in graph.order:
        clock: Clock = {}
        for cause in graph.causes(row):
            clock = _merged(clock, clocks.get(cause, {}))
        clocks[row] = _put(file, f"mote{graph.source[row]}", clock, f"message {graph.sequence[row]}")
    seen: Clock = {}
    for row in range(len(messages)):
        text = f"receives message {graph.sequence[row]} of mote{graph.source[row]}"
        seen = _put(file, OBSERVER, _merged(seen, clocks[row]), text)
    return graph.known


def _put(file: IO[str], host: str, clock: Clock, text: str) -> Clock:
    clock = {**clock, host: clock.get(host, 0) + 1}
    file.write(f"{host} {json.dumps(clock)}\n{text}\n")
    return clock


def _merged(one: Clock, other: Clock) -> Clock:
    return {host: max(one.get(host, 0), other.get(host, 0)) for host in one | other}


def write_dot(messages: pa.Table, deployment: Deployment, file: IO[str]) -> KnownCauses:
    """Write an arrow from each direct cause to its effect. Dashed: not all causes of that message are known."""
    graph = DrawnGraph(messages, deployment)
    file.write(f"digraph {json.dumps(deployment.network.name)} {{\n")
    for row in graph.order:
        style = " [style=dashed]" if graph.unsure[row] else ""
        file.write(f'  "{graph.name(row)}"{style};\n')
        file.writelines(f'  "{graph.name(cause)}" -> "{graph.name(row)}";\n' for cause in graph.direct(row))
    file.write("}\n")
    return graph.known
