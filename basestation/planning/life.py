"""A model of how long cells last: the work of a mote of each level in a period, times the currents of its parts.

It uses mean numbers of messages, senders that take turns, and phases that close as soon as they are quiet. It leaves
out interference, joining and temperature. docs/evidence/power.md compares it with the testbed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean

from packet_formats import power
from packet_formats.boards import BOARDS
from packet_formats.layout import PAYLOAD_LIMIT, StampLayout
from packet_formats.schedule import PERIODS_LOG2, Schedule, ScheduleError, least_window_ms, ms, schedule_of

from .budget import RARE, BudgetError, PlannedNetwork

STAMP_BYTES = 4  # of the usual stamps, and those of variable size: a window has room for this size
BURST = 4  # frames that a mote sends in one turn, at most
LEARNED = 0.6  # standard deviations: the mean of a window's end and the second latest of four
ROOM = 1.05  # a window's length over the need of its phases, for senders that do not hear one another
TAKEN = 8  # messages that the gateway acknowledges together,
TAKEN_BYTES = 16  # of such an acknowledgement
BEACON_BYTES = 24
# Charge of one start of the radio, processor included, in uAs: regulator, crystal and registers of a CC2420; crystal,
# bias and PLL of a CC1000 that keeps its calibration.
START_UAS = {"CC2420": 25.0, "CC1000": 39.0}
# The processor while the receiver is on and idle: the CC1000 hands over byte by byte, noise too.
AWAKE_MA = {"CC2420": 3.2, "CC1000": 3.7}
MESSAGES_IN_FRAME = {"CC2420": 1, "CC1000": 2}
# A look into an urgent window, as emulated: how much longer than needed the receiver is on, and how long the processor
# is active.
LOOK_MORE_MS, LOOK_ACTIVE_MS = 2.0, 6.0
WATCHDOG_WAKES = 1.0  # a second
WATCHDOG_STARTING_MS, WATCHDOG_MS = 2.2, 0.35


@dataclass(frozen=True, slots=True)
class LevelLife:
    """A mote at one distance from the gateway: the share of time with its radio on, and its mean mA by part."""

    level: int
    motes: int
    duty: float
    ma_of: dict[str, float]

    @property
    def ma(self) -> float:
        return sum(self.ma_of.values())


@dataclass(frozen=True, slots=True)
class LifePlan:
    """How long a network lasts; `schedule` is None if its motes listen always."""

    schedule: Schedule | None
    levels: tuple[LevelLife, ...]
    mah: float = power.CELLS_MAH

    @property
    def _motes(self) -> list[LevelLife]:
        return [level for level in self.levels for _ in range(level.motes)]

    @property
    def ma(self) -> float:
        return fmean(mote.ma for mote in self._motes)

    @property
    def duty(self) -> float:
        return fmean(mote.duty for mote in self._motes)

    @property
    def days(self) -> float:
        """The days of the mean mote."""
        return power.days(self.ma, self.mah)

    @property
    def worst(self) -> LevelLife:
        return max(self.levels, key=lambda level: level.ma)

    @property
    def worst_days(self) -> float:
        """The days of the mote that lasts least."""
        return power.days(self.worst.ma, self.mah)

    @property
    def ma_of(self) -> dict[str, float]:
        """The mean mote's current by part."""
        parts = dict.fromkeys(part for level in self.levels for part in level.ma_of)
        return {part: fmean(mote.ma_of.get(part, 0.0) for mote in self._motes) for part in parts}


def schedule_for(network: PlannedNetwork, period_ms: int) -> Schedule:
    """The shortest window that almost always has room for all messages; `ScheduleError` if none fits the period."""
    board = BOARDS[network.board]
    shape = network.motes, network.hops, network.tinyos
    least = least_window_ms(board, *shape)
    made = schedule_of(board, *shape, max(PERIODS_LOG2), least)
    traffic = _Traffic(network, made, period_ms, often=RARE)
    longest = max(traffic.phase_ms(level) for level in range(1, made.levels + 1))
    window = max(least, math.ceil(ROOM * longest * made.rounds * made.levels))
    return schedule_of(board, *shape, period_ms, window, network.mic, network.urgent_ms)


def life_of(
    network: PlannedNetwork, schedule: Schedule | None, loss: float = 0.0, mah: float = power.CELLS_MAH
) -> LifePlan:
    """The life of a network, if each frame is lost with probability `loss` on each link."""
    if schedule is None:
        return LifePlan(None, (_always_on(network),), mah)
    traffic = _Traffic(network, schedule, schedule.period_ms)
    return LifePlan(schedule, tuple(_level_life(traffic, level, loss) for level in traffic.levels), mah)


