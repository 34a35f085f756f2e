"""Windows, phases and turns on the host: nodes with real sources, imagined crystals and air (net_world.py)."""

import ctypes
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from packet_formats.ages import is_again
from packet_formats.deployment import Deployment, SecuritySettings, load
from packet_formats.framing import encode_frame
from packet_formats.keys import Key
from packet_formats.layout import layout_of
from packet_formats.messages import Data, encode_message
from packet_formats.records import Beacon, Command, Downlink, Health, Proof, Taken, duty_of, size
from packet_formats.schedule import Schedule
from packet_formats.seal import Seal, command_time
from packet_formats.tinyos import encode_packet
from tests.firmware.net_world import HZ, Node, World, give, library
from tools.tables import power_runs

WRAP = 1 << 32
RATE = "-DMOTE_PERIOD=163840UL"  # a message in 5 s
KEY = Key(bytes(range(16)))


@pytest.fixture
def deployment(root):
    return load(root / "examples/micaz_months.toml")


def schedule_of(deployment: Deployment) -> Schedule:
    assert deployment.schedule is not None
    return deployment.schedule


class Watched:
    """A gateway and a chain of motes; where in their windows frames went out, by the gateway's clock."""

    def __init__(
        self, deployment: Deployment, start: int = 0, motes: int = 3, rate: str = RATE, compiler: str = "gcc"
    ) -> None:
        self.world = World(deployment)
        gateway = library(deployment, "gateway", compiler=compiler)
        self.gateway = self.world.add(gateway, deployment.network.motes, 40.0, start)
        image = library(deployment, "mote", rate, compiler=compiler)
        self.motes = [
            self.world.add(image, i, (-50.0, 30.0, 10.0)[i % 3], 7_000_003 * i, 0.1 * i) for i in range(motes)
        ]
        self.world.chain([self.gateway, *self.motes])
        self.times = schedule_of(deployment)
        self.data_type = layout_of(deployment).am_type
        self.frames: list[tuple[int, int, int]] = []  # sender, AM type, cycles since its window opened
        self.awake: Counter[int] = Counter()
        self.world.on_air = self.on_air

    def on_air(self, node: Node, message: Any, end: float) -> None:
        self.frames.append((node.id, message.type, self.gateway.network() % self.times.period))

    def run(self, seconds: float) -> None:
        """Also look who is awake, 64 times a second."""
        for _ in range(round(seconds * 64)):
            self.world.run(1 / 64)
            for mote in self.motes:
                self.awake[mote.id] += mote.up and mote.get("host_radio_on", ctypes.c_bool)

    def arrived(self) -> set[tuple[int, int]]:
        return {(m.source, m.sequence) for _, _, m in self.gateway.pairs() if isinstance(m, Data)}


def found_itself(watched: Watched) -> None:
    """The root listens for more than a period, and motes stay awake for one after they have the time."""
    watched.run(5 * watched.times.period / HZ)
    assert all(mote.in_sync for mote in watched.motes)
    watched.frames.clear()
    watched.awake.clear()


