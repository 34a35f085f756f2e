"""Computes the delay budget of a network: a tick, epsilon and delta from airtime, backoff, relays and crystals.

`docs/guide/planning.md` gives the source of every number here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from packet_formats.boards import BOARDS, CRYSTAL_HZ, Radio
from packet_formats.layout import HEADER_AFTER_SOURCE, PAYLOAD_LIMIT, repair_bytes, why_no_repair
from packet_formats.phrases import many
from packet_formats.records import MIC_BYTES, Heard, size
from packet_formats.schedule import Schedule, ScheduleError, ms, schedule_of
from packet_formats.schemes import MAX_FIELD_BITS, source_bytes

# Bytes of the largest stamp: the budget is made before the stamp is chosen, and must hold for all stamps.
STAMP_ALLOWANCE = 8
PLANNED_BEACON_SECONDS = 30.0  # by default; the firmware's own come more often (boards.py)
RARE = 1 / 1000  # the budget is exceeded at most this often
QUEUE_SLOTS = 8  # a mote's queue is short; a message that does not fit is lost, not late
CRYSTAL_PPM = 50
BEACONS_LOST = 1  # in a row, without breaking epsilon
BITS_PER_LINE_BYTE = 10
CHECK_MS = 2.0  # three AES blocks on the ATmega128 (docs/reference/security.md)
LINE_FRAMING = 5  # two flags, the packet type, CRC
LINE_HEADER = {1: 5, 2: 8}  # TinyOS version -> bytes
LEAST_CLOCK_BITS = 5  # with a counter of three bits they make the one-byte stamp
# In a window the messages of a period are close together: finer ticks, and a wider counter beside the clock.
SCHEDULED_CLOCK_BITS = 8
MOST_TICK_LOG2 = 16
GUESS_MS = 360  # room for guesses of a time of reception: twice a full queue's time on the line, or more
LINK_LOSS = 0.05  # with a schedule: the default share of frames that a link loses
# Of the messages that a mote may send in a window, on average. At 90% of them, if they come at random times, more than
# half of the windows leave something for the next one.
OWN_SHARE = 0.8
CROWDED = 0.3  # at a higher load, CSMA loses and delays more than the budget allows


class BudgetError(ValueError):
    """A setting that makes a budget impossible; `setting` is its name."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(reason)
        self.setting = setting

    @property
    def told(self) -> str:
        """The reason, with the key of [radio] that it is about."""
        key = self.setting.replace("-", "_")
        return f"{key} {self}" if key.endswith("_ms") else str(self)


JIFFY_MS = 1000 / CRYSTAL_HZ


