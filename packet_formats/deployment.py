"""Reads `deployment.toml` into one immutable `Deployment`. Standard library only.

Every wrong value is refused with its key, the value and the reason; so is every unknown name.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import fields, replace
from os import PathLike
from typing import Any

from packet_formats.boards import BOARDS, CRYSTAL_HZ, GENERIC, Board
from packet_formats.deployment_settings import (
    ClockSettings,
    Deployment,
    DeploymentError,
    MoteDetails,
    NetworkSettings,
    ObserverSettings,
    RadioSettings,
    SecuritySettings,
    StampSettings,
)
from packet_formats.layout import OPTIONAL, PAYLOAD_LIMIT, layout_of, only_for, stamp_layout
from packet_formats.phrases import did_you_mean, many
from packet_formats.records import MIC_BYTES
from packet_formats.schedule import ScheduleError, ms, schedule_of
from packet_formats.schemes import (
    CARRIES,
    COUNTS,
    LEDGER,
    PACKINGS,
    LayoutError,
    SchemeDescriptor,
    descriptor,
    least_clock_bits,
    names,
    phi_refusal,
    policies,
    refusal,
    source_bytes,
    unusable,
)
from packet_formats.values import MOST, READING_BITS, RESERVED, SENSOR_BOARDS, SENSORS, TYPES, Value

__all__ = [
    "CRYSTAL_HZ",
    "ClockSettings",
    "Deployment",
    "DeploymentError",
    "MoteDetails",
    "NetworkSettings",
    "ObserverSettings",
    "RadioSettings",
    "SecuritySettings",
    "StampSettings",
    "from_dict",
    "load",
    "parse",
]
TABLES = ("network", "clock", "stamp", "observer", "security", "radio")
MAX_MOTES = 65000  # leaves ids for gateways below the broadcast address
MAX_GATEWAYS = 256
DEFAULT_GROUP = {1: 0x7D, 2: 0x22}
UNKNOWN_RADIO = "we do not know the radio of a generic board"
# A mote's clock wraps after 36 hours, so it orders times that are at most 18 hours apart. A mote keeps a message for at
# most twice delta + epsilon: firmware/net/outbox.c.
LONGEST_HOURS = 9
MOTE_NAME_MOST = 40  # characters
MOTE_NAME = f"must be a text of at most {MOTE_NAME_MOST} characters on one line, without control characters"
UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # Unicode's categories


def load(path: str | PathLike[str]) -> Deployment:
    """The deployment in a file; `OSError` if it cannot be read, `DeploymentError` if it is impossible."""
    with open(path, "rb") as file:
        raw = file.read()
    try:
        return parse(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DeploymentError("", None, f"not UTF-8 text at byte {error.start}") from error


def parse(text: str) -> Deployment:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DeploymentError("", None, f"not TOML: {error}") from error
    except (ValueError, RecursionError) as error:  # thousands of digits in a number, or of nested brackets
        raise DeploymentError("", None, f"not a deployment: {error}") from error
    return from_dict(tables)


def from_dict(tables: Mapping[str, Any]) -> Deployment:
    _refuse_unknown("", tables, (*TABLES, "data", "mote"))
    for name in TABLES:
        if not isinstance(tables.get(name, {}), Mapping):
            raise DeploymentError(name, tables[name], f"must be a table, [{name}]")
    for name in ("network", "clock", "stamp"):
        if name not in tables:
            raise DeploymentError(name, None, "this table is required")
    network_table = _Table("network", tables["network"])
    network = _network(network_table)
    data = _data(tables.get("data", []), network.sensor_board)
    if data:
        network = replace(network, data_bytes=_bytes_of(data, network_table))
    stamp_table = _Table("stamp", tables["stamp"])
    row = _scheme(stamp_table)
    clock = _clock(_Table("clock", tables["clock"]), network, row)
    stamp = _stamp(stamp_table, network, clock, row)
    observer = _observer(_Table("observer", tables.get("observer", {})), clock, stamp.scheme)
    motes = _motes(tables.get("mote", []), network.motes)
    security = _security(_Table("security", tables.get("security", {})))
    radio = _radio(_Table("radio", tables.get("radio", {})), network, clock, security.mic)
    deployment = Deployment(network, clock, stamp, observer, data, motes, security, radio)
    try:
        layout_of(deployment)
    except LayoutError as error:
        raise _located(error) from error
    return deployment


class _Table:
    """Typed access to one table; each reader says what it takes and refuses the rest."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self.name, self.settings = name, settings

    def key(self, key: str) -> str:
        return f"{self.name}.{key}"

    def known(self, *keys: str) -> None:
        _refuse_unknown(self.name + ".", self.settings, keys)

    def has(self, key: str) -> bool:
        return key in self.settings

    def whole(self, key: str, least: int, most: int, default: int | None = None, why: str = "") -> int:
        value = self._get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise DeploymentError(self.key(key), value, f"must be a whole number {least}..{most}")
        if not least <= value <= most:
            reason = f"must be {least}..{most}" + (f": {why}" if why else "")
            raise DeploymentError(self.key(key), value, reason)
        return value

    def word(self, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
        value = self._get(key, default)
        if not isinstance(value, str) or value not in choices:
            reason = f"must be one of {', '.join(choices)}"
            raise DeploymentError(self.key(key), value, reason + did_you_mean(value, choices))
        return value

    def number(self, key: str, default: float) -> float:
        """A finite number; a whole one is an `int`, so that it is written and shown without decimals."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST:
            raise DeploymentError(self.key(key), value, f"must be a number, at most {MOST:g} in size")
        return int(value) if float(value).is_integer() else value

    def text(self, key: str, pattern: str, reason: str, default: str | None = None) -> str:
        value = self._get(key, default)
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise DeploymentError(self.key(key), value, reason)
        return value

    def _get(self, key: str, default: Any) -> Any:
        if key in self.settings:
            return self.settings[key]
        if default is None:
            raise DeploymentError(self.key(key), None, "this key is required")
        return default


def _network(table: _Table) -> NetworkSettings:
    table.known(*NetworkSettings.__slots__)
    name = table.word("board", (*BOARDS, GENERIC))
    board = BOARDS.get(name)
    tinyos = table.whole("tinyos", 1, 2, 1)
    return NetworkSettings(
        name=table.text(
            "name", r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "must be one word of letters, digits and _ . -"
        ),
        board=name,
        motes=table.whole("motes", 1, MAX_MOTES),
        group=table.whole("group", 0, 255, DEFAULT_GROUP[tinyos]),
        channel=_channel(table, board, tinyos),
        tinyos=tinyos,
        hops=table.whole("hops", 1, 15, 1),
        data_bytes=table.whole("data_bytes", 0, PAYLOAD_LIMIT[tinyos], 4),
        sensor_board=table.word("sensor_board", SENSOR_BOARDS) if table.has("sensor_board") else "",
        band=_band(table, board),
        gateways=table.whole("gateways", 1, MAX_GATEWAYS, 1),
    )


def _band(table: _Table, board: Board | None) -> int:
    if not table.has("band"):
        return board.default_band if board else 0
    value = table.settings["band"]
    if board is None:
        raise DeploymentError(table.key("band"), value, UNKNOWN_RADIO)
    if not board.bands:
        raise DeploymentError(table.key("band"), value, f"a {board.title} has one band")
    if not isinstance(value, int) or isinstance(value, bool) or value not in board.bands:
        known = ", ".join(map(str, board.bands))
        reason = f"must be one of {known}: the MHz that the {board.title} is built for"
        raise DeploymentError(table.key("band"), value, reason)
    return value


def _channel(table: _Table, board: Board | None, tinyos: int) -> int:
    if board is None:
        return table.whole("channel", 0, 0, 0, UNKNOWN_RADIO)
    channels = board.carrier_khz[tinyos]
    only_one = f"a {board.title} stays on its version's own frequency"
    why = only_one if len(channels) == 1 else f"the channels of the {board.radio.chip}"
    return table.whole("channel", min(channels), max(channels), board.default_channel[tinyos], why)


def _scheme(table: _Table) -> SchemeDescriptor:
    table.known(*StampSettings.__slots__)
    try:
        return descriptor(table.word("scheme", (*names(), *unusable())))
    except LayoutError as error:
        raise _located(error) from error


def _clock(table: _Table, network: NetworkSettings, row: SchemeDescriptor) -> ClockSettings:
    table.known("tick_log2", "epsilon", "delta", "root", "clock_bits")
    epsilon = table.whole("epsilon", 1, 32767, why="with epsilon 0 no clock could tick")
    delta = table.whole("delta", 1, 65535)
    most_id = 254 if source_bytes(network.motes) == 1 else 65534
    tick_log2 = table.whole("tick_log2", 0, 16)
    _refuse_too_long(table, tick_log2, epsilon, delta)
    return ClockSettings(
        tick_log2=tick_log2,
        epsilon=epsilon,
        delta=delta,
        root=table.whole("root", 0, most_id, network.motes),
        clock_bits=table.whole("clock_bits", 0, 32, least_clock_bits(epsilon, delta, row.lead)),
    )


def _refuse_too_long(table: _Table, tick_log2: int, epsilon: int, delta: int) -> None:
    tick_seconds = 2.0**tick_log2 / CRYSTAL_HZ
    hours = (delta + epsilon) * tick_seconds / 3600
    if hours > LONGEST_HOURS:
        key, value = ("delta", delta) if delta >= epsilon else ("epsilon", epsilon)
        reason = (
            f"delta + epsilon would be {hours:.1f} hours, and a mote's clock orders times up to "
            f"{LONGEST_HOURS} hours apart: with tick_log2 = {tick_log2} they may be "
            f"{int(LONGEST_HOURS * 3600 / tick_seconds)} ticks together"
        )
        raise DeploymentError(table.key(key), value, reason)


def _stamp(
    table: _Table, network: NetworkSettings, clock: ClockSettings, row: SchemeDescriptor
) -> StampSettings:
    scheme = row.name
    for key in OPTIONAL:
        if table.has(key) and key not in row.settings and key != "packing":
            raise DeploymentError(table.key(key), table.settings[key], only_for(key, scheme))
    events_per_tick = table.whole("events_per_tick", 1, 65535, 1)
    packing = table.word("packing", PACKINGS, "bits")
    try:
        layout = stamp_layout(
            scheme,
            epsilon=clock.epsilon,
            delta=clock.delta,
            motes=network.motes,
            entries=_entries(table, clock.epsilon),
            packing=packing,
            count=table.word("count", COUNTS, "events"),
            events_per_tick=events_per_tick,
            counter_bits=table.whole("counter_bits", 2, 16) if table.has("counter_bits") else None,
            carry=table.word("carry", CARRIES) if table.has("carry") else None,
            clock_bits=clock.clock_bits,
        )
    except LayoutError as error:
        raise _located(error) from error
    return StampSettings(
        scheme=scheme,
        entries=layout.most,
        packing=packing,
        count=layout.count,
        events_per_tick=events_per_tick,
        counter_bits=layout.entry_bits,
        carry=layout.carry,
        receipts=table.whole("receipts", 0, PAYLOAD_LIMIT[1], 0),
    )


def _entries(table: _Table, epsilon: int) -> int | str:
    """How many entries are asked for; the scheme's descriptor says which numbers it takes."""
    if not table.has("entries") or table.settings["entries"] == "all":
        return "all"
    if isinstance(table.settings["entries"], str):
        reason = 'must be "all" or a whole number'
        raise DeploymentError(table.key("entries"), table.settings["entries"], reason)
    return table.whole("entries", 1, max(epsilon + 1, PAYLOAD_LIMIT[1] // 2))


def _observer(table: _Table, clock: ClockSettings, scheme: str) -> ObserverSettings:
    table.known(*ObserverSettings.__slots__)
    usual = LEDGER if table.has("tolerate") else descriptor(scheme).policy
    policy = table.word("policy", policies(), usual)
    if reason := refusal(policy, scheme):
        raise DeploymentError(table.key("policy"), policy, reason)
    phi = table.whole("phi", 0, 100, 100, why="it is a whole per cent")
    if phi != 100 and (reason := phi_refusal(policy)):
        raise DeploymentError(table.key("phi"), phi, reason)
    give_up = table.whole("give_up", 0, 1 << 30, clock.give_up)
    return ObserverSettings(policy, phi, give_up, _tolerate(table, policy), _sources(table))


def _tolerate(table: _Table, policy: str) -> float | None:
    """The share that the ledger tolerates, 0 unless given; None for other policies."""
    value = table.settings.get("tolerate", 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        raise DeploymentError(table.key("tolerate"), value, "must be a per cent from 0 to 100")
    if policy == LEDGER:
        return float(value)
    if table.has("tolerate"):
        raise DeploymentError(table.key("tolerate"), value, f"policy {policy} promises no share; ledger does")
    return None


def _sources(table: _Table) -> tuple[str, ...]:
    """The sources: one or a list. Only the base station knows what each kind of source takes."""
    if not table.has("source"):
        return ()
    value = table.settings["source"]
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str) or not re.fullmatch(r"[a-z]+@[^\x00-\x1f\x7f]*", text):
            reason = 'must be a source such as "serial@/dev/ttyUSB1:micaz", or a list of them'
            raise DeploymentError(table.key("source"), text, reason)
    return tuple(texts)


def _security(table: _Table) -> SecuritySettings:
    table.known(*SecuritySettings.__slots__)
    mic = table.settings.get("mic", 0)
    if type(mic) is not int or mic not in (0, MIC_BYTES):
        reason = f"must be {MIC_BYTES}, or 0 for messages without authentication"
        raise DeploymentError(table.key("mic"), mic, reason)
    if not mic:
        if table.has("key"):
            raise DeploymentError(table.key("key"), None, f"has no use without mic = {MIC_BYTES}")
        return SecuritySettings()
    return SecuritySettings(mic, _key_file(table))


def _radio(table: _Table, network: NetworkSettings, clock: ClockSettings, mic: int) -> RadioSettings:
    keys = RadioSettings.__slots__
    table.known(*keys)
    if not any(table.has(key) for key in keys):
        return RadioSettings()
    most = 1 << 20  # refused later, with what to write instead
    repair = table.settings.get("repair", True)
    if not isinstance(repair, bool):
        raise DeploymentError(table.key("repair"), repair, "must be true or false")
    radio = RadioSettings(
        table.whole("period_ms", 1, most),
        table.whole("window_ms", 1, most),
        repair,
        table.whole("urgent_ms", 0, most, 0),
    )
    if network.board not in BOARDS:
        raise DeploymentError(table.key("period_ms"), radio.period_ms, UNKNOWN_RADIO)
    board = BOARDS[network.board]
    try:
        shape = network.motes, network.hops, network.tinyos
        schedule = schedule_of(board, *shape, radio.period_ms, radio.window_ms, mic, radio.urgent_ms)
    except ScheduleError as error:
        raise DeploymentError(table.key(error.key), getattr(radio, error.key), error.reason) from error
    least = schedule.delta_ticks(clock.tick_log2)
    if clock.delta < least:
        reason = (
            f"a message may take the whole window of [radio], {ms(schedule.window):.0f} ms: set delta = {least} "
            "or more, or a longer tick"
        )
        raise DeploymentError("clock.delta", clock.delta, reason)
    return radio


def _key_file(table: _Table) -> str:
    """The name of the file with the key. A key written here by mistake is not shown again."""
    name = table.settings.get("key", "")
    if isinstance(name, str) and re.fullmatch(r"[0-9A-Fa-f]{32}", name):
        reason = (
            "is the key itself: write it into a file of its own, readable only by its owner, and name that"
        )
        raise DeploymentError(table.key("key"), None, reason)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        reason = (
            'must name the file with the key beside the deployment, such as "site.key"; '
            "`basestation key new site.key` makes one"
        )
        raise DeploymentError(table.key("key"), None, reason)
    return name


def _listed(name: str, tables: Any, what: str) -> list[_Table]:
    """The tables of a list, [[name]], each with its place in its name."""
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise DeploymentError(name, None, f"each {what} is a table of its own, [[{name}]]")
    return [_Table(f"{name}[{place}]", table) for place, table in enumerate(tables, 1)]


def _motes(tables: Any, motes: int) -> tuple[MoteDetails, ...]:
    """The rows of [[mote]] by id."""
    found: dict[int, MoteDetails] = {}
    names: set[str] = set()
    for table in _listed("mote", tables, "mote"):
        mote = _mote(table, motes)
        if mote.id in found:
            raise DeploymentError(table.key("id"), mote.id, "another [[mote]] has this id")
        if mote.name in names:
            raise DeploymentError(table.key("name"), mote.name, "another mote has this name")
        found[mote.id] = mote
        names |= {mote.name} - {""}
    return tuple(found[mote] for mote in sorted(found))


def _mote(table: _Table, motes: int) -> MoteDetails:
    table.known(*MoteDetails.__slots__)
    mote = table.whole("id", 0, motes - 1, why=f"network.motes = {motes}")
    name = table.text("name", r".*", MOTE_NAME, "")
    if len(name) > MOTE_NAME_MOST or name != name.strip() or not _is_plain(name):
        raise DeploymentError(table.key("name"), name, MOTE_NAME)
    for here, other in (("x", "y"), ("y", "x")):
        if table.has(here) and not table.has(other):
            raise DeploymentError(table.key(other), None, f"this key is required beside {here}")
    if not table.has("x"):
        return MoteDetails(mote, name)
    return MoteDetails(mote, name, table.number("x", 0), table.number("y", 0))


def _is_plain(text: str) -> bool:
    """Whether it has no control characters, nor others that are not seen or turn the text round."""
    return not any(unicodedata.category(letter) in UNSEEN for letter in text)


def _data(values: Any, sensor_board: str) -> tuple[Value, ...]:
    """The values of [[data]], in their order."""
    data = tuple(_value(table, sensor_board) for table in _listed("data", values, "value"))
    for place, value in enumerate(data):
        if value.name in (other.name for other in data[:place]):
            raise DeploymentError(f"data[{place + 1}].name", value.name, "another value has this name")
    return data


def _value(table: _Table, sensor_board: str) -> Value:
    name = table.text(
        "name", r"[a-z][a-z0-9_]{0,30}", "must be a C identifier in lower case, 31 characters at most"
    )
    if name in RESERVED:
        raise DeploymentError(table.key("name"), name, "is a word of C or C++, and cannot name a value there")
    table.name = f"data.{name}"  # from here on messages can say which
    table.known(*(field.name for field in fields(Value)))
    sensor = SENSORS.get(_sensor(table, sensor_board))
    value = Value(
        name=name,
        type=table.word("type", tuple(TYPES), "u16" if sensor else None),
        scale=table.number("scale", 1),
        offset=table.number("offset", 0),
        unit=table.text(
            "unit",
            r"([!-~\xa1-\uffff]( ?[!-~\xa1-\uffff]){0,15})?",
            "must be a short text, 16 characters at most",
            sensor.unit if sensor else "",
        ),
        sensor=sensor.name if sensor else "",
    )
    if abs(value.scale) * MOST < 1:
        raise DeploymentError(table.key("scale"), value.scale, "must not be 0: every value would be the same")
    if sensor and len(value.raw_range) <= 1 << READING_BITS:
        raise DeploymentError(
            table.key("type"), value.type, f"is too small for a sensor's {READING_BITS} bits; u16 holds them"
        )
    return value


def _sensor(table: _Table, sensor_board: str) -> str:
    """The name of a value's sensor, which must be on the mote or on the sensor board."""
    if not table.has("sensor"):
        return ""
    sensor = SENSORS[table.word("sensor", tuple(SENSORS))]
    if not sensor.boards or sensor_board in sensor.boards:
        return sensor.name
    boards = " or ".join(sensor.boards)
    reason = f"an {sensor_board} has no such sensor" if sensor_board else "it is on a sensor board"
    raise DeploymentError(table.key("sensor"), sensor.name, f"{reason}: set network.sensor_board to {boards}")


def _bytes_of(data: tuple[Value, ...], table: _Table) -> int:
    """How many bytes the values take; data_bytes may be left out, but must not say something else."""
    size = sum(value.size for value in data)
    if table.has("data_bytes") and table.settings["data_bytes"] != size:
        reason = f"the values of [[data]] take {many(size, 'byte')}: leave this key out"
        raise DeploymentError(table.key("data_bytes"), table.settings["data_bytes"], reason)
    return size


_TABLE_OF = {"motes": "network", "data_bytes": "network"}
_TABLE_OF |= {"clock_bits": "clock", "epsilon": "clock", "delta": "clock"}


def _located(error: LayoutError) -> DeploymentError:
    if error.key == "data":
        return DeploymentError("data", None, error.reason)
    return DeploymentError(f"{_TABLE_OF.get(error.key, 'stamp')}.{error.key}", error.value, error.reason)


def _refuse_unknown(prefix: str, found: Mapping[str, Any], known: tuple[str, ...]) -> None:
    what = "key" if prefix else "table"
    for name in found:
        if name not in known:
            hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
            raise DeploymentError(f"{prefix}{name}", None, f"no such {what}{hint}")
