"""The observer: decoded data messages in, deliveries out. What the gateway heard when is its only clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from basestation.causality.order import Message
from basestation.causality.policies import Delivery, Policy
from basestation.causality.sequences import SequenceUnwrapper
from basestation.deployed import policy_of, scheme_of
from packet_formats.deployment import Deployment
from packet_formats.messages import Data

# A copy may come this many times later than G1 and G2 allow and still be known for a duplicate.
PATIENCE = 4


class Observer:
    """Unwraps stamps and sequence numbers at receipt, drops duplicates, and asks a policy when to let go.

    Clocks are in ticks and unwrapped; `now` never falls.
    """

    def __init__(self, deployment: Deployment, policy: Policy | None = None) -> None:
        self._scheme = scheme_of(deployment)
        self._policy = policy or policy_of(deployment)
        clock = deployment.clock
        patience = PATIENCE * (clock.delta + 2 * clock.epsilon)
        self._sequences = defaultdict[tuple[int, int], SequenceUnwrapper](lambda: SequenceUnwrapper(patience))
        self.received = 0
        self.duplicates = 0
        self.bounded = 0
        self._late_before = 0  # under policies that were changed since

    @property
    def late(self) -> int:
        return self._late_before + self._policy.late

    def receive(self, data: Data, now: int, heard: int | None = None) -> Message | None:
        """Take a message while the observer's clock reads `now`; None when it was a duplicate.

        It was heard at `now`, or at `heard`: a line may be behind another one, and stamps are read against the time
        of their own reception.
        """
        heard = now if heard is None else heard
        sequence = self._sequences[data.source, data.boot].accept(data.sequence, heard)
        if sequence is None:
            self.duplicates += 1
            return None
        self.received += 1
        read = self._scheme.decode(data.stamp, heard)
        stamp = self._scheme.observe(read, heard)
        self.bounded += stamp != read
        message = Message(data.source, sequence, stamp, data.in_sync, data.data)
        self._policy.receive(message, now)
        return message

    def due(self, now: int) -> list[Delivery]:
        return self._policy.due(now)

    def next_due(self) -> int | None:
        return self._policy.next_due()

    def forget(self, source: int, boot: int) -> None:
        """A mote has booted: the same boot count, modulo 8, eight boots ago has nothing to do with it."""
        self._sequences.pop((source, boot), None)

    def change_policy(self, policy: Policy, held: Iterable[Message], now: int) -> None:
        """Go on under another policy, which is given what the old one held, in order of arrival."""
        self._late_before += self._policy.late
        self._policy = policy
        for message in held:
            policy.receive(message, now)
        self._late_before -= policy.late  # whoever was late was counted when it came
