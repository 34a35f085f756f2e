"""The facts that the segments of a trace need from each other, so that the counts of all segments add up exactly.

No message is held longer than the *horizon*, so its fate depends only on arrivals within two horizons. A survey of the
arrivals finds what reaches further and gives it to each segment: stragglers, and how many sends of each mote arrived.
docs/evidence/counting.md, "A trace in segments", has the proof.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from basestation.analysis.view import View
from basestation.causality.kernels import segment_pairs
from basestation.traces.files import TraceError

Ints = NDArray[Any]
MOST_SENDS = 1 << 27  # of a mote: ten a second for five months. Which of them arrived is kept in memory
MOST_REACH = 1 << 20  # ticks ahead of the observer: holds are counted tick by tick, in memory
BLOCKS, BLOCK_HORIZONS = 64, 4  # most blocks of time; least horizons in a block
NEVER = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True)
class Stragglers:
    """The arrivals that come more than a horizon after one of their effects."""

    row: Ints
    source: Ints
    index: Ints
    clock: Ints

    def where(self, chosen: Ints) -> Stragglers:
        return Stragglers(self.row[chosen], self.source[chosen], self.index[chosen], self.clock[chosen])

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def together(cls, several: Sequence[Stragglers]) -> Stragglers:
        empty = np.zeros(0, np.int64)
        lists = [[getattr(one, name) for one in several] for name in cls.__dataclass_fields__]
        return cls(*(np.concatenate([empty, *each]).astype(np.int64) for each in lists))


NO_STRAGGLERS = Stragglers.together([])


@dataclass(frozen=True, slots=True)
class Sends:
    """A set of each mote's sends in a range: bit i stands for send `first` + i."""

    first: Ints
    bits: tuple[bytes, ...]
    before: Ints  # how many there are below the range

    def up_to(self, mote: int, counts: Ints) -> Ints:
        """The number of a mote's sends up to each of these numbers, which are not below the range - 1."""
        bits = np.unpackbits(np.frombuffer(self.bits[mote], np.uint8))
        total = self.before[mote] + np.concatenate(([0], np.cumsum(bits, dtype=np.int64)))
        most: Ints = total[counts - self.first[mote] + 1]
        return most


@dataclass(frozen=True, slots=True)
class Question:
    """The input of a survey of a segment. Later segments need the sends known before `thresholds` (ticks). `known`: the
    sends of each mote known before the halo."""

    horizon: int
    thresholds: tuple[int, ...]
    known: Ints


@dataclass(frozen=True, slots=True)
class Truth:
    """The findings on happened-before in a segment's own rows, with one number for each mote."""

    known: (
        Ints  # (thresholds + 1, motes): the most sends counted by arrivals before each threshold, and by all
    )
    fewest: Ints  # sends counted by any arrival here
    sends: Sends  # the mote's own that arrived here
    stragglers: Stragglers

    @property
    def most(self) -> Ints:
        """The most sends counted by any arrival here."""
        return np.asarray(self.known[-1])


class Counts(NamedTuple):
    """How many messages of a trace are of each kind.

    `counted` ones are in sync, with known causes; `unknown` ones are in sync, with unknown causes. Of the counted
    ones, not all causes of `unsure` ones are known; `network_late` ones were heard after the whole wait that their own
    stamp asks for; and this host read `host_late` ones after its clock had passed the tick in which they were heard.
    """

    counted: int
    unknown: int
    unsure: int
    network_late: int
    host_late: int


@dataclass(frozen=True, slots=True)
class Survey:
    """The findings of a survey. `reach` is the most that a clock known to an arrival is ahead of the observer's."""

    counts: Counts
    reach: int
    truth: Truth | None


@dataclass(frozen=True, slots=True)
class Context:
    """The facts about the rest of the trace that a segment needs to be counted by itself."""

    horizon: int
    begins: Ints  # the tick in which each block of time begins, in the whole trace
    stragglers: Stragglers = NO_STRAGGLERS  # in its view, or later causes of its own rows
    sends: Sends | None = None  # that arrived, as far as its own rows count; None if no causes are known

    def block_of(self, clock: Ints) -> Ints:
        """The block of each arrival; what came before the first block or after the last is in the halo."""
        return np.maximum(np.searchsorted(self.begins, clock, "right") - 1, 0)


