"""The observer: decoded data messages in, deliveries out. What the gateway heard when is its only clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from basestation.causality.order import Message
from basestation.causality.policies import Delivery, Policy
from basestation.causality.schemes.attendance import FromFirstHeard
from basestation.causality.schemes.holding import Holding, Pending
from basestation.causality.schemes.notices import DiscardNotice, Notice, Step
from basestation.causality.sequences import Numbers
from basestation.deployed import rule_of, scheme_of
from packet_formats.deployment import Deployment
from packet_formats.messages import Data

# A copy may come this many times later than G1 and G2 allow and still be known for a duplicate.
PATIENCE = 4


@dataclass(frozen=True, slots=True)
class Heard(Message):
    """`sequence` counts in the sender's boot. `number` goes on over all its boots: what rules know messages by."""

    number: int = 0


class Observer:
    """Unwraps stamps and sequence numbers at receipt, drops duplicates, and asks a policy when to let go.

    Clocks are in ticks and unwrapped; `now` never falls. `policy` and `phi` replace the deployment's.
    """

    def __init__(self, deployment: Deployment, policy: str | None = None, phi: int | None = None) -> None:
        self._deployment = deployment
        self._reader = scheme_of(deployment).codec().reader()
        clock = deployment.clock
        self._numbers = Numbers(PATIENCE * (clock.delta + 2 * clock.epsilon))
        self._newest: dict[int, int] = {}
        self._steps: list[Step] = []
        self._policy = self._make(policy, phi)
        self.received = 0
        self.duplicates = 0
        self._late_before = 0  # under policies that were changed since

    @property
    def late(self) -> int:
        return self._late_before + self._policy.late

    @property
    def bounded(self) -> int:
        return self._reader.bounded

    def receive(self, data: Data, now: int, heard: int | None = None) -> Heard | None:
        """Take a message while the observer's clock reads `now`; None when it was a duplicate.

        It was heard at `now`, or at `heard`: a line may be behind another one, and stamps are read against the time
        of their own reception.
        """
        heard = now if heard is None else heard
        source, known = data.source, self._reader.newest(data.source)
        found = self._numbers.accept(source, data.boot, data.sequence, heard, known)
        if found is None:
            self.duplicates += 1
            return None
        self.received += 1
        if found.fresh and known is not None:
            self._reader.forget(source)
            self._join(source, found.number)
        stamp = self._reader.read(data.stamp, source, found.number, heard)
        message = Heard(source, found.sequence, stamp, data.in_sync, data.data, found.number)
        self._newest[source] = max(found.number, self._newest.get(source, found.number))
        self._policy.receive(message, now)
        return message

    def due(self, now: int) -> list[Delivery]:
        return self._policy.due(now)

    def next_due(self) -> int | None:
        return self._policy.next_due()

    @property
    def by_name(self) -> bool:
        """Whether the policy is a rule that waits for particular messages."""
        return isinstance(self._policy, _ByNumber)

    def steps(self) -> list[Step]:
        """What the rule has detected, given up or discarded since it was last asked."""
        steps = self._steps[:]
        self._steps.clear()
        return steps

    def pending(self) -> list[Pending] | None:
        """What is held, and what it waits for by name; None under a policy that waits for the time alone."""
        return self._policy.pending() if isinstance(self._policy, _ByNumber) else None

    def named(self, source: int, number: int) -> tuple[int, int]:
        """The boot and sequence number of a message that a rule waits for."""
        return self._numbers.named(source, number)

    def forget(self, source: int, boot: int) -> None:
        """A mote has booted: the same boot count, modulo 8, eight boots ago has nothing to do with it."""
        self._numbers.forget(source, boot)

    def change_policy(self, policy: str, phi: int, held: Iterable[Heard], now: int) -> None:
        """Go on under another policy, which is given what the old one held, in order of arrival."""
        late, waiting = self.late, list(held)
        self._policy = self._make(policy, phi)
        first = {source: newest + 1 for source, newest in self._newest.items()}
        for message in waiting:
            first[message.source] = min(message.number, first[message.source])
        for source, number in first.items():
            self._join(source, number)
        for message in waiting:
            self._policy.receive(message, now)
        self._late_before = late - self._policy.late  # whoever was late was counted when it came

    def _join(self, source: int, number: int) -> None:
        if isinstance(self._policy, _ByNumber):
            self._policy.join(source, number)

    def _make(self, name: str | None, phi: int | None) -> Policy:
        numbered = _ByNumber(self._steps.append)
        policy = rule_of(self._deployment, name, phi, numbered.notice)
        if not isinstance(policy, Holding):
            return policy
        numbered.start(policy, self._deployment.network.motes)
        return numbered


class _ByNumber:
    """A rule that knows messages by their numbers is given them so; outside they are what they were.

    A mote whose boots go back and forth may number two messages alike, so each is known here by what it is.
    """

    def __init__(self, notice: Notice) -> None:
        self._notice = notice
        self._held: dict[int, tuple[Message, Message]] = {}  # as renamed, and as it was

    def start(self, rule: Holding, motes: int) -> None:
        self._rule, self._policy = rule, FromFirstHeard(rule, motes)

    @property
    def late(self) -> int:
        return self._policy.late

    def join(self, source: int, number: int) -> None:
        self._policy.join(source, number)

    def notice(self, step: Step) -> None:
        own = self._own(step.message)
        if isinstance(step, DiscardNotice):
            del self._held[id(step.message)]
        self._notice(replace(step, message=own))

    def receive(self, message: Message, now: int) -> None:
        assert isinstance(message, Heard)
        renamed = Message(message.source, message.number, message.stamp, message.in_sync)
        self._held[id(renamed)] = renamed, message
        self._policy.receive(renamed, now)

    def due(self, now: int) -> list[Delivery]:
        found = self._policy.due(now)
        return [delivery._replace(message=self._held.pop(id(delivery.message))[1]) for delivery in found]

    def next_due(self) -> int | None:
        return self._policy.next_due()

    def pending(self) -> list[Pending]:
        return [one._replace(message=self._own(one.message)) for one in self._rule.pending()]

    def _own(self, message: Message) -> Message:
        return self._held[id(message)][1]
