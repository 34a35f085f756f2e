"""The paper's simulation in plain Python, which the kernel is tested against.

Each step picks a mote or a gateway at random, ticks its clock unless that would break G1 (then another is picked),
lets it receive the copies that have reached it, and lets it send with probability `rate`. With sends="any" the process
that may send is drawn apart from the one whose clock ticks: so a mote sends at any time, at the same mean rate.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np

from basestation.causality.stream import MERGE, RECEIVE, SEND, Int64, Stream

from .measured_delays import Row
from .options import WorldOptions
from .several_gateways import FIRST_CLOCK, stream_of


class World:
    """Clocks of all processes, copies in flight, and the stream recorded so far. Gateways are processes n and up."""

    def __init__(self, options: WorldOptions) -> None:
        self._options = options
        self._network = options.network
        self._random = np.random.default_rng(options.seed)
        processes = options.motes + options.gateways
        self._gateways = range(options.motes, processes)
        self._clock = [0] * processes
        self._acts = [0] * processes
        self._steps = 0
        self._copies = 0
        domains = options.motes if options.delay_clock == "sender" else 1
        self._flying: list[list[tuple[float, int, int, int]]] = [[] for _ in range(domains)]
        self._inbox: list[list[int]] = [[] for _ in range(processes)]
        self._sent: list[tuple[int, int, int]] = []
        self._sends = [0] * options.motes
        self._last_send = [-1] * options.motes  # its clock then
        self._put_off = [0] * processes
        self._events: list[tuple[int, int, int, int]] = []
        self._arrivals: list[tuple[int, ...]] = []
        self._batches = 0

    def run(self) -> Stream:
        """Step until every message has been sent and has arrived or been lost."""
        while self._goes_on:
            self._step()
        return self._stream()

    def parts(self) -> Iterator[tuple[Int64, Int64]]:
        """The events and arrivals of each step."""
        while self._goes_on:
            self._step()
            yield _table(self._events, 4), self._arrival_rows()
            self._events, self._arrivals = [], []

    @property
    def _goes_on(self) -> bool:
        return self._sending or any(self._flying) or any(self._inbox)

    @property
    def _sending(self) -> bool:
        return len(self._sent) < self._options.messages

    def _step(self) -> None:
        process = self._pick()
        self._steps += 1
        self._ripen(process)
        if self._options.reception != "immediate":
            self._take_inbox(process)
        if self._put_off[process] and self._sending and self._last_send[process] < self._clock[process]:
            self._put_off[process] -= 1
            self._send(process)
        if self._sending:
            self._let_send(process if self._options.sends == "tick" else self._draw_process())

    def _draw_process(self) -> int:
        return int(self._random.random() * len(self._clock))

    def _let_send(self, process: int) -> None:
        """Let a mote send by chance. A second send in its tick is delayed to its next tick, where it has to wait."""
        if process in self._gateways or self._random.random() >= self._options.rate:
            return
        if self._options.second_send == "waits" and self._last_send[process] == self._clock[process]:
            self._put_off[process] += 1
        else:
            self._send(process)

    def _pick(self) -> int:
        """Pick a process whose turn keeps G1. Its clock ticks on the first of every `events_per_tick` turns."""
        while True:
            process = self._draw_process()
            if self._acts[process] == 0:
                if self._clock[process] + 1 - min(self._clock) > self._options.epsilon:
                    continue
                self._clock[process] += 1
            self._acts[process] = (self._acts[process] + 1) % self._options.events_per_tick
            return process

    # Sending

    def _send(self, mote: int) -> None:
        self._last_send[mote] = self._clock[mote]
        self._launch_copies(mote)
        if self._options.reception == "immediate":
            self._ripen(mote)

    def _launch_copies(self, mote: int) -> None:
        message = len(self._sent)
        self._sends[mote] += 1
        self._sent.append((mote, self._sends[mote], self._clock[mote]))
        self._events.append((SEND, mote, self._clock[mote], message))
        if self._options.measured is not None:
            self._launch_measured(message, mote, self._options.measured.rows[mote])
            return
        shared = self._draw_delay() if self._options.delay == "shared" else None
        for peer, hearing in self._recipients(mote):
            delay = self._draw_delay() if shared is None else shared
            self._launch(message, mote, peer, delay, hearing * (1 - self._options.loss))
        survives = self._network.path[mote] * (1 - self._options.loss) ** self._network.hops[mote]
        for gateway in self._gateways:
            delay = self._draw_delay() if shared is None else shared
            for _ in range(self._network.hops[mote] - 1):
                delay += self._draw_delay()
            self._launch(message, mote, gateway, delay, survives)

    def _launch_measured(self, message: int, mote: int, rows: Sequence[Row]) -> None:
        row = rows[int(self._random.random() * len(rows))]
        for receiver, delay in enumerate(row):
            if delay >= 0 and receiver != mote:
                self._launch(message, mote, receiver, delay, 1.0)

    def _recipients(self, mote: int) -> list[tuple[int, float]]:
        peers = list(zip(self._network.peers[mote], self._network.hearing[mote], strict=True))
        if self._options.recipients == "one" and peers:
            return [peers[int(self._random.random() * len(peers))]]
        return peers

    def _draw_delay(self) -> float:
        """A delay from N(mu, mu/2), redrawn while negative."""
        mean = self._options.mean_hop_delay
        while True:
            delay = mean + mean / 2 * float(self._random.standard_normal())
            if delay >= 0:
                return delay

    def _launch(self, message: int, sender: int, receiver: int, delay: float, survives: float) -> None:
        """Send a copy. It is lost if its delay is over delta, or if the link fails by chance."""
        if survives < 1 and self._random.random() >= survives:
            return
        if delay > self._options.delta:
            return
        if self._options.delay_clock == "global":
            due = self._steps + delay * len(self._clock) * self._options.events_per_tick
        else:
            due = self._clock[sender] + delay
        self._copies += 1
        heapq.heappush(self._flying[self._domain(sender)], (due, self._copies, message, receiver))

    def _domain(self, process: int) -> int:
        return process if self._options.delay_clock == "sender" else 0

    # Receiving

    def _ripen(self, process: int) -> None:
        """Hand over the copies whose delay is over, after a turn of `process`."""
        if self._options.delay_clock == "sender" and process in self._gateways:
            return
        flying = self._flying[self._domain(process)]
        now = self._delay_clock(process)
        while flying and flying[0][0] <= now:
            _, _, message, receiver = heapq.heappop(flying)
            self._inbox[receiver].append(message)
            if self._options.reception == "immediate":
                self._take_inbox(receiver)

    def _delay_clock(self, process: int) -> int:
        if self._options.delay_clock == "global":
            return self._steps
        return self._clock[process] if self._options.delay_clock == "sender" else max(self._clock)

    def _take_inbox(self, process: int) -> None:
        messages = [message for message in self._inbox[process] if self._in_time(message)]
        self._inbox[process] = []
        if not messages:
            return
        if process in self._gateways:
            self._observe(process, messages)
            return
        joined = self._options.reception == "tick"
        for i, message in enumerate(messages):
            kind = MERGE if joined and i < len(messages) - 1 else RECEIVE
            self._events.append((kind, process, self._clock[process], message))

    def _in_time(self, message: int) -> bool:
        """Whether G2 holds by the sender's clock. If G2 is enforced, a later reception is a loss."""
        sender, _, sent_at = self._sent[message]
        return self._options.g2 == "paper" or self._clock[sender] <= sent_at + self._options.delta

    def _observe(self, gateway: int, messages: list[int]) -> None:
        first_turn = self._acts[gateway] == 1 % self._options.events_per_tick
        fresh = first_turn and self._options.reception != "immediate"
        self._batches += 1
        heard = self._batches, int(fresh), gateway - self._options.motes, *self._clock[self._options.motes :]
        self._arrivals.extend((message, self._clock[gateway], *heard) for message in messages)

    def _stream(self) -> Stream:
        return stream_of(self._options, _table(self._sent, 3), _table(self._events, 4), self._arrival_rows())

    def _arrival_rows(self) -> Int64:
        return _table(self._arrivals, FIRST_CLOCK + self._options.gateways)


def _table(rows: Sequence[tuple[int, ...]], columns: int) -> Int64:
    return np.array(rows, dtype=np.int64).reshape(-1, columns)
