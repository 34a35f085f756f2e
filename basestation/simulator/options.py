"""The options of a simulated network. `docs/evidence/paper.md` says what the paper leaves open and these options
settle."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from packet_formats.deployment import MAX_GATEWAYS
from packet_formats.schedule import MOST_LEVELS, ROUNDS

from .measured_delays import MeasuredDelays
from .topology import HopTopology, everyone_hears_everyone

DelayLaw = Literal["half", "quarter"]
Recipients = Literal["all", "one"]
DelayDraw = Literal["shared", "each"]
DelayClock = Literal["fastest", "sender", "global"]
Reception = Literal["tick", "message", "immediate"]
G2 = Literal["paper", "enforce"]
Sends = Literal["tick", "any"]
SecondSend = Literal["scheme", "goes", "waits"]


# The limits of a machine in minutes, and of a number.
MOST_TICKS = 1 << 20
MOST_TURNS = 1 << 16
MOST_IN_ONE_HOP = 2_000
MOST_BYTES = 8_000_000_000
BYTES_A_COPY = 100
BYTES_A_CLOCK = 30
MOST_STEPS = 1e10

# The help text of each option.
MEANINGS = {
    "motes": "Number of motes, n.",
    "epsilon": "Largest difference of two clocks, in ticks (G1).",
    "delta": "Longest delay of a message, in ticks (G2).",
    "rate": "Chance that a mote sends when its clock ticks.",
    "messages": "How many messages to send.",
    "seed": "The same seed gives the same network.",
    "delay_law": "Mean delay of a message: delta/2 or delta/4.",
    "recipients": "The receivers of a message: every peer, or one of them.",
    "delay": "One delay for all copies of a message, or one for each copy.",
    "delay_clock": "The clock that measures delays.",
    "reception": "A mote takes all due messages in one event at its next tick; each in its own event; or each at once.",
    "g2": "Keep delays as drawn; or lose a copy that comes later than G2 allows.",
    "sends": "A mote sends when its clock ticks; or at any time, at the same mean rate, so twice in some ticks.",
    "second_send": "A mote's second send in a tick waits for the next tick if the scheme needs that; never; or always.",
    "loss": "Chance that a copy is lost on a hop.",
    "gateways": "Number of gateways. Each hears for itself, and its line takes up to epsilon + delta ticks.",
    "events_per_tick": "Turns of a process in one tick of its clock, K.",
    "period": "Ticks from one window to the next: motes send and listen in windows only. 0: always.",
    "window": "Ticks of a window, in which messages arrive or are lost; delta must cover it.",
}

MEASURED_ALONE = (
    "needs a delay for each process in every mote's rows, one gateway, no topology, recipients or loss"
)


class OptionError(ValueError):
    """An option has an impossible value; `option` is its name."""

    def __init__(self, option: str, value: object, reason: str) -> None:
        super().__init__(f"{option} = {value}: {reason}")
        self.option = option


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """The network and its readings. The defaults fit the paper's stated results best."""

    motes: int = 10
    epsilon: int = 10
    delta: int = 10
    rate: float = 0.1
    messages: int = 10_000
    seed: int = 1
    delay_law: DelayLaw = "half"
    recipients: Recipients = "all"
    delay: DelayDraw = "shared"
    delay_clock: DelayClock = "fastest"
    reception: Reception = "tick"
    g2: G2 = "paper"
    sends: Sends = "tick"
    second_send: SecondSend = "scheme"
    loss: float = 0.0
    gateways: int = 1
    events_per_tick: int = 1
    period: int = 0
    window: int = 0
    topology: HopTopology | None = None
    measured: MeasuredDelays | None = None

    def __post_init__(self) -> None:
        _require(self.motes >= 2, "motes", self.motes, "causality needs at least two motes")
        _require(self.epsilon >= 1, "epsilon", self.epsilon, "with 0 no clock could tick alone")
        _require(self.delta >= 1, "delta", self.delta, "a message needs at least one tick")
        _require(0 < self.rate <= 1, "rate", self.rate, "is a probability above 0, at most 1")
        _require(self.messages >= 1, "messages", self.messages, "at least one message must be sent")
        _require(self.seed >= 0, "seed", self.seed, "seeds are not negative")
        _require(0 <= self.loss <= 1, "loss", self.loss, "is a probability from 0 to 1")
        many = self.gateways
        _require(1 <= many <= MAX_GATEWAYS, "gateways", many, f"is from 1 to {MAX_GATEWAYS}")
        _require(self.events_per_tick >= 1, "events_per_tick", self.events_per_tick, "is at least 1")
        _require(self.epsilon <= MOST_TICKS, "epsilon", self.epsilon, f"is at most {MOST_TICKS}")
        _require(self.delta <= MOST_TICKS, "delta", self.delta, f"is at most {MOST_TICKS}")
        turns = self.events_per_tick
        _require(turns <= MOST_TURNS, "events_per_tick", turns, f"is at most {MOST_TURNS}")
        known = self.topology is None or self.topology.motes == self.motes
        _require(known, "motes", self.motes, "the topology has another number of motes")
        _require(self.measured is None or self._measured_alone, "measured", "...", MEASURED_ALONE)
        crowd = self.topology is None and self.motes > MOST_IN_ONE_HOP
        _require(
            not crowd,
            "motes",
            self.motes,
            f"at most {MOST_IN_ONE_HOP} can all hear one another; place more of them",
        )
        clocks = BYTES_A_CLOCK * many**2  # of all gateways, at each reception of a gateway
        need = self.messages * (BYTES_A_COPY * self.copies_per_message + 4 * self.motes + clocks)
        _require(
            need <= MOST_BYTES, "messages", self.messages, f"needs {need / 1e9:.0f} GB; the limit is 8 GB"
        )
        self._check_windows()
        steps = self.messages / self.rate * self.events_per_tick
        _require(
            bool(self.period) or steps <= MOST_STEPS,
            "rate",
            self.rate,
            "too low for that many messages: it would take hours",
        )

    def _check_windows(self) -> None:
        period, window = self.period, self.window
        _require(0 <= period <= MOST_TICKS, "period", period, f"is from 0 to {MOST_TICKS}")
        _require(bool(period) == bool(window), "window", window, "belongs to a period: give both, or none")
        if not period:
            return
        _require(0 < window <= self.delta, "window", window, f"is from 1 to delta, {self.delta}")
        least = window + self.epsilon
        _require(period > least, "period", period, f"is more than window and epsilon, {least}")
        _require(self.measured is None, "period", period, "goes with no measured delays")
        _require(self.recipients == "all", "recipients", self.recipients, "a window has broadcasts only")

    @property
    def _measured_alone(self) -> bool:
        return (
            self.measured is not None
            and self.measured.motes == self.motes
            and all(rows and {*map(len, rows)} == {self.motes + 1} for rows in self.measured.rows)
            and (self.topology, self.recipients, self.loss, self.gateways) == (None, "all", 0.0, 1)
        )

    @property
    def network(self) -> HopTopology:
        """The topology; by default all motes and the observer hear all motes in one hop."""
        return self.topology or everyone_hears_everyone(self.motes)

    @property
    def copies_per_message(self) -> int:
        """The largest number of copies of a message, those to gateways included."""
        if self.recipients == "one":
            return 1 + self.gateways
        peers = self.motes - 1 if self.topology is None else max(map(len, self.topology.peers))
        return peers + self.gateways

    @property
    def line(self) -> int:
        """The most ticks of a gateway's own clock that its line takes, if there are several gateways."""
        return self.epsilon + self.delta

    @property
    def most_under_way(self) -> int:
        """The most messages on their way at a time. A turn sends two at most, and between a send and its last receive
        no process has more ticks than delta plus the skew of the clocks."""
        ticks = self.delta + 3 * self.epsilon + 3
        return 2 * (self.motes + 1) * self.events_per_tick * ticks

    @property
    def sends_again(self) -> bool:
        """Whether a mote may send twice in a tick."""
        return self.sends == "any" or self.events_per_tick > 1 or bool(self.period)

    @property
    def levels(self) -> int:
        """Phases of a round of a window."""
        return min(max(self.network.hops), MOST_LEVELS)

    @property
    def phase(self) -> float:
        """Ticks in which the motes of one level send."""
        return self.window / (self.rounds * self.levels)

    @property
    def rounds(self) -> int:
        """Rounds of a window: the first for data, the others for lost data."""
        return ROUNDS

    @property
    def mean_hop_delay(self) -> float:
        """The mean of the delay law for one hop. delta is end to end, so a hop has its share of it."""
        return self.delta / max(self.network.hops) / (2 if self.delay_law == "half" else 4)

    @property
    def events_bound(self) -> int:
        """K for the width of the stamp's fields. A mote that takes each message as an event has about n events a tick.

        It is the paper's K, not a bound: a turn may receive and send. A busy network may saturate fields, and the
        results show it.
        """
        return self.events_per_tick * (1 if self.reception == "tick" else self.motes)


# The readings: choices that the paper's model leaves open. Three combinations of them are in use.
READINGS = ("recipients", "delay", "delay_clock", "reception", "g2", "sends", "second_send")
_PAPER: dict[str, Any] = {
    field.name: field.default for field in fields(WorldOptions) if field.name in READINGS
}
_REAL_TIME = {"delay_clock": "global", "reception": "immediate"}
PRESETS: dict[str, dict[str, Any]] = {
    "paper": _PAPER,  # fits the paper's stated results best: figures, comparisons
    "network": _PAPER | _REAL_TIME | {"g2": "enforce"},  # a network of motes: planning
    "measured": _PAPER | _REAL_TIME,  # beside the testbed, whose delays need no bound: tools/tables/field.py
}


def _require(good: bool, option: str, value: object, reason: str) -> None:
    if not good:
        raise OptionError(option, value, reason)
