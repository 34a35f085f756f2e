"""Networks with a key, on emulated motes: their MICs are the station's, and a stranger with a radio moves nothing.

Their time wraps while they run. The attacker's recordings of a round ago are frames made with the key for that time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path

import pytest

from basestation.arrivals import Arrival
from basestation.live.guard import Verdict
from basestation.live.happenings import Delivered
from basestation.live.station import Station
from basestation.testbed import emulator, images
from basestation.testbed.scenario import EmulatedNode, Scenario
from basestation.testbed.signals import delimiter_ns, message_of
from basestation.testbed.truth_log import DriverFault, Event, Leds, Signal, Uart
from packet_formats.deployment import CRYSTAL_HZ, Deployment, from_dict
from packet_formats.framing import FrameDecoder, encode_frame
from packet_formats.keys import Key
from packet_formats.layout import layout_of
from packet_formats.messages import Data, decode_message
from packet_formats.records import (
    Arrived,
    Beacon,
    Command,
    Downlink,
    Health,
    Heard,
    Proof,
    Record,
    Status,
)
from packet_formats.seal import ROUNDS, Seal, command_time, round_at
from packet_formats.tinyos import encode_packet
from tests.testbed.worlds import on_air

KEY, STRANGERS = Key(bytes(range(1, 17))), Key(b"stranger's key 1")
MOTES, GATEWAY = 3, 3
SECONDS, ATTACK = 60.0, 25.0  # how long a run takes, and from when on the stranger sends
RED = 1
ROUND = 1 << 32  # cycles
COMES_ROUND = 15  # seconds until round ROUNDS_BEFORE + 1 begins
ROUNDS_BEFORE, EPOCH = 3, 9
# Board, TinyOS version, stamp.
NETWORKS = {
    "micaz": ("micaz", 1, {"scheme": "shlc", "receipts": 1}),
    "mica2": ("mica2", 1, {"scheme": "shlc"}),
    "tinyos 2": ("micaz", 2, {"scheme": "shlc"}),
    "without a clock": ("micaz", 1, {"scheme": "sequence"}),
}
# Second of switching on; ppm of the main clock, the crystal, the radio. Motes, then the gateway.
NODES = ((0.7, -50, 50, 40), (1.9, 50, -50, -40), (0.1, 20, 0, 10), (0, 0, 0, 0))

pytestmark = [pytest.mark.usefixtures("platformio"), pytest.mark.wide]


@dataclass(frozen=True)
class OnAir:
    at: float  # seconds, at its end
    sfd: float  # in crystal cycles
    message: Data | Record
    signal: Signal


@dataclass
class Run:
    deployment: Deployment
    events: list[Event]

    def honest(self) -> list[OnAir]:
        """What the nodes themselves sent."""
        found = []
        for event in self.events:
            if isinstance(event, Signal) and event.node is not None and not event.broken:
                settings = self.deployment.network
                frame = message_of(event, settings.board, settings.tinyos)
                assert frame is not None
                message = decode_message(frame, layout_of(self.deployment))
                assert isinstance(message, Data | Record), message
                sfd = delimiter_ns(event, settings.board) * CRYSTAL_HZ / 1e9
                found.append(OnAir(event.to / 1e9, sfd, message, event))
        return found

    def of(self, kind: type[Record]) -> list[OnAir]:
        return [sent for sent in self.honest() if isinstance(sent.message, kind)]

    def beacons(self) -> list[tuple[OnAir, Beacon]]:
        return [
            (sent, sent.message)
            for sent in self.honest()
            if isinstance(sent.message, Beacon) and sent.message.in_sync
        ]

    def time_at(self, sfd: float) -> int:
        """The root's time, with its round: it is the gateway's, whose crystal is right."""
        sent, beacon = next((sent, beacon) for sent, beacon in self.beacons() if beacon.hops == 0)
        return round(beacon.round * ROUND + beacon.time + sfd - sent.sfd)

    @property
    def epoch(self) -> int:
        return self.beacons()[0][1].epoch

    def sent_data(self) -> set[tuple[int, int, bytes]]:
        """Each of the motes' messages once, in sync."""
        return {
            (data.source, data.sequence, data.data)
            for data in (sent.message for sent in self.honest())
            if isinstance(data, Data) and data.in_sync
        }

    def arrivals(self) -> Iterator[Arrival]:
        decoder = FrameDecoder()
        for event in self.events:
            if isinstance(event, Uart):
                for packet in decoder.feed(event.bytes):
                    yield Arrival(0, event.t, event.t, packet)