@pytest.mark.few(1)
@pytest.mark.parametrize("start", [0, WRAP - 100 * HZ], ids=["", "the clock wraps"])
def test_each_level_sends_in_its_own_phase_and_nothing_after_the_end(deployment, start):
    watched = Watched(deployment, start)
    found_itself(watched)
    watched.run(96.0)
    times, airtime = watched.times, 64
    data = [frame for frame in watched.frames if frame[1] == watched.data_type]
    assert len(data) > 3 * 60 / 5
    for sender, _, ended in data:
        assert times.data_start < ended <= times.end
        phase = (ended - airtime // 2 - times.data_start) // times.phase
        assert times.levels - phase % times.levels == sender + 1  # in a chain the id tells the hops
    beacons = [frame for frame in watched.frames if frame[1] == Beacon.AM_TYPE]
    for sender, _, ended in beacons:
        slot = 0 if sender == watched.gateway.id else sender + 1
        assert slot * times.beacon_slot < ended < (slot + 1) * times.beacon_slot
    assert {sender for sender, _, _ in beacons} == {watched.gateway.id, 0, 1}  # the last hop passes none on


def stamped_from_now_on(watched: Watched) -> set[tuple[int, int]]:
    """The source and sequence of each message that gets its stamp."""
    stamped: set[tuple[int, int]] = set()
    watched.world.on_event = lambda node, kind, peer, sequence, tick: (
        stamped.add((node.id, sequence)) if kind == "send" else None
    )
    return stamped


def test_motes_sleep_and_everything_arrives(deployment):
    watched = Watched(deployment)
    found_itself(watched)
    stamped = stamped_from_now_on(watched)
    watched.arrived()
    watched.run(96.0)
    assert len(stamped) > 3 * 90 / 5 * 0.8
    assert stamped <= watched.arrived()
    assert 0 < max(watched.awake.values()) < 0.04 * 96 * 64


@pytest.mark.few(1)
@pytest.mark.parametrize("scheme", ["shlc", "delta-vector"])
def test_messages_encode_the_age_of_their_event(deployment, scheme):
    """The pauses between a mote's events are those of its timer, though its messages leave together, or, where a
    scheme allows one send a tick, one tick after the other."""
    deployment = replace(deployment, stamp=replace(deployment.stamp, scheme=scheme))
    watched, layout = Watched(deployment), layout_of(deployment)
    found_itself(watched)
    watched.gateway.pairs()
    watched.run(96.0)
    events: dict[int, dict[int, float]] = {mote.id: {} for mote in watched.motes}
    for heard, _, message in watched.gateway.pairs():
        if isinstance(message, Data):
            age_ms = layout.age_ms(message.age)
            assert age_ms is not None
            events[message.source].setdefault(message.sequence, heard.time / HZ - age_ms / 1000)
    for known in events.values():
        pauses = [known[n + 1] - known[n] for n in known if n + 1 in known]
        assert len(pauses) > 10
        # One is a window later at most
        assert all(0.75 * 5 - 1.3 < pause < 1.25 * 5 + 1.3 for pause in pauses)


class Lossy(Watched):
    """Half of the frames are lost on each link, but no beacon."""

    def run_lossy(self, seconds: float) -> None:
        for _ in range(round(seconds * 64)):
            at = self.gateway.network() % self.times.period
            self.world.loss = 0.5 if self.times.data_start < at < self.times.end else 0.0
            self.world.run(1 / 64)
        self.world.loss = 0.0


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("compiler", "example", "repair"),
    [
        ("gcc", "micaz", True),
        ("clang", "micaz", True),  # it evaluates the right side of `|=` first
        ("gcc", "mica2", True),
        ("gcc", "micaz", False),
    ],
)
def test_what_the_gateway_missed_comes_again_once(compiler, example, repair, root, require_tool):
    deployment = load(root / f"examples/{example}_months.toml")
    deployment = replace(deployment, radio=replace(deployment.radio, repair=repair))
    watched = Lossy(deployment, compiler=Path(require_tool(compiler)).name)
    found_itself(watched)
    stamped = stamped_from_now_on(watched)
    watched.gateway.pairs()
    watched.run_lossy(9 * watched.times.period / HZ)
    watched.run(3 * watched.times.period / HZ)
    came = {(m.source, m.sequence): m for _, _, m in watched.gateway.pairs() if isinstance(m, Data)}
    again = {name for name, message in came.items() if is_again(message.age)}
    assert len(stamped - set(came)) > 8
    assert len(again) > 5 if repair else not again
    # The stock app counts its messages in its data: no event came twice, and each that did again is its own.
    assert len({(m.source, m.data) for m in came.values()}) == len(came)


def test_a_question_as_a_window_opens_does_not_lose_what_arrived(deployment):
    """The root's answer comes just before the window's beacon, which still lists what was heard since the last one."""
    watched = Watched(deployment)
    found_itself(watched)
    watched.gateway.pairs()
    question = Beacon(9, watched.gateway.id, 0, 0, 255, 0, 255, 0)
    for _ in range(6):
        left = watched.times.period - watched.gateway.network() % watched.times.period
        watched.world.run(left / HZ - 0.02)
        give(watched.gateway, question)
        watched.world.run(0.1)
    came = [message for _, _, message in watched.gateway.pairs() if isinstance(message, Data)]
    assert len(came) > 6 * 3
    assert not any(is_again(message.age) for message in came)


