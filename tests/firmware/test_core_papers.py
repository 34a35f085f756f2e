"""The papers' stamps on the mote equal the base station's programs, event by event; and what faults and restarts do."""

import random
import subprocess
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from basestation.deployed import scheme_of
from packet_formats.deployment import Deployment
from tests.firmware.bridge import FLAGS, Buffer, Core, build_folder, core_sources
from tests.firmware.cores import core_of, described
from tests.firmware.papers import Sent, reference_of

OK, BOUNDED, REFUSED = range(3)
SOUND, PADDING, RANGE = range(3)

LAYOUTS = {
    "sequence": described(7, 10, 10, {"scheme": "sequence"}),
    "last-sender": described(7, 10, 10, {"scheme": "last-sender", "receipts": 1}),
    "last-sender, wide": described(7, 10, 10, {"scheme": "last-sender"}, motes=300, tinyos=2),
    "vector": described(7, 10, 10, {"scheme": "vector"}),
    "vector, 2": described(7, 10, 10, {"scheme": "vector"}, motes=2, tinyos=2),
    "vector, 20": described(7, 10, 10, {"scheme": "vector"}, motes=20),
    "delta-vector": described(7, 10, 10, {"scheme": "delta-vector"}),
    "delta-vector, 3": described(7, 3, 32, {"scheme": "delta-vector"}, motes=3, tinyos=2),
    "delta-vector, 20": described(7, 3, 24, {"scheme": "delta-vector"}, motes=20),
    "delta-vector, longest": described(3, 10000, 20000, {"scheme": "delta-vector"}, motes=3),
    "delta-vector, long": described(3, 900, 5000, {"scheme": "delta-vector"}, motes=8, data_bytes=0),
    "barrier": described(7, 3, 32, {"scheme": "barrier"}),
    "barrier, 3": described(7, 10, 10, {"scheme": "barrier", "receipts": 1}, motes=3, tinyos=2),
    "barrier, 50": described(7, 3, 32, {"scheme": "barrier"}, motes=50),
    "barrier, 200": described(7, 1, 1, {"scheme": "barrier"}, motes=200),
    "barrier, wide": described(7, 20, 5, {"scheme": "barrier"}, motes=300, tinyos=2),
    "barrier, long": described(3, 900, 5000, {"scheme": "barrier"}, data_bytes=0),
    "barrier, longest": described(3, 2000, 50000, {"scheme": "barrier"}, motes=20),
}
EVERY = pytest.mark.parametrize("deployment", LAYOUTS.values(), ids=LAYOUTS)


class Mote:
    """One mote twice: the base station's program, and the firmware's."""

    def __init__(self, core: Core, me: int, rt: int) -> None:
        self.core, self.me, self.rt, self.number = core, me, rt, 0
        self.mask = (1 << 32 - core.layout.tick_log2) - 1
        self.reference, self.wire = reference_of(core.deployment, me), scheme_of(core.deployment).codec()
        self.state: Buffer = core.state("stamp")
        self.heard: set[tuple[int, int]] = set()
        self.reference.start(rt)
        self._start()

    def _start(self) -> None:
        self.core.call("cw_stamp_start", self.state, self.rt & self.mask)

    def restart(self) -> None:
        """Only the firmware's side forgets all, as in a reset."""
        self.state = self.core.state("stamp")
        self._start()

    def emit(self) -> tuple[Sent, bytes]:
        """A send, and the stamp that the firmware writes, whatever it is."""
        self.number += 1
        sent = self.reference.send(self.rt, self.number)
        wire, saturated = self.core.stamp_send(self.state, self.rt & self.mask, self.me, sent.sequence)
        assert saturated == sent.saturated
        return sent, wire

    def send(self) -> Sent:
        sent, wire = self.emit()
        assert self.core.layout.stamp.unpack(wire) == sent.fields
        assert self.wire.encode(sent.message.stamp, self.me, self.number) == sent.fields
        return sent

    def receive(self, sent: Sent) -> int:
        before = self.reference.bounded
        self.heard.add((sent.source, sent.message.sequence))
        self.reference.receive(self.rt, sent)
        wire = self.core.layout.stamp.pack(sent.fields)
        result = self.core.stamp_receive(self.state, self.rt & self.mask, wire, sent.source, sent.sequence)
        assert result == (BOUNDED if self.reference.bounded > before else OK)
        return result


