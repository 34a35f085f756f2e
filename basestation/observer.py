"""The observer: decoded data messages in, deliveries out. What the gateway heard when is its only clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from basestation.causality.boots import NO_BYTES, ROUND, UNTIMED, Numbered, Numbers
from basestation.causality.causal_graph import CausalGraph, SureGraph
from basestation.causality.ledger import Ledger
from basestation.causality.order import Message
from basestation.causality.rules import Delivery, Pending, Rule, Unfiltered
from basestation.deployed import rule_of, scheme_of
from packet_formats.deployment import Deployment
from packet_formats.messages import Data

# A copy may come this many times later than G1 and G2 allow and still be known for a duplicate.
PATIENCE = 4


class Reception(NamedTuple):
    """What became of a message that was received."""

    numbered: Numbered
    message: Message | None = None  # None: it was a duplicate
    late: bool = False  # it came when it should have left
    bounded: bool = False  # its stamp said what cannot be, and was cut
    discarded: bool = False  # it came too late to be of use, and is never delivered
    stray: bool = False  # when it was sent is unknown, as its MIC holds no time: it moved nothing
    deliveries: Sequence[Delivery] = ()  # all that is due by now, as `due` gives it


class Observer:
    """Unwraps stamps and sequence numbers at receipt, drops duplicates, and asks a rule when to let go.

    Clocks are in ticks and unwrapped. `policy`, `phi` and `tolerate` replace the deployment's. The observer comes upon
    a network at work: it waits for nothing sent before the first message heard of its mote.

    In a network with MICs a message out of sync is a stray: its MIC holds no time, so it may be an old one, played
    again. Strays are numbered apart from all others and leave at once, so that they move nothing.
    """

    def __init__(
        self,
        deployment: Deployment,
        policy: str | None = None,
        phi: int | None = None,
        tolerate: float | None = None,
    ) -> None:
        self._deployment = deployment
        self.scheme = scheme_of(deployment)
        self._reader = self.scheme.codec().reader()
        clock = deployment.clock
        self.patience = PATIENCE * (clock.delta + 2 * clock.epsilon)
        self._numbers, self._strays = Numbers(self.patience), Numbers(self.patience)
        self._has_mics, self._late_guess = deployment.security.mic > 0, deployment.late_guess
        self._rule = self._make(policy, phi, tolerate)
        self.received = 0
        self.duplicates = 0
        self._late_before = 0  # under rules that were changed since

    @property
    def late(self) -> int:
        return self._late_before + self._rule.late

    @property
    def bounded(self) -> int:
        return self._reader.bounded

    @property
    def timed(self) -> bool:
        """Whether the rule waits only for a time; otherwise it waits for particular messages, or not at all."""
        return self._rule.timed

    @property
    def ledger(self) -> Ledger | None:
        """The account of the present rule's wait; None where the wait is fixed."""
        return self._rule.ledger

    @property
    def waits_by_name(self) -> bool:
        """Whether the rule waits for particular messages."""
        return not self._rule.timed and not isinstance(self._rule, Unfiltered)

    def receive(
        self,
        data: Data,
        now: int,
        heard: int | None = None,
        token: Any = None,
        timed: bool = True,
        guessed: bool = False,
        digest: int = NO_BYTES,
    ) -> Reception:
        """Take a message while the observer's clock reads `now`; `token` comes back with its delivery.

        It was heard at `now`, or at `heard`: a line may be behind another one, and stamps are read against the time
        of their own reception. `timed`: the time was known; else the ticks say nothing of when it came. `guessed`: it
        may have been heard later than that, if what the guess goes by was late. `digest`: see `data_digest`; without
        it, two messages of one number are copies.
        """
        heard = now if heard is None else heard
        if not data.in_sync and self.is_stray(data):
            return self._receive_stray(data, now, token, digest)
        source, reader = data.source, self._reader
        tick, known = heard if timed else UNTIMED, reader.newest(source)
        found = self._numbers.accept(source, data.boot, data.sequence, tick, known, digest)
        sequence, number = found.sequence, found.number
        if number is None:
            self.duplicates += 1
            return Reception(found)
        self.received += 1
        if found.fresh:
            if known is not None:
                reader.forget(source)
            self._rule.join(source, number)
        bounded = reader.bounded
        at = heard + self._late_guess if guessed else heard
        stamp = reader.read(data.stamp, source, number, at)
        in_sync = data.in_sync and timed  # what came at an unknown time cannot be ordered
        message = Message(
            source, sequence, stamp, in_sync, data.data, number - sequence, token, heard, guessed
        )
        rule = self._rule
        # A rule that need not wait for a tick has let go all that was due in it before this message came.
        deliveries = [] if rule.timed else rule.due(now)
        before = rule.late
        taken = rule.receive(message, now)
        late = rule.late > before  # by itself: others that leave now may be late, too
        deliveries += rule.due(now)
        return Reception(found, message, late, reader.bounded > bounded, not taken, False, deliveries)

    def is_stray(self, data: Data) -> bool:
        """Whether it has a MIC that holds no time."""
        return self._has_mics and not data.in_sync

    def _receive_stray(self, data: Data, now: int, token: Any, digest: int) -> Reception:
        """It may be of any time: its stamp is read without others, and no silence makes a copy a new message."""
        found = self._strays.accept(data.source, data.boot, data.sequence, UNTIMED, digest=digest)
        if found.number is None:
            self.duplicates += 1
            return Reception(found, stray=True)
        self.received += 1
        stamp = self.scheme.codec().reader().read(data.stamp, data.source, found.number, now)
        above = found.number - found.sequence
        message = Message(data.source, found.sequence, stamp, False, data.data, above, token)
        found = found._replace(before=None, differs=False)  # what may be old shows neither
        return Reception(
            found, message, stray=True, deliveries=[*self._rule.due(now), Delivery(message, now, now)]
        )

    def read(
        self, data: Data, sequence: int, number: int, fresh: bool, heard: int, guessed: bool = False
    ) -> Message:
        """A message that is numbered already, with its stamp unwrapped. `fresh`: it is the first of a boot.

        A counter in others' stamps may be a round or more ahead of the numbers: then it begins anew with them.
        """
        known = self._reader.newest(data.source)
        if known is not None and (fresh or known - number >= ROUND // 2):
            self._reader.forget(data.source)
        at = heard + self._late_guess if guessed else heard
        stamp = self._reader.read(data.stamp, data.source, number, at)
        return Message(data.source, sequence, stamp, data.in_sync, data.data, number - sequence)

    def resume(self, source: int, number: int) -> None:
        """Read stamps as if this had been the newest message of a mote."""
        self._reader.resume(source, number)

    def graph(self, window: int) -> CausalGraph:
        """A causal graph for the messages that it reads."""
        clock = self._deployment.clock
        wait = clock.delta + 2 * clock.epsilon + 1
        return CausalGraph(self.scheme, self._deployment.network.motes, self.patience, wait, window)

    def sure_graph(self, window: int) -> SureGraph | None:
        """The same with sure causes only; None where neither stamps nor receipts name any."""
        if not self._deployment.stamp.receipts and not self.scheme.names_causes:
            return None
        return SureGraph(self.scheme, self._deployment.network.motes, self.patience, window)

    def shift(self, ticks: int) -> None:
        """The clock has jumped, since the network's time started afresh: no message became older by that."""
        self._numbers.shift(ticks)

    def due(self, now: int) -> list[Delivery]:
        """All that has left by the time the clock reads `now`, in order of delivery."""
        return self._rule.due(now)

    def next_due(self) -> int | None:
        """The clock value at which something will be due if nothing more arrives; None when nothing is held."""
        return self._rule.next_due()

    def pending(self) -> list[Pending]:
        """All that is held, in the order in which it would leave if nothing more came."""
        return self._rule.pending()

    def named(self, source: int, number: int) -> tuple[int, int]:
        """The boot and sequence number of a message that a rule waits for."""
        return self._numbers.named(source, number)

    def change_policy(
        self, policy: str, phi: int, held: Iterable[Message], now: int, tolerate: float | None = None
    ) -> list[Message]:
        """Go on under another policy, which is given what the old one held, in order of arrival; what it discards."""
        late, waiting = self.late, list(held)
        rule = self._make(policy, phi, tolerate)
        if self._rule.retune(rule):
            return []
        self._rule = rule
        first = {source: newest + 1 for source, newest in self._numbers.newest.items()}
        for message in waiting:
            first[message.source] = min(message.number, first[message.source])
        for source, number in first.items():
            self._rule.join(source, number)
        discarded = [message for message in waiting if not self._rule.receive(message, now)]
        self._late_before = late - self._rule.late  # late messages were counted when they came
        return discarded

    def _make(self, policy: str | None, phi: int | None, tolerate: float | None) -> Rule:
        self.policy = policy or self._deployment.observer.policy
        rule = rule_of(self._deployment, policy, phi, tolerate)
        rule.begin()
        return rule
