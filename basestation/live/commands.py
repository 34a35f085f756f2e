"""What can be sent down to motes: settings, by the names that people use, and messages of any type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from secrets import randbelow

from packet_formats.deployment import CRYSTAL_HZ, Deployment
from packet_formats.layout import PAYLOAD_LIMIT, layout_of
from packet_formats.messages import Message, Unknown, decode_message, encode_message
from packet_formats.phrases import did_you_mean, many
from packet_formats.records import COMMAND_SHIFT, Command, Downlink
from packet_formats.seal import Seal, command_time
from packet_formats.tinyos import BROADCAST, ActiveMessage, PacketError, encode_am

ALL = BROADCAST
GATEWAYS_KNOW = (Command.REPORT, Command.REBOOT)
LEDS = {"red": 1, "green": 2, "yellow": 4, "all": 7}
PERIODS = range(256, (1 << 30) + 1)  # cycles; a mote takes what lies outside for the nearest of these


NO_TIME = (
    "not sent: the network's time is not known yet, and in a network with a key each command holds it; wait until the "
    "gateway is in sync and a frame has come"
)


class OrderError(ValueError):
    """Something that can't be sent, and why."""


@dataclass(frozen=True, slots=True)
class MoteSetting:
    """A command as people say it, and as it goes on the wire."""

    text: str
    command: Command
    argument: int = 0


def _period(word: str) -> int:
    """Messages a second as cycles between two of them; 0 is none at all."""
    try:
        value = float(word)
        if value == 0:
            return 0
        cycles = round(CRYSTAL_HZ / value)
    except (ValueError, OverflowError):
        raise OrderError(f"rate {word}: should be messages a second, such as rate 0.5") from None
    if cycles not in PERIODS:
        least, most = CRYSTAL_HZ / PERIODS[-1], CRYSTAL_HZ / PERIODS[0]
        raise OrderError(f"rate {word}: a mote takes {least:.5f} to {most:g} messages a second, or 0")
    return cycles


def _leds(word: str) -> int:
    found = 0
    for name in word.split(","):
        if name not in LEDS:
            hint = did_you_mean(name, LEDS) or f": there are {', '.join(LEDS)}"
            raise OrderError(f"blink {word}: no LED is named {name!r}{hint}")
        found |= LEDS[name]
    return found


SETTINGS = {
    "rate": (Command.RATE, _period),
    "report": (Command.REPORT, None),
    "blink": (Command.BLINK, _leds),
    "reboot": (Command.REBOOT, None),
}


def settings_of(words: Sequence[str]) -> list[MoteSetting]:
    """Names, each with its value if it has one."""
    left, found = iter(words), []
    for name in left:
        if name not in SETTINGS:
            hint = did_you_mean(name, SETTINGS) or f"; there are {', '.join(SETTINGS)}"
            raise OrderError(f"no setting is named {name!r}{hint}")
        command, read = SETTINGS[name]
        if read is None:
            found.append(MoteSetting(name, command))
            continue
        word = next(left, None)
        if word is None:
            raise OrderError(f"{name} needs a value, as in rate 0.5 or blink red")
        found.append(MoteSetting(f"{name} {word}", command, read(word)))
    return found


def numbers() -> Iterator[int]:
    """Command numbers, from a random one on: numbers from 0 on might be taken for copies of earlier commands."""
    number = randbelow(1 << 16)
    while True:
        yield number
        number = (number + 1) % (1 << 16)


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A setting, or a message, for one mote or all."""

    text: str
    target: int
    setting: MoteSetting | None = None
    hops: int = 0
    raw: ActiveMessage | None = None

    def message(self, deployment: Deployment, number: int) -> ActiveMessage:
        """A command goes to everybody, for those who are not meant pass it on."""
        if self.raw is not None:
            return self.raw
        assert self.setting is not None
        record = Downlink(self.target, number, self.hops, self.setting.command, self.setting.argument)
        return encode_message(record, layout_of(deployment))


NetworkTime = tuple[int, int]  # root epoch, cycles


class Envelopes:
    """Makes the messages of commands: numbered at random or, in a network with a key, by its time, and sealed."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment, self._numbers = deployment, numbers()
        self._seal = Seal(deployment.key, layout_of(deployment)) if deployment.key is not None else None
        self._last: NetworkTime = (0, 0)

    @property
    def needs_time(self) -> bool:
        return self._seal is not None

    def make(self, order: Dispatch, now: NetworkTime | None) -> tuple[int, ActiveMessage]:
        """The command's number and its message; `OrderError` if it needs the network's time and that is not known."""
        if self._seal is None or order.setting is None:
            number = next(self._numbers)
            return number, order.message(self._deployment, number)
        if now is None:
            raise OrderError(NO_TIME)
        epoch, cycles = now
        if epoch == self._last[0]:  # a number of its own for each
            cycles = max(cycles, self._last[1] + (1 << COMMAND_SHIFT))
        self._last = epoch, cycles
        number = command_time(cycles) & 0xFFFF
        record = Downlink(order.target, number, order.hops, order.setting.command, order.setting.argument)
        return number, self._seal.sealed_downlink(record, epoch, cycles)


