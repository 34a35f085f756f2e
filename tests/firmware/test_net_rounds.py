"""The network's time wraps after 36 hours, a round. In a network with a key, frames recorded a round ago or more have
no effect: MICs and beacons include the round. A recording is a frame made with the key for that time."""

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from packet_formats.deployment import Deployment, SecuritySettings
from packet_formats.keys import Key
from packet_formats.layout import layout_of
from packet_formats.messages import Data, encode_message
from packet_formats.records import ROUND_SHIFT, Beacon, Command, Downlink, Health, Proof
from packet_formats.seal import ROUNDS, Seal
from packet_formats.tinyos import ActiveMessage
from tests.firmware.net_world import HZ, MESSAGES, Node, World, library, message_struct

KEY = Key(bytes(range(16)))
WRAP = 1 << 32
DAY = 24 * 3600 * HZ
BEFORE_WRAP = 60  # seconds from the start to the first round's end
FORGED = len(MESSAGES) + 1  # the counter behind the others and `repaired`


@pytest.fixture(scope="module")
def sealed(meadow):
    return replace(meadow, security=SecuritySettings(4, "site.key"), key=KEY)


@pytest.fixture(scope="module")
def libraries(sealed):
    return library(sealed, "gateway"), library(sealed, "mote")


class Network:
    """A gateway, the root, and motes in a row. Its time comes round a minute after the start."""

    def __init__(self, deployment: Deployment, libraries: tuple[Path, Path], motes: int = 2) -> None:
        self.world, self.layout = World(deployment), layout_of(deployment)
        self.seal = Seal(KEY, self.layout)
        first = (WRAP - BEFORE_WRAP * HZ) % WRAP
        self.root = self.world.add(libraries[0], deployment.network.motes, 30, first)
        self.motes = [self.world.add(libraries[1], i, -20 * i, 1_000_003 * i, 0.1 * i) for i in range(motes)]
        self.nodes = [self.root, *self.motes]
        self.world.chain(self.nodes)

    def run(self, seconds: float) -> None:
        self.world.run(seconds)

    def alone(self, node: Node) -> None:
        """It hears no other node, and no other node hears it."""
        assert self.world.links is not None
        self.world.links = {link for link in self.world.links if node.id not in link}

    def together(self) -> None:
        self.world.chain(self.nodes)

    @property
    def epoch(self) -> int:
        return int(self.root.c.timesync_epoch())

    def now(self, node: Node) -> int:
        """The network's time as a node has it, with its round."""
        return round_of(node) * WRAP + node.network()

    def whole(self) -> list[int]:
        return [self.now(node) for node in self.nodes]

    def assert_agreed(self, round_: int) -> None:
        assert all(node.in_sync for node in self.nodes)
        assert [round_of(node) for node in self.nodes] == [round_] * len(self.nodes)
        assert max(self.whole()) - min(self.whole()) < 100

    def beacon(self, whole: int, **changes: int) -> Beacon:
        """What the root would have sent at this time."""
        flags = 1 | (whole >> 32) % ROUNDS << ROUND_SHIFT
        beacon = Beacon(self.root.id, self.root.id, self.epoch, 7, 0, flags, 0, whole % WRAP)
        return replace(beacon, **changes)

    def play(self, node: Node, beacon: Beacon) -> None:
        """It hears a beacon and its proof."""
        for message in (beacon, self.seal.proof(beacon)):
            hear(node, encode_message(message, self.layout))
            self.run(0.01)

    def play_many(self, node: Node, ago: int, sequence: int, count: int = 6) -> None:
        """Beacons from `ago` cycles ago, one in two seconds."""
        for number in range(count):
            when = self.now(node) - ago
            self.play(node, self.beacon(when % (ROUNDS * WRAP), sequence=(sequence + number) % 65536))
            self.run(2)


def hear(node: Node, message: ActiveMessage) -> None:
    frame = message_struct(layout_of(node.world.deployment).limit)(
        dest=0xFFFF, source=5, type=message.type, group=message.group, length=len(message.data)
    )
    frame.data[: len(message.data)] = message.data
    node.hear(frame, node.world.now)


def round_of(node: Node) -> int:
    return int(node.c.timesync_round(ctypes.c_uint32(node.network())))


def forged(node: Node) -> int:
    counters = ctypes.cast(node.c.host_messages(), ctypes.POINTER(ctypes.c_uint16))
    return int(counters[FORGED])


@pytest.fixture
def network(sealed, libraries):
    """In its second round."""
    found = Network(sealed, libraries)
    found.run(BEFORE_WRAP + 40)
    found.assert_agreed(1)
    return found


def sent(network: Network, node: Node, number: int, whole: int) -> list[ActiveMessage]:
    """What another mote sent then: data, health, a command that blinks."""
    seal, layout = network.seal, network.layout
    tick = whole >> layout.tick_log2
    stamp = (tick % layout.stamp.modulus, *[0] * (len(layout.stamp.fields_of(layout.stamp.least)) - 1))
    health = Health(5, whole % WRAP, network.epoch, 1 | 3 << 6, 0, layout.hash, *[0] * 8)
    command = Downlink(node.id, 0, 0, Command.BLINK, 7)
    return [
        seal.sealed_data(Data(5, number, stamp, data=bytes(layout.data_bytes)), network.epoch, whole),
        seal.sealed_health(health, whole >> 32),
        seal.sealed_downlink(command, network.epoch, whole),
    ]


