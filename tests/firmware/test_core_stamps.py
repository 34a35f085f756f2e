"""The firmware's stamp programs equal those of the base station, event by event, for every scheme and packing."""

import ctypes
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from basestation.causality.kernels import stamping
from basestation.causality.order import Stamp, unwrap
from basestation.causality.schemes import TimedScheme
from basestation.causality.schemes.timed import TimedProgram
from basestation.causality.stream import RECEIVE, SEND
from basestation.deployed import timed_scheme_of
from packet_formats.layout import StampLayout
from tests.firmware.bridge import Buffer, Core, shorts
from tests.firmware.cores import core_of, described, name_of, stamp_deployments

OK, BOUNDED, REFUSED = range(3)
FEW = settings(max_examples=settings().max_examples // 5)  # of each of many layouts


def every(test: Any) -> Any:
    """Over all layouts; a dozen of them are fast, the same for each test, since each is compiled."""
    over = pytest.mark.parametrize("deployment", stamp_deployments(), ids=name_of)
    return pytest.mark.few(12)(over(test))


class Mote:
    """One mote twice: the reference, with whole numbers as clocks, and the firmware, with ticks that wrap."""

    def __init__(self, core: Core, scheme: TimedScheme, rt: int) -> None:
        self.core, self.scheme, self.layout = core, scheme, core.layout.stamp
        self.mask = (1 << 32 - core.layout.tick_log2) - 1
        self.rt = rt
        self.reference: TimedProgram = scheme.start(0, rt)
        self.state: Buffer = core.state("stamp")
        core.call("cw_stamp_start", self.state, rt & self.mask, returns=ctypes.c_int)

    def send(self) -> bytes:
        stamp = self.reference.on_send(self.rt)
        wire = self.layout.pack(self.scheme.encode(stamp))
        assert self.core.stamp_send(self.state, self.rt & self.mask) == (wire, self.scheme.saturated(stamp))
        self._same_bounded()
        return wire

    def receive(self, wire: bytes) -> None:
        before, held = self.reference.bounded, self.state.bytes
        try:
            fields = self.layout.unpack(wire)
        except ValueError:
            expected = REFUSED
        else:
            self.reference.merge(self.rt, [self.scheme.decode(fields, self.rt)])
            expected = BOUNDED if self.reference.bounded > before else OK
            clock = unwrap(fields[0], self.rt, self.scheme.lead, self.scheme.modulus)
            found = self.core.call("cw_stamp_clock", wire, self.rt & self.mask)
            assert (found - clock) & self.mask == 0
        assert self.core.stamp_receive(self.state, self.rt & self.mask, wire) == expected
        assert expected != REFUSED or self.state.bytes == held
        self._same_bounded()

    def corrupt(self, ahead: int, kn: list[int]) -> None:
        top = self.rt + ahead
        self.reference.corrupt(top, 0, kn)
        kn = [min(value, self.scheme.entry_max) for value in kn]
        self.core.call("bridge_corrupt", self.state, top & self.mask, shorts(kn), returns=ctypes.c_int)

    def _same_bounded(self) -> None:
        found = self.core.call("bridge_bounded", self.state, returns=ctypes.c_uint16)
        assert found == self.reference.bounded & 0xFFFF


@dataclass
class World:
    """Some motes whose clocks keep, or break, G1 and G2; what they sent; and chance."""

    core: Core
    chance: random.Random
    now: int
    rough: bool
    motes: list[Mote] = field(default_factory=list)
    flying: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scheme = timed_scheme_of(self.core.deployment)
        self.motes = [Mote(self.core, self.scheme, self.now) for _ in range(3)]
        # Beyond half the range of ticks the firmware cannot distinguish before from after, and says so.
        self.reach = min(1 << 30 - self.core.layout.tick_log2, 4 * self.scheme.modulus + 100)
        self.budget = 1 << 30 - self.core.layout.tick_log2

    def step(self) -> None:
        mote = self.chance.choice(self.motes)
        self._tick(mote)
        kind = self.chance.random()
        if kind < 0.35:
            self.flying.append(mote.send())
            del self.flying[:-6]
        elif kind < 0.9 and self.flying:
            mote.receive(self.chance.choice(self.flying))
        elif self.rough and kind < 0.95:
            mote.receive(self.chance.randbytes(self.core.layout.stamp.size))
        elif self.rough and kind < 0.97:
            self._corrupt(mote)

    def _tick(self, mote: Mote) -> None:
        """Time goes on, now and then by a lot; a clock is anywhere within epsilon of the others."""
        if self.chance.random() < 0.3:
            far = self.rough and self.chance.random() < 0.05
            ticks = self.chance.randint(0, self.reach if far else 2)
            ticks = min(ticks, self.budget)
            self.budget -= ticks
            self.now += ticks
        spread = self.scheme.epsilon * (3 if self.rough and self.chance.random() < 0.02 else 1)
        mote.rt = max(mote.rt, self.now + self.chance.randint(0, spread) - spread // 2)

    def _corrupt(self, mote: Mote) -> None:
        size, top = self.core.layout.stamp.entries, self.scheme.entry_max
        mote.corrupt(
            self.chance.randint(-self.reach, self.reach), [self.chance.randint(0, top) for _ in range(size)]
        )


@every
@FEW
@given(seed=st.integers(0, 2**32), before_wrap=st.integers(0, 60), rough=st.booleans())
@example(seed=1, before_wrap=0, rough=False)
@example(seed=2, before_wrap=5, rough=True)
def test_identical_stamps_over_long_streams_across_the_wrap(deployment, seed, before_wrap, rough):
    core = core_of(deployment)
    wrap = 1 << 32 - core.layout.tick_log2
    world = World(core, random.Random(seed), wrap - before_wrap, rough)
    for _ in range(120):
        world.step()


@every
def test_very_long_streams(deployment):
    core = core_of(deployment)
    world = World(core, random.Random(7), (1 << 32 - core.layout.tick_log2) - 500, False)
    for _ in range(3000):
        world.step()


@every
@FEW
@given(data=st.data())
def test_stamps_are_judged_as_the_reference_judges_them(deployment, data):
    core = core_of(deployment)
    layout = core.layout.stamp
    raw = data.draw(st.binary(min_size=layout.size, max_size=layout.size))
    assert core.stamp_check(raw) == fault(layout, raw)


def fault(layout: StampLayout, raw: bytes) -> int:
    try:
        layout.unpack(raw)
    except ValueError as error:
        return 1 if "padding" in str(error) else 2
    return 0


@every
@given(now=st.integers(0, 2**40), apart=st.integers(-(2**31), 2**31), value=st.integers(0, 0xFFFF))
def test_ticks_and_the_clock_field(deployment, now, apart, value):
    core = core_of(deployment)
    scheme, bits = timed_scheme_of(deployment), 32 - core.layout.tick_log2
    apart >>= core.layout.tick_log2
    wrapped = apart if apart < 1 << bits - 1 else -apart
    mask = (1 << bits) - 1
    found = core.call("bridge_tick_diff", (now + apart) & mask, now & mask, returns=ctypes.c_int32)
    assert found == wrapped
    ahead = core.call("bridge_clock_ahead", value, now & mask, returns=ctypes.c_int32)
    assert now + ahead == unwrap(value % scheme.modulus, now, scheme.lead, scheme.modulus)
    assert core.call("bridge_tick", now & 0xFFFFFFFF) == (now & 0xFFFFFFFF) >> core.layout.tick_log2


# B = 32 and epsilon 3: delta says how much of epsilon is left to carry.
CARRYING = [("shlc", "sum", delta) for delta in (25, 24, 23, 22)]
CARRYING += [("hlc", "sum", 25), ("hlc", "sum", 24), ("hlc", "pair", 22), ("shlc", "pair", 22)]


@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "carry", "delta"), CARRYING)
@FEW
@given(seed=st.integers(0, 2**32))
def test_full_counters_carry_alike_in_firmware_objects_and_kernels(name, carry, delta, seed):
    """Bursts on clocks that keep epsilon: all three make the same stamps, and none is cut or misread."""
    settings = {"scheme": name, "carry": carry, "counter_bits": 2}
    core, chance = core_of(described(8, 3, delta, settings)), random.Random(seed)
    scheme = timed_scheme_of(core.deployment)
    motes = [Mote(core, scheme, 0) for _ in range(3)]
    events, wires = [], []
    for _ in range(150):
        number = chance.randrange(3)
        mote = motes[number]
        if chance.random() < 0.1 and mote.rt - min(each.rt for each in motes) < scheme.epsilon:
            mote.rt += 1
        if chance.random() < 0.6 or not wires:
            wires.append(mote.send())
            events.append((SEND, number, mote.rt, len(wires) - 1))
        else:
            mote.receive(wires[-1])
            events.append((RECEIVE, number, mote.rt, len(wires) - 1))
    columns = np.array(events, np.int64).T
    r, c, kn, *cut_and_misread = stamping.stamp_events(
        *columns, 3, len(wires), getattr(stamping, scheme.kernel), *widths_of(scheme), *NO_FAULT
    )
    stamps = [
        Stamp(*rc, tuple(entries)) for *rc, entries in zip(r.tolist(), c.tolist(), kn.tolist(), strict=True)
    ]
    assert [core.layout.stamp.pack(scheme.encode(stamp)) for stamp in stamps] == wires
    assert cut_and_misread == [sum(mote.reference.bounded for mote in motes), 0] == [0, 0]


