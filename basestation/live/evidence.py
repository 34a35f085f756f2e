"""What motes are judged by: the pauses between messages, losses over a window, states that last, restarts, how their
cells empty.

Each keeps a few numbers, whatever the traffic, and depends only on the times that it is given.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from statistics import linear_regression

SECOND = 1_000_000_000
REMEMBERED = 64  # pauses; older ones fade
FEW = 8  # pauses; a sender of fewer is taken to send at random times
RARE = 1e-7  # the share of a random sender's pauses that are longer than the limit
PERIODS = 5  # that a regular sender may miss
LEAST_NS = 2 * SECOND
LONG_NS, LONG_PAUSES = 7200 * SECOND, 64  # the longest limit
OUTLIER = 4  # limits; a longer pause counts as this one: it was an outage, or another rate


@dataclass(slots=True)
class Pauses:
    """The pauses between a sender's messages: their mean and spread, and how long a pause may last.

    After n pauses of a random sender with the mean m, the next is longer than n * m * (p ** (-1/n) - 1) with
    probability p. A sender that is steadier than that has a smaller spread, and its limit comes down to a few periods.
    """

    count: int = 0
    mean_ns: float = 0.0
    variance: float = 0.0

    def add(self, pause_ns: float) -> None:
        if pause_ns > OUTLIER * LEAST_NS and self.limit_ns is not None:  # no limit is less
            pause_ns = min(pause_ns, OUTLIER * self.limit_ns)
        self.count += 1
        weight = 1 / min(self.count, REMEMBERED)
        ahead = pause_ns - self.mean_ns
        self.mean_ns += weight * ahead
        self.variance = (1 - weight) * (self.variance + weight * ahead * ahead)

    @property
    def limit_ns(self) -> int | None:
        """How long a pause may last; None before the first."""
        if not self.count:
            return None
        known = min(self.count, REMEMBERED)
        pauses = known * (RARE ** (-1 / known) - 1)
        spread = math.sqrt(self.variance)
        if self.count < FEW:
            spread = max(spread, self.mean_ns)
        limit = max(PERIODS * self.mean_ns, self.mean_ns + spread * (pauses - 1), LEAST_NS)
        return int(min(limit, max(LONG_NS, LONG_PAUSES * self.mean_ns)))


WINDOW = 100  # messages, those that were lost included


@dataclass(slots=True)
class Losses:
    """The share of a mote's messages that was lost in the last whole window."""

    share: float | None = None
    deaf: bool = False  # nobody listened since the last one: what was lost is no fault of the mote's
    _received: int = 0  # at the window's beginning
    _lost: int = 0

    def update(self, received: int, lost: int) -> None:
        """Take the totals so far. A message counts as lost until it comes."""
        if self.deaf:
            self.deaf, self._received, self._lost = False, received, lost
        sent = received - self._received + lost - self._lost
        if sent >= WINDOW:
            self.share = max(0, lost - self._lost) / sent
            self._received, self._lost = received, lost


AGES = 128  # messages


@dataclass(slots=True)
class Backlog:
    """How many of a mote's last messages had waited for longer than a period before they were stamped."""

    _old: int = 0  # a bit each

    def add(self, is_old: bool) -> None:
        self._old = (self._old << 1 | is_old) & (1 << AGES) - 1

    @property
    def count(self) -> int:
        return self._old.bit_count()


@dataclass(slots=True)
class Lasting:
    """A state that is on or off, and since when."""

    on: bool = True
    since_ns: int | None = None

    def update(self, on: bool, mono_ns: int) -> None:
        if self.since_ns is None or on != self.on:
            self.on, self.since_ns = on, mono_ns

    def settled(self, mono_ns: int, after_ns: int) -> bool | None:
        """The state, once it has lasted for `after_ns`; None before."""
        if self.since_ns is None or mono_ns - self.since_ns < after_ns:
            return None
        return self.on


@dataclass(slots=True)
class Times:
    """The newest few times at which something happened."""

    newest: deque[int] = field(default_factory=lambda: deque(maxlen=3))
    total: int = 0

    def add(self, mono_ns: int, times: int = 1) -> None:
        self.total += times
        self.newest.extend([mono_ns] * min(times, 3))

    def often(self, mono_ns: int, within_ns: int, many: int) -> bool | None:
        """True if the last `many` fell within that time, False if it has passed without any, None in between."""
        if not self.newest or mono_ns - self.newest[-1] >= within_ns:
            return False
        if len(self.newest) >= many and self.newest[-1] - self.newest[-many] < within_ns:
            return True
        return None


EMPTY_MV = 2700  # a MICA mote's processor needs as much
DAY_NS = 86_400 * SECOND
LEAST_FALL_MV = 60  # three steps of a reading: what less says may be its rounding, or the weather
FRESH_MV = 100  # a day's mean rises by this much with new cells only
FAR_DAYS = 60  # longer forecasts are not reliable


@dataclass(slots=True)
class Drain:
    """How soon a mote's cells are down to 2.7 V, if they go on as they did.

    It compares the means of whole days, since cells are warmer by day, and forecasts nothing before the fall is clear.
    Alkaline cells fall faster at first, so the forecast is early rather than late. Lithium cells hold their voltage to
    the end: their forecast comes too late. So no forecast is no promise.
    """

    days_left: float | None = None  # from the last whole day on; None: nobody can tell, or it is far away
    means: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=30))  # by number of the day
    _began_ns: int | None = None
    _day: int = 0
    _sum: float = 0.0
    _count: int = 0

    def add(self, millivolts: int, mono_ns: int) -> None:
        if self._began_ns is None:
            self._began_ns = mono_ns
        day = (mono_ns - self._began_ns) // DAY_NS
        if day > self._day:
            self._end_day(day)
        self._sum += millivolts
        self._count += 1

    def _end_day(self, following: int) -> None:
        mean = self._sum / self._count
        if self.means and mean > self.means[-1][1] + FRESH_MV:
            self.means.clear()
        self.means.append((self._day, mean))
        self._day, self._sum, self._count = following, 0.0, 0
        self.days_left = self._left()

    def _left(self) -> float | None:
        if len(self.means) < 2:
            return None
        slope, mean = linear_regression(*zip(*self.means, strict=True))
        (first, _), (last, _) = self.means[0], self.means[-1]
        if -slope * (last - first) < LEAST_FALL_MV:
            return None
        left = (mean + slope * last - EMPTY_MV) / -slope
        return max(0.0, left) if left <= FAR_DAYS else None