@dataclass(frozen=True, slots=True)
class PlannedNetwork:
    """The facts about a network before it is built. `rate` is in messages per second and mote."""

    motes: int
    board: str
    rate: float
    hops: int = 1
    tinyos: int = 1
    data_bytes: int = 4
    receipts: int = 0
    beacon_seconds: float = PLANNED_BEACON_SECONDS
    foreign_gateway: bool = False
    margin: float | None = None
    stamp_bytes: int = STAMP_ALLOWANCE
    mic: int = 0  # bytes of a MIC in each message
    period_ms: int = 0  # from one window to the next; 0: motes listen always
    window_ms: int = 0
    loss: float = 0.0  # chance that a frame is lost on a link
    urgent_ms: int = 0  # from one urgent window to the next; 0: there are none
    repair: bool = True  # with a schedule: messages that the gateway misses are sent again

    def __post_init__(self) -> None:
        if self.motes < 2:
            raise BudgetError("motes", "causality needs at least two motes")
        if not 1 <= self.hops <= self.motes:
            raise BudgetError("hops", f"{self.hops} hops need a mote at each: there are {self.motes} motes")
        if not 0 < self.rate < math.inf:
            raise BudgetError("rate", "must be above 0: a mote that never sends needs no plan")
        if not 0 < self.beacon_seconds < math.inf:
            raise BudgetError("beacon", "the time between beacons must be above 0")
        if self.mic not in (0, MIC_BYTES):
            raise BudgetError("mic", f"must be 0 or {MIC_BYTES}")
        self._check_schedule()
        taken, limit = self.payload_without_stamp, PAYLOAD_LIMIT[self.tinyos]
        if taken >= limit:
            parts = "header, receipts, data and MIC" if self.mic else "header, receipts and data"
            reason = f"{parts} take {taken} of {limit} bytes, which leaves none for a stamp"
            raise BudgetError("data-bytes", reason)

    def _check_schedule(self) -> None:
        if self.period_ms and self.foreign_gateway:
            raise BudgetError("foreign-gateway", "a schedule needs a gateway that acknowledges: Causeway's")
        try:
            self.schedule  # noqa: B018
        except ScheduleError as error:
            raise BudgetError(error.key.replace("_", "-"), error.reason) from error

    @property
    def schedule(self) -> Schedule | None:
        """The motes' schedule; None: they always listen."""
        if not self.period_ms:
            return None
        board = BOARDS[self.board]
        shape = self.motes, self.hops, self.tinyos
        return schedule_of(board, *shape, self.period_ms, self.window_ms, self.mic, self.urgent_ms)

    @property
    def beacon_interval(self) -> float:
        """Seconds between two beacons; a schedule decides it."""
        schedule = self.schedule
        return self.beacon_seconds if schedule is None else schedule.beacon_every * schedule.period_ms / 1000

    @property
    def backlog(self) -> str:
        """Why a mote's own messages pile up; empty if they do not."""
        schedule = self.schedule
        if schedule is None:
            return ""
        made, most = self.rate * schedule.period_ms / 1000, schedule.own_most
        if made <= OWN_SHARE * most:
            return ""
        return (
            f"a mote makes {made:.3g} messages in a period and sends at most {most} in a window: above "
            f"{OWN_SHARE:.0%} of that they fill its outbox, which then has no room for those of others; plan a lower "
            "rate or a shorter period"
        )

    @property
    def no_repair(self) -> str:
        """Why messages that the gateway misses are not sent again although `repair` asks for it; empty if they are."""
        schedule = self.schedule
        if schedule is None or not self.repair or repair_bytes(schedule, self.motes, self.tinyos):
            return ""
        why = why_no_repair(schedule, self.tinyos)
        return f"messages that the gateway misses are not sent again: {why}"

    @property
    def radio(self) -> Radio:
        return BOARDS[self.board].radio

    @property
    def baud(self) -> int:
        return BOARDS[self.board].baud

    @property
    def hops_of_motes(self) -> tuple[int, ...]:
        """The assumed layout: as many groups as hops, of equal size, one behind the other."""
        return tuple(1 + mote * self.hops // self.motes for mote in range(self.motes))

    @property
    def payload_without_stamp(self) -> int:
        source = source_bytes(self.motes)
        return source + HEADER_AFTER_SOURCE + self.receipts * (source + 1) + self.data_bytes + self.mic

    @property
    def payload(self) -> int:
        """The bytes of payload that the budget assumes."""
        return min(self.payload_without_stamp + self.stamp_bytes, PAYLOAD_LIMIT[self.tinyos])

    @property
    def air_bytes(self) -> int:
        return self.radio.air_bytes(self.payload, self.tinyos)

    @property
    def airtime_ms(self) -> float:
        return self.air_bytes * self.radio.byte_ms

    @property
    def line_bytes(self) -> int:
        """Bytes of a message on the serial line; our gateway sends a heard record before it, others do not."""
        framing = LINE_FRAMING + LINE_HEADER[self.tinyos]
        return framing + self.payload + (0 if self.foreign_gateway else framing + size(Heard))

    @property
    def line_ms(self) -> float:
        return self.line_bytes / (self.baud / BITS_PER_LINE_BYTE / 1000)

    @property
    def late_ms(self) -> float:
        """The largest error of a guessed time of reception; our gateway need not guess."""
        return GUESS_MS if self.foreign_gateway else 0.0

    @property
    def usual_hop_ms(self) -> float:
        """The mean time of a hop on a quiet channel."""
        return self.airtime_ms + self.radio.initial_backoff_ms / 2 + self.processing_ms

    @property
    def processing_ms(self) -> float:
        """A relay's time for a message, from the radio to the queue and back; it checks a MIC too."""
        return self.radio.processing_ms + (CHECK_MS if self.mic else 0)

    @property
    def channel_load(self) -> float:
        """The share of time that the channel is busy if all motes share it. Each hop is one transmission."""
        return self.airtime_ms * self.rate * sum(self.hops_of_motes) / 1000

    @property
    def relay_load(self) -> float:
        """The share of time that a relay is busy if all messages from beyond it pass through it."""
        passing = sum(hops > 1 for hops in self.hops_of_motes)
        return self.rate * (passing + 1) * self.usual_hop_ms / 1000 if passing else 0.0

    @property
    def line_load(self) -> float:
        return self.rate * self.motes * self.line_ms / 1000


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """A named part of the budget; a part that does not count is only shown."""

    name: str
    ms: float
    why: str
    counts: bool = True


@dataclass(frozen=True, slots=True)
class ClockPlan:
    tick_log2: int
    epsilon: int
    delta: int

    @property
    def tick_ms(self) -> float:
        return 2.0**self.tick_log2 * JIFFY_MS


@dataclass(frozen=True, slots=True)
class Budget:
    """A delay budget: `delay` adds up to what delta must cover, `sync` to what epsilon must cover."""

    network: PlannedNetwork
    delay: tuple[BudgetRow, ...]
    sync: tuple[BudgetRow, ...]
    clock: ClockPlan

    @property
    def delay_ms(self) -> float:
        return _sum(self.delay)

    @property
    def sync_ms(self) -> float:
        return _sum(self.sync)

    @property
    def turns(self) -> int:
        """The sends that a mote may have in a tick: more than one only at rates above one a tick."""
        return max(1, math.ceil(self.network.rate * self.clock.tick_ms / 1000))

    @property
    def refusals(self) -> list[str]:
        """Why this network is impossible: a channel or line would be busy more than all the time."""
        network, found = self.network, []
        if network.channel_load > 1:
            found.append(
                f"the channel would be busy {network.channel_load:.0%} of the time: plan fewer motes, a lower rate, "
                "fewer hops or several channels"
            )
        if network.line_load > 1:
            found.append(
                f"the gateway's serial line would be busy {network.line_load:.0%} of the time: plan a lower rate "
                "or several gateways"
            )
        return found

    @property
    def warnings(self) -> list[str]:
        network, clock, found = self.network, self.clock, []
        if CROWDED < network.channel_load <= 1:
            found.append(
                f"the channel is busy {network.channel_load:.0%} of the time; above about {CROWDED:.0%} "
                "collisions and backoff outgrow this budget"
            )
        if network.relay_load > 0.5:
            found.append(
                f"a relay that passes on everything from beyond it is busy {network.relay_load:.0%} of the "
                f"time; its queue of {QUEUE_SLOTS} will overflow unless several share the work"
            )
        if network.backlog:
            found.append(network.backlog)
        if network.no_repair:
            found.append(network.no_repair)
        if clock.delta * clock.tick_ms < self.delay_ms:
            found.append(
                f"delta = {many(clock.delta, 'tick')} is {clock.delta * clock.tick_ms:.4g} ms, less than the budget's "
                f"{self.delay_ms:.4g} ms: later messages are dropped"
            )
        if clock.epsilon * clock.tick_ms < self.sync_ms + clock.tick_ms:
            found.append(
                f"epsilon = {many(clock.epsilon, 'tick')} is less than the clocks' {self.sync_ms:.4g} ms and a tick of "
                "rounding: clocks may differ by more, and the order then fails"
            )
        return found


def make_budget(
    network: PlannedNetwork,
    tick_log2: int | None = None,
    epsilon: int | None = None,
    delta: int | None = None,
) -> Budget:
    """The budget of a network, with the given tick, epsilon and delta."""
    schedule = network.schedule
    delay = _delay_rows(network) if schedule is None else _window_rows(network, schedule)
    sync = _sync_rows(network)
    bits = LEAST_CLOCK_BITS if schedule is None else SCHEDULED_CLOCK_BITS
    clock = _clock(_sum(delay), _sum(sync), tick_log2, epsilon, delta, bits)
    return Budget(network, delay, sync, clock)


def _sum(rows: tuple[BudgetRow, ...]) -> float:
    return sum(row.ms for row in rows if row.counts)


def _delay_rows(network: PlannedNetwork) -> tuple[BudgetRow, ...]:
    radio, hops, airtime = network.radio, network.hops, network.airtime_ms
    busy_tries = _allowed(network.channel_load)
    busy_ms = busy_tries * (radio.congestion_backoff_ms + airtime)
    hop_ms = airtime + radio.initial_backoff_ms + busy_ms + network.processing_ms
    ahead = _allowed(network.relay_load) if hops > 1 else 0
    per_hop = f"{hops} x " if hops > 1 else ""
    rows = [
        BudgetRow(
            "airtime", hops * airtime, f"{per_hop}{network.air_bytes} bytes of {1000 * radio.byte_ms:.3g} us"
        ),
        BudgetRow(
            "initial backoff",
            hops * radio.initial_backoff_ms,
            f"{per_hop}the longest draw before a first try, {radio.initial_backoff_ms:.3g} ms",
        ),
        BudgetRow(
            "congestion backoff",
            hops * busy_ms,
            f"{per_hop}{many(busy_tries, 'busy try', 'busy tries')} at a load of {network.channel_load:.2g}, each "
            f"{radio.congestion_backoff_ms:.3g} ms and a frame",
        ),
        BudgetRow(
            "processing", hops * network.processing_ms, f"{per_hop}from the radio to the queue and back"
        ),
        BudgetRow(
            "queueing",
            ahead * hop_ms,
            f"{many(ahead, 'frame')} ahead at the busiest relay, {hop_ms:.3g} ms each"
            if hops > 1
            else "no relay on the path",
        ),
        _line_row(network),
    ]
    share = radio.delay_margin if network.margin is None else network.margin
    return (
        *rows,
        BudgetRow("margin", share * _sum(tuple(rows)), f"{share:.0%} for interference and other traffic"),
    )


def _window_rows(network: PlannedNetwork, schedule: Schedule) -> tuple[BudgetRow, ...]:
    phases = f"{schedule.rounds} rounds of {many(schedule.levels, 'phase')} of {ms(schedule.phase):.4g} ms"
    every = f"every {schedule.period_ms / 1000:g} s"
    wait = "not part of delta: a message is stamped when the window has come, half a period on average"
    return (
        BudgetRow(
            "window", ms(schedule.window), f"{phases}, {every}: a message arrives in its window, or not"
        ),
        BudgetRow("wait for it", schedule.period_ms / 2, wait, counts=False),
        _line_row(network),
    )


def _line_row(network: PlannedNetwork) -> BudgetRow:
    if network.foreign_gateway:
        why = f"{network.line_bytes} bytes at {network.baud} baud; a foreign gateway stamps no time of reception"
    else:
        why = f"{network.line_bytes} bytes at {network.baud} baud; not part of delta: the gateway stamps at reception"
    return BudgetRow("serial line", network.line_ms, why, counts=network.foreign_gateway)


def _allowed(load: float) -> int:
    """The number of events in a row to allow for, each with probability `load`: one more is rarer than RARE."""
    if load >= 1:
        return QUEUE_SLOTS
    return min(QUEUE_SLOTS, max(0, math.ceil(math.log(RARE) / math.log(load)) - 1)) if load > 0 else 0


def _sync_rows(network: PlannedNetwork) -> tuple[BudgetRow, ...]:
    error, periods = network.radio.sync_error_ms, 1 + BEACONS_LOST
    drift_ms = 2 * CRYSTAL_PPM * 1e-6 * network.beacon_interval * 1000
    late = BudgetRow(
        "guessed time",
        network.late_ms,
        "not part of epsilon: the clock field gets so many more values, since times of reception are guessed",
        counts=False,
    )
    return (
        *([late] if network.foreign_gateway else []),
        BudgetRow(
            "time stamps",
            2 * network.hops * error,
            f"2 motes, {many(network.hops, 'hop')} each, {error:.3g} ms a hop",
        ),
        BudgetRow(
            "crystals",
            periods * drift_ms,
            f"{CRYSTAL_PPM} ppm each way over {network.beacon_interval:.4g} s of beacon interval, "
            f"{BEACONS_LOST} beacon lost",
        ),
    )


def _clock(
    delay_ms: float,
    sync_ms: float,
    tick_log2: int | None,
    epsilon: int | None,
    delta: int | None,
    least_bits: int,
) -> ClockPlan:
    """The clock with the shortest tick whose field stays small: shorter ticks only widen it."""
    bits = max(least_bits, (3 * epsilon).bit_length() if epsilon else 0)
    for log2 in range(MOST_TICK_LOG2 + 1) if tick_log2 is None else (tick_log2,):
        tick_ms = 2.0**log2 * JIFFY_MS
        plan = ClockPlan(
            log2, epsilon or math.ceil(sync_ms / tick_ms) + 1, delta or math.ceil(delay_ms / tick_ms)
        )
        small = plan.delta * tick_ms >= delay_ms if delta else plan.delta + 2 * plan.epsilon < 1 << bits
        if plan.delta + 2 * plan.epsilon >= 1 << MAX_FIELD_BITS and (tick_log2 is not None or delta):
            raise BudgetError(
                "delta", f"{plan.delta} + 2 * {plan.epsilon} ticks need a clock of over {MAX_FIELD_BITS} bits"
            )
        if small or tick_log2 is not None:
            return plan
    raise BudgetError("delta", f"no tick is long enough for {delay_ms:.4g} ms of delay")
