"""What a mote remembers of others: receipts and the duplicate filter, against models; and a payload built whole."""

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basestation.deployed import timed_scheme_of
from packet_formats.framing import encode_frame
from packet_formats.messages import Data, encode_data
from tests.firmware.bridge import Buffer, Core
from tests.firmware.cores import core_of, described

NARROW = described(7, 10, 10, {"scheme": "shlc", "receipts": 2}, motes=4)
WIDE = described(7, 10, 10, {"scheme": "shlc", "receipts": 3}, motes=300, tinyos=2)
NONE = described(7, 10, 10, {"scheme": "shlc"}, motes=4)


class Receipts:
    """A model: receipts in the order in which their sources were last sent, and what is still to be sent of each."""

    def __init__(self, room: int, slots: int) -> None:
        self.room, self.slots = room, slots
        self.order: list[int] = []
        self.newest: dict[int, tuple[int, int]] = {}  # source -> boot, sequence
        self.untold: set[int] = set()
        self.fresh: set[int] = set()
        self.overflow = False

    def add(self, source: int, boot: int, sequence: int) -> None:
        if source in self.newest:
            known_boot, known = self.newest[source]
            if known_boot == boot and (known - sequence) % 256 < 16:
                return
        else:
            if len(self.order) == self.room and not self._forget():
                self.overflow = True
                return
            self.order.append(source)
        self.newest[source] = (boot, sequence)
        self.untold.add(source)
        self.fresh.add(source)

    def _forget(self) -> bool:
        told = [source for source in self.order if source not in self.untold]
        if told:
            self.order.remove(told[-1])
            del self.newest[told[-1]]
        return bool(told)

    def put(self) -> tuple[tuple[tuple[int, int], ...], bool]:
        ranked = sorted(self.order, key=lambda source: source not in self.untold)  # stable
        told = ranked[: self.slots]
        self.order = [source for source in self.order if source not in told] + told
        complete = self.fresh <= set(told) and not self.overflow
        self.untold -= set(told)
        self.fresh.clear()
        self.overflow = False
        return tuple((source, self.newest[source][1]) for source in told), complete


events = st.lists(
    st.one_of(
        st.none(),
        st.tuples(st.integers(1, 9), st.sampled_from([0, 0, 0, 1, 9]), st.integers(0, 255)),
        st.tuples(st.integers(1, 3), st.just(0), st.integers(0, 20)),
    ),
    max_size=60,
)


def told(core: Core, receipts: Buffer, own: int, sequence: int) -> tuple[bytes, bool]:
    """Slots and complete flag of the next message, seen in its payload."""
    payload = Buffer(core.layout.length)
    core.call("cw_data_head", payload, own, sequence, 0, 0, 0, returns=ctypes.c_int)
    core.call("cw_data_put_receipts", payload, core.layout.length, receipts, returns=ctypes.c_int)
    raw = payload.bytes
    return raw[core.layout.receipts_at : core.layout.data_at], raw[core.layout.flags_at] == 4


@pytest.mark.parametrize("deployment", [NARROW, WIDE], ids=["narrow", "wide"])
@given(events=events)
def test_receipts_follow_the_model(deployment, events):
    core = core_of(deployment)
    layout, receipts = core.layout, core.state("receipts")
    room = core.sizes["receipts_room"]
    assert room == min(deployment.network.motes, 32)
    model, own = Receipts(room, layout.receipts), 10
    scale = 1 if layout.source_bytes == 1 else 25  # sources beyond one byte
    for number, event in enumerate(events):
        if event is None:
            slots, complete = model.put()
            message = Data(
                own, number, (0, 0), False, complete=complete, receipts=slots, data=bytes(layout.data_bytes)
            )
            expected = encode_data(message, layout)
            assert told(core, receipts, own, number) == (
                expected[layout.receipts_at : layout.data_at],
                complete,
            )
        else:
            source, boot, sequence = event
            model.add(source * scale, boot % 8, sequence)
            core.call("cw_receipts_add", receipts, source * scale, boot, sequence, returns=ctypes.c_int)
    assert receipts.bytes is not None


def test_flags_that_memory_has_changed():
    """Anything but 0 is true. A bool would be undefined, which ends this process."""
    core = core_of(NARROW)
    room = core.sizes["receipts"]
    receipts = Buffer(room, bytes(room - 1) + b"\xa5")
    assert told(core, receipts, 0, 1) == (bytes([0, 1, 0, 1]), False)
    assert told(core, receipts, 0, 2) == (bytes([0, 2, 0, 2]), True)
    room = core.sizes["deframer"]
    deframer, frame = Buffer(room, bytes(room - 2) + b"\xa5\xa5"), encode_frame(b"\x42hello")
    for byte in frame + frame[1:]:
        core.call("cw_deframer_put", deframer, byte, returns=ctypes.c_uint8)
    assert b"\x42hello" in deframer.bytes


