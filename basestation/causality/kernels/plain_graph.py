"""The causal graph of messages that name nothing, over arrays: `basestation.causality.causal_graph`, step by step.

Only a mote's own order is known. So each message has one cause, and its vector has one entry. What may have led to it
is settled as there, at the same moment, and tested equal. Nodes are rows of `Nodes`, in order of arrival; a mote's
messages are a list by number, linked both ways. -1 is no node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .compiled import compiled
from .stamping import Ints

Flags = NDArray[np.bool_]
LONG_AGO = -(1 << 62)
COUNT, SETTLED, OLDEST, WITHIN = range(4)  # places in `at`: how many nodes, and so on


class Nodes(NamedTuple):
    source: Ints
    number: Ints
    above: Ints  # of its sequence number
    heard: Ints
    time: Ints
    complete: Flags  # nothing was received since the message before
    arrived: Flags
    settled: Flags
    dropped: Flags  # out of the window
    alone: Flags  # another message had its number: it is not in a list
    before: Ints  # in its mote's list
    after: Ints
    cause: Ints
    first: Ints  # its oldest cause, which stays after it left the window
    shown: NDArray[np.int32]  # what may have led to it
    # The same, for its effects; before it is settled, what causes that left hand on
    doubtful: NDArray[np.int32]

    @classmethod
    def empty(cls, count: int, motes: int) -> Nodes:
        links = (np.full(count, -1, np.int64) for _ in range(4))
        columns: list[NDArray[Any]] = [
            *(np.zeros(count, np.int64) for _ in range(5)),
            *(np.zeros(count, np.bool_) for _ in range(5)),
            *links,
            *(np.zeros((count, motes), np.int32) for _ in range(2)),
        ]
        return cls(*columns)

    def kept(self, keep: Flags, new: Nodes) -> tuple[Nodes, Ints]:
        """These rows, with new ones behind them; and the new places of all, -1 for those that are gone."""
        places = np.append(np.where(keep, np.cumsum(keep) - 1, -1), -1)
        columns = [np.concatenate((own[keep], more)) for own, more in zip(self, new, strict=True)]
        found = Nodes(*columns)
        for links in (found.before, found.after, found.cause, found.first):
            links[:] = places[links]
        return found, places


class Limits(NamedTuple):
    patience: int
    wait: int
    window: int
    reach: int


@compiled
def _gap(nodes: Nodes, one: int, reach: int) -> int:
    """The tick up to which its own causes may be incomplete."""
    if not nodes.arrived[one]:
        return LONG_AGO
    late = nodes.time[one] + reach
    if not nodes.complete[one]:
        return late
    before = nodes.first[one]
    if before < 0:
        return LONG_AGO if nodes.number[one] == nodes.above[one] else late
    follows = nodes.arrived[before] and nodes.number[before] == nodes.number[one] - 1
    return LONG_AGO if follows and nodes.above[before] == nodes.above[one] else late


@compiled
def _last_gone(nodes: Nodes, newest: int, last: int, heard: int, limits: Limits) -> int:
    """When the last of a mote's messages up to a number may have left."""
    gone, at = LONG_AGO, newest
    while at >= 0:
        if gone >= heard or (nodes.arrived[at] and nodes.heard[at] < heard - limits.patience):
            break
        if nodes.number[at] <= last and nodes.arrived[at]:
            gone = max(gone, nodes.heard[at], nodes.time[at] + limits.wait)
        at = nodes.before[at]
    return gone


@compiled
def _close(nodes: Nodes, newest: Ints, one: int, limits: Limits) -> None:
    nodes.settled[one] = True
    most, shown, own = nodes.doubtful[one], nodes.shown[one], nodes.source[one]
    gap, cause, heard = _gap(nodes, one, limits.reach), nodes.cause[one], nodes.heard[one]
    for mote in range(len(newest)):
        if cause >= 0:
            most[mote] = max(most[mote], nodes.doubtful[cause, mote])
        if gap > LONG_AGO:
            at = newest[mote]
            while at >= 0 and nodes.number[at] > most[mote]:
                if nodes.arrived[at] and nodes.time[at] <= gap:
                    most[mote] = nodes.number[at]
                    break
                at = nodes.before[at]
        if mote == own:
            most[mote] = nodes.number[one]
        shown[mote] = most[mote]
        if mote != own and most[mote] > 0:
            gone = _last_gone(nodes, newest[mote], most[mote], heard, limits)
            if gone < heard:
                shown[mote] = 0
            if gone < heard - limits.wait:
                most[mote] = 0


