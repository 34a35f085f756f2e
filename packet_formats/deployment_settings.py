"""A deployment as one immutable object: its settings, and what follows from them. Standard library only."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from packet_formats.boards import BOARDS, CRYSTAL_HZ
from packet_formats.layout import OPTIONAL
from packet_formats.schedule import Schedule, schedule_of
from packet_formats.schemes import SchemeDescriptor, descriptor, names
from packet_formats.values import Value

if TYPE_CHECKING:
    from packet_formats.keys import Key

SCHEDULED_SEND_SECONDS = 10  # a schedule is for rare messages


class DeploymentError(ValueError):
    """A deployment is impossible: the key at fault (`clock.delta`, or none), its value, and why."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        place = key if value is None else f"{key} = {shown(value)}"
        super().__init__(f"{place}: {reason}" if place else reason)
        self.key, self.value, self.reason = key, value, reason


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    name: str
    board: str
    motes: int
    group: int
    channel: int
    tinyos: int
    hops: int
    data_bytes: int
    sensor_board: str = ""
    band: int = 0  # MHz; 0: the board has one
    gateways: int = 1

    @property
    def carrier_khz(self) -> int:
        """The frequency of its radios; the board is one of ours."""
        board = BOARDS[self.board]
        if self.band:
            return board.bands[self.band].tuning[self.tinyos].carrier_khz
        return board.carrier_khz[self.tinyos][self.channel]


@dataclass(frozen=True, slots=True)
class ClockSettings:
    tick_log2: int
    epsilon: int
    delta: int
    root: int
    clock_bits: int

    @property
    def tick_seconds(self) -> float:
        return 2.0**self.tick_log2 / CRYSTAL_HZ

    @property
    def give_up(self) -> int:
        """How many ticks a waiting policy waits for a missing message, unless the deployment says otherwise."""
        return self.delta + self.epsilon


@dataclass(frozen=True, slots=True)
class StampSettings:
    """The settings of [stamp], given or computed. A key that the scheme does not take holds 0 or its only value."""

    scheme: str
    entries: int
    packing: str
    count: str
    events_per_tick: int
    counter_bits: int
    carry: str
    receipts: int


@dataclass(frozen=True, slots=True)
class ObserverSettings:
    policy: str
    phi: int
    give_up: int  # ticks for which a waiting policy waits for a missing message
    tolerate: float | None = None  # per cent of messages in violations that the ledger allows
    source: tuple[str, ...] = ()  # where the base station listens by default


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """Whether messages have a MIC, and the file beside the deployment that holds the key: never the key itself."""

    mic: int = 0  # bytes
    key: str = ""


@dataclass(frozen=True, slots=True)
class RadioSettings:
    """When the motes listen: for a window at most in each period, or always (0)."""

    period_ms: int = 0
    window_ms: int = 0
    repair: bool = True  # what the root's gateway has not heard is sent again
    urgent_ms: int = 0  # from one urgent window to the next; 0: there are none