def test_a_mote_that_finds_no_network_for_a_day_goes_on(deployment):
    """Its messages wait, longer than half of the clock's range. It must not restart (Node.step() looks)."""
    world = World(deployment)
    mote = world.add(library(deployment, "mote", RATE), 0)
    world.run(60.0)
    for _ in range(24 * 3600 // 30):
        mote.first += 30 * HZ + HZ // 4  # nothing happens between two steps
        mote.step()
    assert mote.messages["full"] > 0
    assert mote.up


def test_a_gateway_and_a_mote_run_for_a_day(deployment):
    """Longer than half of the clock's range. Neither restarts (World looks)."""
    rare = "-DMOTE_PERIOD=19660800UL"  # a message in ten minutes
    world = World(deployment)
    gateway = world.add(library(deployment, "gateway"), deployment.network.motes)
    mote = world.add(library(deployment, "mote", rare), 0)
    world.chain([gateway, mote])
    for _ in range(20 * 60):
        world.run(60.0)
        world.air.clear()
    assert (gateway.generation, mote.generation) == (1, 1)
    assert mote.in_sync


@pytest.mark.few(1)
@pytest.mark.parametrize("key", [False, True], ids=["", "key"])
def test_what_waited_for_long_arrives(deployment, sealed, key):
    """A mote finds no network at first, and its oldest messages become older than an age can encode."""
    watched = Watched(sealed if key else deployment, motes=1)
    (mote,) = watched.motes
    stamped = stamped_from_now_on(watched)
    links, watched.world.links = watched.world.links, set()
    watched.run(120.0)
    assert not stamped
    watched.world.links = links
    watched.run(240.0)
    assert len(stamped) >= 16
    assert stamped <= watched.arrived()
    assert mote.messages["late"] == 0


def test_with_a_key_the_oldest_reading_is_stamped_first(sealed):
    """They wait in places that became free in any order."""
    watched = Watched(sealed, motes=3)
    found_itself(watched)
    watched.arrived()
    watched.run(30 * watched.times.period / HZ)
    came: dict[int, dict[int, int]] = {mote.id: {} for mote in watched.motes}
    for _, _, message in watched.gateway.pairs():
        if isinstance(message, Data):
            came[message.source].setdefault(message.sequence, int.from_bytes(message.data[:2], "little"))
    for readings in came.values():
        in_order = [readings[sequence] for sequence in sorted(readings)]
        assert len(in_order) > 60
        assert in_order == sorted(in_order)


def test_a_mote_knows_its_duty(deployment):
    watched = Watched(deployment, motes=1)
    (mote,) = watched.motes
    found_itself(watched)
    watched.run(2 * watched.times.period / HZ)  # it has just joined, and is awake for longer
    watched.awake.clear()
    watched.run(25 * watched.times.period / HZ)
    share = watched.awake[mote.id] / (25 * 64 * watched.times.period / HZ)
    assert duty_of(mote.c.schedule_duty()) == pytest.approx(share, rel=0.25)


# ---- With a key ----


def with_key(deployment: Deployment) -> Deployment:
    return replace(deployment, security=SecuritySettings(4, "site.key"), key=KEY)


@pytest.fixture
def sealed(deployment):
    return with_key(deployment)


def data_on_air(watched: Watched) -> list[tuple[int, int, int]]:
    return [frame for frame in watched.frames if frame[1] == watched.data_type]


def test_with_a_key_the_gateway_names_what_arrived_by_its_mic(sealed):
    """All arrives, the base station makes the same MICs, and motes believe them: each message goes out once a hop."""
    watched = Watched(sealed)
    found_itself(watched)
    seal = Seal(KEY, layout_of(sealed))
    stamped = stamped_from_now_on(watched)
    named: set[bytes] = set()
    mics: set[bytes] = set()

    def on_air(node: Node, message: Any, end: float) -> None:
        watched.on_air(node, message, end)
        payload = bytes(message.data[: message.length])
        if message.type == watched.data_type and payload[0] == 0:
            mics.add(payload[-4:-2])
        if message.type == Taken.AM_TYPE:
            assert payload[16:] == seal.taken(payload, node.c.timesync_epoch(), node.network())
            named.update(payload[at : at + 2] for at in range(0, 16, 2))

    watched.world.on_air = on_air
    watched.arrived()
    watched.run(96.0)
    assert len(stamped) > 3 * 90 / 5 * 0.8
    assert stamped <= watched.arrived()
    assert mics
    assert mics <= named
    hops = sum(source + 1 for source, _ in stamped)
    assert len(data_on_air(watched)) < 1.2 * hops


def test_a_stranger_cannot_say_that_a_message_arrived(sealed):
    """Whoever has no key hears a message, and names it: it goes out again, since the gateway did not."""
    watched = Watched(sealed, motes=1)
    found_itself(watched)
    mote = watched.motes[0]
    watched.world.deaf_to = {Taken.AM_TYPE}  # the gateway's own word gets lost

    def on_air(node: Node, message: Any, end: float) -> None:
        watched.on_air(node, message, end)
        if node is mote and message.type == watched.data_type:
            forged = type(message).from_buffer_copy(message)
            forged.type, forged.length = Taken.AM_TYPE, size(Taken, 4)
            name = bytes(message.data[message.length - 4 : message.length - 2])
            for at, byte in enumerate(name * 8 + b"\1\2\3\4"):
                forged.data[at] = byte
            mote.hear(forged, end)

    watched.world.on_air = on_air
    watched.run(48.0)
    sent = mote.messages["sent"]
    assert sent > 5
    assert len(data_on_air(watched)) > 3 * 5


# ---- Commands ----


def tell(watched: Watched, command: Command, argument: int = 0) -> None:
    """The host gives the gateway a command for all, sealed if the network has a key."""
    gateway, deployment = watched.gateway, watched.world.deployment
    layout, cycles = layout_of(deployment), gateway.network()
    record = Downlink(0xFFFF, command_time(cycles) & 0xFFFF, deployment.network.hops, command, argument)
    frame = (
        Seal(KEY, layout).sealed_downlink(record, gateway.c.timesync_epoch(), cycles)
        if deployment.key
        else encode_message(record, layout)
    )
    gateway.write_line(encode_frame(encode_packet(frame)))


def leds(watched: Watched) -> list[int]:
    return [mote.get("host_leds", ctypes.c_uint8) for mote in watched.motes]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("board", "key"), [("mica2", True), ("micaz", False), ("micaz", True), ("mica2", False)]
)
def test_commands_reach_three_hops_in_the_next_window_with_a_beacon(root, board, key):
    """However early in a period they are given: they wait at the gateway, and all obey while beacons are passed on."""
    deployment = load(root / f"examples/{board}_months.toml")
    if key:
        deployment = with_key(deployment)
    watched = Watched(deployment)
    found_itself(watched)
    times, world = watched.times, watched.world
    interval = times.period * times.beacon_every
    world.run((interval - watched.gateway.network() % interval + times.end) / HZ)  # just after a window
    tell(watched, Command.BLINK, 6)
    world.run((interval - watched.gateway.network() % interval) / HZ - 0.1)
    assert leds(watched) == [0, 0, 0]
    world.run(0.1 + times.data_start / HZ + 0.05)
    assert leds(watched) == [6, 6, 6]
    world.may_restart = True
    generations = [mote.generation for mote in watched.motes]
    tell(watched, Command.REBOOT)
    world.run(4 * interval / HZ)
    assert [mote.generation for mote in watched.motes] == [each + 1 for each in generations]
    assert all(mote.in_sync for mote in watched.motes)
    watched.arrived()
    tell(watched, Command.REPORT)
    world.run((interval + times.period + times.end) / HZ)  # a mote may answer in the window after
    reports = {m.source for _, _, m in watched.gateway.pairs() if isinstance(m, Health)}
    assert reports == {mote.id for mote in watched.motes}