@dataclass
class Network:
    testbed: Path
    deployment: Deployment
    nodes: tuple[EmulatedNode, ...]

    def run(self, script: Iterable[str] = ()) -> Run:
        gains = dict.fromkeys(permutations(range(len(self.nodes)), 2), -60)
        ordered = tuple(sorted([*self.begin(), *script], key=lambda line: float(line.split()[1])))
        scenario = Scenario(1, self.nodes, gains, clocks=0, script=ordered, end=SECONDS)
        events = emulator.events_of(scenario.text(), self.testbed)
        assert not [event for event in events if isinstance(event, DriverFault)]
        return Run(self.deployment, events)

    def begin(self) -> list[str]:
        """The starting root asks for the time, and takes it up from a mote that is no more."""
        seal, script = Seal(KEY, layout_of(self.deployment)), []
        for step in range(6):
            at = 0.3 + 0.3 * step
            whole = (ROUNDS_BEFORE + 1) * ROUND + int((at - COMES_ROUND) * CRYSTAL_HZ)
            beacon = Beacon(1, GATEWAY, EPOCH, 5 + step, 1, 1 | ROUNDS_BEFORE << 3, 9, whole % ROUND)
            script += [self.inject(at, beacon), self.inject(at + 0.1, seal.proof(beacon))]
        return script

    def inject(self, at: float, message: Data | Record) -> str:
        settings, raw = self.deployment.network, on_air(message, self.deployment)
        return f"at {at:.6f} inject {settings.carrier_khz} -60 {settings.board} {raw.hex()}"


@pytest.fixture(scope="module", params=NETWORKS.values(), ids=NETWORKS)
def network(request, testbed, platformio, tmp_path_factory):
    board, tinyos, stamp = request.param
    tables = {
        "network": {"name": "sealed", "board": board, "motes": MOTES, "tinyos": tinyos, "data_bytes": 4},
        "clock": {"tick_log2": 7, "epsilon": 3, "delta": 32 if board == "micaz" else 150},
        "stamp": stamp,
        "security": {"mic": 4, "key": "sealed.key"},
    }
    deployment = replace(from_dict(tables), key=KEY)
    programs, folder = images.programs_for(deployment), tmp_path_factory.mktemp("sealed")
    copies = [*(programs.mote.copy(number, folder) for number in range(MOTES)), programs.gateway.path]
    nodes = tuple(EmulatedNode(board, image, *about) for image, about in zip(copies, NODES, strict=True))
    return Network(testbed, deployment, nodes)


@pytest.fixture(scope="module")
def quiet(network):
    """A run without a stranger. The host asks all for their health."""
    first = network.run()
    return network.run([_told(first, 20, Command.REPORT, 0)])


def _told(run: Run, at: float, command: Command, argument: int) -> str:
    """The host gives the gateway a sealed command for all."""
    cycles = run.time_at(at * CRYSTAL_HZ)
    record = Downlink(0xFFFF, command_time(cycles) & 0xFFFF, 1, command, argument)
    frame = seal_of(run).sealed_downlink(record, run.epoch, cycles)
    return f"at {at} uart {GATEWAY} {encode_frame(encode_packet(frame)).hex()}"


def seal_of(run: Run, key: Key = KEY) -> Seal:
    return Seal(key, layout_of(run.deployment))