@dataclass(frozen=True, slots=True)
class MoteDetails:
    """A mote's name, and its place in any one unit of length."""

    id: int
    name: str = ""
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True, slots=True)
class Deployment:
    network: NetworkSettings
    clock: ClockSettings
    stamp: StampSettings
    observer: ObserverSettings
    data: tuple[Value, ...] = ()  # the values in the data bytes; none: only the application knows them
    motes: tuple[MoteDetails, ...] = ()  # the motes with a name or a place, by id
    security: SecuritySettings = SecuritySettings()
    radio: RadioSettings = RadioSettings()
    # What `keys.with_key` found in the key's file. It is not a setting: it is not shown, compared or in `to_dict`.
    key: Key | None = field(default=None, compare=False, repr=False)

    def mote_name(self, mote: int) -> str:
        """A mote for people: `mote 7 (Old bridge)`, or `mote 7` if it has no name."""
        name = next((known.name for known in self.motes if known.id == mote), "")
        return f"mote {mote} ({name})" if name else f"mote {mote}"

    @property
    def scheme(self) -> SchemeDescriptor:
        """The descriptor of its stamp scheme."""
        return descriptor(self.stamp.scheme)

    @property
    def send_seconds(self) -> int:
        """The seconds between two messages of a mote, unless its image is built for another rate."""
        board = BOARDS[self.network.board]
        return max(board.send_seconds, SCHEDULED_SEND_SECONDS) if self.radio.period_ms else board.send_seconds

    @property
    def schedule(self) -> Schedule | None:
        """When its motes listen; None: always."""
        network, radio = self.network, self.radio
        if not radio.period_ms:
            return None
        board = BOARDS[network.board]
        return schedule_of(
            board,
            network.motes,
            network.hops,
            network.tinyos,
            radio.period_ms,
            radio.window_ms,
            self.security.mic,
            radio.urgent_ms,
        )

    @property
    def health_seconds(self) -> int:
        """The seconds between a mote's health reports: MOTE_HEALTH_PERIOD of firmware/net/mote/timers.h."""
        return 600 if self.radio.period_ms else 60

    @property
    def answer_seconds(self) -> float:
        """The seconds that a schedule adds to a mote's answer: a command goes out after the next beacon, and the answer
        comes in that window or the next."""
        schedule = self.schedule
        return (schedule.beacon_every + 1) * schedule.period_ms / 1000 if schedule else 0.0

    @property
    def lead(self) -> int:
        """How many ticks the clock in a stamp may be ahead of its receiver's clock."""
        clock = self.clock
        return self.scheme.lead_ticks(clock.epsilon, clock.delta, 1 << clock.clock_bits, self.stamp.carry)

    @property
    def late_guess(self) -> int:
        """The ticks by which the guessed time of a reception may be too early, and its stamp is still read right.

        These are the residues of B with no other use. A guess comes from a beacon, which may have been late. But a copy
        that another gateway heard must be recognised: its time differs by at most 4 * (delta + 2 epsilon).
        """
        if not self.scheme.has_clock:
            return 0
        clock = self.clock
        spare = (1 << clock.clock_bits) - 1 - clock.delta - clock.epsilon - self.lead
        return max(0, min(spare, 3 * (clock.delta + 2 * clock.epsilon)))

    def to_dict(self) -> dict[str, Any]:
        """All settings, with defaults filled in; `from_dict` makes the same deployment from them."""
        tables: dict[str, Any] = asdict(replace(self, key=None))
        del tables["key"]
        for key in OPTIONAL:
            if key not in self.scheme.settings and key != "packing":
                del tables["stamp"][key]
        if not self.waits_by_name and self.observer.give_up == self.clock.give_up:
            del tables["observer"]["give_up"]
        if self.observer.tolerate is None:
            del tables["observer"]["tolerate"]
        if source := list(tables["observer"].pop("source")):
            tables["observer"]["source"] = source
        if not self.network.sensor_board:
            del tables["network"]["sensor_board"]
        if not self.network.band or self.network.band == BOARDS[self.network.board].default_band:
            del tables["network"]["band"]
        if self.network.gateways == 1:
            del tables["network"]["gateways"]
        if not self.security.mic:
            del tables["security"]
        if not self.radio.period_ms:
            del tables["radio"]
        else:
            usual = asdict(RadioSettings())
            tables["radio"] = {
                key: setting for key, setting in tables["radio"].items() if setting != usual[key]
            }
        if values := tables.pop("data"):
            tables["data"] = [
                {key: setting for key, setting in value.items() if key != "sensor" or setting}
                for value in values
            ]
        if motes := tables.pop("motes"):
            tables["mote"] = [
                {key: setting for key, setting in mote.items() if setting not in ("", None)} for mote in motes
            ]
        return tables

    @property
    def waits_by_name(self) -> bool:
        """Whether its policy waits for particular messages, so that it must know when to give up."""
        policy = self.observer.policy
        return policy in names() and descriptor(policy).waits_by_name

    def to_toml(self) -> str:
        lines = []
        for table, settings in self.to_dict().items():
            several = isinstance(settings, list)
            for each in settings if several else [settings]:
                lines.append(f"[[{table}]]" if several else f"[{table}]")
                lines += [f"{key} = {shown(value)}" for key, value in each.items()]
                lines.append("")
        return "\n".join(lines)


def shown(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return str(value)
