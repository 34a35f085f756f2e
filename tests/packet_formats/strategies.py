"""Random deployments, layouts and messages for the property tests."""

from dataclasses import replace
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from packet_formats.boards import BOARDS
from packet_formats.deployment import Deployment, DeploymentError, from_dict
from packet_formats.layout import DataLayout, layout_of
from packet_formats.messages import Data
from packet_formats.records import RECORDS, Record, members
from packet_formats.schedule import schedule_of
from packet_formats.schemes import names, ordered
from packet_formats.tinyos import Ack, ActiveMessage
from packet_formats.values import TYPES


def tables(**stamp: Any) -> dict[str, dict[str, Any]]:
    """The paper's deployment as tables, with another stamp if one is given."""
    return {
        "network": {"name": "paper", "board": "micaz", "motes": 10},
        "clock": {"tick_log2": 7, "epsilon": 10, "delta": 10},
        "stamp": stamp or {"scheme": "kn"},
        "observer": {},
    }


@st.composite
def stamps(draw: st.DrawFn, epsilon: int) -> dict[str, Any]:
    scheme = draw(st.one_of(st.sampled_from(ordered()), st.sampled_from(names())))
    stamp: dict[str, Any] = {"scheme": scheme, "receipts": draw(st.integers(0, 4))}
    if scheme in ("kn", "dpc1", "dpc2"):
        stamp["packing"] = draw(st.sampled_from(["bits", "bytes"]))
    if scheme == "kn":
        stamp["entries"] = draw(st.one_of(st.just("all"), st.integers(1, epsilon + 1)))
        stamp["count"] = draw(st.sampled_from(["events", "sends"]))
    if scheme == "history" and draw(st.booleans()):
        stamp["entries"] = draw(st.integers(1, 6))
    if scheme in ("hlc", "shlc"):
        stamp["carry"] = draw(st.sampled_from(["pair", "sum"]))
    if scheme in ("kn", "hlc", "shlc") and draw(st.booleans()):
        stamp["counter_bits"] = draw(st.integers(2, 16))
    return stamp


def numbers() -> st.SearchStrategy[float]:
    """Numbers as people write them, and as programs do."""
    whole, fine = st.integers(-1000, 1000), st.floats(-1e6, 1e6)
    return st.one_of(whole, st.integers(-1000, 1000).map(lambda n: n / 1000), fine)


@st.composite
def values(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The [[data]] of a deployment, or none."""
    names = draw(st.lists(st.sampled_from(["light", "x", "y2", "level_m", "t"]), unique=True, max_size=4))
    return [
        {
            "name": name,
            **draw(st.sampled_from([*({"type": kind} for kind in TYPES), {"sensor": "battery"}])),
            "scale": draw(numbers().filter(lambda scale: abs(scale) > 1e-9)),
            "offset": draw(numbers()),
            "unit": draw(st.sampled_from(["", "lx", "°C", "m s-1", '"\\'])),
        }
        for name in names
    ]


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    epsilon = draw(st.one_of(st.integers(1, 12), st.integers(1, 2000)))
    data = draw(values())
    wanted = {
        "network": {
            "name": "drawn",
            "board": draw(st.sampled_from(["micaz", "mica2"])),
            "motes": draw(st.one_of(st.integers(1, 20), st.integers(1, 60), st.integers(230, 5000))),
            "group": draw(st.integers(0, 255)),
            "tinyos": draw(st.sampled_from([1, 2])),
            **({} if data else {"data_bytes": draw(st.integers(0, 10))}),
        },
        "clock": {
            "tick_log2": draw(st.integers(0, 16)),
            "epsilon": epsilon,
            "delta": draw(st.one_of(st.integers(1, 40), st.integers(1, 40000))),
        },
        "stamp": draw(stamps(epsilon)),
        "data": data,
    }
    try:
        return from_dict(wanted)
    except DeploymentError:
        assume(False)
        raise


SCHEDULE = schedule_of(BOARDS["micaz"], motes=10, hops=3, tinyos=1, period_ms=16000, window_ms=1152)


@st.composite
def layouts(draw: st.DrawFn) -> DataLayout:
    """Of motes that listen always and, where there is room for the age, by a schedule."""
    layout = layout_of(draw(deployments()))
    return replace(layout, schedule=SCHEDULE) if layout.left and draw(st.booleans()) else layout


@st.composite
def data_messages(draw: st.DrawFn, layout: DataLayout) -> Data:
    ids, byte = st.integers(0, (1 << 8 * layout.source_bytes) - 1), st.integers(0, 255)
    own = (draw(ids), draw(byte))
    slot = st.tuples(ids, byte).filter(lambda receipt: receipt != own)
    fields = layout.stamp.fields_of(draw(st.sampled_from(sorted(layout.items_in.values()))))
    return Data(
        source=own[0],
        sequence=own[1],
        stamp=tuple(draw(st.integers(0, field.top)) for field in fields),
        in_sync=draw(st.booleans()),
        saturated=draw(st.booleans()),
        complete=draw(st.booleans()),
        boot=draw(st.integers(0, 7)),
        hops=draw(st.integers(0, 3)),
        receipts=tuple(draw(st.lists(slot, max_size=layout.receipts))),
        data=draw(st.binary(min_size=layout.data_bytes, max_size=layout.data_bytes)),
        age=draw(byte) if layout.has_age else 0,
    )


def fitted(record: Record, layout: DataLayout) -> Record:
    """The same record with a tail, where the layout has one for it."""
    tail = layout.tail(type(record))
    return replace(record, tail=bytes(range(7, 7 + tail))) if tail else record


@st.composite
def records(draw: st.DrawFn) -> Record:
    record = draw(st.sampled_from(RECORDS))
    values = {m.name: draw(st.integers(m.range.start, m.range.stop - 1)) for m in members(record)}
    return record(**values)


@st.composite
def packets(draw: st.DrawFn) -> ActiveMessage | Ack:
    u8, u16 = st.integers(0, 255), st.integers(0, 65535)
    tinyos = draw(st.sampled_from([1, 2]))
    kind = draw(st.sampled_from(["ack", "data", "data-ack"]))
    if kind == "ack":
        return Ack(tinyos, draw(u8))
    return ActiveMessage(
        tinyos=tinyos,
        dest=draw(u16),
        group=draw(u8),
        type=draw(u8),
        data=draw(st.binary(max_size=29 if tinyos == 1 else 28)),
        source=draw(u16) if tinyos == 2 else None,
        kind=kind,
        token=draw(u8) if kind == "data-ack" else None,
    )
