"""The barrier on the mote: its vectors, restarts and silence, wrong memory, long pauses, and what it takes."""

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from basestation.causality.schemes.barrier import BarrierProgram, Heard
from packet_formats import bulk
from packet_formats.deployment import Deployment
from packet_formats.fast_read import MessageReader
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message, encode_data, encode_message
from packet_formats.tinyos import ActiveMessage
from tests.firmware.bridge import Buffer, Core
from tests.firmware.cores import core_of, described
from tests.firmware.papers import BarrierReference, Sent
from tests.firmware.test_core_papers import LAYOUTS, OK, PADDING, REFUSED, Mote, World

FIELD = LAYOUTS["barrier"]
EVERY = pytest.mark.parametrize("name", [name for name in LAYOUTS if name.startswith("barrier")])

# ---- The vectors of the definition ----

# l 1043, counter 2, nothing cut, not close, an age of 17 ticks in units of 2, and two names.
HEAD = (1043 % 64, 2, 0, 0, 17 // 2)
VECTORS = (
    (10, ((3, 5), (7, 14)), "4d08357e"),
    (50, ((3, 5), (42, 14)), "4d080d6ae0"),
)
BOTH = pytest.mark.parametrize(("motes", "names", "expected"), VECTORS)


@BOTH
def test_the_vectors_in_layout_construct_and_numpy(motes, names, expected):
    layout = layout_of(described(7, 3, 32, {"scheme": "barrier"}, motes=motes))
    fields, raw = (*HEAD, *(part for name in names for part in name)), bytes.fromhex(expected)
    assert layout.stamp.pack(fields) == raw
    assert layout.stamp.unpack(raw) == fields
    message = Data(1, 7, fields, data=bytes(4))
    payload = encode_data(message, layout)
    assert payload[layout.stamp_at : layout.stamp_at + len(raw)] == raw
    assert decode_message(encode_message(message, layout), layout) == message
    assert MessageReader(layout).read(encode_message(message, layout)) == message
    rows, (reason,) = bulk.decode_data(bulk.Frames.of_payload_list([payload], layout), layout)
    assert reason == 0
    assert bulk.encode_data(rows, layout)[0, : len(payload)].tobytes() == payload


@BOTH
def test_the_vectors_by_events_on_the_mote(motes, names, expected):
    core = core_of(described(7, 3, 32, {"scheme": "barrier"}, motes=motes))
    state, nothing = core.state("stamp"), (0, 0, 31)
    core.call("cw_stamp_start", state, 500)
    core.stamp_send(state, 1043 - 17, 1, 0)
    for (source, residue), top, counter in zip(names, (1043, 1042), (1, 0), strict=True):
        wire = core.layout.stamp.pack((top % 64, counter, *nothing))
        assert core.stamp_receive(state, 1043, wire, source, 16 + residue) == OK
    wire, saturated = core.stamp_send(state, 1043, 1, 1)
    assert wire.hex() == expected
    assert not saturated
    assert core.call("cw_stamp_clock", wire, 1045) == 1043


# ---- Restarts, lost sync, wrong memory ----


class FaultyMote(Mote):
    """A mote whose time may be lost, and whose memory may be wrong, both as the reference has it."""

    @property
    def program(self) -> BarrierProgram:
        assert isinstance(self.reference, BarrierReference)
        return self.reference.program

    def regain(self) -> None:
        """An event out of sync, then one in sync: all is forgotten."""
        tick = self.rt & self.mask
        assert not self.core.call("cw_stamp_in_sync", self.state, tick, False, returns=_bool)
        assert self.emit_silent() == 0
        assert not self.core.call("cw_stamp_in_sync", self.state, tick, True, returns=_bool)
        self.reference.start(self.rt)

    def emit_silent(self) -> int:
        """The names in a message that is sent while the time is lost."""
        wire, saturated = self.core.stamp_send(self.state, self.rt & self.mask, self.me, self.number % 256)
        assert not saturated
        self.number += 1
        return self.core.layout.stamp.items_in[len(wire)]

    def send(self) -> Sent:
        sent = super().send()
        may = self.core.call("cw_stamp_in_sync", self.state, self.rt & self.mask, True, returns=_bool)
        assert may == sent.message.in_sync
        return sent

    def damage(self, chance: random.Random) -> None:
        """The same wrong times, numbers and marks on both sides; none so far off that 16 bits turn it round."""
        program, motes = self.program, self.core.deployment.network.motes

        def time() -> int:
            return self.rt + chance.choice((chance.randint(-90, 20), chance.randint(-16000, 16000)))

        top, previous, sent = time(), time(), [time() for _ in range(16)]
        up, counter = self.rt - chance.randint(0, 100), chance.randint(0, program._counter_top)
        heard = [
            Heard(time(), chance.randrange(256), chance.random() < 0.5, chance.random() < 0.5)
            for _ in range(motes)
        ]
        program.l, program.counter, program._up, program._previous, program._sent = (
            *(top, counter, up, previous),
            list(sent),
        )
        program._heard = {mote: heard[mote] for mote in range(motes) if mote != self.me}
        program._first = chance.random() < 0.5
        times = [value & 0xFFFF for value in (top, up - 1, previous, *sent)]
        raw = struct.pack("=I19H", self.rt & self.mask, *times)
        for one in heard:
            raw += struct.pack("=HBB", one.top & 0xFFFF, one.sequence, one.front | one.close << 1)
        raw += bytes((counter, chance.randrange(256), int(program._first), 0))
        raw += struct.pack("=H", program.bounded & 0xFFFF)
        self.state = Buffer(self.core.sizes["stamp"], raw)


def _bool(value: int) -> bool:
    return bool(value & 0xFF)


class FaultyWorld(World):
    """Motes restart, lose the time and find their memory changed, in the midst of traffic."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.motes = [FaultyMote(self.core, mote.me, mote.rt) for mote in self.motes]

    def step(self) -> None:
        mote = self.chance.choice(self.motes)
        assert isinstance(mote, FaultyMote)
        kind = self.chance.random()
        if kind < 0.01:
            mote.regain()
        elif kind < 0.02:
            mote.restart()
            mote.reference.start(mote.rt)
            mote.program.bounded = 0
        elif kind < 0.04 and self.rough:
            mote.damage(self.chance)
            mote.send()  # before a pause, after which the mote cannot tell what is far ahead from what is old
        super().step()


def faulty_world(core: Core, seed: int, before_wrap: int, rough: bool) -> FaultyWorld:
    return FaultyWorld(core, random.Random(seed), (1 << 32 - core.layout.tick_log2) - before_wrap, rough)


@pytest.mark.parametrize("name", ["barrier", "barrier, 3", "barrier, 50", "barrier, 200"])
@settings(max_examples=settings().max_examples // 5)
@given(seed=st.integers(0, 2**32), before_wrap=st.integers(0, 60), rough=st.booleans())
def test_identical_stamps_with_restarts_and_wrong_memory(name, seed, before_wrap, rough):
    world = faulty_world(core_of(LAYOUTS[name]), seed, before_wrap, rough)
    for _ in range(300):
        world.step()
    for mote in world.motes:
        found = mote.core.call("bridge_bounded", mote.state)
        assert found & 0xFFFF == mote.reference.bounded & 0xFFFF


def test_the_streams_have_every_kind_of_stamp():
    """Cut and close ones, six names, saturated counters, ages of every size, silence."""
    core = core_of(LAYOUTS["barrier, 50"])
    busy = FaultyWorld(core, random.Random(5), 1000, rough=True)
    busy.motes = [FaultyMote(core, me, busy.now) for me in range(12)]
    sent = []
    for _ in range(6000):
        busy.step()
        sent += busy.flying[-1:]
    stamps = [one.fields for one in sent]
    assert {len(fields) for fields in stamps} >= {5, 7, 17}
    assert {fields[2:4] for fields in stamps} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert {fields[4] for fields in stamps} >= {0, 1, 2, 31}
    burst = FaultyMote(core, 0, 1000)
    burst.rt = 1100
    assert [burst.send().saturated for _ in range(30)] == [False] * 28 + [True] * 2
    assert sum(mote.reference.bounded for mote in busy.motes) > 0


@EVERY
def test_a_start_is_followed_by_silence(name):
    """2 epsilon + 1 ticks, in which receptions count and sends change nothing."""
    core = core_of(LAYOUTS[name])
    lead = core.deployment.lead
    mote, other = FaultyMote(core, 0, 700_000), FaultyMote(core, 1, 500_000)
    other.rt = 700_000
    mote.receive(other.send())
    for rt in (700_000, 700_000 + lead):
        mote.rt = rt
        assert not mote.send().message.in_sync
    mote.rt = 700_000 + lead + 1
    first = mote.send()
    assert first.message.in_sync
    assert first.fields[2:5] == (1, 1, 0)
    assert first.fields[5:7] == (() if lead + 1 > core.deployment.clock.delta + lead // 2 else (1, 0))


@EVERY
@given(damage=st.binary(min_size=1000, max_size=1000))
@settings(max_examples=20)
def test_nothing_is_left_of_wrong_memory(name, damage):
    """Whatever memory holds, stamps can be read; a mote that has heard nothing for a while is as good as new."""
    core = core_of(LAYOUTS[name])
    mote, other = FaultyMote(core, 0, 700_000), FaultyMote(core, 1, 600_000)
    other.rt = 700_000
    size = core.sizes["stamp"]
    mote.state = Buffer(size, (damage * 3)[:size])
    core.layout.stamp.unpack(core.stamp_send(mote.state, mote.rt & mote.mask, 0, 0)[0])
    core.call("cw_stamp_in_sync", mote.state, mote.rt & mote.mask, True)
    mote.number = 1
    mote.rt += 2 * core.layout.stamp.modulus + 4 * core.deployment.clock.delta + 4 * core.deployment.lead
    other.rt = mote.rt
    mote.send()
    mote.receive(other.send())
    assert mote.send().fields[5:7] == (1, 0)


PAUSES = (70, 71, 77, 78, 79, 1000, 2**15, 2**16 - 78, 2**16 - 2, 2**16, 2**16 + 3, 2**20, 2**24, 2**25 - 90)


@pytest.mark.parametrize("pause", PAUSES)
def test_nothing_comes_back_after_a_pause(pause):
    core = core_of(FIELD)
    world = World(core, random.Random(3), 1000)
    for _ in range(200):
        world.step()
    for _ in range(3):
        world.now += pause
        for _ in range(60):
            world.step()


def test_old_entries_do_not_return_when_ticks_wrap():
    """After 36 hours a tick has the number that it had before; who lets go in between is not deceived."""
    core = core_of(FIELD)
    mote, other = Mote(core, 0, 1000), Mote(core, 1, 1000)
    other.rt = mote.rt = 1100
    mote.receive(other.send())
    mote.rt += 2**24
    core.call("cw_stamp_tidy", mote.state, mote.rt & mote.mask)
    mote.rt += 2**24
    assert len(mote.send().fields) == 5


# ---- What cannot be ----


def test_a_message_of_no_mote_and_set_padding_are_refused():
    core = core_of(LAYOUTS["barrier, 50"])
    state, head = core.state("stamp"), (5, 0, 0, 0, 31)
    core.call("cw_stamp_start", state, 5)
    before = state.bytes
    assert core.stamp_receive(state, 5, core.layout.stamp.pack(head), 50, 0) == REFUSED
    padded = bytearray(core.layout.stamp.pack((*head, 3, 5)))
    assert core.stamp_check(bytes(padded)) == 0
    padded[-1] |= 1
    assert core.stamp_check(bytes(padded)) == PADDING
    assert core.stamp_receive(state, 5, bytes(padded), 1, 0) == REFUSED
    assert state.bytes == before


def test_a_name_that_is_no_mote_is_ignored():
    core = core_of(FIELD)
    mote, other = Mote(core, 0, 1000), Mote(core, 1, 1000)
    mote.rt = other.rt = 1100
    mote.receive(other.send())
    wire = core.layout.stamp.pack((1100 % 64, 0, 0, 0, 31, 10, 0, 15, 15))
    assert core.stamp_receive(mote.state, 1100, wire, 2, 0) == OK


# ---- What it takes ----


@pytest.mark.parametrize("motes", [10, 50, 200])
def test_memory(motes):
    """Four bytes a mote and 47; the host rounds up. The aim is five a mote and 64."""
    core = core_of(described(7, 3, 32, {"scheme": "barrier"}, motes=motes))
    assert core.sizes["stamp"] == 4 * motes + 48


def deployment_of(motes: int, **network: object) -> Deployment:
    return described(7, 3, 32, {"scheme": "barrier", "receipts": 2}, motes=motes, **network)


@pytest.mark.parametrize("motes", [10, 50, 200])
@pytest.mark.parametrize("tinyos", [1, 2])
def test_a_payload_is_built_around_a_stamp_of_any_length(motes, tinyos):
    """Receipts and application data follow the stamp at once, and all of it is read back."""
    core = core_of(deployment_of(motes, tinyos=tinyos, data_bytes=3))
    layout, stamp, receipts = core.layout, core.state("stamp"), core.state("receipts")
    core.call("cw_stamp_start", stamp, 500)
    lengths = []
    for names in range(8):
        tick = 1000 + 100 * names
        for source in range(2, 2 + names):
            wire = layout.stamp.pack((tick % 64, 0, 0, 0, 31))
            assert core.stamp_receive(stamp, tick, wire, source, names) == OK
        if names == 3:
            core.call("cw_receipts_add", receipts, 4, 0, 77)
        payload = Buffer(layout.length, b"\xee" * layout.data_at + b"\1\2\3")
        core.call("cw_data_head", payload, 1, names, 3, 2, True)
        length = core.call("cw_data_put_stamp", payload, stamp, tick) & 0xFF
        core.call("cw_data_put_receipts", payload, length, receipts)
        raw = payload.bytes[:length]
        data = decode_message(ActiveMessage(tinyos, 0xFFFF, layout.group, layout.am_type, raw), layout)
        assert isinstance(data, Data)
        assert data.data == b"\1\2\3"
        assert data.receipts == (((4, 77),) if names >= 3 else ())
        assert data.stamp[5::2] == tuple(range(2, 2 + min(names, 6)))
        assert core.call("cw_data_check", raw, length, core.state("data_counters")) == 0
        lengths.append(length)
    assert lengths[:7] == sorted(layout.items_in)
    assert lengths[7] == layout.length
