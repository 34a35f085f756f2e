"""When a network with a schedule listens: what follows from a period, a window and a board. Standard library only.

A window opens at every multiple of the period in network time. It begins with a slot for each hop of the beacon, then
come rounds of phases: in a phase only the motes of one level (hops from the gateway) send, those farthest out first.
All times are cycles of the 32768 Hz crystal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from packet_formats.ages import age_cycles
from packet_formats.boards import CRYSTAL_HZ, Board
from packet_formats.layout import PAYLOAD_LIMIT

ROUNDS = 4  # the first for data, the others for messages without an acknowledgement
MOST_LEVELS = 3  # the last stands for "this far and farther"
LEAST_IDS = 8
HANDLING = CRYSTAL_HZ * 2 // 1000  # for a mote to process a frame
PHASE_MOST = 0xC000 - 1  # motes count a phase's cycles in 16 bits, and a round of turns beyond it
# A period is a power of two of cycles, so that the clock's wrap does not shift windows: 2 to 64 seconds.
PERIODS_LOG2 = {1000 * seconds: 14 + seconds.bit_length() for seconds in (2, 4, 8, 16, 32, 64)}


URGENT_TURNS = 4  # mini-slots in which an urgent sender begins; without a sender the others sleep again


class ScheduleError(ValueError):
    """A schedule is impossible: which key of [radio] is at fault, and why."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key, self.reason = key, reason


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times of one network's windows, in cycles."""

    period_log2: int
    phase: int
    rounds: int
    levels: int  # phases of a round
    beacon_slot: int
    beacon_slots: int
    beacon_every: int  # windows
    mini_slot: int
    slot_ids: int  # G: mini-slots between two turns of a mote
    quiet: int  # a phase is over when nothing was heard for this long
    burst_gap: int  # from a frame's end to the next carrier of the same sender
    guard: int  # the receiver is on this long before a phase, at least
    guard_margin: int  # to add to the clock's own error, where that is more
    wake: int  # from a radio in power-down to a receiver that is on
    urgent_log2: int = 0  # 0: there are no urgent windows
    urgent_quiet: int = 0  # a mote that hears nothing for this long in one sleeps again

    @property
    def period(self) -> int:
        return 1 << self.period_log2

    @property
    def data_start(self) -> int:
        """From a window's start to its first data."""
        return self.beacon_slots * self.beacon_slot

    @property
    def window(self) -> int:
        """How long data may be on its way: nothing is stamped before it, nothing is on the air after it."""
        return self.rounds * self.levels * self.phase

    @property
    def end(self) -> int:
        """From a window's start to its end."""
        return self.data_start + self.window

    @property
    def period_ms(self) -> int:
        return self.period * 1000 // CRYSTAL_HZ

    @property
    def delta_ms(self) -> float:
        """The least delta: a stamp is made in the window and its message is there at the window's end, or never."""
        return ms(self.window)

    def delta_ticks(self, tick_log2: int) -> int:
        """The least delta in ticks."""
        return -(-self.window >> tick_log2)

    @property
    def urgent(self) -> int:
        """From one urgent window to the next."""
        return 1 << self.urgent_log2

    @property
    def urgent_first(self) -> int:
        """The first urgent window of a period, counted in `urgent` from its start: it comes behind the period's own."""
        return -(-(self.end + self.guard) // self.urgent)

    @property
    def urgent_windows(self) -> int:
        """Urgent windows in a period."""
        return self.period // self.urgent - self.urgent_first if self.urgent_log2 else 0

    @property
    def urgent_rounds(self) -> int:
        """Rounds that fit an urgent window; it is never longer than others, so delta covers it."""
        return min(self.rounds, (self.urgent - self.guard) // (self.levels * self.phase))

    @property
    def urgent_end(self) -> int:
        """From an urgent window's start to its end."""
        return self.urgent_rounds * self.levels * self.phase

    @property
    def urgent_wait_ms(self) -> float:
        """The longest time of an urgent message to the gateway without loss: the longest wait for a phase in which it
        may begin (also the second round of a window), and a round."""
        round_ = self.levels * self.phase
        wait = max(self.urgent_first * self.urgent - self.data_start - round_, self.urgent + self.data_start)
        return ms(wait + round_)

    @property
    def own_most(self) -> int:
        """The most messages that a mote sends in one window: after a long silence many wait, but relays hold few."""
        return 2 + (self.period >> 18)

    @property
    def all_most(self) -> int:
        """Messages that a mote sends from one window to the next, urgent ones included: as many as a beacon's list can
        distinguish, and one at least for the urgent."""
        return max(self.repair_bits // self.beacon_every, self.own_most + 1)

    @property
    def repair_bits(self) -> int:
        """Bits for a mote in a beacon's list: its messages between two beacons have different numbers modulo this."""
        return 1 << (self.own_most * self.beacon_every - 1).bit_length()

    def repair_bytes(self, motes: int, room: int) -> int:
        """Bytes of the list behind a beacon with `room` bytes left; 0: the list does not fit."""
        needed = -(-motes * self.repair_bits // 8)
        return needed if needed <= room else 0

    def age_ms(self, code: int) -> int:
        """The age of an event by its message's byte, in whole ms."""
        return int(ms(age_cycles(code, self.period_log2)))

    @property
    def text(self) -> str:
        """The settings on which motes must agree, as one word of the layout."""
        urgent = f",{self.urgent_log2}" if self.urgent_log2 else ""
        return f"{self.period_log2},{self.phase},{self.levels},{self.slot_ids}{urgent}"


def ms(cycles: float) -> float:
    return cycles * 1000 / CRYSTAL_HZ


def schedule_of(
    board: Board,
    motes: int,
    hops: int,
    tinyos: int,
    period_ms: int,
    window_ms: int,
    mic: int = 0,
    urgent_ms: int = 0,
) -> Schedule:
    """The schedule that these settings lead to; `ScheduleError` says what to write instead if it is impossible.

    `mic`: of a network with a key, whose beacons are followed by a proof. `urgent_ms`: 0 without urgent windows.
    """
    if period_ms not in PERIODS_LOG2:
        nearest = min(PERIODS_LOG2, key=lambda known: abs(known - period_ms))
        valid = ", ".join(map(str, PERIODS_LOG2))
        reason = f"must be one of {valid}, since motes count in powers of two; the nearest is {nearest}"
        raise ScheduleError("period_ms", reason)
    levels = min(hops, MOST_LEVELS)
    phase = window_ms * CRYSTAL_HZ // 1000 // (ROUNDS * levels)
    least = least_window_ms(board, motes, hops, tinyos)
    if window_ms < least:
        reason = (
            f"must be at least {least}: {ROUNDS} rounds of {levels} phases, in each of which {motes} motes have "
            "their turn and one sends its longest message"
        )
        raise ScheduleError("window_ms", reason)
    if phase > PHASE_MOST:
        most = PHASE_MOST * ROUNDS * levels * 1000 // CRYSTAL_HZ
        raise ScheduleError("window_ms", f"must be at most {most}, since motes count a phase in 16 bits")
    schedule = _schedule(board, motes, hops, tinyos, PERIODS_LOG2[period_ms], phase, mic)
    if schedule.end + schedule.guard > schedule.period:
        longer = [each for each, log2 in PERIODS_LOG2.items() if schedule.end + schedule.guard <= 1 << log2]
        most = int(ms(schedule.period - schedule.data_start - schedule.guard))
        ways = [f"period_ms = {longer[0]}"] if longer else []
        ways += [f"window_ms = {most} at most"] if most >= least else []
        reason = (
            f"does not fit the period of {period_ms} ms, with {ms(schedule.data_start):.0f} ms of beacons before it; "
            f"set {', or '.join(ways) or 'fewer motes'}"
        )
        raise ScheduleError("window_ms", reason)
    return _with_urgent(schedule, board, hops, urgent_ms) if urgent_ms else schedule


def _with_urgent(schedule: Schedule, board: Board, hops: int, urgent_ms: int) -> Schedule:
    if hops > MOST_LEVELS:
        reason = f"is for networks of {MOST_LEVELS} hops at most: leave it out"
        raise ScheduleError("urgent_ms", reason)
    slots = board.radio.slots
    quiet = URGENT_TURNS * slots.mini_slot + slots.turn + slots.detect
    made = {
        each: replace(schedule, urgent_log2=log2, urgent_quiet=quiet) for each, log2 in PERIODS_LOG2.items()
    }
    valid = [each for each, one in made.items() if one.urgent_rounds > 0 and one.urgent_windows > 0]
    if urgent_ms not in valid:
        needs = (
            f"shorter than the period, which begins with its own window of {ms(schedule.end):.0f} ms, and long enough "
            f"for {schedule.levels} phases of {ms(schedule.phase):.0f} ms"
        )
        which = (
            f"one of {', '.join(map(str, valid))}: {needs}" if valid else f"{needs}: set a longer period_ms"
        )
        raise ScheduleError("urgent_ms", f"must be {which}")
    return made[urgent_ms]


def least_window_ms(board: Board, motes: int, hops: int, tinyos: int) -> int:
    """The shortest window: in each phase every mote has had its turn, and one message was sent."""
    levels = min(hops, MOST_LEVELS)
    slots = board.radio.slots
    phase = slots.guard + _quiet(board, _slot_ids(motes)) + _longest_frame(board, tinyos)
    return -(-ROUNDS * levels * phase * 1000 // CRYSTAL_HZ)


def _schedule(
    board: Board, motes: int, hops: int, tinyos: int, period_log2: int, phase: int, mic: int
) -> Schedule:
    slots, ids = board.radio.slots, _slot_ids(motes)
    # Every mote has its mini-slot in the slot of its beacon too.
    turns = slots.guard + (ids + 1) * slots.mini_slot + _longest_frame(board, tinyos)
    return Schedule(
        period_log2=period_log2,
        phase=phase,
        rounds=ROUNDS,
        levels=min(hops, MOST_LEVELS),
        beacon_slot=(2 if mic else 1) * max(slots.beacon_slot, turns),
        beacon_slots=hops,
        beacon_every=slots.beacon_every,
        mini_slot=slots.mini_slot,
        slot_ids=ids,
        quiet=_quiet(board, ids),
        burst_gap=slots.burst_gap,
        guard=slots.guard,
        guard_margin=slots.guard_margin,
        wake=slots.wake,
    )


def _slot_ids(motes: int) -> int:
    return max(LEAST_IDS, motes)


def _quiet(board: Board, turns: int) -> int:
    slots = board.radio.slots
    return (turns + 2) * slots.mini_slot + slots.turn + slots.detect + HANDLING


def _airtime(board: Board, tinyos: int, payload: int) -> int:
    """Cycles of a frame on the air, as our driver sends it."""
    radio = board.radio
    return math.ceil(radio.firmware_air_bytes(payload, tinyos) * radio.byte_ms * CRYSTAL_HZ / 1000)


def _longest_frame(board: Board, tinyos: int) -> int:
    return _airtime(board, tinyos, PAYLOAD_LIMIT[tinyos])