def test_receipts_in_words():
    core = core_of(NARROW)
    receipts = core.state("receipts")

    def add(source: int, sequence: int) -> None:
        core.call("cw_receipts_add", receipts, source, 0, sequence, returns=ctypes.c_int)

    assert told(core, receipts, 0, 1) == (bytes([0, 1, 0, 1]), True)  # nothing to tell
    for source, sequence in [(1, 10), (2, 20), (3, 30), (2, 21), (2, 20)]:
        add(source, sequence)
    assert told(core, receipts, 0, 2) == (bytes([1, 10, 2, 21]), False)  # the third does not fit
    assert told(core, receipts, 0, 3) == (bytes([3, 30, 1, 10]), True)  # then it does, and an old one again
    add(1, 11)
    assert told(core, receipts, 0, 4) == (bytes([1, 11, 2, 21]), True)  # new before old
    core.call("cw_receipts_start", receipts, returns=ctypes.c_int)
    assert told(core, receipts, 0, 5) == (bytes([0, 5, 0, 5]), True)


def test_without_slots_nothing_is_kept():
    core = core_of(NONE)
    receipts = core.state("receipts")
    core.call("cw_receipts_add", receipts, 1, 2, 3, returns=ctypes.c_int)
    assert told(core, receipts, 0, 1) == (b"", False)
    assert core.sizes["receipts"] == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=300))
def test_the_duplicate_filter_knows_the_newest(heard):
    core = core_of(NARROW)
    dedup, room = core.state("dedup"), core.sizes["dedup_room"]
    known: list[tuple[int, int]] = []
    for source, number in heard:
        name = (source * 9999, number * 257)
        seen = core.call("cw_dedup_seen", dedup, *name, returns=ctypes.c_bool)
        assert seen == (name in known)
        if not seen:
            known = [*known, name][-room:]


def test_the_duplicate_filter_in_words():
    core = core_of(NARROW)
    dedup, room = core.state("dedup"), core.sizes["dedup_room"]
    # Empty rows are not message 0 of mote 0
    assert not core.call("cw_dedup_seen", dedup, 0, 0, returns=ctypes.c_bool)
    for number in range(1, room):
        assert not core.call("cw_dedup_seen", dedup, 7, number, returns=ctypes.c_bool)
    assert core.call("cw_dedup_seen", dedup, 0, 0, returns=ctypes.c_bool)
    # The oldest, 0 of 0, makes room
    assert not core.call("cw_dedup_seen", dedup, 8, 1, returns=ctypes.c_bool)
    assert not core.call("cw_dedup_seen", dedup, 0, 0, returns=ctypes.c_bool)
    core.call("cw_dedup_start", dedup, returns=ctypes.c_int)
    assert not core.call("cw_dedup_seen", dedup, 8, 1, returns=ctypes.c_bool)


@pytest.mark.parametrize("deployment", [NARROW, WIDE, NONE], ids=["narrow", "wide", "none"])
def test_a_payload_built_whole(deployment):
    core, scheme = core_of(deployment), timed_scheme_of(deployment)
    layout, stamp, receipts = core.layout, core.state("stamp"), core.state("receipts")
    program = scheme.start(0, 1000)
    core.call("cw_stamp_start", stamp, 1000, returns=ctypes.c_int)
    core.call("cw_receipts_add", receipts, 2, 5, 77, returns=ctypes.c_int)
    for sequence in range(120):  # in one tick, until the counter is full
        sent = program.on_send(1000)
        message = Data(
            source=1,
            sequence=sequence,
            stamp=scheme.encode(sent),
            saturated=scheme.saturated(sent),
            complete=layout.receipts > 0,
            boot=3,
            hops=2,
            receipts=((2, 77),) if layout.receipts else (),
            data=bytes([7] * layout.data_bytes),
        )
        payload = Buffer(layout.length, bytes([7] * layout.length))
        core.call("cw_data_head", payload, 1, sequence, 3, 2, 1, returns=ctypes.c_int)
        core.call("cw_data_put_stamp", payload, stamp, 1000, returns=ctypes.c_int)
        core.call("cw_data_put_receipts", payload, layout.length, receipts, returns=ctypes.c_int)
        assert payload.bytes == encode_data(message, layout)
    assert scheme.saturated(sent)