@dataclass
class World:
    """Four motes at most, the first and the last id among them. Messages get lost, and come after later ones."""

    core: Core
    chance: random.Random
    now: int
    rough: bool = False
    motes: list[Mote] = field(default_factory=list)
    flying: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = self.core.deployment.network.motes
        ids = sorted({0, 1, count // 2, count - 1})
        self.motes = [Mote(self.core, me, self.now) for me in ids]
        self.epsilon = self.core.deployment.clock.epsilon

    def tick(self, mote: Mote) -> None:
        """Time goes on, now and then by more than any age; a clock is anywhere within epsilon of the others."""
        if self.chance.random() < 0.3:
            far = self.chance.random() < 0.02
            self.now += self.chance.randint(0, 4 * self.core.layout.stamp.entry_max if far else 2)
        spread = self.epsilon * (3 if self.rough and self.chance.random() < 0.1 else 1)
        mote.rt = max(mote.rt, self.now + self.chance.randint(0, spread) - spread // 2)

    def step(self) -> None:
        mote = self.chance.choice(self.motes)
        self.tick(mote)
        if self.chance.random() < 0.4:
            sent = mote.send()
            self.flying = [*self.flying[-7:], *[sent] * sent.message.in_sync]
            return
        new = [
            sent
            for sent in self.flying
            if sent.source != mote.me and (sent.source, sent.message.sequence) not in mote.heard
        ]
        if new:
            mote.receive(self.chance.choice(new))


def a_world(deployment: Deployment, seed: int, before_wrap: int, rough: bool = False) -> World:
    core = core_of(deployment)
    return World(core, random.Random(seed), (1 << 32 - core.layout.tick_log2) - before_wrap, rough)


@pytest.mark.few(5)
@EVERY
@settings(max_examples=settings().max_examples // 5)
@given(seed=st.integers(0, 2**32), before_wrap=st.integers(0, 60), rough=st.booleans())
@example(seed=2, before_wrap=5, rough=True)
def test_identical_stamps_across_the_wrap_of_ticks(deployment, seed, before_wrap, rough):
    world = a_world(deployment, seed, before_wrap, rough)
    for _ in range(200):
        world.step()


@pytest.mark.few(5)
@EVERY
def test_identical_stamps_when_counters_have_wrapped(deployment):
    world = a_world(deployment, 7, 3000)
    for _ in range(5000):
        world.step()
    assert min(mote.number for mote in world.motes) > 256


def test_impossible_ages_do_come_and_are_left_out():
    world = a_world(LAYOUTS["delta-vector"], 3, 500, rough=True)
    for _ in range(3000):
        world.step()
    assert sum(mote.reference.bounded for mote in world.motes) > 0


# --- what cannot be ---


def check(core: Core, fields: tuple[int, ...]) -> int:
    return core.stamp_check(core.layout.stamp.pack(fields))


@pytest.mark.parametrize("name", ["last-sender", "last-sender, wide"])
def test_a_name_must_be_a_mote_s(name):
    core = core_of(LAYOUTS[name])
    motes, top = core.deployment.network.motes, core.layout.stamp.entry_max
    assert check(core, (motes - 1, 255)) == SOUND
    for source in (motes, top):
        assert check(core, (source, 0)) == RANGE
    if top > 255:
        assert check(core, (0, 256)) == check(core, (0, top)) == RANGE
    mote = Mote(core, 0, 5)
    before = mote.state.bytes
    wire = core.layout.stamp.pack((motes, 0))
    assert core.stamp_receive(mote.state, 5, wire, 1, 7) == REFUSED
    assert mote.state.bytes == before


@pytest.mark.parametrize("name", ["last-sender", "vector", "delta-vector"])
def test_a_message_of_no_mote_is_refused(name):
    core = core_of(LAYOUTS[name])
    mote, sender = Mote(core, 0, 5), Mote(core, 1, 5)
    mote.receive(sender.send())
    before, wire = mote.state.bytes, core.layout.stamp.pack(sender.send().fields)
    for source in (10, 11, 255):
        assert core.stamp_receive(mote.state, 5, wire, source, 7) == REFUSED
    assert mote.state.bytes == before


def test_set_padding_is_refused():
    core = core_of(LAYOUTS["delta-vector"])
    assert core.layout.stamp.bits % 8
    mote = Mote(core, 0, 5)
    before, wire = mote.state.bytes, bytes(core.layout.stamp.size - 1) + b"\1"
    assert core.stamp_check(wire) == PADDING
    assert core.stamp_receive(mote.state, 5, wire, 1, 0) == REFUSED
    assert mote.state.bytes == before


@pytest.mark.few(1)
@pytest.mark.parametrize("scheme", ["scalar", "history", "matrix", "delta-causal", "two-hop"])
def test_a_stamp_that_the_firmware_lacks_ends_the_build_in_words(scheme):
    folder = build_folder(described(7, 3, 3, {"scheme": scheme}, motes=4))
    words = ["gcc", *FLAGS, f"-I{folder}", "-fsyntax-only", *map(str, core_sources())]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    [said] = [line for line in done.stderr.splitlines() if "error:" in line]
    assert "stamp.scheme: the firmware has no such stamp" in said


# --- faults and restarts ---


def test_an_impossible_name_in_memory_is_not_sent():
    core = core_of(LAYOUTS["last-sender"])
    mote, other = Mote(core, 0, 5), Mote(core, 1, 5)
    mote.state = Buffer(core.sizes["stamp"], b"\xff" * core.sizes["stamp"])
    mote.send()  # names itself, as one that has received nothing
    sent = other.send()
    mote.receive(sent)
    assert mote.send().fields == (1, sent.sequence)


@pytest.mark.parametrize("fill", [0, 1, 0x55, 0x7F, 0x80, 0xFF])
def test_wrong_counters_are_overtaken(fill):
    """Whatever memory holds: after 128 messages of each the counters are right again, though wrong ones were sent."""
    core = core_of(LAYOUTS["vector, 2"])
    mote, other = Mote(core, 0, 5), Mote(core, 1, 5)
    for _ in range(100):
        mote.receive(other.send())
        other.receive(mote.send())
    mote.state = Buffer(core.sizes["stamp"], bytes([fill]) * core.sizes["stamp"])
    for _ in range(128):
        mote.receive(other.send())
        mote.emit()
    other.receive(mote.send())
    mote.receive(other.send())
    mote.send()


@pytest.mark.parametrize("count", [5, 100, 127, 128, 200, 250, 255, 256])
def test_a_mote_that_starts_again_knows_all_from_the_first_message(count):
    core = core_of(LAYOUTS["vector"])
    mote, other, third = (Mote(core, me, 5) for me in (0, 4, 9))
    for _ in range(count):
        other.receive(third.send())
        mote.receive(other.send())
    mote.restart()
    mote.receive(other.send())
    mote.send()


@pytest.mark.parametrize("count", [17, 100, 128, 200])
def test_a_peer_that_starts_again_is_believed_at_once(count):
    """Its numbers begin anew: its own messages say so, and the mote no longer sends its old numbers."""
    core = core_of(LAYOUTS["vector"])
    mote, other = Mote(core, 0, 5), Mote(core, 1, 5)
    for _ in range(count):
        mote.receive(other.send())
    again = Mote(core, 1, 5)
    first = again.send()
    assert core.stamp_receive(mote.state, 5, core.layout.stamp.pack(first.fields), 1, first.sequence) == OK
    wire, _ = core.stamp_send(mote.state, 5, 0, 0)
    assert wire[0] == 1


def test_a_late_copy_does_not_turn_a_counter_back():
    core = core_of(LAYOUTS["vector"])
    mote, other = Mote(core, 0, 5), Mote(core, 1, 5)
    sent = [other.send() for _ in range(16)]
    for one in reversed(sent):
        mote.receive(one)
    assert mote.send().fields[0] == 16


@pytest.mark.parametrize("name", ["delta-vector", "delta-vector, 3", "delta-vector, long"])
@given(damage=st.binary(min_size=40, max_size=40), ahead=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_wrong_ages_are_soon_too_old_to_matter(name, damage, ahead):
    """Whatever memory holds: a mote sends possible ages at any time, and right ages after the longest age."""
    core = core_of(LAYOUTS[name])
    top = core.layout.stamp.entry_max
    mote, other = Mote(core, 0, 70_000), Mote(core, 1, 70_000)
    mote.receive(other.send())
    size = core.sizes["stamp"]
    mote.state = Buffer(size, (ahead.to_bytes(4, "little") + damage)[:size])
    mote.core.layout.stamp.unpack(mote.emit()[1])
    mote.rt += top
    other.rt = mote.rt
    mote.send()
    mote.receive(other.send())
    mote.send()


def test_a_new_epoch_ends_ages_and_not_names():
    for name, told in (("last-sender", (1, 0)), ("vector", (1,) + (0,) * 8)):
        core = core_of(LAYOUTS[name])
        mote, other = Mote(core, 0, 1000), Mote(core, 1, 1000)
        mote.receive(other.send())
        core.call("cw_stamp_start", mote.state, 3)
        assert mote.send().fields == told
    core = core_of(LAYOUTS["delta-vector"])
    mote, other = Mote(core, 0, 1000), Mote(core, 1, 1000)
    mote.receive(other.send())
    core.call("cw_stamp_start", mote.state, 3)
    wire, _ = core.stamp_send(mote.state, 3, 0, 0)
    assert core.layout.stamp.unpack(wire) == (3, *[core.layout.stamp.entry_max] * 10)