def test_a_relay_without_room_takes_the_rest_in_the_next_rounds():
    """Nine motes behind one that has 16 places: 40 messages a window."""
    deployment = power_runs.deployment_of(power_runs.ScheduledNetwork("micaz", 10, 32000))
    watched = Watched(deployment, motes=10, rate="-DMOTE_PERIOD=229376UL")
    relay, gateway = watched.motes[0].id, watched.gateway.id
    pairs = [(a.id, b.id) for a in watched.world.nodes for b in watched.world.nodes]
    watched.world.links = {pair for pair in pairs if relay in pair or gateway not in pair}
    found_itself(watched)
    heard_in(watched, 1)  # what had waited since the start
    stamped = stamped_from_now_on(watched)
    watched.world.run(4 * watched.times.period / HZ)
    assert len(stamped) > 4 * 40
    assert stamped <= watched.arrived()


# ---- Faults ----


def heard_in(watched: Watched, periods: float) -> set[int]:
    """The sources of messages that arrived in this number of periods."""
    watched.arrived()
    watched.world.run(periods * watched.times.period / HZ)
    return {source for source, _ in watched.arrived()}


def all_ids(watched: Watched) -> set[int]:
    return {mote.id for mote in watched.motes}


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.wide)], ids=["", "key"])
def network(request, deployment, sealed):
    watched = Watched(sealed if request.param else deployment)
    found_itself(watched)
    return watched