def block_begins(first: int, last: int, horizon: int) -> Ints:
    """Cut the time of a trace into equal blocks that are much longer than the horizon (docs/evidence/counting.md)."""
    span = last - first + 1
    count = max(1, min(BLOCKS, span // (BLOCK_HORIZONS * horizon)))
    return np.array([first + span * number // count for number in range(count)])


def questions(firsts: Sequence[int], horizon: int, motes: int) -> list[Question]:
    """The questions to the segments that begin at these ticks. A halo begins a horizon before its segment."""
    halos = np.unique(np.array(firsts) - horizon)
    inside = (
        halos[(halos > a) & (halos <= b)] for a, b in zip(firsts, [*firsts[1:], firsts[-1]], strict=True)
    )
    return [Question(horizon, tuple(some.tolist()), np.zeros(motes, np.int32)) for some in inside]


def survey(view: View, asked: Question, lead: int, wait: int, is_told: bool) -> Survey:
    """Survey one segment's arrivals, without their stamps. `lead`: how far any stamp's clock that the run may be
    stamped with again is ahead. `wait`: the whole wait after a stamp's clock."""
    _check(view, len(asked.known))
    heard, r, c = (view.column(name)[view.own] for name in ("heard", "stamp.r", "stamp.c"))
    stamped, clock = r + c, view.clock[view.own]
    ahead = np.maximum(heard + lead, stamped) - clock
    reach = int(ahead.max(initial=lead))
    if reach > MOST_REACH:
        row = view.rows[view.own][int(np.argmax(ahead))]
        raise TraceError(
            f"row {row}: its stamp is {reach} ticks ahead of the observer's clock: no wait is that long"
        )
    truth = _truth(view, asked) if is_told else None
    late = (int(np.count_nonzero(found)) for found in (heard > stamped + wait, clock > heard))
    return Survey(Counts(len(clock), view.unknown, view.unsure, *late), reach, truth)


def _check(view: View, motes: int) -> None:
    """Refuse impossible values, and name the row."""
    source, batch, wrong = view.column("source"), view.column("batch"), np.zeros(len(view.rows), np.bool_)
    strangers = (source < 0) | (source >= motes)
    if strangers.any():
        mote = source[int(np.argmax(strangers))]
        view.refuse(strangers, f"mote {mote}, but the deployment has {motes} motes")
    same = batch[1:] == batch[:-1]
    wrong[1:] = (batch[1:] < batch[:-1]) | same & (view.clock[1:] != view.clock[:-1])
    view.refuse(wrong, "batches are not in order, or one spans several ticks")


def _truth(view: View, asked: Question) -> Truth:
    motes = len(asked.known)
    vectors, source = view.vectors(motes), view.column("source")
    index = vectors[np.arange(len(source)), source]
    view.refuse(index < 1, "its vector clock does not count the message itself")
    view.refuse(np.any(vectors < 0, axis=1), "its vector clock counts fewer than no sends")
    many = f"its vector clock counts more than {MOST_SENDS:,} sends of a mote"
    view.refuse(np.any(vectors > MOST_SENDS, axis=1), many)
    late = segment_pairs.find_stragglers(
        source, index, vectors, view.clock, view.first, view.last, asked.horizon, asked.known
    )
    rows, mine = np.flatnonzero(late), vectors[view.own]
    ends = [*np.searchsorted(view.clock[view.own], asked.thresholds, "left").tolist(), len(mine)]
    return Truth(
        known=np.array([mine[:end].max(axis=0, initial=0) for end in ends]),
        fewest=mine.min(axis=0, initial=NEVER),
        sends=_sends(source[view.own], index[view.own], motes),
        stragglers=Stragglers(view.rows[rows], source[rows], index[rows], view.clock[rows]),
    )


def _sends(source: Ints, index: Ints, motes: int) -> Sends:
    first, bits = np.full(motes, NEVER, np.int64), []
    for mote in range(motes):
        mine = index[source == mote]
        first[mote] = mine.min(initial=NEVER)
        there = np.zeros(int(mine.max(initial=first[mote] - 1) - first[mote]) + 1, np.bool_)
        there[mine - first[mote]] = True
        bits.append(np.packbits(there).tobytes())
    return Sends(first, tuple(bits), np.zeros(motes, np.int64))


def known_before(asked: Sequence[Question], truths: Sequence[Truth], firsts: Sequence[int]) -> list[Ints]:
    """For each segment and mote, the largest number of sends that an arrival before the segment's halo knew of."""
    known, passed = [], 0
    most = np.zeros_like(asked[0].known)  # of the segments that lie before the halo as a whole
    for i, first in enumerate(firsts):
        halo = first - asked[i].horizon
        while passed < i and firsts[passed + 1] < halo:
            most = np.maximum(most, truths[passed].most)
            passed += 1
        cut = [
            truths[one].known[bisect_left(asked[one].thresholds, halo)]
            for one in range(passed, i)
            if firsts[one] < halo
        ]
        known.append(np.max([most, *cut], axis=0))
    return known


def contexts(
    plain: Context, truths: Sequence[Truth], firsts: Sequence[int], messages: int
) -> Iterator[Context]:
    """The context of each segment: `plain`, with the truth of all segments."""
    stragglers = Stragglers.together([truth.stragglers for truth in truths])
    arrived = _arrived(truths, messages)
    halo, ends = 2 * plain.horizon + 1, [*firsts[1:], np.iinfo(np.int64).max // 2]
    for truth, first, end in zip(truths, firsts, ends, strict=True):
        viewed = (stragglers.clock >= first - halo) & (stragglers.clock <= end + halo)
        causes = stragglers.clock > first + plain.horizon
        causes &= stragglers.index <= truth.most[stragglers.source]
        chosen = stragglers.where(np.flatnonzero(viewed | causes))
        yield Context(plain.horizon, plain.begins, chosen, _counted_by(truth, arrived))


def _arrived(truths: Sequence[Truth], messages: int) -> list[NDArray[np.bool_]]:
    """The set of each mote's sends that arrived; numbers begin at 1."""
    most = np.max([truth.most for truth in truths], axis=0)
    there = [np.zeros(int(count) + 1, np.bool_) for count in most]
    for truth in truths:
        for mote, (first, bits) in enumerate(zip(truth.sends.first.tolist(), truth.sends.bits, strict=True)):
            there[mote][first + np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8)))] = True
    if sum(int(one.sum()) for one in there) != messages:
        raise TraceError("some messages are there twice, by their vector clocks")
    return there


def _counted_by(truth: Truth, arrived: Sequence[NDArray[np.bool_]]) -> Sends:
    """The sends that arrived and that some, but not all, arrivals of a segment know of."""
    fewest = np.minimum(truth.fewest, truth.most).tolist()
    ranges = list(zip(arrived, fewest, truth.most.tolist(), strict=True))
    return Sends(
        first=np.array(fewest) + 1,
        bits=tuple(np.packbits(there[low + 1 : high + 1]).tobytes() for there, low, high in ranges),
        before=np.array([int(there[: low + 1].sum()) for there, low, _ in ranges]),
    )