def _always_on(network: PlannedNetwork) -> LevelLife:
    currents, chip = power.currents(network.board), BOARDS[network.board].radio.chip
    parts = {
        "listening": currents.radio["receiving"].ma,
        "processor": AWAKE_MA[chip],
        "board": currents.board.ma,
    }
    return LevelLife(0, network.motes, 1.0, parts)


class _Traffic:
    """The traffic of a window: messages by level, and how long each phase takes.

    With `often`, the number of messages that a window exceeds with this probability.
    """

    def __init__(self, network: PlannedNetwork, schedule: Schedule, period_ms: int, often: float = 0) -> None:
        self.network, self.schedule, self.often = network, schedule, often
        self.radio = BOARDS[network.board].radio
        self.messages_each = network.rate * period_ms / 1000
        at = [min(hops, schedule.levels) for hops in network.hops_of_motes]
        self.motes = {level: at.count(level) for level in range(1, schedule.levels + 1)}
        fits = (PAYLOAD_LIMIT[network.tinyos] - 1) // network.payload
        self.bundle = max(1, min(MESSAGES_IN_FRAME[self.radio.chip], fits))

    @property
    def levels(self) -> range:
        return range(1, self.schedule.levels + 1)

    def messages(self, level: int) -> float:
        """The messages sent in a level's phase: its own, and all from farther levels."""
        mean = self.messages_each * sum(count for at, count in self.motes.items() if at >= level)
        return _poisson_most(mean, self.often) if self.often else mean

    def frames(self, level: int) -> float:
        """With two messages in a frame, a sender with an odd number of them has a frame that is half full."""
        messages, motes = self.messages(level), self.motes[level]
        if self.bundle == 1:
            return messages
        return messages / 2 + motes * (1 - math.exp(-2 * messages / motes)) / 4

    @property
    def frame_ms(self) -> float:
        """A data frame, the gap after it, and the time that a mote takes to handle it.

        Handling does not lengthen a window: a message without room in the first round goes in the next.
        """
        handling = 0.0 if self.often else self.network.processing_ms
        return self.data_ms + ms(self.schedule.burst_gap) + handling

    @property
    def data_ms(self) -> float:
        """A data frame on the air."""
        payload = self.network.payload if self.bundle == 1 else 1 + self.bundle * self.network.payload
        return self.airtime_ms(payload)

    def airtime_ms(self, payload: int) -> float:
        return self.radio.firmware_air_bytes(payload, self.network.tinyos) * self.radio.byte_ms

    @property
    def retry_ms(self) -> float:
        """A frame in a retry, with the wait for its sender's turn."""
        schedule = self.schedule
        return self.frame_ms + ms((2 + schedule.slot_ids / 2) * schedule.mini_slot)

    @property
    def poll_ms(self) -> float:
        """An idle phase of a later round."""
        return ms(self.schedule.guard + self.schedule.quiet)

    def looks(self, level: int) -> int:
        """The urgent windows in which a mote listens: all, unless it has no farther motes."""
        return self.schedule.urgent_windows if level < self.schedule.levels else 0

    @property
    def look_ms(self) -> float:
        return ms(self.schedule.guard + self.schedule.urgent_quiet) + LOOK_MORE_MS

    def phase_ms(self, level: int) -> float:
        """How long a listener is on in a phase of the first round: guard, turns of senders, frames, acknowledgements,
        quiet.

        A listener stays on for as long as it learned that others may send: beyond the mean of a window's messages.
        """
        schedule, messages = self.schedule, self.messages(level)
        senders = self.motes[level] * (1 - math.exp(-messages / self.motes[level]))
        turns = senders * max(1.0, self.frames(level) / self.motes[level] / BURST)
        slots = 2 * turns + schedule.slot_ids * _waits(turns)
        learned = 0.0 if self.often else LEARNED * self.frames(level) / math.sqrt(messages) * self.frame_ms
        answers = self.answers_ms if level == 1 else 0.0
        silence = ms(schedule.guard + schedule.quiet)
        return (
            self.frames(level) * self.frame_ms + learned + ms(slots * schedule.mini_slot) + answers + silence
        )

    @property
    def answers_ms(self) -> float:
        """The gateway's acknowledgements; the last is half full."""
        frame = self.airtime_ms(TAKEN_BYTES) + ms(self.schedule.burst_gap)
        return (self.messages(1) / TAKEN + 0.5) * frame

    def beacon_ms(self, level: int) -> float:
        """The wait for a beacon of the nearer level, and for the mote's own turn to forward it."""
        schedule = self.schedule
        airtime, guard = self.airtime_ms(BEACON_BYTES), ms(schedule.guard)
        turns = ms(schedule.slot_ids * schedule.mini_slot)
        heard = guard + airtime + (turns / (self.motes[level - 1] + 1) if level > 1 else 0.0)
        passed_on = guard + turns / 2 + airtime if level < schedule.levels else 0.0
        return (heard + passed_on) / schedule.beacon_every

    def missed(self, level: int, loss: float, round_: int) -> float:
        """Messages of a level that are sent again, by a sender or a backup that heard no acknowledgement."""
        again = min(1.0, loss * (1 + self.motes.get(level, 1)) / 2)
        return self.messages(level) * again**round_ if level <= self.schedule.levels else 0.0