def test_after_a_reset_a_mote_is_heard_in_the_second_period(network):
    for mote in network.motes:
        mote.die()
        mote.boot()
        heard_in(network, 1)
        assert heard_in(network, 1) == all_ids(network)


def test_a_missed_window_loses_nothing(network):
    """A mote that heard nothing for three windows goes on with its clock; what it has waits."""
    mote, links = network.motes[1], network.world.links
    assert links is not None
    network.world.links = {link for link in links if mote.id not in link}
    heard_in(network, 3)
    assert mote.in_sync
    network.world.links = links
    assert heard_in(network, 1.2) == all_ids(network)


def test_a_jammed_window_costs_one_period(network):
    network.world.loss = 1.0
    assert heard_in(network, 2) == set()
    network.world.loss = 0.0
    assert heard_in(network, 1.2) == all_ids(network)


def test_after_the_roots_death_motes_go_on_and_are_heard_when_it_is_back(network):
    """Eight periods: a successor drives. The root asks for a period before it takes the time up."""
    epoch = network.motes[0].c.timesync_epoch()
    network.gateway.die()
    network.world.run(8 * network.times.period / HZ)
    assert all(mote.in_sync for mote in network.motes)
    network.gateway.boot()
    heard_in(network, 2)
    assert network.gateway.c.timesync_epoch() == epoch
    assert heard_in(network, 1) == all_ids(network)


@pytest.mark.wide
def test_a_successor_that_waits_for_long_between_beacons_goes_on():
    """Two minutes: a plan that far ahead was taken for damaged memory, and the mote restarted."""
    watched = Watched(power_runs.deployment_of(power_runs.ScheduledNetwork("mica2", 10, 64000)))
    found_itself(watched)
    watched.gateway.die()
    watched.world.run(16 * watched.times.period / HZ)
    assert {mote.c.timesync_driver() for mote in watched.motes} != {watched.gateway.id}