def name_of(node: int, deployment: Deployment) -> str:
    """Ids from the number of motes on are gateways'."""
    if node == ALL:
        return "all motes"
    return deployment.mote_name(node) if node < deployment.network.motes else f"gateway {node}"


def speaker(message: Message | Unknown | None, deployment: Deployment) -> str:
    """The kind and the node of a message, such as `data of mote 3`."""
    kind = type(message).__name__.lower()
    named = (getattr(message, at) for at in ("source", "target", "sender") if hasattr(message, at))
    preposition = "to" if isinstance(message, Downlink) else "of"
    return f"{kind} {preposition} {name_of(next(named, 0), deployment)}"


def check_target(setting: MoteSetting, target: int, deployment: Deployment) -> None:
    """Refuse an id that no node with this setting can have; ids from the number of motes on may be gateways."""
    motes = deployment.network.motes
    if target != ALL and target >= motes and setting.command not in GATEWAYS_KNOW:
        raise OrderError(
            f"{setting.text}: there is no mote {target}; the deployment has 0 to {motes - 1}, "
            "and gateways know only report and reboot"
        )


def set_order(setting: MoteSetting, target: int, hops: int) -> Dispatch:
    return Dispatch(setting.text, target, setting, hops)


def raw_order(deployment: Deployment, am_type: int, payload: bytes, target: int) -> Dispatch:
    """A message of any type; one over the limit is refused."""
    tinyos, group = deployment.network.tinyos, deployment.network.group
    message = ActiveMessage(tinyos, target, group, am_type, payload, None if tinyos == 1 else 0)
    try:
        encode_am(message)
    except PacketError as error:
        limit = (
            f"a payload has at most {PAYLOAD_LIMIT[tinyos]} bytes, and gateways radiate longer ones corrupt"
        )
        raise OrderError(f"not sent: {error}: {limit}") from None
    return Dispatch(f"type {am_type:#04x} with {many(len(payload), 'byte')}", target, raw=message)


def told_message(message: ActiveMessage, deployment: Deployment) -> str:
    """A packet of another program in words: a command by its name, anything else by its type and size."""
    dest = "all" if message.dest == BROADCAST else str(message.dest)
    record = decode_message(message, layout_of(deployment))
    if not isinstance(record, Downlink):
        return f"type {message.type:#04x} with {many(len(message.data), 'byte')} to {dest}"
    return f"{_said(record.command, record.argument)} to {name_of(record.target, deployment)}"


def _said(command: int, argument: int) -> str:
    """A command as people say it, such as rate 2: what `settings_of` reads."""
    if command == Command.RATE:
        return f"rate {_rate(argument)}"
    if command == Command.BLINK:
        return f"blink {_named_leds(argument)}"
    named = {known.value: known.name.lower() for known in Command}
    what = named.get(command, f"command {command}")
    return f"{what} {argument}" if argument else what


def _rate(cycles: int) -> str:
    """Messages a second, in as few digits as mean these cycles."""
    if not cycles:
        return "0"
    exact = CRYSTAL_HZ / cycles
    rounded = (float(f"{exact:.{digits}g}") for digits in range(1, 10))
    return f"{next((each for each in rounded if round(CRYSTAL_HZ / each) == cycles), exact):.9g}"


def _named_leds(leds: int) -> str:
    if leds == LEDS["all"]:
        return "all"
    known = [name for name, bit in LEDS.items() if leds & bit and name != "all"]
    return ",".join(known) if known and leds < LEDS["all"] else f"LEDs {leds:#04x}"
