"""A network that listens by a schedule: a message waits for the next window, and is stamped in it.

In a window's first round the motes of each level send in their level's phase, the farthest first. Those beside them
hear it at once. A gateway's copy goes on level by level and arrives in the phase of level 1: of the first round,
or of a later one if a copy was lost on the way, or never. So nothing arrives after its window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from basestation.causality.stream import RECEIVE, SEND, Stream

from .options import WorldOptions
from .several_gateways import FIRST_CLOCK, stream_of


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message in its window. Times are real, in ticks; clocks are those of the motes then."""

    mote: int
    time: float
    clock: int
    heard_by: tuple[tuple[int, int], ...]  # mote, its clock
    heard_up: tuple[tuple[float, int, tuple[int, ...]], ...]  # time, gateway, the clocks of all gateways


def generate(options: WorldOptions) -> Stream:
    """Simulate window after window until enough messages have been sent."""
    sent: list[_Sent] = []
    for window in _windows(options):
        sent += window
        if len(sent) >= options.messages:
            break
    return _stream(options, sent[: options.messages])


def _windows(options: WorldOptions) -> Iterator[list[_Sent]]:
    random = np.random.default_rng(options.seed)
    waiting = [0] * options.motes
    start = 0.0
    while True:
        start += options.period
        window = _Window(options, random, start)
        asked = random.binomial(options.period * options.events_per_tick, options.rate, options.motes)
        found: list[_Sent] = []
        for mote, more in enumerate(asked.tolist()):
            messages = window.sends(mote, waiting[mote] + more)
            waiting[mote] += more - len(messages)
            found += messages
        yield sorted(found, key=attrgetter("time"))


class _Window:
    """One window. Clocks keep their distances in it: any two differ by epsilon at most, after rounding too."""

    def __init__(self, options: WorldOptions, random: np.random.Generator, start: float) -> None:
        self._options, self._random, self._start = options, random, start
        self._ahead: list[float] = (
            random.random(options.motes + options.gateways) * (options.epsilon - 1)
        ).tolist()

    def _clock(self, process: int, time: float) -> int:
        return math.floor(time + self._ahead[process])

    def sends(self, mote: int, messages: int) -> list[_Sent]:
        """The messages that a mote sends in its phase; the others wait for the next window."""
        options = self._options
        level = min(options.network.hops[mote], options.levels)
        begin = self._start + (options.levels - level) * options.phase
        found: list[_Sent] = []
        for place in np.sort(self._random.random(messages)).tolist():
            time = begin + place * options.phase
            if options.second_send == "waits" and found and self._clock(mote, time) <= found[-1].clock:
                time = found[-1].clock + 1 - self._ahead[mote]
                if time >= begin + options.phase:
                    break
            found.append(self._sent(mote, time))
        return found

    def _sent(self, mote: int, time: float) -> _Sent:
        network, works = self._options.network, 1 - self._options.loss
        peers = zip(network.peers[mote], network.hearing[mote], strict=True)
        heard_by = [peer for peer, chance in peers if self._random.random() < chance * works]
        arrivals = (
            (gateway, self._arrival(time, network.hops[mote], network.path[mote]))
            for gateway in range(self._options.gateways)
        )
        return _Sent(
            mote,
            time,
            self._clock(mote, time),
            tuple((peer, self._clock(peer, time)) for peer in heard_by),
            tuple((at, gateway, self._gateway_clocks(at)) for gateway, at in arrivals if at is not None),
        )

    def _gateway_clocks(self, time: float) -> tuple[int, ...]:
        motes, gateways = self._options.motes, self._options.gateways
        return tuple(self._clock(motes + gateway, time) for gateway in range(gateways))

    def _arrival(self, time: float, hops: int, path: float) -> float | None:
        """When a gateway hears a message: the nearest motes' own at once, others in the phase of level 1."""
        options = self._options
        survives = path * (1 - options.loss) ** hops
        for round_ in range(options.rounds):
            if self._random.random() < survives:
                nearest = self._start + (options.levels * (round_ + 1) - 1) * options.phase
                at_once = round_ == 0 and hops == 1
                return time if at_once else nearest + float(self._random.random()) * options.phase
        return None


def _stream(options: WorldOptions, sent: list[_Sent]) -> Stream:
    number = [0] * options.motes
    rows, events, arrivals = [], [], []
    for message, one in enumerate(sent):
        number[one.mote] += 1
        rows.append((one.mote, number[one.mote], one.clock))
        events.append((SEND, one.mote, one.clock, message))
        events += [(RECEIVE, peer, clock, message) for peer, clock in one.heard_by]
        arrivals += [(time, message, gateway, clocks) for time, gateway, clocks in one.heard_up]
    arrivals.sort()
    in_order = [
        (message, clocks[gateway], batch, 0, gateway, *clocks)
        for batch, (_, message, gateway, clocks) in enumerate(arrivals, 1)
    ]
    tables = (np.array(table, np.int64) for table in (rows, events, in_order))
    widths = 3, 4, FIRST_CLOCK + options.gateways
    return stream_of(
        options, *(table.reshape(-1, width) for table, width in zip(tables, widths, strict=True))
    )
