"""Whether a message's sender knew the mote's own last message: the answer is never wrong."""

import ctypes
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from packet_formats.deployment import Deployment
from tests.firmware.bridge import Buffer, Core
from tests.firmware.cores import core_of, described

MAYBE, KNOWS, NOT = range(3)
# Which answers each stamp has; with receipts all have KNOWS.
ANSWERS = {
    "sequence": {MAYBE},
    "last-sender": {MAYBE, KNOWS},
    "vector": {KNOWS, NOT},
    "delta-vector": {MAYBE, KNOWS, NOT},
    "dpc1": {MAYBE, NOT},
    "dpc2": {MAYBE, NOT},
    "hlc": {MAYBE, NOT},
    "shlc": {MAYBE, NOT},
    "kn": {MAYBE, NOT},
    "barrier": {MAYBE, KNOWS, NOT},
}
Name = tuple[int, int]


@dataclass
class Message:
    name: Name
    payload: bytes
    in_sync: bool
    past: frozenset[Name]


@dataclass
class Mote:
    """A mote as the firmware has it, and what really happened before its next event."""

    core: Core
    me: int
    lag: int  # of its clock
    number: int = 0
    last_tick: int = -1
    past: frozenset[Name] = frozenset()
    heard: set[Name] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.stamp, self.receipts = self.core.state("stamp"), self.core.state("receipts")
        self.core.call("cw_stamp_start", self.stamp, 0)

    def begin(self, now: int) -> int:
        tick = now - self.lag
        if self.core.deployment.stamp.scheme == "barrier":
            self.in_sync = bool(
                self.core.call("cw_stamp_in_sync", self.stamp, tick, 1, returns=ctypes.c_bool)
            )
        else:
            self.in_sync = True
        return tick

    def send(self, now: int) -> Message | None:
        tick = self.begin(now)
        if tick == self.last_tick:
            return None  # some stamps want one send a tick
        self.number, self.last_tick = self.number + 1, tick
        payload = Buffer(self.core.layout.length)
        self.core.call("cw_data_head", payload, self.me, self.number % 256, 0, 0, self.in_sync)
        length = self.core.call("cw_data_put_stamp", payload, self.stamp, tick, returns=ctypes.c_uint8)
        self.core.call("cw_data_put_receipts", payload, length, self.receipts)
        self.past |= {(self.me, self.number)}
        return Message((self.me, self.number), payload.bytes[:length], self.in_sync, self.past)

    def receive(self, now: int, message: Message) -> None:
        tick, (source, number) = self.begin(now), message.name
        self.heard.add(message.name)
        if message.in_sync:
            items = self.core.layout.items_in[len(message.payload)]
            self.core.call("cw_stamp_receive", self.stamp, tick, message.payload, items)
            self.core.call("cw_receipts_add", self.receipts, source, 0, number % 256)
            self.past |= message.past

    def asks(self, now: int, message: Message) -> int:
        ours = (self.me, self.number % 256, self.last_tick)
        length = len(message.payload)
        return self.core.call(
            "bridge_knows", message.payload, length, now - self.lag, *ours, returns=ctypes.c_int
        )


def answers(core: Core, seed: int) -> Counter[tuple[int, bool]]:
    """Each answer beside the truth. Clocks differ by up to epsilon, messages take up to delta, and some get lost."""
    chance, clock = random.Random(seed), core.deployment.clock
    ids = sorted({0, 1, core.deployment.network.motes // 2, core.deployment.network.motes - 1})
    motes = [Mote(core, me, chance.randint(0, clock.epsilon)) for me in ids]
    flying: list[tuple[int, Mote, Message]] = []
    found: Counter[tuple[int, bool]] = Counter()
    for now in range(100, 1500):
        for item in [item for item in flying if item[0] <= now]:
            flying.remove(item)
            _, mote, message = item
            if mote.number and message.in_sync:
                found[mote.asks(now, message), (mote.me, mote.number) in message.past] += 1
            mote.receive(now, message)
        for mote in motes:
            sent = mote.send(now) if chance.random() < 0.03 else None
            for other in motes:
                if sent and other is not mote and chance.random() < 0.9:
                    flying.append((now + chance.randint(0, clock.delta - 1), other, sent))
        chance.shuffle(flying)
    return found


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("scheme", "receipts"), [*((name, 0) for name in ANSWERS), ("shlc", 1), ("barrier", 1)]
)
def test_an_answer_is_never_wrong(scheme, receipts):
    deployment: Deployment = described(7, 3, 32, {"scheme": scheme, "receipts": receipts}, motes=4)
    core = core_of(deployment)
    found = sum((answers(core, seed) for seed in range(3)), Counter[tuple[int, bool]]())
    assert found[KNOWS, False] == found[NOT, True] == 0, found
    assert {answer for answer, _ in found} == ANSWERS[scheme] | ({KNOWS} if receipts else set())
    if scheme in ("vector", "delta-vector"):
        assert min(found[KNOWS, True], found[NOT, False]) > 100


def test_a_sender_out_of_sync_gives_no_answer():
    core = core_of(described(7, 3, 32, {"scheme": "vector", "receipts": 0}, motes=4))
    mote, peer = Mote(core, 0, 0), Mote(core, 1, 0)
    mote.send(100)
    message = peer.send(101)
    assert message is not None
    assert mote.asks(102, message) == NOT
    flags = core.layout.flags_at
    message.payload = message.payload[:flags] + b"\0" + message.payload[flags + 1 :]
    assert mote.asks(102, message) == MAYBE