def test_messages_of_a_round_ago_are_forged_and_those_of_now_are_not(network):
    mote = network.motes[0]
    for number, rounds in enumerate((-1, 15, 30), 1):
        for message in sent(network, mote, number, network.now(mote) + rounds * WRAP):
            before = forged(mote), mote.messages["received"]
            hear(mote, message)
            assert (forged(mote), mote.messages["received"]) == (before[0] + 1, before[1]), message
    network.run(2)
    before = forged(mote)
    received = mote.messages["received"]
    for message in sent(network, mote, 20, network.now(mote)):
        hear(mote, message)
    assert (forged(mote), mote.messages["received"]) == (before, received + 1)


def test_a_message_is_right_on_both_sides_of_the_wrap(sealed, libraries):
    network = Network(sealed, libraries)
    network.run(BEFORE_WRAP - 3)
    for _ in range(30):
        network.run(0.2)
        assert [forged(mote) for mote in network.motes] == [0, 0]
    network.assert_agreed(1)
    assert all(mote.messages["received"] > 20 for mote in network.motes)
    assert all(mote.sync["old"] == mote.sync["outliers"] == 0 for mote in network.motes)


@pytest.mark.parametrize(
    ("ago", "newer"),
    [(WRAP, 9000), (WRAP - 3600 * HZ, 9000), (42 * DAY // 10, 40_000), (7 * DAY, 60_000)],
    ids=["a round", "a little less", "4.2 days", "7 days: the numbers have come round"],
)
def test_beacons_of_long_ago_move_nobody(network, ago, newer):
    """Their numbers are ahead of the present ones, so that without the round they would be followed."""
    before, when = network.now(network.motes[1]), network.world.now
    for node in network.nodes:
        network.play_many(node, ago, newer)
    network.run(10)
    network.assert_agreed(1)
    passed = (network.world.now - when) * HZ
    assert network.now(network.motes[1]) - before == pytest.approx(passed, abs=200)
    assert [node.sync["conflicts"] for node in network.nodes] == [0, 0, 0]


@pytest.mark.parametrize("ago", [WRAP, 5 * DAY, 3600 * HZ])
def test_a_starting_mote_believes_an_old_round_until_it_hears_the_network(network, ago):
    mote = network.motes[1]
    mote.die()
    network.alone(mote)
    mote.boot()
    network.run(1)
    old = (network.now(network.root) - ago) % (ROUNDS * WRAP)
    network.play(mote, network.beacon(old, sequence=60_000, epoch=network.epoch))
    assert mote.in_sync
    assert mote.network() == pytest.approx(old % WRAP, abs=HZ)
    network.together()
    network.run(60)
    network.assert_agreed(1)


@pytest.mark.parametrize("away", [(-5, 5), (-1, 30), (2, 3)])
def test_a_root_that_restarts_at_the_wrap_learns_the_round(sealed, libraries, away):
    network = Network(sealed, libraries)
    network.run(BEFORE_WRAP + away[0])
    epoch = network.epoch
    network.root.die()
    network.run(away[1] - away[0])
    network.root.boot()
    network.run(30)
    assert network.epoch == epoch
    network.assert_agreed(1)


def test_a_successor_counts_the_rounds(sealed, libraries):
    network = Network(sealed, libraries)
    network.run(25)
    epoch = network.epoch
    network.root.die()
    network.run(60)
    assert [int(mote.c.timesync_driver()) for mote in network.motes] == [0, 0]
    assert [round_of(mote) for mote in network.motes] == [1, 1]
    network.root.boot()
    network.run(30)
    assert network.epoch == epoch
    network.assert_agreed(1)


@pytest.mark.parametrize(("ago", "adopts"), [(WRAP, False), (5 * DAY, False), (20, True)])
def test_a_root_that_hears_only_old_beacons_comes_back_to_the_network(network, ago, adopts):
    """It knows its last round. What is older than that it does not take up; what is not, until it hears its motes."""
    root, motes, epoch = network.root, network.motes, network.epoch
    ago = ago if ago > HZ else ago * HZ
    old = network.now(root) - ago
    root.die()
    network.alone(root)
    root.boot()
    for number in range(6):
        network.play(root, network.beacon(old + number * HZ // 2, sequence=3, epoch=epoch))
        network.run(0.5)
    network.run(5)
    assert network.epoch == (epoch if adopts else (epoch + 1) % 256)
    before, when = network.now(motes[1]), network.world.now
    network.together()
    network.run(120)
    if adopts:  # the network has not moved: the root has
        passed = (network.world.now - when) * HZ
        assert network.now(motes[1]) - before == pytest.approx(passed, abs=2000)
        assert network.epoch == epoch
        network.assert_agreed(1)
    else:
        network.assert_agreed(0)


def test_an_epoch_ends_before_its_rounds_come_round(sealed, libraries):
    network = Network(sealed, libraries)
    network.alone(network.root)
    network.run(0.2)
    network.play(network.root, network.beacon(16 * WRAP - 30 * HZ, epoch=200))
    network.run(5)
    assert (network.epoch, round_of(network.root)) == (200, 15)
    network.together()
    network.run(20)
    network.assert_agreed(15)
    network.run(90)
    assert [int(node.c.timesync_epoch()) for node in network.nodes] == [201] * 3
    assert round_of(network.root) <= 1
    network.assert_agreed(round_of(network.root))


@pytest.mark.parametrize("late", [0.2, 1.0, 5.0])
def test_a_root_that_hears_its_own_beacons_again_opens_no_epoch(network, late):
    """Each is newer than the one before, and behind: that is not another root with its id. No mote is near."""
    root, epoch = network.root, network.epoch
    network.alone(root)

    def again(node: Node, frame: Any, end: float) -> None:
        if node is root and frame.type in (Beacon.AM_TYPE, Proof.AM_TYPE):
            copy = type(frame).from_buffer_copy(frame)
            network.world.at(late, lambda: root.hear(copy, network.world.now))

    network.world.on_air = again
    network.run(120)
    assert network.epoch == epoch
    assert root.sync["conflicts"] == 0
