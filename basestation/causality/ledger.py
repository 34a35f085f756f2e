"""The ledger: a wait that keeps a promise about the share of messages in a violation.

Every arrival earns `alpha`, the share that may be in a violation, and every message seen in one costs 1. The wait is
the balance in other units: it shrinks a little with each arrival and grows with each violation, so what was seen stays
below alpha times the arrivals whatever the delays are. docs/evidence/algorithms.md has the argument.
"""

from __future__ import annotations

from math import ceil

ETA = 4.0  # ticks of waiting for one message in a violation


class Ledger:
    """The wait in ticks that stands in place of W = delta + epsilon, and the account behind it."""

    def __init__(self, alpha: float, most: int) -> None:
        self.alpha, self.most = alpha, most
        self.wait = float(most)  # w: it may exceed `most`, since a debt must be worked off
        self.ticks = most  # the wait in use
        self.arrivals = 0
        self.spent = 0

    def arrived(self) -> None:
        """Count an arrival."""
        self.arrivals += 1
        if self.alpha:
            self._set(max(0.0, self.wait - ETA * self.alpha))

    def late(self, effects: int) -> None:
        """Count a message that arrived after `effects` messages that depend on it."""
        self.spent += 1 + effects
        self._set(self.wait + ETA * (1 + effects))

    def _set(self, wait: float) -> None:
        self.wait, self.ticks = wait, min(ceil(wait), self.most)

    @property
    def allowed(self) -> float:
        """The number of messages that may be in a violation so far."""
        return self.alpha * self.arrivals
