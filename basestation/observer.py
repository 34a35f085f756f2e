"""The observer: decoded data messages in, deliveries out. What the gateway heard when is its only clock."""

from __future__ import annotations

from collections import defaultdict

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

    @property
    def late(self) -> int:
        return self._policy.late

    def receive(self, data: Data, now: int) -> Message | None:
        """Take a message that was heard at `now`; None when it was a duplicate."""
        sequence = self._sequences[data.source, data.boot].accept(data.sequence, now)
        if sequence is None:
            self.duplicates += 1
            return None
        self.received += 1
        read = self._scheme.decode(data.stamp, now)
        stamp = self._scheme.observe(read, now)
        self.bounded += stamp != read
        message = Message(data.source, sequence, stamp, data.in_sync, data.data)
        self._policy.receive(message, now)
        return message

    def due(self, now: int) -> list[Delivery]:
        return self._policy.due(now)

    def next_due(self) -> int | None:
        return self._policy.next_due()
