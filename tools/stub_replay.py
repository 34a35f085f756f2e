"""Delivers a recorded run by the barrier's rule again, as if stubs of lost messages had come too.

A stub is the header and stamp of a lost message. The observer orders it as a message and shows nothing. With `several`
ways another copy may still come, so a stub leaves only when none can: W after it came, or after its l.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from basestation.causality.ledger import Ledger
from basestation.causality.order import Message
from basestation.causality.schemes.barrier import Barrier
from basestation.causality.schemes.barrier_rule import Arrival, BarrierRule
from basestation.causality.stream import Stream
from basestation.simulator.scheme_run import stamp_messages


class Stub(NamedTuple):
    """A stub that comes in a tick of the observer's clock, of a message by its number in the stream."""

    tick: int
    message: int


class Replayed(NamedTuple):
    """The real messages in order of delivery, by their numbers, and how many ticks each was held."""

    order: list[int]
    hold: list[int]


class StubRule(BarrierRule):
    """The barrier's rule, with messages of which only a stub has come."""

    def __init__(self, scheme: Barrier, several: bool) -> None:
        super().__init__(scheme.setting.motes, scheme.constants, Ledger(0.0, scheme.constants.W))
        self._several = several
        self.stubs: dict[int, Arrival | None] = {}  # by number

    def take_stub(self, message: Message, now: int) -> None:
        self.stubs[message.token] = None
        self.receive(message, now)

    def take_real(self, number: int, now: int) -> bool:
        """A message whose stub came before; gives whether it is still in time to take the stub's place."""
        self._settle(now - 1)
        self._clock = max(self._clock, now)
        arrival = self.stubs.pop(number)
        if arrival is None or not arrival.held:
            return False
        arrival.at, self._awake = now, True
        self._evaluate(arrival)
        return True

    def _evaluate(self, one: Arrival) -> None:
        if one.message.token in self.stubs:
            self.stubs[one.message.token] = one
            if self._several:
                one.version += 1
                one.bound = None
                if not self._is_past(min(one.at, one.top), one):
                    return
        super()._evaluate(one)


def replay(stream: Stream, scheme: Barrier, stubs: Iterable[Stub] = (), several: bool = False) -> Replayed:
    """Stamp the stream and deliver its arrivals and the stubs, one by one, as they come from a gateway's line."""
    messages = stamp_messages(stream, scheme)
    rule, found, here = StubRule(scheme, several), Replayed([], []), set[int]()

    def deliver(now: int) -> None:
        for delivery in rule.due(now):
            if delivery.message.token not in rule.stubs:
                show(delivery.message.token, delivery.left - delivery.arrived)

    def show(number: int, hold: int) -> None:
        found.order.append(number)
        found.hold.append(hold)

    arrivals = zip(stream.arrival_clock.tolist(), stream.arrival_message.tolist(), strict=True)
    coming = [(tick, False, number) for tick, number in arrivals]
    coming += [(stub.tick, True, stub.message) for stub in stubs]
    for now, is_stub, number in sorted(coming, key=lambda row: row[:2]):
        deliver(now)
        message = messages[number]._replace(token=number)
        if is_stub:
            if number not in here:
                rule.take_stub(message, now)
        elif number not in rule.stubs:
            rule.receive(message._replace(stamp=scheme.as_observed(message.stamp, now)), now)
        elif not rule.take_real(number, now):
            show(number, 0)
        here.add(number)
        deliver(now)
    while (at := rule.next_due()) is not None:
        deliver(at)
    return found
