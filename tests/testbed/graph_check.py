"""Compares the causal graph of a station with the flight recorders."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass

from basestation.causality.causal_graph import Node
from basestation.causality.truth import Send
from basestation.observer import Observer
from packet_formats.deployment import Deployment
from tools.station_run import FirstCopy


@dataclass(frozen=True, slots=True)
class GraphCheck:
    """How many messages came, and of how many all causes are known. The other counts are of messages, and should be 0.

    `false`: the graph has a cause that is none. `wrong`: the causes are said to be complete, and one is missing that
    may have left later. `beyond`: one that may have left later is not even among those that may be causes.
    """

    messages: int
    complete: int
    false: int
    wrong: int
    beyond: int

    @property
    def is_right(self) -> bool:
        return not (self.false or self.wrong or self.beyond)


def check_graph(
    arrivals: Sequence[FirstCopy], deployment: Deployment, counted: Set[tuple[int, int]] | None = None
) -> GraphCheck:
    """Build the graph of what arrived, message by message, and compare it with the truth.

    `counted`: the sources and indices of the messages that count; None: all.
    """
    observer = Observer(deployment, "none")
    graph = observer.graph(len(arrivals) + 1)
    found: list[tuple[Node, Send]] = []
    for taken in arrivals:
        message = observer.receive(taken.data, taken.now, taken.heard).message
        if message is not None:
            data = taken.data
            found.append((graph.add(message, taken.heard, data.receipts, data.complete)[0], taken.send))
    graph.finish()
    clock = deployment.clock
    wait = clock.delta + 2 * clock.epsilon + 1
    return _compare(found, deployment.network.motes, wait, counted)


def _compare(
    pairs: Sequence[tuple[Node, Send]], motes: int, wait: int, counted: Set[tuple[int, int]] | None
) -> GraphCheck:
    arrived: list[list[tuple[int, int, int]]] = [[] for _ in range(motes)]  # number, index, when it has left
    for node, send in pairs:
        arrived[node.source].append((node.number, send.index, max(node.heard, node.time + wait)))
    for mote in arrived:
        mote.sort()
    false = wrong = beyond = 0
    judged = [(node, send) for node, send in pairs if counted is None or (send.source, send.index) in counted]
    for node, send in judged:
        sure = _places(arrived, node.vector, 0)
        true = _places(arrived, send.vector, 1)
        most = sure if node.most is None else _places(arrived, node.most, 0)
        late = [
            any(gone >= node.heard for _, _, gone in row[known:true_])
            for row, known, true_ in zip(arrived, most, true, strict=True)
        ]
        false += any(ours > theirs for ours, theirs in zip(sure, true, strict=True))
        wrong += any(late) and node.complete
        beyond += any(late) and not node.complete
    return GraphCheck(len(judged), sum(node.complete for node, _ in judged), false, wrong, beyond)


def _places(arrived: list[list[tuple[int, int, int]]], vector: Sequence[int], by: int) -> list[int]:
    """How many of each mote's messages that arrived a vector counts."""
    whole = [*vector, *[0] * (len(arrived) - len(vector))]
    return [
        bisect_right(row, count, key=lambda one: one[by]) for row, count in zip(arrived, whole, strict=True)
    ]