def _level_life(traffic: _Traffic, level: int, loss: float) -> LevelLife:
    schedule, radio = traffic.schedule, traffic.radio
    currents = power.currents(traffic.network.board)
    heard = [near for near in (level - 1, level, level + 1) if near in traffic.levels]
    first = sum(traffic.phase_ms(near) for near in heard)
    retries, polls = _retries(traffic, level, loss)
    beacons = traffic.beacon_ms(level)
    again = sum(traffic.missed(level, loss, round_) for round_ in range(1, schedule.rounds))
    sent = (traffic.frames(level) + again) / traffic.motes[level]
    sending = sent * traffic.data_ms
    looks, looking = traffic.looks(level), traffic.looks(level) * traffic.look_ms
    starts = (1 + (level < schedule.levels)) / schedule.beacon_every + len(heard) + polls + looks
    frames = sum(traffic.frames(near) for near in heard)
    on = beacons + first + retries + looking
    # the processor is active, not idle
    busy = frames * traffic.network.processing_ms + looks * LOOK_ACTIVE_MS
    receiving, period = currents.radio["receiving"].ma, schedule.period_ms
    processor = currents.processor
    awake = on * AWAKE_MA[radio.chip] + busy * (processor["active"].ma - processor["idle"].ma)
    wake = WATCHDOG_STARTING_MS * processor["starting"].ma + WATCHDOG_MS * processor["active"].ma
    charge = {
        "beacons": beacons * receiving,
        "first round": (first - sending) * receiving,
        "retries": retries * receiving,
        **({"urgent": looking * receiving} if looks else {}),
        "sending": sending * currents.radio["sending"].ma,
        "processor": awake,
        "starts": starts * START_UAS[radio.chip],
        "watchdog": WATCHDOG_WAKES * period / 1000 * wake,
        "board": period * power.ASLEEP_MA,
    }  # in uAs
    return LevelLife(
        level, traffic.motes[level], on / period, {part: uas / period for part, uas in charge.items()}
    )


def _retries(traffic: _Traffic, level: int, loss: float) -> tuple[float, float]:
    """The time of the rounds after the first, in ms, and the number of their phases in which a mote is on."""
    total = phases = 0.0
    for round_ in range(1, traffic.schedule.rounds):
        if level < traffic.schedule.levels:
            total += traffic.poll_ms + traffic.missed(level + 1, loss, round_) * traffic.retry_ms
            phases += 1
        own = traffic.missed(level, loss, round_)
        has_some = 1 - math.exp(-own / traffic.motes[level])
        nearer = traffic.missed(level - 1, loss, round_) if level > 1 else 0.0
        near = 1 + (level > 1)
        total += has_some * (near * traffic.poll_ms + (own + nearer) * traffic.retry_ms)
        phases += has_some * near
    return total, phases


def _waits(turns: float) -> float:
    """The sum over `turns` of the share of a round of ids before each: 1/(k + 1) when k are left."""
    whole = int(turns)
    return sum(1 / (left + 1) for left in range(1, whole + 1)) + (turns - whole) / (whole + 2)


def _poisson_most(mean: float, often: float) -> int:
    """The number that a Poisson variable exceeds no more often than `often`."""
    chance = below = math.exp(-mean)
    number = 0
    while below < 1 - often and number < 10 * mean + 50:
        number += 1
        chance *= mean / number
        below += chance
    return number


def with_period(network: PlannedNetwork, period_ms: int) -> PlannedNetwork:
    """The network with a schedule, its window just long enough; `BudgetError` if none fits.

    If windows come as often as urgent ones should, urgent ones are left out.
    """
    if not period_ms:
        return replace(network, period_ms=0, window_ms=0)
    if period_ms <= network.urgent_ms:
        network = replace(network, urgent_ms=0)
    try:
        schedule = schedule_for(replace(network, stamp_bytes=STAMP_BYTES), period_ms)
    except ScheduleError as error:
        raise BudgetError(error.key.replace("_", "-"), error.reason) from error
    return replace(network, period_ms=period_ms, window_ms=math.ceil(schedule.delta_ms))


def life_with(network: PlannedNetwork, stamp: StampLayout, mah: float = power.CELLS_MAH) -> LifePlan:
    """The life with a stamp of this size, since each byte costs air time. A variable stamp has its usual size."""
    size = min(STAMP_BYTES, stamp.size) if stamp.is_variable else stamp.size
    return life_of(replace(network, stamp_bytes=size), network.schedule, network.loss, mah)