def test_two_halves_that_meet_are_one_within_two_periods(network):
    """The far half has a successor of its own for 20 periods."""
    far, links = {1, 2}, network.world.links
    assert links is not None
    network.world.links = {(a, b) for a, b in links if (a in far) == (b in far)}
    network.world.run(20 * network.times.period / HZ)
    assert network.motes[2].in_sync
    network.world.links = links
    heard_in(network, 2)
    assert heard_in(network, 1) == all_ids(network)
    off = (network.motes[2].network() - network.gateway.network() + WRAP // 2) % WRAP - WRAP // 2
    clock = network.world.deployment.clock
    assert abs(off) < clock.epsilon << clock.tick_log2


def test_of_several_successors_one_drives(deployment):
    """All hear one another, and have missed the root for as long."""
    watched = Watched(deployment)
    watched.world.links = None
    found_itself(watched)
    watched.world.run(watched.times.period / HZ / 2)  # between windows
    watched.gateway.die()
    root, drivers = watched.gateway.id, {watched.gateway.id}
    while root in drivers:
        watched.world.run(watched.times.period / HZ)
        drivers = {mote.c.timesync_driver() for mote in watched.motes}
    assert len(drivers) == 1, "they have heard one another in the first window"
    epoch = watched.motes[0].c.timesync_epoch()
    watched.gateway.boot()
    heard_in(watched, 2)
    assert watched.gateway.c.timesync_epoch() == epoch
    assert heard_in(watched, 1) == all_ids(watched)


def test_neighbours_pass_a_beacon_on_one_behind_the_other(root):
    """With a key, each proof follows its beacon at once: no other frame gets in between."""
    watched = Watched(with_key(load(root / "examples/mica2_months.toml")))
    watched.world.links = None
    found_itself(watched)
    watched.run(10 * watched.times.period / HZ)
    slot = watched.times.beacon_slot
    passed_on = [(sender, kind) for sender, kind, ended in watched.frames if slot < ended < 2 * slot]
    beacons, proofs = passed_on[::2], passed_on[1::2]
    assert beacons == [(sender, Beacon.AM_TYPE) for sender, _ in proofs]
    assert proofs == [(sender, Proof.AM_TYPE) for sender, _ in beacons]
    assert {sender for sender, _ in beacons} == {0, 1}


def test_a_mote_that_hears_the_root_again_is_its_neighbour_again(deployment):
    """It had got used to the beacons of a neighbour, which come later."""
    watched = Watched(deployment, motes=2)
    watched.world.links = None
    found_itself(watched)
    near, far = watched.motes
    ids = [node.id for node in watched.world.nodes]
    watched.world.links = {(a, b) for a in ids for b in ids if {a, b} != {watched.gateway.id, far.id}}
    beacon = watched.times.beacon_every * watched.times.period / HZ
    watched.world.run(10 * beacon)
    assert far.c.timesync_hops() == 2
    watched.world.links = None
    watched.world.run(24 * beacon)
    assert [mote.c.timesync_hops() for mote in (near, far)] == [1, 1]


# ---- Urgent messages ----

EVENT_RADIO = 2


class Urgent(Watched):
    """With urgent windows; urgent messages have this mark in their data."""

    MARK = b"\xee\xdd\xcc"

    def __init__(self, deployment: Deployment, urgent_ms: int, **more: Any) -> None:
        deployment = replace(deployment, radio=replace(deployment.radio, urgent_ms=urgent_ms))
        self.urgent_frames: list[tuple[int, int]] = []  # sender, cycles since the window opened
        super().__init__(deployment, **more)

    def on_air(self, node: Node, message: Any, end: float) -> None:
        if self.MARK in bytes(message.data[: message.length]):
            self.urgent_frames.append((node.id, self.gateway.network() % self.times.period))
        else:
            super().on_air(node, message, end)

    def until(self, seconds: float) -> None:
        """Run to this time of a period."""
        at = round(seconds * HZ)
        self.world.run((at - self.gateway.network()) % self.times.period / HZ)

    def send_urgent(self, mote: Node, number: int = 0) -> None:
        data = self.MARK + bytes([number])
        mote.step()
        assert mote.c.node_send_urgent(data + bytes(self.world.deployment.network.data_bytes - len(data)))
        mote.c.events_post(EVENT_RADIO)  # an app is called in a step, behind which the outbox has its turn
        mote.step()

    def came(self) -> list[tuple[int, int]]:
        """The source and number of urgent messages that came since the last call."""
        return [
            (m.source, m.data[len(self.MARK)])
            for _, _, m in self.gateway.pairs()
            if isinstance(m, Data) and m.data.startswith(self.MARK)
        ]


def in_urgent_windows(watched: Urgent, frames: list[int]) -> bool:
    """Whether frames that ended at these times of a period were inside of urgent windows."""
    times = watched.times
    return all(
        at // times.urgent >= times.urgent_first and at % times.urgent <= times.urgent_end for at in frames
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("board", "urgent_ms", "key", "start"),
    [
        ("micaz", 2000, False, WRAP - 100 * HZ),
        ("micaz", 2000, True, 0),
        ("mica2", 4000, False, 0),
        ("mica2", 2000, False, 0),
    ],
)
def test_an_urgent_message_of_three_hops_is_there_in_its_time(root, board, urgent_ms, key, start):
    """However it falls into a period, and while the clock wraps."""
    deployment = load(root / f"examples/{board}_months.toml")
    if key:
        deployment = with_key(deployment)
    watched = Urgent(deployment, urgent_ms, start=start)
    found_itself(watched)
    watched.urgent_frames.clear()
    times, round_ = watched.times, watched.times.levels * watched.times.phase
    # from just after its own phase in an ordinary window to just before the next
    for at in (0.5, 3.1, 7.99, 9.7, 13.9, 15.9):
        for mote in watched.motes:
            watched.until(at)
            watched.came()
            watched.send_urgent(mote)
            if times.urgent_first <= at * HZ // times.urgent < times.period // times.urgent - 1:
                watched.world.run((times.urgent - at * HZ % times.urgent + round_) / HZ + 0.02)
            else:
                watched.world.run(times.urgent_wait_ms / 1000 + 0.02)
            assert watched.came() == [(mote.id, 0)], (at, mote.id)
    between = [at for _, at in watched.urgent_frames if at > times.end]
    assert len(between) > 15
    assert in_urgent_windows(watched, between)
    # other data wait: they go out only in ordinary windows, each level in its own phase
    data = data_on_air(watched)
    assert len(data) > 20
    assert all(times.data_start < ended <= times.end for _, _, ended in data)


def test_a_look_for_urgent_messages_is_short_and_the_last_hop_has_none(deployment):
    watched = Urgent(deployment, 2000)
    found_itself(watched)
    times = watched.times
    watched.until(times.end / HZ + 0.1)
    on: Counter[int] = Counter()
    windows = 3
    for _ in range(round(windows * times.urgent / HZ * 2048)):
        watched.world.run(1 / 2048)
        for mote in watched.motes:
            on[mote.id] += mote.get("host_radio_on", ctypes.c_bool)
    most = (times.wake + 2 * times.guard + times.urgent_quiet) / HZ + 0.001
    assert on[2] == 0
    assert all(0.003 < on[mote] / 2048 / windows < most for mote in (0, 1))
    assert watched.frames == [frame for frame in watched.frames if frame[2] <= times.end]


def test_more_urgent_messages_than_a_mote_may_send_wait_for_the_next_period(deployment):
    """The list of what the gateway has heard has few bits for each."""
    watched = Urgent(deployment, 2000)
    found_itself(watched)
    times, mote = watched.times, watched.motes[2]
    watched.until(times.end / HZ + 0.1)
    watched.came()
    for number in range(8):
        watched.send_urgent(mote, number)
    watched.until(15.0)
    first = watched.came()
    assert 1 <= len(first) <= times.all_most
    watched.world.run(2 * times.period / HZ)
    assert first + watched.came() == [(mote.id, number) for number in range(8)]


def test_two_motes_that_collide_in_an_urgent_window_use_different_turns_next(deployment):
    """Motes 1 and 5 begin in the same of four turns. Who looks has a damaged frame, and stays."""
    watched = Urgent(deployment, 2000, motes=2)
    world, relay = watched.world, watched.motes[0]

    def on_air(node: Node, message: Any, end: float) -> None:
        watched.on_air(node, message, end)
        begin = end - (17 + message.length) * world.byte
        if world.linked(node, relay) and not world.arrives(node, relay, begin, end):
            (ctypes.c_uint16 * 6).in_dll(relay.c, "host_radio")[1] += 1  # bad check sums

    world.on_air = on_air
    other = world.add(watched.motes[1].library, 5, 20.0, 77)
    assert world.links is not None
    world.links |= {(5, 0), (0, 5), (5, 1), (1, 5)}
    watched.motes.append(other)
    found_itself(watched)
    watched.until(5.0)
    watched.came()
    watched.urgent_frames.clear()
    for mote in (watched.motes[1], other):
        watched.send_urgent(mote)
    watched.until(6.0 + watched.times.urgent_end / HZ)
    assert sorted(watched.came()) == [(1, 0), (5, 0)]
    first, second = (at for sender, at in watched.urgent_frames[:2])
    assert abs(first - second) < watched.times.mini_slot / 2, "they met"
    assert in_urgent_windows(watched, [at for _, at in watched.urgent_frames])