NO_FAULT = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 1), np.int64)


def widths_of(scheme: TimedScheme) -> tuple[int, int, int, int, int, bool, bool]:
    """As the kernel takes them."""
    clock = scheme.epsilon, scheme.lead, scheme.modulus
    return *clock, scheme.entries, scheme.entry_max, scheme.count == "events", scheme.carry == "sum"


@pytest.mark.parametrize("entries", [0, 2], ids=["dpc2", "kn"])
def test_half_the_range_of_a_cycle_long_tick_may_pass(entries):
    """The top is INT32_MIN ahead of the clock then; its negative overflows: the sanitizer ends the process."""
    stamp = {"scheme": "kn", "entries": entries} if entries else {"scheme": "dpc2"}
    core = core_of(described(0, 10, 10, stamp))
    mote = Mote(core, timed_scheme_of(core.deployment), 7)
    first = mote.send()
    mote.rt += 2**31
    mote.receive(first)  # of a clock value that is long past
    mote.rt += 2**31
    mote.send()


@every
def test_a_fault_leaves_stamps_that_others_can_read(deployment):
    """Entries beyond their range are left out, and nothing spills into other fields."""
    core, scheme = core_of(deployment), timed_scheme_of(deployment)
    layout, mask = core.layout.stamp, (1 << 32 - core.layout.tick_log2) - 1
    for fill, top in [(0xFFFF, 0), (0xFFFF, 0xFFFFFFFF), (0xAAAA, 0x12345678), (0, 0x80000000)]:
        state = core.state("stamp")
        core.call("bridge_corrupt", state, top, shorts([fill] * layout.entries), returns=ctypes.c_int)
        for tick in range(top & mask, (top & mask) + 3):
            wire, saturated = core.stamp_send(state, tick & mask)
            stamp = scheme.decode(layout.unpack(wire), tick)
            assert saturated == scheme.saturated(stamp)
            assert tick <= stamp.top <= tick + scheme.epsilon


def test_a_new_epoch_forgets_all_but_the_counter():
    deployment = stamp_deployments()[0]
    core, scheme = core_of(deployment), timed_scheme_of(deployment)
    mote = Mote(core, scheme, 1000)
    mote.corrupt(5000, [3])
    mote.send()
    assert mote.reference.bounded == 1
    mote.reference = scheme.start(0, 3)
    mote.reference.bounded, mote.rt = 1, 3
    core.call("cw_stamp_start", mote.state, 3, returns=ctypes.c_int)
    assert mote.layout.unpack(mote.send()) == scheme.encode(Stamp(3, 0, (1,)))