def test_each_mic_on_the_air_is_the_one_of_the_base_station(quiet):
    seal, layout = seal_of(quiet), layout_of(quiet.deployment)
    checked = dict.fromkeys((Data, Health, Arrived, Proof, Downlink), 0)
    datas = [sent for sent in quiet.honest() if isinstance(sent.message, Data)]
    for sent in quiet.honest():
        message = sent.message
        frame = message_of(sent.signal, quiet.deployment.network.board, layout.tinyos)
        assert frame is not None
        now = quiet.time_at(sent.sfd)
        if isinstance(message, Data):
            times = seal.data_times(message, now, 1 if seal.has_clock else 3)
            expected = [
                seal.data(frame.data, message.source, message.in_sync, quiet.epoch, time) for time in times
            ]
        elif isinstance(message, Health):
            expected = [seal.health(frame.data, message, round_at(message.time, now))]
        elif isinstance(message, Arrived):
            expected = [seal.arrived(message, data.message.mic) for data in datas if data.at < sent.at]
        elif isinstance(message, Proof):
            name = message.sender, message.sequence  # an answer has the number of the beacon before
            expected = [seal.proof(b).mic for _, b in quiet.beacons() if (b.sender, b.sequence) == name]
        elif isinstance(message, Downlink):
            time = command_time(now)
            time += (message.sequence - time + 0x8000) % 0x10000 - 0x8000
            expected = [seal.downlink(frame.data, message.target, quiet.epoch, time)]
        else:
            assert isinstance(message, Beacon)
            continue
        checked[type(message)] += 1
        assert message.mic in expected, sent
    assert all(checked.values()), checked
    reports = [sent for sent in quiet.of(Health) if 20 < sent.at < 21]
    assert {sent.signal.node for sent in reports} == set(range(MOTES)), "the sealed command was obeyed"


def _replays(quiet: Run) -> Iterator[tuple[float, bytes]]:
    """Everything that was on the air before the attack, again, seconds later."""
    for sent in quiet.honest():
        if 5 < sent.at < ATTACK - 5:
            yield sent.at + 22, sent.signal.bytes


def _forgeries(quiet: Run) -> Iterator[tuple[float, Data | Record]]:
    """The frames of an attacker who knows everything except the key."""
    layout, seal = layout_of(quiet.deployment), seal_of(quiet, STRANGERS)
    cycles = quiet.time_at(ATTACK * CRYSTAL_HZ)
    clock = ((cycles >> layout.tick_log2) % layout.stamp.modulus,) if seal.has_clock else ()
    last = {
        sent.message.source: sent.message
        for sent in quiet.honest()
        if isinstance(sent.message, Data) and sent.at < ATTACK
    }
    beacon = max(
        (b for sent, b in quiet.beacons() if sent.at < ATTACK and b.hops == 0), key=lambda b: b.sequence
    )
    for step in range(1, 12):
        at = ATTACK + step * 2.0
        for mote, data in last.items():  # its next numbers, before it sends them itself
            number = (data.sequence + step) % 256
            stamp = (*clock, *data.stamp[len(clock) :])
            next_one = replace(data, sequence=number, stamp=stamp, hops=0, mic=b"")
            yield at + mote * 0.02, replace(next_one, mic=b"\1\2\3\4")
            name = (number | data.boot % 8 << 8) ^ (layout.hash << 11 & 0xFFFF)
            yield at + mote * 0.02 + 0.01, Arrived(mote, name, b"\1\2\3\4")
        time = (cycles + int(step * 2.0 * CRYSTAL_HZ) + 6 * 3 * 128) & 0xFFFFFFFF
        for epoch in (beacon.epoch, (beacon.epoch + 1) % 256):
            moved = replace(beacon, epoch=epoch, sequence=beacon.sequence + 50 + step, time=time)
            yield at + 0.1 + 0.1 * (epoch - beacon.epoch), moved
            yield at + 0.11 + 0.1 * (epoch - beacon.epoch), seal.proof(moved)
        number = command_time(cycles + int(step * 2.0 * CRYSTAL_HZ)) & 0x7FFF
        for place, command in enumerate((Command.REBOOT, Command.RATE)):
            yield at + 0.3 + place * 0.02, Downlink(0xFFFF, number + place, 3, command, 328, b"\1\2\3\4")
        yield at + 0.4, Heard(GATEWAY, (beacon.epoch + 1) % 256, step, 0, 3, -60, 100, 1, 77)
        yield at + 0.42, Status(GATEWAY, 77, (beacon.epoch + 1) % 256, 9, *range(10))
        yield at + 0.44, Health(1, 77, beacon.epoch, 1, 99, layout.hash, *range(6), 150, 1, b"\1\2\3\4")