@compiled
def _settle(nodes: Nodes, newest: Ints, one: int, limits: Limits) -> None:
    """Settle a message, after its causes: few that came later, so the way is gone again for each."""
    at = -1
    while at != one:
        at = one
        while nodes.cause[at] >= 0 and not nodes.settled[nodes.cause[at]]:
            at = nodes.cause[at]
        if not nodes.settled[at]:
            _close(nodes, newest, at, limits)


@compiled
def _unlink(nodes: Nodes, newest: Ints, one: int) -> None:
    before, after = nodes.before[one], nodes.after[one]
    if before >= 0:
        nodes.after[before] = after
    if after >= 0:
        nodes.before[after] = before
    else:
        newest[nodes.source[one]] = before
    nodes.before[one] = nodes.after[one] = -1


@compiled
def _drop(nodes: Nodes, newest: Ints, one: int, limits: Limits) -> None:
    if not nodes.settled[one] and nodes.arrived[one]:
        _settle(nodes, newest, one, limits)
    nodes.cause[one] = nodes.first[one] = -1
    nodes.dropped[one] = True
    if newest[nodes.source[one]] != one:  # the newest stays until there is a newer one
        _unlink(nodes, newest, one)


@compiled
def _place(nodes: Nodes, newest: Ints, one: int) -> bool:
    """Put a node into its mote's list; False if its number is there."""
    mote, number, after = nodes.source[one], nodes.number[one], -1
    before = newest[mote]
    while before >= 0 and nodes.number[before] > number:
        before, after = nodes.before[before], before
    if before >= 0 and nodes.number[before] == number:
        return False
    nodes.before[one], nodes.after[one] = before, after
    if before >= 0:
        nodes.after[before] = one
        nodes.cause[one] = nodes.first[one] = before
    if after >= 0:
        nodes.before[after] = one
    else:
        newest[mote] = one
    if before >= 0 and nodes.dropped[before]:
        _unlink(nodes, newest, before)
    if after >= 0:
        _lead(nodes, one, after)
    return True


@compiled
def _lead(nodes: Nodes, one: int, after: int) -> None:
    """A node is the cause of the one after it, in place of the one before; a cause that had left stays."""
    cause, before = nodes.cause[after], nodes.before[one]
    if cause >= 0 and cause != before and not nodes.settled[after]:
        for mote in range(nodes.doubtful.shape[1]):
            nodes.doubtful[after, mote] = max(nodes.doubtful[after, mote], nodes.doubtful[cause, mote])
    if nodes.first[after] < 0 or (cause == before and nodes.first[after] == before):
        nodes.first[after] = one
    nodes.cause[after] = one


@compiled
def add_messages(nodes: Nodes, newest: Ints, at: Ints, heard: Ints, time: Ints, limits: Limits) -> None:
    """Add messages that have come, in their order: the rows from `at[COUNT]` on, heard and sent at these ticks."""
    for place in range(len(heard)):
        one, now = at[COUNT], heard[place]
        while at[SETTLED] < one and now - nodes.heard[at[SETTLED]] > limits.patience:
            _settle(nodes, newest, at[SETTLED], limits)
            at[SETTLED] += 1
        at[COUNT] += 1
        if _place(nodes, newest, one):
            at[WITHIN] += 1
            if at[WITHIN] > limits.window:
                while nodes.alone[at[OLDEST]]:
                    at[OLDEST] += 1
                _drop(nodes, newest, at[OLDEST], limits)
                at[OLDEST] += 1
                at[WITHIN] -= 1
                nodes.doubtful[one] = 0  # it may have been settled for the one that left, before it was here
        else:
            nodes.alone[one] = True
        nodes.arrived[one], nodes.settled[one], nodes.heard[one] = True, False, now
        nodes.time[one] = now if nodes.alone[one] else time[place]


@compiled
def finish(nodes: Nodes, newest: Ints, at: Ints, limits: Limits) -> None:
    """Settle everything at the end of the log."""
    while at[SETTLED] < at[COUNT]:
        _settle(nodes, newest, at[SETTLED], limits)
        at[SETTLED] += 1
