"""Time sync on the host: nodes with real sources, imagined crystals and air (net_world.py)."""

import ctypes
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from packet_formats.deployment import Deployment, SecuritySettings, load
from packet_formats.framing import encode_frame
from packet_formats.keys import Key
from packet_formats.layout import layout_of
from packet_formats.messages import encode_message
from packet_formats.records import Beacon, Command, Downlink, Health
from packet_formats.tinyos import encode_packet
from tests.firmware import root_timelines
from tests.firmware.net_world import HZ, Node, World, give, library

WRAP = 1 << 32
YELLOW = 4


def signed(value: int) -> int:
    return (value + WRAP // 2) % WRAP - WRAP // 2


def line_up(
    deployment: Deployment,
    ppm: tuple[float, ...] = (50, -50, 50, -50),
    loss: float = 0.0,
    stride: int = 5,
    seed: int = 1,
    start: int = 0,
) -> tuple[World, Node, list[Node]]:
    """The gateway, and motes one hop further each."""
    world = World(deployment, seed, loss, stride)
    gateway = world.add(library(deployment, "gateway"), deployment.network.motes, ppm[0], start)
    mote = library(deployment, "mote")
    motes = [
        world.add(mote, i, off, (start + 1_000_003 * i) % WRAP, 0.1 * i) for i, off in enumerate(ppm[1:])
    ]
    world.chain([gateway, *motes])
    return world, gateway, motes


def farthest_ticks(deployment: Deployment, nodes: list[Node]) -> int:
    """How far apart the ticks of the nodes in sync are."""
    shift = deployment.clock.tick_log2
    ticks = [node.network() >> shift for node in nodes if node.in_sync]
    wrap = WRAP >> shift
    return max((abs((a - b + wrap // 2) % wrap - wrap // 2) for a, b in combinations(ticks, 2)), default=0)


def watch(world: World, nodes: list[Node], seconds: float, period: float = 0.5) -> list[int]:
    """Run: G1 holds among those in sync, no clock runs backwards. Each node's largest error in cycles."""
    worst = [0] * len(nodes)

    def look() -> None:
        assert farthest_ticks(world.deployment, nodes) <= world.deployment.clock.epsilon
        for i, node in enumerate(nodes):
            if node.in_sync and nodes[0].in_sync:
                off = abs(signed(node.network() - nodes[0].network()))
                worst[i] = max(worst[i], off)
                assert off <= error(node) + error(nodes[0]) + 1

    world.every(seconds, period, look)
    assert not any(node.backwards for node in nodes if node.up)
    return worst


def error(node: Node) -> int:
    return int(node.c.timesync_error(node.local()))


def all_in_sync(nodes: list[Node]) -> bool:
    return all(node.in_sync for node in nodes)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", [1, 2])
def test_three_hops_with_losses(meadow, seed):
    world, gateway, motes = line_up(meadow, loss=0.2, seed=seed)
    world.run(30)
    assert all_in_sync([gateway, *motes])
    worst = watch(world, [gateway, *motes], 900)
    assert max(worst) <= 32  # a quarter of a tick
    assert all_in_sync(motes)
    assert [node.c.timesync_hops() for node in (gateway, *motes)] == [0, 1, 2, 3]


def test_first_seconds(meadow):
    world, gateway, motes = line_up(meadow)
    world.run(1)
    assert not any(node.in_sync for node in (gateway, *motes))
    world.run(3)
    assert all_in_sync([gateway, *motes])
    watch(world, [gateway, *motes], 60, 0.1)


def test_mica2_two_hops(root):
    """A radio that measures time to a byte, 0.4 ms."""
    stream = load(root / "examples/mica2.toml")
    world, gateway, motes = line_up(stream, (-50, 50, -50), loss=0.2)
    world.run(60)
    assert all_in_sync([gateway, *motes])
    watch(world, [gateway, *motes], 900)
    assert all_in_sync(motes)


def test_warming_crystals(meadow):
    """5 ppm in ten minutes, one up, one down."""
    world, gateway, motes = line_up(meadow, loss=0.1)
    world.run(30)
    for _ in range(20):
        watch(world, [gateway, *motes], 30)
        motes[0].warm(motes[0].ppm + 0.25)
        motes[1].warm(motes[1].ppm - 0.25)
        assert all_in_sync(motes)


def test_root_away_for_long(meadow):
    """A successor carries the time on, the root takes it up again."""
    world, gateway, motes = line_up(meadow)
    watch(world, [gateway, *motes], 120)
    epoch, jumps = gateway.c.timesync_epoch(), [mote.get("host_jumps") for mote in motes]
    distances = [mote.c.timesync_hops() for mote in motes]
    gateway.die()
    world.every(3000, 5, lambda: _assert_g1(meadow, motes))
    (successor,) = {driver(mote) for mote in motes}
    assert successor in (0, 1, 2)
    assert [mote.c.timesync_hops() for mote in motes] == distances
    gateway.boot()
    world.run(6)
    assert [driver(mote) for mote in motes] == [20, 20, 20]
    watch(world, [gateway, *motes], 120)
    assert all_in_sync([gateway, *motes])
    assert gateway.c.timesync_epoch() == epoch
    assert [mote.get("host_jumps") for mote in motes] == jumps
    assert gateway.sync["conflicts"] == 0


def test_a_single_mote_without_root_reports_that_it_is_out_of_sync(meadow):
    """No other mote follows it, so its time may differ from everyone else's."""
    world, gateway, (mote, other) = line_up(meadow, ppm=(50, -50, 20))
    watch(world, [gateway, mote, other], 120)
    gateway.die()
    other.die()
    world.run(120)
    assert mote.in_sync
    assert driver(mote) == mote.id
    world.run(1800)
    assert not mote.in_sync
    other.boot()  # it never had the time
    world.run(300)
    assert not other.c.timesync_known()
    gateway.boot()
    world.run(20)
    assert all_in_sync([gateway, mote, other])


def driver(node: Node) -> int:
    """Whose beacons it takes."""
    return int(node.c.timesync_driver())


def test_root_away_for_a_day(meadow):
    """Half-way round the clock, 18 hours after the last beacon, its age must not look like none."""
    world, gateway, (mote,) = line_up(meadow, ppm=(50, -50), stride=0)
    world.run(120)
    quiet = encode_message(Downlink(mote.id, 1, 0, Command.RATE, 0), layout_of(meadow))
    gateway.write_line(encode_frame(encode_packet(quiet)))
    world.run(1)
    assert mote.in_sync
    gateway.die()
    world.run(3600)
    for _ in range(20):
        assert not mote.in_sync
        world.run(3600)
    gateway.boot()
    world.run(30)
    assert gateway.in_sync
    assert mote.in_sync
    assert farthest_ticks(meadow, [gateway, mote]) <= 1


def test_root_restarts(meadow):
    world, gateway, motes = line_up(meadow, loss=0.1)
    watch(world, [gateway, *motes], 60)
    for _ in range(5):
        epoch, before, when = gateway.c.timesync_epoch(), gateway.network(), world.now
        gateway.die()
        world.run(0.5)
        gateway.boot()
        watch(world, [gateway, *motes], 25)
        assert gateway.c.timesync_epoch() == epoch
        # Its own crystal is the network's: time went on at its speed.
        expected = before + (world.now - when) * HZ * (1 + gateway.ppm * 1e-6)
        assert abs(signed(int(gateway.network() - expected))) <= 8
        assert all_in_sync([gateway, *motes])


def test_a_root_that_hears_no_mote_opens_an_epoch(meadow):
    world, gateway, motes = line_up(meadow)
    epochs: list[tuple[int, int]] = []
    world.run(30)
    world.on_event = lambda node, kind, peer, sequence, tick: (
        epochs.append((node.id, peer)) if kind == "epoch" else None
    )
    epoch, links = gateway.c.timesync_epoch(), world.links
    gateway.die()
    world.links = set()
    gateway.boot()
    world.run(60)
    assert gateway.c.timesync_epoch() == (epoch + 1) % 256
    assert all_in_sync(motes)  # on their own
    world.links = links
    world.run(15)
    assert [mote.c.timesync_epoch() for mote in motes] == [(epoch + 1) % 256] * 3
    assert sorted(epochs) == [(mote.id, (epoch + 1) % 256) for mote in motes]
    watch(world, [gateway, *motes], 60)
    assert all_in_sync(motes)


def test_wraps(meadow):
    """Local clocks and network time pass 2^32 one after the other."""
    world, gateway, motes = line_up(meadow, start=WRAP - 100 * HZ)
    world.run(20)
    assert gateway.network() > WRAP // 2
    watch(world, [gateway, *motes], 300, 0.1)
    assert gateway.network() < WRAP // 2
    assert all_in_sync(motes)
    assert [mote.sync["outliers"] for mote in motes] == [0, 0, 0]


def test_mote_reboots(meadow):
    world, gateway, motes = line_up(meadow)
    watch(world, [gateway, *motes], 100)
    for _ in range(3):
        motes[1].die()
        world.run(3)
        motes[1].boot()
        world.run(1.5)
        assert motes[1].in_sync  # it asked, and was answered
        watch(world, [gateway, *motes], 20)
    assert motes[1].c.boot_store_count_boot() == 4


def good_beacon(gateway: Node, time: int) -> Beacon:
    """Of a mote that follows the gateway, newer than all before it."""
    return Beacon(
        sender=9,
        root=20,
        epoch=gateway.c.timesync_epoch(),
        sequence=1000,
        hops=1,
        flags=1,
        error=3,
        time=time,
    )


def test_wrong_beacons_are_refused(meadow):
    world, gateway, motes = line_up(meadow)
    world.run(60)
    mote, before = motes[0], motes[0].sync
    good = good_beacon(gateway, mote.network())
    give(mote, replace(good, time=good.time + 1000))
    give(mote, replace(good, time=good.time - 1000))
    assert mote.sync["outliers"] == before["outliers"] + 2
    give(mote, replace(good, root=21))
    give(mote, replace(good, flags=0))
    give(mote, replace(good, hops=200))
    assert mote.sync["foreign"] == before["foreign"] + 3
    give(mote, replace(good, epoch=(good.epoch - 1) % 256))
    assert mote.sync["old"] == before["old"] + 1
    assert mote.sync["accepted"] == before["accepted"]
    watch(world, [gateway, *motes], 60)
    assert all_in_sync(motes)


def test_out_of_sync_the_first_beacon_is_believed(meadow):
    """Its own line is the one that is wrong."""
    world, gateway, motes = line_up(meadow)
    world.run(60)
    world.links = set()
    world.run(1500)
    mote = motes[0]
    assert not mote.in_sync
    give(mote, good_beacon(gateway, (mote.network() + 5000) % WRAP))
    assert mote.in_sync


def test_a_liar_is_outvoted_or_followed_without_going_backwards(meadow):
    """Three outliers begin the line anew; the clock steps forward, or slows down and is out of sync."""
    world, gateway, motes = line_up(meadow)
    world.run(60)
    mote = motes[0]
    good = good_beacon(gateway, 0)
    for by in (-5000, 5000):
        for i in range(3):
            give(mote, replace(good, time=(mote.network() + by) % WRAP, sequence=1000 + i))
        assert mote.sync["restarts"] >= 1
        if by < 0:
            assert not mote.in_sync
        world.run(30)
        assert mote.backwards == 0


def test_times_without_delimiters(meadow):
    """A board that measures them to half a millisecond: all stay in sync, and each knows its error."""
    world, gateway, motes = line_up(meadow, loss=0.1)
    world.noise = 14
    world.run(0.5)
    for node in (gateway, *motes):
        node.set("host_unsure", 16, ctypes.c_uint8)
    world.run(60)
    assert all_in_sync([gateway, *motes])
    watch(world, [gateway, *motes], 600)
    assert all_in_sync(motes)


def test_times_that_are_not_known(meadow):
    """A beacon without a time is not a reference; messages are merged, and questions answered."""
    world, gateway, motes = line_up(meadow, ppm=(0, 0, 0))
    world.run(20)
    accepted, received = motes[0].sync["accepted"], motes[0].messages["received"]
    motes[0].set("host_unsure", 255, ctypes.c_uint8)
    gateway.set("host_unsure", 255, ctypes.c_uint8)
    world.run(30)
    assert motes[0].sync["accepted"] == accepted
    assert motes[0].sync["foreign"] >= 3
    assert motes[0].in_sync  # by what it knows
    assert motes[0].messages["received"] >= received + 8
    assert all_in_sync([gateway, *motes])
    motes[0].die()
    motes[0].boot()
    world.run(1)
    assert motes[0].in_sync  # sure again itself; the gateway has answered its question


def test_one_root_is_never_taken_for_two(meadow):
    """Not with losses, restarts of it or of motes, nor by what motes that have lost it say."""
    world, gateway, motes = line_up(meadow, loss=0.3)
    for _ in range(6):
        world.run(100)
        assert health_of(gateway).flags & 3 == 1
        gateway.die()
        world.run(30)
        motes[1].die()
        gateway.boot()
        world.run(5)
        motes[1].boot()
    world.run(60)
    assert gateway.sync["conflicts"] == 0


def test_root_with_a_twin(meadow):
    """Two gateways with the root's id: seen and counted; the newer epoch wins."""
    world, gateway, motes = line_up(meadow)
    world.run(30)
    later = Beacon(
        sender=20,
        root=20,
        epoch=(gateway.c.timesync_epoch() + 1) % 256,
        sequence=5,
        hops=0,
        flags=1,
        error=0,
        time=12345,
    )
    give(gateway, later)
    assert gateway.sync["conflicts"] == 1
    assert gateway.c.timesync_epoch() == later.epoch
    world.run(30)
    assert all_in_sync([gateway, *motes])
    watch(world, [gateway, *motes], 30)


@pytest.mark.few(2)
@pytest.mark.parametrize("ahead", [-5, -900, -0.02, 0.02, 5, 900])
@pytest.mark.parametrize("hidden", [False, True], ids=["in_range", "hidden"])
def test_two_roots_in_one_epoch(meadow, monkeypatch, hidden, ahead):
    """Two gateways with the root's id, whose networks begin apart and then meet: one time is left, the one ahead.

    Hidden roots hear each other only through motes; then at least one root notices, and that is enough.
    """
    world = World(meadow, stride=50)
    gateway = library(meadow, "gateway")
    first = world.add(gateway, 20, 50)
    second = world.add(gateway, 20, -50, round(ahead * HZ) % WRAP)
    motes = [world.add(library(meadow, "mote"), i, 20 - 40 * (i % 2)) for i in range(4)]
    groups = ([first, *motes[:2]], [second, *motes[2:]])
    apart = True

    def linked(a: Node, b: Node) -> bool:
        together = any(a in group and b in group for group in groups)
        roots = {a, b} == {first, second}
        return a is not b and (together or not (apart or (hidden and roots)))

    monkeypatch.setattr(world, "linked", linked)
    world.run(20)
    everybody = [*groups[0], *groups[1]]
    assert all_in_sync(everybody)
    assert first.c.timesync_epoch() == second.c.timesync_epoch()
    apart = False
    world.run(60)
    assert len({node.c.timesync_epoch() for node in everybody}) == 1
    assert all_in_sync(everybody)
    winner = second if signed(second.first - first.first) > 0 else first
    since = world.now - winner.origin
    expected = (winner.first + int(since * HZ * (1 + winner.ppm * 1e-6))) % WRAP
    assert abs(signed(winner.network() - expected)) <= meadow.clock.epsilon << meadow.clock.tick_log2
    assert first.sync["conflicts"] + second.sync["conflicts"] > 0
    settled = first.get("host_jumps") + second.get("host_jumps")
    world.every(300, 0.5, lambda: _assert_g1(meadow, everybody))
    assert first.get("host_jumps") + second.get("host_jumps") == settled
    assert not any(node.backwards for node in everybody)
    flagged = [root for root in (first, second) if root.get("host_leds", ctypes.c_uint8) == YELLOW]
    assert len(flagged) == 2 or (hidden and flagged)
    assert all(health_of(root).flags & 3 == 3 for root in flagged)


def health_of(gateway: Node) -> Health:
    """Asked for, now."""
    gateway.read()
    command = encode_message(Downlink(20, 9, 0, Command.REPORT, 0), layout_of(gateway.world.deployment))
    gateway.write_line(encode_frame(encode_packet(command)))
    (found,) = [item[1] for item in gateway.read() if isinstance(item, tuple) and isinstance(item[1], Health)]
    return found


def _assert_g1(deployment: Deployment, nodes: list[Node]) -> None:
    assert farthest_ticks(deployment, nodes) <= deployment.clock.epsilon
    assert all_in_sync(nodes)


# The clock's line itself

STEERS = st.lists(
    st.tuples(
        st.integers(1, 1 << 21), st.integers(-400, 400), st.integers(0, 65535), st.integers(-3400, 3400)
    ),
    min_size=1,
    max_size=6,
)


@given(start=st.integers(0, WRAP - 1), steers=STEERS)
@example(start=0, steers=[(1, -101, 0, 0), (1, -101, 0, 0)])  # two that are too far ahead together
def test_shown_clock_never_runs_backwards(meadow, start, steers):
    c = ctypes.CDLL(str(library(meadow, "mote")))
    for name in ("network_time_shown", "network_time_estimate", "network_time_local"):
        getattr(c, name).restype = ctypes.c_uint32
        getattr(c, name).argtypes = [ctypes.c_uint32]
    c.network_time_steer.argtypes = [
        ctypes.c_uint32,
        ctypes.c_uint32,
        ctypes.c_uint16,
        ctypes.c_int16,
        ctypes.c_uint16,
    ]
    local = start
    c.network_time_set(ctypes.c_uint32(local), ctypes.c_uint32(start * 3 % WRAP))
    for wait, by, part, skew in steers:
        shown = c.network_time_shown(local)
        network = (c.network_time_estimate(local) + by) % WRAP
        c.network_time_steer(local, network, part, skew, 192)
        slow = abs(signed(network - shown)) > 192
        for step in [1] * 600 + [wait // 8] * 8:
            local = (local + step) % WRAP
            following = c.network_time_shown(local)
            assert signed(following - shown) >= 0
            assert abs(signed(c.network_time_local(following) - local)) <= 2 or slow
            shown = following
            if step > 1:
                c.network_time_tidy(ctypes.c_uint32(local))
                assert c.network_time_shown(local) == shown


# The root dies, halves part and meet (root_timelines.py says what must hold)


def no_violation(deployment: Deployment, seeds: range, longest: float) -> None:
    for seed in seeds:
        outcome = root_timelines.run(deployment, seed, longest=longest)
        assert not outcome.violations, (seed, outcome.violations, outcome.events)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", [38, 3, 2030, 2032, 2036])
def test_random_timelines_of_a_dying_root(meadow, seed):
    """Among them: a root that dies while a mote still asks for the time, and two successors in step."""
    no_violation(meadow, range(seed, seed + 1), 600)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", [58, 1, 10])
def test_halves_that_meet_agree_in_a_network_with_a_key(meadow, seed):
    """Though one has to go back, and beacons that are behind may be a stranger's."""
    no_violation(with_key(meadow), range(seed, seed + 1), 3600)


def with_key(deployment: Deployment) -> Deployment:
    return replace(deployment, security=SecuritySettings(4, "site.key"), key=Key(bytes(range(16))))


@pytest.mark.slow
def test_many_timelines_of_a_dying_root(meadow, root):
    no_violation(meadow, range(150), 7200)
    no_violation(with_key(meadow), range(100), 3600)
    no_violation(load(root / "examples/mica2.toml"), range(50), 1800)