def _recordings(quiet: Run) -> Iterator[tuple[float, Data | Record]]:
    """What was sent a round ago; and beacons of 4.2 days ago, whose numbers look newer and whose times look later."""
    layout, seal = layout_of(quiet.deployment), seal_of(quiet)
    for step in range(10):
        at = ATTACK + 1 + step * 2.0
        whole = quiet.time_at(at * CRYSTAL_HZ) - ROUND
        clock = ((whole >> layout.tick_log2) % layout.stamp.modulus,) if seal.has_clock else ()
        stamp = (*clock, *[0] * (len(layout.stamp.fields_of(layout.stamp.least)) - len(clock)))
        data = Data(1, 100 + step, stamp, data=b"olds")
        health = Health(1, whole % ROUND, EPOCH, 1 | 3 << 6, 0, layout.hash, *[9] * 6, 150, 1)
        reboot = Downlink(0xFFFF, 0, 1, Command.REBOOT, 0)
        for place, frame in enumerate(
            (
                seal.sealed_data(data, EPOCH, whole),
                seal.sealed_health(health, whole >> 32),
                seal.sealed_downlink(reboot, EPOCH, whole),
            )
        ):
            message = decode_message(frame, layout)
            assert isinstance(message, Data | Record)
            yield at + 0.05 * place, message
        days = int(4.2 * 24 * 3600 * CRYSTAL_HZ) - ROUND
        for place, (ago, newer) in enumerate(((0, 9000), (days, 40000))):
            time = (whole - ago + int(0.2 * (1 + place) * CRYSTAL_HZ)) % (ROUNDS * ROUND)
            flags = 1 | time >> 32 << 3
            beacon = Beacon(GATEWAY, GATEWAY, EPOCH, newer + step, 0, flags, 0, time % ROUND)
            yield at + 0.2 * (1 + place), beacon
            yield at + 0.2 * (1 + place) + 0.05, seal.proof(beacon)


@pytest.fixture(scope="module")
def attacked(network, quiet):
    settings, khz = quiet.deployment.network, quiet.honest()[0].signal.khz
    script = [network.inject(*each) for each in (*_forgeries(quiet), *_recordings(quiet))]
    script += [f"at {at:.6f} inject {khz} -60 {settings.board} {raw.hex()}" for at, raw in _replays(quiet)]
    assert len(script) > 250
    return network.run(script)


def test_a_stranger_moves_no_clock_no_epoch_and_no_mote(quiet, attacked):
    beacons = attacked.beacons()
    assert {beacon.epoch for _, beacon in beacons} == {quiet.epoch} == {EPOCH}
    assert max(sent.at for sent, _ in beacons) > ATTACK + 20
    for sent, beacon in beacons:  # each tells the root's time at its delimiter: epsilon is 384 cycles
        error = 8 if attacked.deployment.network.board == "micaz" else 40
        told = beacon.round * ROUND + beacon.time
        assert told == pytest.approx(attacked.time_at(sent.sfd), abs=error)
    assert {beacon.round for _, beacon in beacons} == {ROUNDS_BEFORE, ROUNDS_BEFORE + 1}
    assert not [sent for sent in attacked.of(Beacon) if sent.message.hops == 255 and sent.at > 10]
    reds = [event.t / 1e9 for event in attacked.events if isinstance(event, Leds) and event.lit & RED]
    assert max(reds) < 10, "all stay in sync"
    assert {sent.message.boots for sent in attacked.of(Health)} == {0}, "nobody restarts"
    numbers = sorted({(data[0], data[1]) for data in attacked.sent_data()})
    for mote in range(MOTES):  # one message in two seconds, as before: no forged rate
        assert sum(source == mote for source, _ in numbers) <= 45


def test_honest_messages_are_delivered_and_the_others_counted(attacked):
    station = Station(attacked.deployment)
    happenings = [one for arrival in attacked.arrivals() for one in station.take(arrival)]
    happenings += station.finish()
    delivered = [one.data for one in happenings if isinstance(one, Delivered)]
    names = [(data.source, data.sequence, data.data) for data in delivered if data.in_sync]
    assert len(names) == len(set(names)), "none twice"
    sent = attacked.sent_data()
    assert set(names) <= sent, "nothing forged is delivered"
    assert len(sent) - len(set(names)) <= 2, "the rest may be on its way at the end"
    for mote in range(MOTES):
        own = [sequence for source, sequence, _ in names if source == mote]
        assert own == sorted(own)
    assert station.timeline.guard is not None
    verdicts = station.timeline.guard.verdicts
    assert verdicts[Verdict.FORGED] > 40  # on MICA2 more of them collide
    assert verdicts[Verdict.REPLAYED] > 0
